//! How many messages and events are open, for `/metrics`: counted at one moment, by ranges of indexes that hold what is
//! open alone, and up to a bound. However much was ever received, and however much waits, a count looks at so many rows
//! of each destination and of each provider and state.

use super::damaged::intact;
use super::db::{DbResult, Door, Row, StoreError};
use super::event::{EventCount, event_state};
use super::handle::Store;
use super::message::{MessageCount, message_state};
use super::people::open_destinations;
use crate::types::UnixMs;

/// Most rows that are counted of a destination or a provider in one state: this number means as many or more.
pub const OPEN_COUNTED_N_MAX: u32 = 10_000;
/// Most providers that are counted.
const PROVIDERS_N_MAX: u32 = 1_000;

/// Messages that are due or under way, in the order in which they are due.
const DUE: &str = "/* open_counts */ SELECT state, COUNT(*) AS n, MIN(visible_at_ms) AS oldest_ms FROM (
    SELECT q.state, q.visible_at_ms FROM outbox_queue q WHERE q.destination = $1 AND q.state IN ('ready', 'leased')
    ORDER BY q.destination, q.visible_at_ms, q.message_id LIMIT $2) due GROUP BY state";
const LANES: &str = "/* open_counts */ SELECT COUNT(*) AS n FROM (
    SELECT q.lane FROM outbox_queue q WHERE q.destination = $1 AND q.lane IS NOT NULL AND q.state IN ('held', 'dead')
    ORDER BY q.destination, q.lane LIMIT $2) blocked";
/// The least time until which the key of an open message is known: those under way are looked at again by their lease.
const KEY_UNTIL: &str = "/* open_counts */ SELECT q.key_valid_until_ms FROM outbox_queue q
    WHERE q.destination = $1 AND q.key_valid_until_ms IS NOT NULL AND q.state IN ('ready', 'held')
    ORDER BY q.destination, q.key_valid_until_ms LIMIT 1";
/// The next name each time: as many looks as there are providers, however many rows there are.
const PROVIDERS: &str = "/* open_counts */ WITH RECURSIVE p AS (
    SELECT (SELECT e.provider FROM processed_webhook_events e
            WHERE (e.state IN ('retry', 'failed', 'unreadable', 'conflict')) IS TRUE ORDER BY e.provider LIMIT 1) AS name
    UNION ALL
    SELECT (SELECT e.provider FROM processed_webhook_events e
            WHERE (e.state IN ('retry', 'failed', 'unreadable', 'conflict')) IS TRUE AND e.provider > p.name
            ORDER BY e.provider LIMIT 1) FROM p WHERE p.name IS NOT NULL)
    SELECT name FROM p WHERE name IS NOT NULL LIMIT $1";

const PAUSES: &str =
    "/* open_counts */ SELECT destination, COALESCE(until_ms, paused_at_ms + 86400000) AS due_ms
    FROM destination_pauses ORDER BY destination LIMIT 1000";
const PROVIDER_PAUSES: &str =
    "/* open_counts */ SELECT provider, COALESCE(until_ms, paused_at_ms + 86400000) AS due_ms
    FROM provider_pauses WHERE ended_at_ms IS NULL ORDER BY provider LIMIT 1000";

/// Operations that wait for a person, by state; at most 100 are unfinished.
const OPERATIONS: &str = "/* open_counts */ SELECT state, COUNT(*) AS n FROM operations
    WHERE finished_at_ms IS NULL AND state IN ('waiting', 'stopped') GROUP BY state";

/// A part of a count, by the index alone: the numbers of the oldest messages of a destination in one state.
macro_rules! stuck_in {
    ($state:literal) => {
        concat!(
            "
            SELECT * FROM (SELECT q.state, q.message_id FROM outbox_queue q
            WHERE q.destination = $1 AND q.state >= '",
            $state,
            "' AND q.state <= '",
            $state,
            "' AND q.state IN ('held', 'dead', 'waiting')
            ORDER BY q.destination, q.state, q.message_id LIMIT $2) ",
            $state,
            "_ones"
        )
    };
}

/// Messages that nobody sends, by state, with when the first of them was due.
const STUCK: &str = concat!(
    "/* open_counts */ SELECT c.state, c.n, f.visible_at_ms AS oldest_ms FROM (
    SELECT state, COUNT(*) AS n, MIN(message_id) AS first_id FROM (
    ",
    stuck_in!("held"),
    " UNION ALL ",
    stuck_in!("dead"),
    " UNION ALL ",
    stuck_in!("waiting"),
    ") counted GROUP BY state) c JOIN outbox_queue f ON f.message_id = c.first_id ORDER BY c.state"
);

/// The same of the oldest events of a provider in one state.
macro_rules! waiting_in {
    ($state:literal) => {
        concat!(
            "
            SELECT * FROM (SELECT e.state, e.event_seq FROM processed_webhook_events e
            WHERE e.provider = $1 AND e.state >= '",
            $state,
            "' AND e.state <= '",
            $state,
            "' AND (e.state IN ('retry', 'failed', 'unreadable', 'conflict')) IS TRUE
            ORDER BY e.provider, e.state, e.event_seq LIMIT $2) ",
            $state,
            "_ones"
        )
    };
}

/// What waits of one provider, by state, with when the first of them was received.
const EVENTS: &str = concat!(
    "/* open_counts */ SELECT c.state, c.n, f.received_at_ms FROM (
    SELECT state, COUNT(*) AS n, MIN(event_seq) AS first_seq FROM (
    ",
    waiting_in!("retry"),
    " UNION ALL ",
    waiting_in!("failed"),
    " UNION ALL ",
    waiting_in!("unreadable"),
    " UNION ALL ",
    waiting_in!("conflict"),
    ") counted GROUP BY state) c JOIN processed_webhook_events f ON f.event_seq = c.first_seq ORDER BY c.state"
);

/// The statements by name, for tests that look at their plans.
pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("due messages", DUE),
    ("stuck messages", STUCK),
    ("blocked lanes", LANES),
    ("key of the open ones", KEY_UNTIL),
    ("open providers", PROVIDERS),
    ("open events", EVENTS),
];

/// What is open, up to [`OPEN_COUNTED_N_MAX`] of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenCounts {
    /// Messages that are not done, by destination and state.
    pub messages: Vec<MessageCount>,
    /// Lanes whose head waits for a person, by destination: those that have any.
    pub blocked_lanes: Vec<(String, u64)>,
    /// The least time until which a key of an open message is known, by destination.
    pub keys_until_ms: Vec<(String, UnixMs)>,
    /// Events that wait for somebody, by provider and state.
    pub events: Vec<EventCount>,
    /// Paused destinations, each with when its pause should be over: its end, or a day after it began.
    pub pauses_due_ms: Vec<(String, UnixMs)>,
    /// The same of paused providers.
    pub provider_pauses_due_ms: Vec<(String, UnixMs)>,
    /// Operations that wait for a person, by state: those that there are.
    pub operations: Vec<(String, u64)>,
}

impl Store {
    /// Counts what is open.
    pub async fn open_counts(&self) -> Result<OpenCounts, StoreError> {
        snapshot!(self.open_counts())
    }
}

async fn open_counts(db: &mut Door<'_>) -> DbResult<OpenCounts> {
    let mut found = OpenCounts::default();
    let mut names = open_destinations(db).await?;
    names.sort();
    names.dedup();
    for name in names {
        let counted = [(&name).into(), OPEN_COUNTED_N_MAX.into()];
        for sql in [DUE, STUCK] {
            for row in db.fetch(sql, &counted).await? {
                found.messages.push(message_count(&name, &row)?);
            }
        }
        let blocked_n = db.fetch_one(LANES, &counted).await?.int("n")?.unsigned_abs();
        if blocked_n > 0 {
            found.blocked_lanes.push((name.clone(), blocked_n));
        }
        if let Some(row) = db.fetch_optional(KEY_UNTIL, &[(&name).into()]).await? {
            found.keys_until_ms.push((name, row.int("key_valid_until_ms")?));
        }
    }
    let names = db.fetch(PROVIDERS, &[PROVIDERS_N_MAX.into()]).await?;
    for name in intact("processed_webhook_events", "name", &names, |row| row.text("name"))?.rows {
        for row in db.fetch(EVENTS, &[(&name).into(), OPEN_COUNTED_N_MAX.into()]).await? {
            found.events.push(event_count(&name, &row)?);
        }
    }
    for row in db.fetch(PAUSES, &[]).await? {
        found.pauses_due_ms.push((row.text("destination")?, row.int("due_ms")?));
    }
    for row in db.fetch(PROVIDER_PAUSES, &[]).await? {
        found.provider_pauses_due_ms.push((row.text("provider")?, row.int("due_ms")?));
    }
    for row in db.fetch(OPERATIONS, &[]).await? {
        found.operations.push((row.text("state")?, row.int("n")?.unsigned_abs()));
    }
    Ok(found)
}

fn message_count(name: &str, row: &Row) -> DbResult<MessageCount> {
    Ok(MessageCount {
        destination: name.to_owned(),
        state: message_state(row)?,
        messages_n: row.int("n")?.unsigned_abs(),
        oldest_visible_at_ms: row.int("oldest_ms")?,
    })
}

fn event_count(name: &str, row: &Row) -> DbResult<EventCount> {
    Ok(EventCount {
        provider: name.to_owned(),
        state: event_state(row)?,
        events_n: row.int("n")?.unsigned_abs(),
        oldest_received_at_ms: row.int("received_at_ms")?,
    })
}
