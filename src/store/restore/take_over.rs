//! A restored database is taken over: what is in it goes on, and nothing gets a name that something else had.

use super::facts::newest_at;
use super::lost_time::LostTime;
use super::standing::identity;
use super::take_over_rows::{restore_finish, restore_mark, restore_moved};
use super::types::{Moving, TakeOver, TakenOver, Taking};
use crate::store::db::{DbResult, Door, StoreError};
use crate::store::handle::Store;
use crate::types::UnixMs;

/// 2026-01-01: since then the seconds of a restore are counted.
const EPOCH_S: i64 = 1_767_225_600;
/// Numbers of events that no installation uses up in a second.
const NUMBERS_PER_S: i64 = 262_144;
/// Messages of one transaction.
const MARKED_N_MAX: u32 = 5_000;

impl Store {
    /// Takes a restored database over. No node may run on it meanwhile. What is cut off in the middle is done again.
    ///
    /// Open messages count as sent with an unknown outcome: from the backup on, so far as their keys expire, and until
    /// the restore, so far as nobody asks about them too early. `unknown` of their destination decides about them. Numbers of events, firings of signals and further runs go on above
    /// what the seconds since 2026 come to: whoever was restored before from the same backup began lower, and no
    /// installation counts faster than that.
    pub async fn restore_take_over(&self, word: TakeOver) -> Result<TakenOver, StoreError> {
        let newest_at_ms: UnixMs = alone!(self.reader.newest_moment())?;
        let from_ms = word.from_ms.unwrap_or(newest_at_ms);
        let restored_s = (word.now_ms / 1_000).saturating_sub(EPOCH_S).max(1);
        let lost = LostTime { from_ms, until_ms: word.until_ms.max(from_ms), restored_s };
        let event_seq = restored_s.saturating_mul(NUMBERS_PER_S);
        let (mut after, mut messages_n) = (Some(-1), 0);
        while let Some(place) = after {
            let (next, n): (Option<i64>, u64) = together!(self.restore_mark(place, &lost, MARKED_N_MAX))?;
            after = next;
            messages_n += n;
        }
        let now = identity(&self.parts.backend).await?;
        let (witnessed_n, now_ms) = (self.witness_seen_n().await?, word.now_ms);
        let taking = Taking { word, lost, event_seq, witnessed_n };
        let taken: TakenOver = together!(self.restore_finish(&taking, now.as_ref()))?;
        self.witness_end(now_ms, false).await?;
        Ok(TakenOver { messages_n, ..taken })
    }

    /// Says that nothing is missing: the same database in another place.
    pub async fn restore_is_moved(&self, reason: &str, now_ms: UnixMs) -> Result<(), StoreError> {
        let now = identity(&self.parts.backend).await?;
        let (reason, witnessed_n) = (reason.to_owned(), self.witness_seen_n().await?);
        let moving = Moving { reason, witnessed_n, now_ms };
        together!(self.restore_moved(now.as_ref(), &moving))?;
        self.witness_end(now_ms, false).await
    }
}

async fn newest_moment(db: &mut Door<'_>) -> DbResult<UnixMs> {
    newest_at(db).await
}
