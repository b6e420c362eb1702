//! Lanes as a person may see them: which ones have open messages, what stands at the head. Why one does not move is judged by whoever asks.

use uuid::Uuid;

use super::choice::within;
use super::message_sources::lane_destinations;
use super::messages::message_view;
use super::person::{People, PeopleError};
use crate::api::{LaneView, MessageView, Page};
use crate::store::db::{DbResult, Door, Row, Value};
use crate::store::message::message_rows;
use crate::types::{Name, Reach};

/// Most messages of a lane that are counted.
const DEPTH_N_MAX: i64 = 1_000;
/// Lanes that one page looks at, at most: those whose head is out of reach are not shown.
const LOOKED_N_MAX: u32 = 1_000;

/// The head of the next lane of a destination, and how many messages are in that lane.
macro_rules! next_lane {
    ($behind:literal) => {
        concat!("/* people_lanes */ SELECT m.*, e.provider, e.event_id, e.event_type,
        (SELECT COUNT(*) FROM (SELECT d.lane_seq FROM outbox_queue d
             WHERE d.destination = m.destination AND d.lane = m.lane AND d.lane IS NOT NULL LIMIT $3) x) AS depth_n
    FROM (SELECT q.message_id, q.generation, COALESCE(q.effect_name, q.destination) AS effect_name,
                 q.destination, q.lane, q.state, q.attempts_n, q.visible_at_ms, q.created_at_ms, q.first_sent_at_ms,
                 q.key_valid_until_ms, CAST(NULL AS BIGINT) AS finished_at_ms, q.last_result, q.last_error,
                 q.sent_under
          FROM outbox_queue q WHERE q.destination = $1 AND q.lane > ", $behind, " AND q.lane IS NOT NULL
          ORDER BY q.destination, q.lane, q.lane_seq LIMIT 1) m
    JOIN processed_webhook_events e ON e.event_seq = m.message_id / 1024")
    };
}
const NEXT_LANE: &str = next_lane!("$2");
/// The same behind the lane of a message, whose name cannot be read.
const LANE_BEHIND: &str =
    next_lane!("(SELECT d.lane FROM outbox_queue d WHERE d.message_id = CAST($2 AS BIGINT))");

/// The statements by name, for tests that look at their plans.
pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("next lane", NEXT_LANE), ("lane behind a message", LANE_BEHIND)];

/// The place of a list of lanes: those of the named destination from the lane behind this one on, and those of
/// destinations behind it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LanePlace(pub String, pub String);

/// A page of lanes, and the place from which the next one goes on.
type Lanes = (Vec<LaneView>, Option<LanePlace>);

/// What is wanted of the lanes, and who asks.
struct LaneWish {
    names: Option<Vec<String>>,
    providers: Reach,
    from: Option<LanePlace>,
    limit: u32,
}

impl People {
    /// Lanes that have open messages, by destination and key, behind `from`. A lane whose head is of a provider out of
    /// scope is not shown. Whoever asks adds why one does not move.
    pub async fn lanes(
        &self,
        destination: Option<&Name>,
        from: Option<LanePlace>,
        limit: u32,
    ) -> Result<(Page<LaneView>, Option<LanePlace>), PeopleError> {
        let names = within(&self.principal.destinations, destination.map(Name::as_str));
        let providers = self.principal.providers.clone();
        let wish = LaneWish { names, providers, from, limit };
        let (store, installation_id) = (&self.store, self.store.installation_id().await?);
        let (items, next) = alone!(store.people.people_lanes(&wish, &installation_id))?;
        Ok((Page::whole(items), next))
    }
}

async fn people_lanes(db: &mut Door<'_>, wish: &LaneWish, installation_id: &Uuid) -> DbResult<Lanes> {
    let mut names = match &wish.names {
        Some(names) => names.clone(),
        None => lane_destinations(db).await?,
    };
    names.sort();
    if let Some(LanePlace(first, _)) = &wish.from {
        names.retain(|name| name >= first);
    }
    let (mut found, mut looked_n) = (Vec::new(), 0);
    for name in names {
        let mut behind = match &wish.from {
            Some(LanePlace(first, lane)) if *first == name => Behind::Lane(lane.clone()),
            _ => Behind::Lane(String::new()),
        };
        while let Some(row) = next_lane(db, &name, &behind).await? {
            looked_n += 1;
            for head in message_rows(std::slice::from_ref(&row), installation_id)?.rows {
                let head = message_view(head);
                if wish.providers.has(&head.provider) {
                    found.push(lane_view(&row, head)?);
                }
            }
            behind = match row.text("lane") {
                Ok(lane) => Behind::Lane(lane),
                // The page goes on until there is a name that its next one can begin with.
                Err(error) if error.is_damage() => {
                    behind = Behind::LaneOf(row.int("message_id")?);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if let Behind::Lane(lane) = &behind
                && (found.len() >= wish.limit as usize || looked_n >= LOOKED_N_MAX)
            {
                return Ok((found, Some(LanePlace(name, lane.clone()))));
            }
        }
    }
    Ok((found, None))
}

/// The lane behind which the next one is.
enum Behind {
    Lane(String),
    /// That of the message with this number.
    LaneOf(i64),
}

async fn next_lane(db: &mut Door<'_>, destination: &str, behind: &Behind) -> DbResult<Option<Row>> {
    let (sql, behind): (_, Value) = match behind {
        Behind::Lane(lane) => (NEXT_LANE, lane.into()),
        Behind::LaneOf(message_id) => (LANE_BEHIND, (*message_id).into()),
    };
    db.fetch_optional(sql, &[destination.into(), behind, DEPTH_N_MAX.into()]).await
}

fn lane_view(row: &Row, head: MessageView) -> DbResult<LaneView> {
    Ok(LaneView {
        destination: head.destination.clone(),
        lane: row.text("lane")?,
        depth_n: row.int("depth_n")?.unsigned_abs(),
        blocked_by: None,
        since_ms: head.created_at_ms,
        head,
    })
}
