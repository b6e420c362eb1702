//! From times to numbers: which events came in a range of time, without an index of times.
//!
//! Events are kept by number, and numbers follow time, but only roughly: two nodes hand out numbers of different blocks
//! at once (`numbers/`), and a number is drawn a little after its request came. So a number of a time is found by
//! bisection, a handful of probes of the index of numbers, with a margin on the safe side; whoever wants the time
//! exactly compares it row by row within the range.

use crate::store::db::{DbResult, Door};
use crate::types::UnixMs;

/// Rows that one question looks at, at most, where it has to look for what it wants.
pub(super) const LOOK_N: u32 = 10_000;
/// The same where the rows are those of an index of few: each of them may be on a page of its own.
pub(super) const LOOK_APART_N: u32 = 2_000;
/// Numbers follow time to within this: a row with a higher number came at most so much earlier. A block of numbers is
/// used for 10 s, a request waits a few seconds for its number, and nodes' clocks differ by less than the rest.
pub(super) const ORDER_MS: i64 = 20_000;
/// Age from which nothing with a lower number can come any more: besides what [`ORDER_MS`] counts there are the
/// handlers' time and the longest transaction. Milliseconds.
pub(super) const SETTLE_MS: i64 = 60_000;

/// 1 when the row at the middle, or the next one below it, came before `$1`.
macro_rules! middle_is_before {
    () => {
        "COALESCE((SELECT CASE WHEN e.received_at_ms < $1 THEN 1 ELSE 0 END FROM processed_webhook_events e
                   WHERE e.event_seq <= (h.low + h.high) / 2 ORDER BY e.event_seq DESC LIMIT 1), 1)"
    };
}
/// The highest number below which everything came before `$1`, as far as a walk by halves can tell: the row at it came
/// before, the next one did not.
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
pub(super) const STATEMENTS: &[(&str, &str)] = &[("number_at", NUMBER_AT)];

/// The number up to which every event came before `at_ms`, less the margin: nothing at or below it came at `at_ms` or
/// later. 0 when there is none.
pub(super) async fn number_before(db: &mut Door<'_>, at_ms: UnixMs) -> DbResult<i64> {
    number_at(db, at_ms.saturating_sub(ORDER_MS)).await
}

/// The number from which on every event came at `at_ms` or later: nothing above it came before.
pub(super) async fn number_after(db: &mut Door<'_>, at_ms: UnixMs) -> DbResult<i64> {
    Ok(number_at(db, at_ms.saturating_add(ORDER_MS)).await?.saturating_add(1))
}

/// The number up to which all that will ever be there is there.
pub(super) async fn number_settled(db: &mut Door<'_>, now_ms: UnixMs) -> DbResult<i64> {
    number_at(db, now_ms.saturating_sub(SETTLE_MS)).await
}

async fn number_at(db: &mut Door<'_>, at_ms: UnixMs) -> DbResult<i64> {
    Ok(db.fetch_one(NUMBER_AT, &[at_ms.into()]).await?.int_or_null("low")?.unwrap_or_default())
}
