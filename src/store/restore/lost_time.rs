//! The time that a restore took away.

use crate::store::db::{DbResult, Door, Row, StoreError};
use crate::store::handle::Store;
use crate::types::UnixMs;

/// Senders' clocks may be ahead of ours by so much. Milliseconds.
const AHEAD_MS: i64 = 10_000;
/// For so long after a restore an event that does not say when it happened may be one of before. Milliseconds.
const UNDATED_MS: i64 = 259_200_000;

/// Time of which nothing is known any more: what came then was acknowledged, and may have been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostTime {
    /// The newest moment that the restored tables know of.
    pub from_ms: UnixMs,
    /// The moment when the restore was taken over.
    pub until_ms: UnixMs,
    /// What a person ordered since then has a generation above this one.
    pub restored_s: i64,
}

impl LostTime {
    /// Time since when an event may have been known to the installation that was, if it may: one that was `created` at
    /// its sender before that ended, or that was here before. One without a time may be, for three days.
    pub fn may_have_seen(&self, created_at_ms: Option<UnixMs>, received_at_ms: UnixMs) -> Option<UnixMs> {
        let undated_until_ms = self.until_ms.saturating_add(UNDATED_MS);
        let may_be = match created_at_ms {
            _ if received_at_ms <= self.until_ms => true,
            Some(at_ms) => at_ms.saturating_sub(AHEAD_MS) <= self.until_ms,
            None => received_at_ms <= undated_until_ms,
        };
        let since_ms = created_at_ms.map_or(self.from_ms, |at_ms| at_ms.saturating_sub(AHEAD_MS));
        may_be.then(|| since_ms.clamp(self.from_ms, self.until_ms.max(self.from_ms)))
    }
}

impl Store {
    /// The times that restores took away, the newest last. Each counts for itself: what the first one may have seen
    /// may have been sent long before the last one.
    pub async fn lost_times(&self) -> Result<Vec<LostTime>, StoreError> {
        alone!(self.reader.lost_times())
    }
}

async fn lost_times(db: &mut Door<'_>) -> DbResult<Vec<LostTime>> {
    let sql = "/* lost_times */ SELECT from_ms, until_ms, restored_s FROM restores ORDER BY restored_s";
    let rows = db.fetch(sql, &[]).await?;
    let one = |row: &Row| {
        Ok(LostTime {
            from_ms: row.int("from_ms")?,
            until_ms: row.int("until_ms")?,
            restored_s: row.int("restored_s")?,
        })
    };
    rows.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_may_have_been_there_counts_from_when_it_may_have_been_sent() {
        const DAY_MS: i64 = 86_400_000;
        let lost = LostTime { from_ms: 10 * DAY_MS, until_ms: 12 * DAY_MS, restored_s: 1 };
        for (what, created, received, wanted) in [
            ("it was here before the backup", None, 9 * DAY_MS, Some(10 * DAY_MS)),
            ("and says when it happened", Some(8 * DAY_MS), 9 * DAY_MS, Some(10 * DAY_MS)),
            ("from before the backup, and comes late", Some(DAY_MS), 13 * DAY_MS, Some(10 * DAY_MS)),
            ("from the lost time", Some(11 * DAY_MS), 13 * DAY_MS, Some(11 * DAY_MS - AHEAD_MS)),
            ("a clock is ahead", Some(12 * DAY_MS + AHEAD_MS), 13 * DAY_MS, Some(12 * DAY_MS)),
            ("new", Some(12 * DAY_MS + AHEAD_MS + 1), 13 * DAY_MS, None),
            ("undated, soon after", None, 15 * DAY_MS, Some(10 * DAY_MS)),
            ("undated, later", None, 15 * DAY_MS + 1, None),
        ] {
            assert_eq!(lost.may_have_seen(created, received), wanted, "{what}");
        }
        // A clock that was set back does not turn the times around.
        let odd = LostTime { from_ms: 12 * DAY_MS, until_ms: 10 * DAY_MS, restored_s: 1 };
        assert_eq!(odd.may_have_seen(None, 11 * DAY_MS), Some(12 * DAY_MS));
    }
}
