//! From times to numbers: which events were received in a range of time, without an index of times.
//!
//! Events are kept by number, and numbers follow time, but only roughly: two nodes hand out numbers of different blocks
//! at once (`numbers/`), and a number is drawn a little after its request was received. So a number of a time is found
//! by bisection, a handful of probes of the index of numbers, with a margin on the safe side; a caller that needs the
//! exact range compares the time row by row within it.
//!
//! Places in the list of events, as callers carry them: opaque to them, a number to us.
//!
//! Failures by their cause: of the newest failed events and the newest messages that need a decision, those with the same
//! error counted together.
//!
//! Events per minute and provider, counted from the newest down, [`COUNTED_N_MAX`] at most: nothing is counted on the
//! way in. The minutes in which that bound ended are shown with what was found of them.

use std::fmt;

use super::person::{People, PeopleError};
use crate::damaged::intact;
use crate::db::{DbResult, Executor, Row, Value};
use hooklatch_contract::{CauseView, MinuteView, StatisticsView, StuckSubject};
use hooklatch_core::types::UnixMs;

/// Rows that one question looks at, at most, where it has to look for what it wants.
pub(super) const LOOK_N: u32 = 10_000;
/// The same where the rows are those of an index of few: each of them may be on a page of its own.
pub(super) const LOOK_APART_N: u32 = 2_000;
/// Numbers follow time to within this: a row with a higher number is at most so much older. A block of numbers is
/// used for 10 s, a request waits a few seconds for its number, and nodes' clocks differ by less than the rest.
pub(super) const ORDER_MS: i64 = 20_000;
/// Age from which nothing with a lower number can come any more: besides what [`ORDER_MS`] counts there are the
/// handlers' time and the longest transaction. Milliseconds.
pub(super) const SETTLE_MS: i64 = 60_000;

/// 1 when the row at the middle, or the next one below it, was received before `$1`.
macro_rules! middle_is_before {
    () => {
        "COALESCE((SELECT CASE WHEN e.received_at_ms < $1 THEN 1 ELSE 0 END FROM processed_webhook_events e
                   WHERE e.event_seq <= (h.low + h.high) / 2 ORDER BY e.event_seq DESC LIMIT 1), 1)"
    };
}
/// The highest number below which everything was received before `$1`, as far as a bisection can find it: the row at it
/// was received before, the next one was not.
const NUMBER_AT: &str = concat!(
    "/* number_at */ WITH RECURSIVE halves (low, high) AS (
         SELECT (SELECT MIN(event_seq) FROM processed_webhook_events) - 1,
             (SELECT MAX(event_seq) FROM processed_webhook_events) + 1
         UNION ALL
         SELECT CASE ",
    middle_is_before!(),
    " WHEN 1 THEN (h.low + h.high) / 2 ELSE h.low END, CASE ",
    middle_is_before!(),
    " WHEN 1 THEN h.high ELSE (h.low + h.high) / 2 END
         FROM halves h WHERE h.high - h.low > 1)
     SELECT MAX(low) AS low FROM halves"
);

/// The statements by name, for tests that look at their plans.
pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("number_at", NUMBER_AT),
    ("causes of events", OF_EVENTS),
    ("causes of messages", OF_MESSAGES),
    ("statistics", MINUTES),
    ("statistics_end", END),
];

/// The number up to which every event was received before `at_ms`, less the margin: nothing at or below it was received
/// at `at_ms` or later. 0 when there is none.
pub(super) async fn number_before(db: &mut Executor<'_>, at_ms: UnixMs) -> DbResult<i64> {
    number_at(db, at_ms.saturating_sub(ORDER_MS)).await
}

/// The number from which on every event was received at `at_ms` or later: nothing above it was received before.
pub(super) async fn number_after(db: &mut Executor<'_>, at_ms: UnixMs) -> DbResult<i64> {
    Ok(number_at(db, at_ms.saturating_add(ORDER_MS)).await?.saturating_add(1))
}

/// The number up to which all that will ever be there is there.
pub(super) async fn number_settled(db: &mut Executor<'_>, now_ms: UnixMs) -> DbResult<i64> {
    number_at(db, now_ms.saturating_sub(SETTLE_MS)).await
}

async fn number_at(db: &mut Executor<'_>, at_ms: UnixMs) -> DbResult<i64> {
    Ok(db.fetch_one(NUMBER_AT, &[at_ms.into()]).await?.int_or_null("low")?.unwrap_or_default())
}

/// A place in the list of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventPlace {
    /// Events with a lower number come next, the newest first.
    Before(i64),
    /// Events with a higher number come next, the oldest first.
    After(i64),
}

impl EventPlace {
    /// Reads what [`EventPlace`] writes; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (way, digits) = text.split_at_checked(1)?;
        // One text for one place: nothing but digits, and none that say nothing.
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.parse().ok().filter(|_| is_number)?;
        match way {
            "b" => Some(Self::Before(number)),
            "a" => Some(Self::After(number)),
            _ => None,
        }
    }
}

impl fmt::Display for EventPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Before(number) => write!(f, "b{number}"),
            Self::After(number) => write!(f, "a{number}"),
        }
    }
}

/// Most causes of each kind.
const CAUSES_N_MAX: u32 = 10;

/// `$1` how many of the newest rows are looked at, `$2` how many causes are given back, `$3` 1 when the providers in `$4`
/// are the only ones that may be seen; of messages, `$5` and `$6` likewise for destinations.
const OF_EVENTS: &str = "/* people_causes */ SELECT x.provider AS name, x.state, x.error, COUNT(*) AS n,
        MIN(x.received_at_ms) AS oldest_ms, MAX(x.received_at_ms) AS newest_ms
    FROM (SELECT provider, state, error, received_at_ms FROM processed_webhook_events
          WHERE state = 'failed' AND state IN ('retry', 'failed', 'unreadable', 'conflict')
          ORDER BY state DESC, event_seq DESC LIMIT $1) x
    WHERE CAST($3 AS BIGINT) = 0 OR x.provider = ANY($4)
    GROUP BY x.provider, x.state, x.error ORDER BY n DESC, newest_ms DESC LIMIT $2";
const OF_MESSAGES: &str =
    "/* people_causes */ SELECT x.destination AS name, x.state, x.last_error AS error, COUNT(*) AS n,
        MIN(x.created_at_ms) AS oldest_ms, MAX(x.created_at_ms) AS newest_ms
    FROM (SELECT message_id, destination, state, last_error, created_at_ms FROM outbox_queue
          WHERE (state IN ('held', 'dead')) IS TRUE ORDER BY message_id DESC LIMIT $1) x
    WHERE (CAST($3 AS BIGINT) = 0 OR (SELECT e.provider FROM processed_webhook_events e
               WHERE e.event_seq = x.message_id / 1024) = ANY($4))
      AND (CAST($5 AS BIGINT) = 0 OR x.destination = ANY($6))
    GROUP BY x.destination, x.state, x.last_error ORDER BY n DESC, newest_ms DESC LIMIT $2";

impl People {
    /// The commonest causes for which events failed and messages need a decision, in reach, the commonest first.
    pub async fn causes(&self) -> Result<Vec<CauseView>, PeopleError> {
        let of = |names: Option<Vec<String>>| -> [Value; 2] {
            [i64::from(names.is_some()).into(), names.unwrap_or_default().into()]
        };
        let mut values: Vec<Value> = vec![LOOK_APART_N.into(), CAUSES_N_MAX.into()];
        values.extend(of(self.principal.providers.names()));
        values.extend(of(self.principal.destinations.names()));
        let store = &self.store;
        Ok(snapshot!(store.people_causes(&values))?)
    }
}

async fn people_causes(db: &mut Executor<'_>, values: &[Value]) -> DbResult<Vec<CauseView>> {
    let mut found = Vec::new();
    let of_events = values.get(..4).unwrap_or(values);
    for (sql, values, subject) in
        [(OF_EVENTS, of_events, StuckSubject::Events), (OF_MESSAGES, values, StuckSubject::Messages)]
    {
        let rows = db.fetch(sql, values).await?;
        let table = match subject {
            StuckSubject::Events => "processed_webhook_events",
            StuckSubject::Messages => "outbox_queue",
        };
        found.extend(intact(table, "name", &rows, |row| cause(row, subject))?.rows);
    }
    found.sort_by_key(|one| std::cmp::Reverse(one.counted_n));
    Ok(found)
}

fn cause(row: &Row, subject: StuckSubject) -> DbResult<CauseView> {
    Ok(CauseView {
        subject,
        name: row.text("name")?,
        state: row.text("state")?,
        error: row.text_or_null("error")?,
        counted_n: row.int("n")?.unsigned_abs(),
        oldest_at_ms: row.int("oldest_ms")?,
        newest_at_ms: row.int("newest_ms")?,
    })
}

/// Most events that are looked at.
const COUNTED_N_MAX: u32 = 50_000;
/// Most minutes of providers that are listed.
const ROWS_N_MAX: u32 = 5_000;
const MINUTE_MS: i64 = 60_000;

/// The events above the number `$1`, `$2` of them at most, received from `$3` on and before `$4`: of the provider
/// `$5`, or of any; with `$6` 1, of `$7` alone.
const MINUTES: &str = "/* statistics */ SELECT e.received_at_ms / 60000 AS minute, e.provider, COUNT(*) AS events_n,
         SUM(CASE WHEN e.state IN ('retry', 'failed', 'unreadable', 'conflict') THEN 1 ELSE 0 END) AS waiting_n
     FROM (SELECT received_at_ms, provider, state, synthetic FROM processed_webhook_events WHERE event_seq > $1
           ORDER BY event_seq DESC LIMIT $2) e
     WHERE NOT e.synthetic AND e.received_at_ms >= $3 AND e.received_at_ms < $4 AND (CAST($5 AS TEXT) IS NULL OR e.provider = $5)
       AND (CAST($6 AS BIGINT) = 0 OR e.provider = ANY($7))
     GROUP BY e.received_at_ms / 60000, e.provider ORDER BY minute DESC, e.provider LIMIT $8";
const END: &str = "/* statistics_end */ SELECT e.received_at_ms FROM processed_webhook_events e
     WHERE e.event_seq = (SELECT MIN(w.event_seq) FROM (SELECT event_seq FROM processed_webhook_events
         WHERE event_seq > $1 ORDER BY event_seq DESC LIMIT $2) w HAVING COUNT(*) >= $2)";

impl People {
    /// The last `minutes_n` minutes, the one that is running included.
    pub async fn statistics(
        &self,
        provider: Option<String>,
        minutes_n: u32,
        now_ms: UnixMs,
    ) -> Result<StatisticsView, PeopleError> {
        if let Some(provider) = &provider {
            self.needs_provider(provider)?;
        }
        let (store, scope) = (&self.store, self.principal.providers.names());
        let to_ms = (now_ms.div_euclid(MINUTE_MS) + 1) * MINUTE_MS;
        let from_ms = to_ms.saturating_sub(i64::from(minutes_n) * MINUTE_MS);
        Ok(snapshot!(store.statistics(provider, scope, (from_ms, to_ms)))?)
    }
}

async fn statistics(
    db: &mut Executor<'_>,
    provider: Option<String>,
    scope: Option<Vec<String>>,
    (from_ms, to_ms): (UnixMs, UnixMs),
) -> DbResult<StatisticsView> {
    let floor = number_before(db, from_ms).await?;
    let values: [Value; 8] = [
        floor.into(),
        COUNTED_N_MAX.into(),
        from_ms.into(),
        to_ms.into(),
        provider.into(),
        i64::from(scope.is_some()).into(),
        scope.unwrap_or_default().into(),
        ROWS_N_MAX.into(),
    ];
    let rows = db.fetch(MINUTES, &values).await?;
    let minute = |row: &Row| {
        Ok(MinuteView {
            at_ms: row.int("minute")?.saturating_mul(MINUTE_MS),
            provider: row.text("provider")?,
            events_n: row.int("events_n")?.unsigned_abs(),
            waiting_n: row.int("waiting_n")?.unsigned_abs(),
            is_cut: false,
        })
    };
    let is_full = rows.len() >= ROWS_N_MAX as usize;
    let mut minutes = intact("processed_webhook_events", "provider", &rows, minute)?.rows;
    // What was looked at is whole from the minute on that comes after where it ended.
    let ended = db.fetch_optional(END, &[floor.into(), COUNTED_N_MAX.into()]).await?;
    let ended = ended.map(|row| row.int("received_at_ms")).transpose()?;
    let whole_from = |at_ms: UnixMs| (at_ms.saturating_add(ORDER_MS).div_euclid(MINUTE_MS) + 1) * MINUTE_MS;
    let by_events = ended.map(whole_from).filter(|at_ms| *at_ms > from_ms);
    let by_rows = minutes.last().filter(|_| is_full).map(|oldest| oldest.at_ms + MINUTE_MS);
    let counted_from_ms = by_events.max(by_rows).map(|at_ms| at_ms.min(to_ms));
    for minute in &mut minutes {
        minute.is_cut = counted_from_ms.is_some_and(|from_ms| minute.at_ms < from_ms);
    }
    minutes.reverse();
    Ok(StatisticsView { from_ms, to_ms, minutes, counted_from_ms })
}

#[cfg(test)]
mod cursor_tests {
    use super::*;

    #[test]
    fn a_place_is_read_back_and_nothing_else_is_one() {
        for place in [EventPlace::Before(0), EventPlace::After(4_096), EventPlace::Before(i64::MAX)] {
            assert_eq!(EventPlace::parse(&place.to_string()), Some(place));
        }
        for odd in
            ["", "a", "b", "c1", "b-1", "b+1", "b 1", "1", "b1 ", "a99999999999999999999", "é1", "b1\0"]
        {
            assert_eq!(EventPlace::parse(odd), None, "{odd:?}");
        }
    }
}
