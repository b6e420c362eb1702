//! Destinations as an operator sees them: what waits for each, and whether an operator has paused it. The caller adds
//! what the configuration and the running outbox know of it.
//!
//! Lanes as an operator sees them: which ones have open messages, and the head of each. The caller finds out why one
//! does not move.
//!
//! Which of the events in a request are stored already.
//!
//! Facts about messages beside their own rows, for the code that judges them: whether there is something to send, what
//! is at the head of their lane, which destinations are paused.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::messages::{lane_destinations, message_view, open_destinations};
use super::person::{People, PeopleError, within};
use crate::damaged::{intact, note};
use crate::db::{DbResult, Executor, Row, Value};
use crate::event::event_state;
use crate::message::{message_rows, message_state};
use hooklatch_contract::{
    BacklogCount, ExplainEvent, LaneView, MessageContent, MessageView, Page, PauseView,
};
use hooklatch_core::seal::KeyRing;
use hooklatch_core::types::{EventState, MessageState, Name, Reach, UnixMs};

/// Most messages of a destination that are counted in each of its states.
const COUNTED_N_MAX: i64 = 10_000;

/// What is looked at of one destination: in the order in which they are due, then by state. Each part is a range of one
/// index, in its own order: a state that is said as one value would let PostgreSQL walk all messages by number and leave
/// out those in other states.
macro_rules! backlog_rows {
    () => {
        "(SELECT * FROM (SELECT q.state, q.visible_at_ms, q.message_id FROM outbox_queue q
        WHERE q.destination = $1 AND q.state IN ('ready', 'leased')
        ORDER BY q.visible_at_ms, q.message_id LIMIT $2) due
    UNION ALL SELECT * FROM (SELECT q.state, q.visible_at_ms, q.message_id FROM outbox_queue q
        WHERE q.destination = $1 AND q.state >= 'waiting' AND q.state <= 'waiting'
          AND q.state IN ('held', 'dead', 'waiting') ORDER BY q.state, q.message_id LIMIT $2) waiting
    UNION ALL SELECT * FROM (SELECT q.state, q.visible_at_ms, q.message_id FROM outbox_queue q
        WHERE q.destination = $1 AND q.state >= 'held' AND q.state <= 'held'
          AND q.state IN ('held', 'dead', 'waiting') ORDER BY q.state, q.message_id LIMIT $2) held
    UNION ALL SELECT * FROM (SELECT q.state, q.visible_at_ms, q.message_id FROM outbox_queue q
        WHERE q.destination = $1 AND q.state >= 'dead' AND q.state <= 'dead'
          AND q.state IN ('held', 'dead', 'waiting') ORDER BY q.state, q.message_id LIMIT $2) dead) counted"
    };
}
const BACKLOG: &str = concat!(
    "/* people_backlog */ SELECT state, COUNT(*) AS n, MIN(visible_at_ms) AS oldest_ms FROM ",
    backlog_rows!(),
    " GROUP BY state ORDER BY state"
);
/// The same of these providers alone.
const BACKLOG_OF: &str = concat!(
    "/* people_backlog */ SELECT counted.state, COUNT(*) AS n, MIN(counted.visible_at_ms) AS oldest_ms FROM ",
    backlog_rows!(),
    " JOIN processed_webhook_events e ON e.event_seq = counted.message_id / 1024
     WHERE e.provider = ANY($3) GROUP BY counted.state ORDER BY counted.state"
);

/// The statements by name, for tests that look at their plans.
pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("backlog", BACKLOG),
    ("next lane", NEXT_LANE),
    ("lane behind a message", LANE_BEHIND),
    ("contents of messages", CONTENTS),
    ("head of a lane", HEAD),
];

/// What the tables know of a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationStanding {
    /// Name of the destination.
    pub name: String,
    /// The pause, if an operator has paused it.
    pub pause: Option<PauseView>,
    /// Open messages by state.
    pub backlog: Vec<BacklogCount>,
    /// Time when its oldest due message became due.
    pub oldest_due_at_ms: Option<UnixMs>,
}

impl People {
    /// Every destination in scope: those that are `configured`, those that messages wait for, those that are paused.
    pub async fn destinations<'a>(
        &self,
        configured: impl IntoIterator<Item = &'a Name>,
        now_ms: UnixMs,
    ) -> Result<Vec<DestinationStanding>, PeopleError> {
        let names: BTreeSet<String> = configured.into_iter().map(Name::to_string).collect();
        let (store, reach) =
            (&self.store, (self.principal.destinations.clone(), self.principal.providers.names()));
        Ok(snapshot!(store.people_destinations(names, &reach, now_ms))?)
    }

    /// One destination; there is none when it is neither configured nor anything waits for it.
    pub async fn destination(
        &self,
        name: &Name,
        is_configured: bool,
        now_ms: UnixMs,
    ) -> Result<DestinationStanding, PeopleError> {
        self.needs_destination(name.as_str())?;
        let (store, text, providers) = (&self.store, name.to_string(), self.principal.providers.names());
        let found = snapshot!(store.people_destination(&text, providers.as_deref(), now_ms))?;
        let is_there = is_configured || found.pause.is_some() || !found.backlog.is_empty();
        if is_there { Ok(found) } else { Err(PeopleError::NotFound) }
    }
}

async fn people_destinations(
    db: &mut Executor<'_>,
    mut names: BTreeSet<String>,
    (reach, providers): &(Reach, Option<Vec<String>>),
    now_ms: UnixMs,
) -> DbResult<Vec<DestinationStanding>> {
    names.extend(open_destinations(db).await?);
    let mut pauses = pauses(db, PAUSES).await?;
    names.extend(pauses.keys().cloned());
    let mut found = Vec::with_capacity(names.len());
    for name in names.into_iter().filter(|name| reach.has(name)) {
        let pause = pauses.remove(&name);
        found.push(standing(db, (name, pause), providers.as_deref(), now_ms).await?);
    }
    Ok(found)
}

async fn people_destination(
    db: &mut Executor<'_>,
    name: &str,
    providers: Option<&[String]>,
    now_ms: UnixMs,
) -> DbResult<DestinationStanding> {
    let pause = pauses(db, PAUSES).await?.remove(name);
    standing(db, (name.to_owned(), pause), providers, now_ms).await
}

pub(super) const PAUSES: &str =
    "/* people_pauses */ SELECT destination AS name, actor, reason, paused_at_ms, until_ms
    FROM destination_pauses ORDER BY destination LIMIT 1000";

/// The pauses by name: as many as operators have made.
pub(crate) async fn pauses(
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

async fn standing(
    db: &mut Executor<'_>,
    (name, pause): (String, Option<PauseView>),
    providers: Option<&[String]>,
    now_ms: UnixMs,
) -> DbResult<DestinationStanding> {
    let rows = match providers {
        None => db.fetch(BACKLOG, &[(&name).into(), COUNTED_N_MAX.into()]).await?,
        Some(these) => {
            db.fetch(BACKLOG_OF, &[(&name).into(), COUNTED_N_MAX.into(), these.to_vec().into()]).await?
        }
    };
    let count = |row: &Row| {
        Ok(BacklogCount {
            state: message_state(row)?,
            messages_n: row.int("n")?.unsigned_abs(),
            is_more: false,
            oldest_visible_at_ms: row.int("oldest_ms")?,
        })
    };
    let backlog = intact("outbox_queue", "state", &rows, count)?.rows;
    let backlog = with_bounds(backlog);
    let due = backlog.iter().find(|one| one.state == MessageState::Ready);
    let oldest_due_at_ms = due.map(|one| one.oldest_visible_at_ms).filter(|at_ms| *at_ms <= now_ms);
    Ok(DestinationStanding { name, pause, backlog, oldest_due_at_ms })
}

/// Marks each count that reached its bound; messages that are ready and those that are leased have one bound
/// together.
fn with_bounds(mut backlog: Vec<BacklogCount>) -> Vec<BacklogCount> {
    let is_due = |state| matches!(state, MessageState::Ready | MessageState::Leased);
    let due_n: u64 = backlog.iter().filter(|one| is_due(one.state)).map(|one| one.messages_n).sum();
    for one in &mut backlog {
        let looked_n = if is_due(one.state) { due_n } else { one.messages_n };
        one.is_more = looked_n >= COUNTED_N_MAX.unsigned_abs();
    }
    backlog
}

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

/// The place of a list of lanes: those of the named destination from the lane behind this one on, and those of
/// destinations behind it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LanePlace(pub String, pub String);

/// A page of lanes, and the place from which the next one goes on.
type Lanes = (Vec<LaneView>, Option<LanePlace>);

/// Which lanes to list, and within which scope.
struct LaneQuery {
    names: Option<Vec<String>>,
    providers: Reach,
    from: Option<LanePlace>,
    limit: u32,
}

impl People {
    /// Lanes that have open messages, by destination and key, behind `from`. A lane whose head is of a provider out of
    /// scope is not shown. The caller adds why one does not move.
    pub async fn lanes(
        &self,
        destination: Option<&Name>,
        from: Option<LanePlace>,
        limit: u32,
    ) -> Result<(Page<LaneView>, Option<LanePlace>), PeopleError> {
        let names = within(&self.principal.destinations, destination.map(Name::as_str));
        let providers = self.principal.providers.clone();
        let wish = LaneQuery { names, providers, from, limit };
        let (store, installation_id) = (&self.store, self.store.installation_id().await?);
        let (items, next) = alone!(store.people.people_lanes(&wish, &installation_id))?;
        Ok((Page::whole(items), next))
    }
}

async fn people_lanes(db: &mut Executor<'_>, wish: &LaneQuery, installation_id: &Uuid) -> DbResult<Lanes> {
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

async fn next_lane(db: &mut Executor<'_>, destination: &str, behind: &Behind) -> DbResult<Option<Row>> {
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

const KNOWN: &str = "/* events_known */ SELECT event_id, state FROM processed_webhook_events
     WHERE provider = $1 AND event_id = ANY($2)";

impl People {
    /// Adds to each event of this provider the state of the stored event with its id.
    pub async fn mark_known(&self, provider: &str, events: &mut [ExplainEvent]) -> Result<(), PeopleError> {
        self.needs_provider(provider)?;
        let ids = events.iter().map(|event| event.event_id.clone());
        let ids: Vec<String> = ids.filter(|id| !id.contains('\0')).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let (store, provider) = (&self.store, provider.to_owned());
        let known = alone!(store.people.events_known(&provider, ids))?;
        for event in events {
            event.known_state = known.get(&event.event_id).copied();
        }
        Ok(())
    }
}

async fn events_known(
    db: &mut Executor<'_>,
    provider: &str,
    ids: Vec<String>,
) -> DbResult<BTreeMap<String, EventState>> {
    let rows = db.fetch(KNOWN, &[provider.into(), ids.into()]).await?;
    rows.iter().map(|row| Ok((row.text("event_id")?, event_state(row)?))).collect()
}

/// Most lanes whose heads are looked up for one list.
const LANES_N_MAX: usize = 20;

/// Scalar subqueries: no row of a table that grows is found by a join.
const CONTENTS: &str = "/* people_surroundings */ SELECT q.message_id, q.generation,
        (SELECT e.generation FROM processed_webhook_events e
             WHERE e.event_seq = q.message_id / 1024) AS event_generation,
        (SELECT CASE WHEN c.body IS NULL THEN 0 ELSE 1 END FROM outbox_contents c
             WHERE c.message_id = q.message_id) AS has_own,
        (SELECT c.key_id FROM outbox_contents c WHERE c.message_id = q.message_id) AS own_key_id,
        (SELECT CASE WHEN p.redacted_n IS NOT NULL AND p.whole IS NULL THEN 0 ELSE 1 END FROM webhook_payloads p
             WHERE p.event_seq = q.message_id / 1024) AS has_event,
        (SELECT p.key_id FROM webhook_payloads p WHERE p.event_seq = q.message_id / 1024) AS event_key_id
    FROM outbox_queue q WHERE q.message_id = ANY($1)";
const HEAD: &str = "/* people_surroundings */ SELECT state FROM outbox_queue
    WHERE destination = $1 AND lane = $2 AND lane IS NOT NULL ORDER BY destination, lane, lane_seq LIMIT 1";

/// A lane: its destination and its key.
type LaneName = (String, String);

/// What the tables know of some messages beside their own rows.
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

impl People {
    /// Looks up what there is to know of these messages beside their own rows; they were shown to the caller before.
    pub async fn surroundings<'a>(
        &self,
        messages: impl IntoIterator<Item = &'a MessageView>,
        now_ms: UnixMs,
    ) -> Result<Surroundings, PeopleError> {
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
        let (store, ring) = (&self.store, self.store.ring.clone());
        let found: Surroundings = alone!(store.people.people_surroundings(&ids, &lanes, &ring))?;
        let is_on = |pause: &PauseView| pause.until_ms.is_none_or(|until_ms| until_ms > now_ms);
        Ok(Surroundings {
            pauses: found.pauses.into_iter().filter(|(_, pause)| is_on(pause)).collect(),
            ..found
        })
    }
}

async fn people_surroundings(
    db: &mut Executor<'_>,
    ids: &[i64],
    lanes: &BTreeSet<LaneName>,
    ring: &KeyRing,
) -> DbResult<Surroundings> {
    let mut found = Surroundings { pauses: pauses(db, PAUSES).await?, ..Surroundings::default() };
    for row in db.fetch(CONTENTS, &[ids.to_vec().into()]).await? {
        let message_id = row.int("message_id")?;
        found.contents.insert(message_id, content(&row, ring)?);
        if row.int_or_null("event_generation")? > Some(row.int("generation")?) {
            found.of_earlier_runs.insert(message_id);
        }
    }
    for (destination, lane) in lanes.iter().take(LANES_N_MAX) {
        if let Some(row) = db.fetch_optional(HEAD, &[destination.into(), lane.into()]).await? {
            found.heads.insert((destination.clone(), lane.clone()), message_state(&row)?);
        }
    }
    Ok(found)
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
