//! Destinations as an operator sees them: what waits for each, whether an operator has paused it, and which lanes have
//! open messages. The caller adds what the configuration and the running outbox know, and finds out why a lane does not
//! move. Here are also the facts beside their own rows by which messages and explained events are judged.

use std::collections::{BTreeMap, BTreeSet};

use super::messages::{lane_destinations, message_view, open_destinations, rows_sql};
use super::{OperatorError, OperatorQueries, within};
use crate::damaged::{intact, note};
use crate::db::{DbResult, Executor, Row, Value};
use crate::event::event_state;
use crate::message::{message_rows, message_state};
use hooklatch_contract::{
    BacklogCount, ExplainEvent, LaneView, MessageContent, MessageView, Page, PauseView,
};
use hooklatch_core::seal::KeyRing;
use hooklatch_core::types::{EventState, MessageState, Name, UnixMs};

/// Most messages of a destination that are counted in each of its states.
const COUNTED_N_MAX: i64 = 10_000;
/// Most messages of a lane that are counted.
const DEPTH_N_MAX: i64 = 1_000;
/// Lanes that one page looks at, at most: those whose head is out of reach are not shown.
const LOOKED_N_MAX: u32 = 1_000;
/// Most lanes whose heads are looked up for one list.
const LANES_N_MAX: usize = 20;

/// The open messages of one destination by state; with `of_providers`, of the providers `$3` alone. It looks at them in
/// the order in which they are due, then by state. Each part is a range of one index, in its own order: a state that is
/// given as one value would let PostgreSQL walk all messages by number and leave out those in other states.
fn backlog_sql(of_providers: bool) -> String {
    let part = |name: &str, rest: &str| {
        format!(
            "* FROM (SELECT q.state, q.visible_at_ms, q.message_id FROM outbox_queue q
                 WHERE q.destination = $1 AND {rest} LIMIT $2) {name}"
        )
    };
    let mut parts =
        vec![part("due", "q.state IN ('ready', 'leased') ORDER BY q.visible_at_ms, q.message_id")];
    parts.extend(["waiting", "held", "dead"].map(|state| {
        let is_it = format!("q.state >= '{state}' AND q.state <= '{state}'");
        part(
            state,
            &format!("{is_it} AND q.state IN ('held', 'dead', 'waiting') ORDER BY q.state, q.message_id"),
        )
    }));
    let seen = if of_providers {
        "JOIN processed_webhook_events e ON e.event_seq = counted.message_id / 1024 WHERE e.provider = ANY($3)"
    } else {
        ""
    };
    format!(
        "/* operator_backlog */ SELECT counted.state, COUNT(*) AS n, MIN(counted.visible_at_ms) AS oldest_ms
         FROM (SELECT {}) counted {seen} GROUP BY counted.state ORDER BY counted.state",
        parts.join(" UNION ALL SELECT ")
    )
}

const PAUSES: &str = "/* operator_pauses */ SELECT destination AS name, actor, reason, paused_at_ms, until_ms
    FROM destination_pauses ORDER BY destination LIMIT 1000";

/// The lane behind the one named `$2`.
const BEHIND_LANE: &str = "$2";
/// The lane behind that of the message `$2`, whose name cannot be read.
const BEHIND_MESSAGE: &str = "(SELECT d.lane FROM outbox_queue d WHERE d.message_id = CAST($2 AS BIGINT))";

/// The head of the next lane of a destination, and how many messages are in that lane.
fn next_lane_sql(behind: &str) -> String {
    let depth = ",
        (SELECT COUNT(*) FROM (SELECT d.lane_seq FROM outbox_queue d
             WHERE d.destination = m.destination AND d.lane = m.lane AND d.lane IS NOT NULL LIMIT $3) x) AS depth_n";
    let rest = format!(
        "q.destination = $1 AND q.lane > {behind} AND q.lane IS NOT NULL
         ORDER BY q.destination, q.lane, q.lane_seq LIMIT 1"
    );
    rows_sql("operator_lanes", depth, "outbox_queue", &rest)
}

/// Scalar subqueries: no row of a table that grows is found by a join.
const CONTENTS: &str = "/* operator_surroundings */ SELECT q.message_id, q.generation,
        (SELECT e.generation FROM processed_webhook_events e
             WHERE e.event_seq = q.message_id / 1024) AS event_generation,
        (SELECT CASE WHEN c.body IS NULL THEN 0 ELSE 1 END FROM outbox_contents c
             WHERE c.message_id = q.message_id) AS has_own,
        (SELECT c.key_id FROM outbox_contents c WHERE c.message_id = q.message_id) AS own_key_id,
        (SELECT CASE WHEN p.redacted_n IS NOT NULL AND p.whole IS NULL THEN 0 ELSE 1 END FROM webhook_payloads p
             WHERE p.event_seq = q.message_id / 1024) AS has_event,
        (SELECT p.key_id FROM webhook_payloads p WHERE p.event_seq = q.message_id / 1024) AS event_key_id
    FROM outbox_queue q WHERE q.message_id = ANY($1)";
const HEAD: &str = "/* operator_surroundings */ SELECT state FROM outbox_queue
    WHERE destination = $1 AND lane = $2 AND lane IS NOT NULL ORDER BY destination, lane, lane_seq LIMIT 1";

/// The statements by name, for tests that look at their plans.
#[cfg(any(test, feature = "testing"))]
pub(super) fn statements() -> Vec<super::NamedStatement> {
    vec![
        ("backlog", backlog_sql(false)),
        ("next lane", next_lane_sql(BEHIND_LANE)),
        ("lane behind a message", next_lane_sql(BEHIND_MESSAGE)),
        ("contents of messages", CONTENTS.to_owned()),
        ("head of a lane", HEAD.to_owned()),
    ]
}

/// State of a destination in the tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationStatus {
    /// Name of the destination.
    pub name: String,
    /// The pause, if an operator has paused it.
    pub pause: Option<PauseView>,
    /// Open messages by state.
    pub backlog: Vec<BacklogCount>,
    /// Time when its oldest due message became due.
    pub oldest_due_at_ms: Option<UnixMs>,
}

/// The place of a list of lanes: those of the named destination from the lane behind this one on, and those of
/// destinations behind it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LanePlace(pub String, pub String);

/// A lane: its destination and its key.
type LaneName = (String, String);

/// Facts about some messages beside their own rows.
#[derive(Debug, Default)]
pub struct Surroundings {
    contents: BTreeMap<i64, MessageContent>,
    /// Those whose events were run again after they were written.
    of_earlier_runs: BTreeSet<i64>,
    heads: BTreeMap<LaneName, MessageState>,
    pauses: BTreeMap<String, PauseView>,
}

impl Surroundings {
    /// Whether there is something to send of this message.
    pub fn content(&self, message: &MessageView) -> MessageContent {
        self.contents.get(&message.message_id.number()).copied().unwrap_or(MessageContent::Kept)
    }

    /// True when the event of this message was run again after it was written.
    pub fn is_rerun(&self, message: &MessageView) -> bool {
        self.of_earlier_runs.contains(&message.message_id.number())
    }

    /// State of the message that this one waits for, where it does and it was looked up.
    pub fn head(&self, message: &MessageView) -> Option<MessageState> {
        self.heads.get(&lane_of(message)?).copied()
    }

    /// The pause of a destination, if it is paused.
    pub fn pause(&self, destination: &str) -> Option<&PauseView> {
        self.pauses.get(destination)
    }
}

/// The lane in which a message waits.
fn lane_of(message: &MessageView) -> Option<LaneName> {
    let lane = message.lane.as_ref().filter(|_| message.state == MessageState::Waiting)?;
    Some((message.destination.clone(), lane.clone()))
}

impl OperatorQueries {
    /// Every destination in scope: those that are `configured`, those that messages wait for, those that are paused.
    pub async fn destinations<'a>(
        &self,
        configured: impl IntoIterator<Item = &'a Name>,
        now_ms: UnixMs,
    ) -> Result<Vec<DestinationStatus>, OperatorError> {
        let mut names: BTreeSet<String> = configured.into_iter().map(Name::to_string).collect();
        let (reach, providers) = (self.principal.destinations.clone(), self.principal.providers.names());
        Ok(snapshot!(self.store, "operator_destinations", |db| {
            names.extend(open_destinations(db).await?);
            let mut pauses = pauses(db, PAUSES).await?;
            names.extend(pauses.keys().cloned());
            let mut found = Vec::with_capacity(names.len());
            for name in names.into_iter().filter(|name| reach.has(name)) {
                let pause = pauses.remove(&name);
                found.push(status(db, (name, pause), providers.as_deref(), now_ms).await?);
            }
            Ok(found)
        })?)
    }

    /// One destination; there is none when it is neither configured nor anything waits for it.
    pub async fn destination(
        &self,
        name: &Name,
        is_configured: bool,
        now_ms: UnixMs,
    ) -> Result<DestinationStatus, OperatorError> {
        self.needs_destination(name.as_str())?;
        let (name, providers) = (name.to_string(), self.principal.providers.names());
        let found = snapshot!(self.store, "operator_destination", |db| {
            let pause = pauses(db, PAUSES).await?.remove(&name);
            status(db, (name, pause), providers.as_deref(), now_ms).await
        })?;
        let is_there = is_configured || found.pause.is_some() || !found.backlog.is_empty();
        if is_there { Ok(found) } else { Err(OperatorError::NotFound) }
    }

    /// Lanes that have open messages, by destination and key, behind `from`. A lane whose head is of a provider out of
    /// scope is not shown. The caller adds why one does not move.
    pub async fn lanes(
        &self,
        destination: Option<&Name>,
        from: Option<LanePlace>,
        limit: u32,
    ) -> Result<(Page<LaneView>, Option<LanePlace>), OperatorError> {
        let names = within(&self.principal.destinations, destination.map(Name::as_str));
        let providers = self.principal.providers.clone();
        let installation_id = self.store.installation_id().await?;
        let (items, next) = alone!(self.store, operators, "operator_lanes", |db| {
            let mut names = match names {
                Some(names) => names,
                None => lane_destinations(db).await?,
            };
            names.sort();
            let LanePlace(first, lane) = from.unwrap_or(LanePlace(String::new(), String::new()));
            let (mut found, mut looked_n) = (Vec::new(), 0);
            for name in names.into_iter().filter(|name| *name >= first) {
                let lane = if name == first { lane.as_str() } else { "" };
                let (mut sql, mut behind) = (next_lane_sql(BEHIND_LANE), Value::from(lane));
                while let Some(row) =
                    db.fetch_optional(sql, &[(&name).into(), behind, DEPTH_N_MAX.into()]).await?
                {
                    looked_n += 1;
                    for head in message_rows(std::slice::from_ref(&row), &installation_id)?.rows {
                        let head = message_view(head);
                        if providers.has(&head.provider) {
                            found.push(lane_view(&row, head)?);
                        }
                    }
                    (sql, behind) = match row.text("lane") {
                        Ok(lane) if found.len() >= limit as usize || looked_n >= LOOKED_N_MAX => {
                            return Ok((found, Some(LanePlace(name, lane))));
                        }
                        Ok(lane) => (next_lane_sql(BEHIND_LANE), lane.into()),
                        // The page goes on until there is a name that its next one can begin with.
                        Err(error) if error.is_damage() => {
                            (next_lane_sql(BEHIND_MESSAGE), row.int("message_id")?.into())
                        }
                        Err(error) => return Err(error),
                    };
                }
            }
            Ok((found, None))
        })?;
        Ok((Page::whole(items), next))
    }

    /// Adds to each event of this provider the state of the stored event with its id.
    pub async fn mark_known(&self, provider: &str, events: &mut [ExplainEvent]) -> Result<(), OperatorError> {
        self.needs_provider(provider)?;
        let ids = events.iter().map(|event| event.event_id.clone());
        let ids: Vec<String> = ids.filter(|id| !id.contains('\0')).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let values = [provider.into(), ids.into()];
        let stored: BTreeMap<String, EventState> = alone!(self.store, operators, "events_known", |db| {
            let sql = "/* events_known */ SELECT event_id, state FROM processed_webhook_events
                WHERE provider = $1 AND event_id = ANY($2)";
            let rows = db.fetch(sql, &values).await?;
            rows.iter().map(|row| Ok((row.text("event_id")?, event_state(row)?))).collect()
        })?;
        for event in events {
            event.known_state = stored.get(&event.event_id).copied();
        }
        Ok(())
    }

    /// Looks up facts about these messages beside their own rows; they were shown to the caller before.
    pub async fn surroundings<'a>(
        &self,
        messages: impl IntoIterator<Item = &'a MessageView>,
        now_ms: UnixMs,
    ) -> Result<Surroundings, OperatorError> {
        let (mut ids, mut lanes) = (Vec::new(), BTreeSet::new());
        for message in messages {
            if !matches!(message.state, MessageState::Done | MessageState::Discarded) {
                ids.push(message.message_id.number());
            }
            lanes.extend(lane_of(message));
        }
        if ids.is_empty() {
            return Ok(Surroundings::default());
        }
        let ring = self.store.ring.clone();
        Ok(alone!(self.store, operators, "operator_surroundings", |db| {
            let mut found = Surroundings { pauses: pauses(db, PAUSES).await?, ..Surroundings::default() };
            found.pauses.retain(|_, pause| pause.until_ms.is_none_or(|until_ms| until_ms > now_ms));
            for row in db.fetch(CONTENTS, &[ids.into()]).await? {
                let message_id = row.int("message_id")?;
                found.contents.insert(message_id, content(&row, &ring)?);
                if row.int_or_null("event_generation")? > Some(row.int("generation")?) {
                    found.of_earlier_runs.insert(message_id);
                }
            }
            for (destination, lane) in lanes.into_iter().take(LANES_N_MAX) {
                if let Some(row) = db.fetch_optional(HEAD, &[(&destination).into(), (&lane).into()]).await? {
                    found.heads.insert((destination, lane), message_state(&row)?);
                }
            }
            Ok(found)
        })?)
    }
}

/// The pauses by name: as many as operators have made.
pub(super) async fn pauses(
    db: &mut Executor<'_>,
    sql: &'static str,
) -> DbResult<BTreeMap<String, PauseView>> {
    let pause = |row: &Row| {
        let name = row.text("name")?;
        // Its destination or provider is paused whatever else of the row can be read.
        let or_damaged = |read: DbResult<String>| match read {
            Ok(text) => Ok(text),
            Err(error) => note("pauses", &name, error).map(|_| "(damaged)".to_owned()),
        };
        let view = PauseView {
            actor: or_damaged(row.text("actor"))?,
            reason: or_damaged(row.text("reason"))?,
            paused_at_ms: row.int("paused_at_ms")?,
            until_ms: row.int_or_null("until_ms")?,
        };
        Ok((name, view))
    };
    let rows = db.fetch(sql, &[]).await?;
    Ok(intact("pauses", "name", &rows, pause)?.rows.into_iter().collect())
}

async fn status(
    db: &mut Executor<'_>,
    (name, pause): (String, Option<PauseView>),
    providers: Option<&[String]>,
    now_ms: UnixMs,
) -> DbResult<DestinationStatus> {
    let mut values: Vec<Value> = vec![(&name).into(), COUNTED_N_MAX.into()];
    values.extend(providers.map(|these| these.to_vec().into()));
    let rows = db.fetch(backlog_sql(providers.is_some()), &values).await?;
    let count = |row: &Row| {
        Ok(BacklogCount {
            state: message_state(row)?,
            messages_n: row.int("n")?.unsigned_abs(),
            is_more: false,
            oldest_visible_at_ms: row.int("oldest_ms")?,
        })
    };
    let mut backlog = intact("outbox_queue", "state", &rows, count)?.rows;
    // Messages that are ready and those that are leased have one bound together.
    let is_due = |state| matches!(state, MessageState::Ready | MessageState::Leased);
    let due_n: u64 = backlog.iter().filter(|one| is_due(one.state)).map(|one| one.messages_n).sum();
    for one in &mut backlog {
        let looked_n = if is_due(one.state) { due_n } else { one.messages_n };
        one.is_more = looked_n >= COUNTED_N_MAX.unsigned_abs();
    }
    let due = backlog.iter().find(|one| one.state == MessageState::Ready);
    let oldest_due_at_ms = due.map(|one| one.oldest_visible_at_ms).filter(|at_ms| *at_ms <= now_ms);
    Ok(DestinationStatus { name, pause, backlog, oldest_due_at_ms })
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

/// Whether a message could be sent, by the same facts as when it is claimed.
fn content(row: &Row, ring: &KeyRing) -> DbResult<MessageContent> {
    let (has_own, own_key_id) = (row.int_or_null("has_own")?, row.text_or_null("own_key_id")?);
    if has_own.is_some() && !ring.has(own_key_id.as_deref()) {
        return Ok(MessageContent::Sealed);
    }
    if has_own == Some(1) {
        return Ok(MessageContent::Kept);
    }
    let event_key_id = row.text_or_null("event_key_id")?;
    Ok(match row.int_or_null("has_event")? {
        Some(1) if ring.has(event_key_id.as_deref()) => MessageContent::Kept,
        Some(1) => MessageContent::Sealed,
        _ => MessageContent::Gone,
    })
}
