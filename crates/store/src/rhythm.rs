//! How often each sender sends, so that an outage can be distinguished from a usual pause: the time of its newest
//! accepted event, and how long the gaps before it were.
//!
//! The resolution is a minute: all events accepted within one count as one sign of life. The seconds of a gap between
//! two such minutes are added to those of all gaps of about its size, and old seconds count for less. The usual gap is
//! the one within which 95 of 100 seconds lay: a night without events is usual where every night is one, whatever the
//! number of gaps in a day; a single outage is not, until it lasts half a day.
//!
//! Nodes share a row of each provider. Each adds, once a minute, the newest time that it knows.
//!
//! How many messages and events are open, for `/metrics`: counted in one snapshot, by ranges of indexes that hold open
//! rows alone, and up to a bound: a count reads at most so many rows of each destination and of each provider and
//! state.

use std::collections::BTreeMap;

use super::damaged::intact;
use super::db::{DbError, DbResult, Executor, Row, StoreError};
use super::event::{EventCount, event_state};
use super::handle::Store;
use super::message::{MessageCount, message_state};
use super::queries::open_destinations;
use hooklatch_core::types::UnixMs;

const MINUTE_MS: i64 = 60_000;
/// Each size of gaps is longer than the one before by this factor; the first is a minute.
const STEP: f64 = 1.25;
/// Number of size classes: the last one is above 40 days.
const SIZES_N: usize = 50;
/// Time after which seconds count for half. Seconds.
const HALF_LIFE_S: f64 = 7.0 * 86_400.0;
/// The part of the time that lay in usual gaps.
const USUAL_PART: f64 = 0.95;
/// Fewest gaps that say anything.
pub const GAPS_N_MIN: u64 = 20;
/// Least time of gaps that says anything: a day, less what it counts for by its end. A sender seen only by day so far
/// may be silent in its first night.
const SEEN_S_MIN: f64 = 0.9 * 86_400.0;
/// Times that are further ahead than this were written by a clock that was wrong. Milliseconds.
pub const AHEAD_MS_MAX: i64 = 5 * MINUTE_MS;

const LIST: &str =
    "/* rhythms */ SELECT provider, last_accepted_at_ms, gaps_n, gap_seconds FROM provider_rhythms
    ORDER BY provider LIMIT 10000";
const LOCKED: &str =
    "/* rhythms_add */ SELECT provider, last_accepted_at_ms, gaps_n, gap_seconds FROM provider_rhythms
    WHERE provider = $1 FOR UPDATE";
const FIRST: &str =
    "/* rhythms_add */ INSERT INTO provider_rhythms (provider, last_accepted_at_ms, gaps_n, gap_seconds)
    VALUES ($1, $2, 0, '[]') ON CONFLICT (provider) DO NOTHING";
const CHANGED: &str = "/* rhythms_add */ UPDATE provider_rhythms
    SET last_accepted_at_ms = $2, gaps_n = $3, gap_seconds = $4 WHERE provider = $1";

/// The statements by name, for tests that look at their plans.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn statements() -> Vec<(&'static str, &'static str)> {
    vec![
        ("rhythms", LIST),
        ("rhythm of one", LOCKED),
        ("due messages", DUE),
        ("stuck messages", stuck_sql().leak()),
        ("blocked lanes", LANES),
        ("key of the open ones", KEY_UNTIL),
        ("open providers", PROVIDERS),
        ("open events", events_sql().leak()),
    ]
}

/// What is known of how often a sender sends.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rhythm {
    /// When its newest event was accepted.
    pub last_accepted_at_ms: UnixMs,
    /// Gaps that were seen.
    pub gaps_n: u64,
    /// Seconds that lay in gaps of each size.
    gap_seconds: Vec<f64>,
}

impl Rhythm {
    /// Starts with the first event, accepted at this time.
    pub fn begun(at_ms: UnixMs) -> Self {
        Self { last_accepted_at_ms: at_ms, ..Self::default() }
    }

    /// Another event was accepted.
    pub fn add(&mut self, at_ms: UnixMs, now_ms: UnixMs) {
        if self.last_accepted_at_ms > now_ms.saturating_add(AHEAD_MS_MAX) {
            // The clock that wrote it was set right since: the length of that gap is unknown.
            self.last_accepted_at_ms = at_ms;
            return;
        }
        let gap = at_ms.div_euclid(MINUTE_MS) - self.last_accepted_at_ms.div_euclid(MINUTE_MS);
        self.last_accepted_at_ms = self.last_accepted_at_ms.max(at_ms);
        if gap < 1 {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "minutes")]
        let gap_s = (gap * (MINUTE_MS / 1_000)) as f64;
        self.gap_seconds.resize(SIZES_N, 0.0);
        let remaining = (-gap_s / HALF_LIFE_S).exp2();
        for seconds in &mut self.gap_seconds {
            *seconds *= remaining;
        }
        let size = (0..SIZES_N - 1).find(|size| size_s(*size) >= gap_s).unwrap_or(SIZES_N - 1);
        if let Some(seconds) = self.gap_seconds.get_mut(size) {
            *seconds += gap_s;
        }
        self.gaps_n = self.gaps_n.saturating_add(1);
    }

    /// The gap within which 95 of 100 seconds lay; `None` while too few were seen, or for less than
    /// a day. Seconds, a minute or more.
    pub fn usual_gap_s(&self) -> Option<f64> {
        let all: f64 = self.gap_seconds.iter().sum();
        if self.gaps_n < GAPS_N_MIN || all < SEEN_S_MIN {
            return None;
        }
        let mut within = 0.0;
        let is_usual = |seconds: &f64| {
            within += seconds;
            within >= all * USUAL_PART
        };
        let size = self.gap_seconds.iter().position(is_usual)?;
        Some(size_s(size))
    }
}

/// The longest gap of a size. Seconds.
fn size_s(size: usize) -> f64 {
    60.0 * STEP.powi(i32::try_from(size).unwrap_or(i32::MAX))
}

impl Store {
    /// What is known of each sender that ever sent.
    pub async fn rhythms(&self) -> Result<BTreeMap<String, Rhythm>, StoreError> {
        alone!(self.reader.rhythms())
    }

    /// Adds the newest accepted event of some providers. Gives back what is known of all of them now.
    pub async fn rhythms_add(
        &self,
        accepted: &BTreeMap<String, UnixMs>,
        now_ms: UnixMs,
    ) -> Result<BTreeMap<String, Rhythm>, StoreError> {
        if accepted.is_empty() {
            return self.rhythms().await;
        }
        let accepted = accepted.clone();
        together!(self, writer, "rhythms_add", |db| {
            // In the order of their names, so that two nodes do not wait for each other.
            let latest_ms = now_ms.saturating_add(AHEAD_MS_MAX);
            for (provider, at_ms) in accepted.iter().filter(|(_, at_ms)| **at_ms <= latest_ms) {
                if db.execute(FIRST, &[provider.into(), (*at_ms).into()]).await? > 0 {
                    continue;
                }
                let row = db.fetch_one(LOCKED, &[provider.into()]).await?;
                let mut known = rhythm(&row)?;
                known.add(*at_ms, now_ms);
                let seconds: Vec<f64> = known.gap_seconds.iter().map(|seconds| seconds.round()).collect();
                let text = serde_json::to_string(&seconds).unwrap_or_else(|_| "[]".to_owned());
                let gaps_n = i64::try_from(known.gaps_n).unwrap_or(i64::MAX);
                db.execute(
                    CHANGED,
                    &[provider.into(), known.last_accepted_at_ms.into(), gaps_n.into(), text.into()],
                )
                .await?;
            }
            rhythms(db).await
        })
    }
}

async fn rhythms(db: &mut Executor<'_>) -> DbResult<BTreeMap<String, Rhythm>> {
    let read = |row: &Row| Ok((row.text("provider")?, rhythm(row)?));
    let rows = intact("provider_rhythms", "provider", &db.fetch(LIST, &[]).await?, read)?.rows;
    Ok(rows.into_iter().collect())
}

fn rhythm(row: &Row) -> DbResult<Rhythm> {
    let text = row.text("gap_seconds")?;
    let gap_seconds = serde_json::from_str(&text)
        .map_err(|why| DbError::decode("gap_seconds", format_args!("`{text}`: {why}")))?;
    Ok(Rhythm {
        last_accepted_at_ms: row.int("last_accepted_at_ms")?,
        gaps_n: row.int("gaps_n")?.unsigned_abs(),
        gap_seconds,
    })
}

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

/// Operations that wait for an operator, by state; at most 100 are unfinished.
const OPERATIONS: &str = "/* open_counts */ SELECT state, COUNT(*) AS n FROM operations
    WHERE finished_at_ms IS NULL AND state IN ('waiting', 'stopped') GROUP BY state";

/// The parts of a count, each by the index alone: the numbers of the oldest rows in one state.
fn parts(states: &[&str], part: impl Fn(&str) -> String) -> String {
    let part = |state: &&str| format!(" SELECT * FROM (SELECT {} LIMIT $2) {state}_ones", part(state));
    states.iter().map(part).collect::<Vec<_>>().join(" UNION ALL")
}

/// Messages that are not being sent, by state, with when the first of them was due.
fn stuck_sql() -> String {
    let parts = parts(&["held", "dead", "waiting"], |state| {
        format!(
            "q.state, q.message_id FROM outbox_queue q
             WHERE q.destination = $1 AND q.state >= '{state}' AND q.state <= '{state}'
               AND q.state IN ('held', 'dead', 'waiting') ORDER BY q.destination, q.state, q.message_id"
        )
    });
    format!(
        "/* open_counts */ SELECT c.state, c.n, f.visible_at_ms AS oldest_ms FROM (
             SELECT state, COUNT(*) AS n, MIN(message_id) AS first_id FROM ({parts}) counted GROUP BY state) c
         JOIN outbox_queue f ON f.message_id = c.first_id ORDER BY c.state"
    )
}

/// What waits of one provider, by state, with when the first of them was received.
fn events_sql() -> String {
    let parts = parts(&["retry", "failed", "unreadable", "conflict"], |state| {
        format!(
            "e.state, e.event_seq FROM processed_webhook_events e
             WHERE e.provider = $1 AND e.state >= '{state}' AND e.state <= '{state}'
               AND (e.state IN ('retry', 'failed', 'unreadable', 'conflict')) IS TRUE
             ORDER BY e.provider, e.state, e.event_seq"
        )
    });
    format!(
        "/* open_counts */ SELECT c.state, c.n, f.received_at_ms FROM (
             SELECT state, COUNT(*) AS n, MIN(event_seq) AS first_seq FROM ({parts}) counted GROUP BY state) c
         JOIN processed_webhook_events f ON f.event_seq = c.first_seq ORDER BY c.state"
    )
}

/// What is open, up to [`OPEN_COUNTED_N_MAX`] of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenCounts {
    /// Messages that are not done, by destination and state.
    pub messages: Vec<MessageCount>,
    /// Lanes whose head waits for an operator, by destination: those that have any.
    pub blocked_lanes: Vec<(String, u64)>,
    /// The least time until which a key of an open message is known, by destination.
    pub keys_until_ms: Vec<(String, UnixMs)>,
    /// Events that wait for an operator, by provider and state.
    pub events: Vec<EventCount>,
    /// Paused destinations, each with when its pause should be over: its end, or a day after it began.
    pub pauses_due_ms: Vec<(String, UnixMs)>,
    /// Paused providers, each with when its pause should be over.
    pub provider_pauses_due_ms: Vec<(String, UnixMs)>,
    /// Operations that wait for an operator, by state: those that there are.
    pub operations: Vec<(String, u64)>,
}

impl Store {
    /// Counts what is open.
    pub async fn open_counts(&self) -> Result<OpenCounts, StoreError> {
        snapshot!(self, "open_counts", |db| {
            let mut found = OpenCounts::default();
            let mut names = open_destinations(db).await?;
            names.sort();
            names.dedup();
            for name in names {
                let counted = [(&name).into(), OPEN_COUNTED_N_MAX.into()];
                for sql in [DUE.to_owned(), stuck_sql()] {
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
                for row in db.fetch(events_sql(), &[(&name).into(), OPEN_COUNTED_N_MAX.into()]).await? {
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
        })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;
    const DAY_MS: i64 = 24 * HOUR_MS;

    /// A sender that sends for so many days, at these times of each.
    fn sent(days_n: i64, times_ms: &[i64]) -> Rhythm {
        let mut rhythm = Rhythm::begun(0);
        for day in 0..days_n {
            for at_ms in times_ms {
                let at_ms = day * DAY_MS + at_ms;
                rhythm.add(at_ms, at_ms);
            }
        }
        rhythm
    }

    fn gap_s(rhythm: &Rhythm) -> i64 {
        rhythm.usual_gap_s().map_or(-1, |gap_s| format!("{gap_s:.0}").parse().expect("a number"))
    }

    #[test]
    fn the_usual_gap_is_that_within_which_most_of_the_time_lay() {
        let every_minute: Vec<i64> = (0..1_440).map(|n| n * MINUTE_MS).collect();
        assert_eq!(gap_s(&sent(2, &every_minute)), 60, "a minute is the floor");
        let bursts: Vec<i64> = (0..24).flat_map(|h| (0..5_000).map(move |n| h * HOUR_MS + n)).collect();
        let hourly = gap_s(&sent(3, &bursts));
        assert!((3_600..4_500).contains(&hourly), "what comes at once is one sign of life: {hourly}");
        let by_day: Vec<i64> = (540..1_080).map(|n| n * MINUTE_MS).collect();
        let night = gap_s(&sent(10, &by_day));
        assert!((15 * 3_600..20 * 3_600).contains(&night), "15 hours without events are usual: {night}");
    }

    #[test]
    fn one_outage_of_hours_changes_nothing_and_few_gaps_say_nothing() {
        let every_minute: Vec<i64> = (0..1_440).map(|n| n * MINUTE_MS).collect();
        let mut rhythm = sent(10, &every_minute);
        let back_ms = 10 * DAY_MS + 4 * HOUR_MS;
        rhythm.add(back_ms, back_ms);
        assert_eq!(gap_s(&rhythm), 60);
        let few: Vec<i64> = (0..20).map(|n| n * 75 * MINUTE_MS).collect();
        assert_eq!(sent(1, &few).gaps_n, 19);
        assert_eq!(sent(1, &few).usual_gap_s(), None);
        let enough: Vec<i64> = (0..21).map(|n| n * 75 * MINUTE_MS).collect();
        assert!((4_500..5_625).contains(&gap_s(&sent(1, &enough))));
        let by_day: Vec<i64> = (0..1_080).map(|n| n * MINUTE_MS).collect();
        assert_eq!(sent(1, &by_day).usual_gap_s(), None, "its first night is still to come");
    }

    #[test]
    fn a_clock_that_jumped_leaves_no_gap_and_no_time_ahead() {
        let mut rhythm = Rhythm::begun(DAY_MS);
        rhythm.add(2 * HOUR_MS, 2 * HOUR_MS);
        assert_eq!((rhythm.last_accepted_at_ms, rhythm.gaps_n), (2 * HOUR_MS, 0), "it was wrong by a day");
        rhythm.add(2 * HOUR_MS - MINUTE_MS, 2 * HOUR_MS);
        assert_eq!((rhythm.last_accepted_at_ms, rhythm.gaps_n), (2 * HOUR_MS, 0), "another node's, older");
        rhythm.add(i64::MAX, i64::MAX);
        assert!(rhythm.gap_seconds.iter().all(|seconds| seconds.is_finite()));
    }
}
