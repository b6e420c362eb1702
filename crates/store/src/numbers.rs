//! The numbers of events, drawn from the database a block at a time.
//!
//! Why blocks, and not the database's own number per row: an event's number must be known before its row is inserted,
//! because its messages carry it (`MessageId`) and one statement writes all of them. A query for each number would be a
//! round trip for each request; a block of 4,096 is one for thousands. Blocks never overlap, so no two nodes use the
//! same number, and a node that dies with half a block leaves a gap, which does no harm.
//!
//! The price is order: two nodes hand out numbers of different blocks at the same time. A block is therefore used for
//! ten seconds at most, so that numbers are in the order of time to within that: a list by number is a list by time,
//! and pruning may stop at the first recent row. Within one process numbers rise, in whatever order two blocks arrive
//! that were drawn at once: the earlier one is skipped.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::db::{DbResult, Executor, StoreError};
use super::handle::Store;

/// Numbers in a block: the step of the sequence `event_blocks`.
const BLOCK_N: i64 = 4_096;
/// Time for which a block is used. Numbers of several nodes are in the order of time to within this, so that a list by
/// number is a list by time.
const BLOCK_LIFE: Duration = Duration::from_secs(10);

/// Numbers that are left of the newest block of this process.
#[derive(Default)]
pub(crate) struct EventNumbers(Mutex<Option<Block>>);

struct Block {
    next: i64,
    end: i64,
    drawn: Instant,
}

impl Block {
    /// True when numbers are left of it that may still be given.
    fn is_in_use(&self) -> bool {
        self.next < self.end && self.drawn.elapsed() < BLOCK_LIFE
    }
}

impl EventNumbers {
    /// Moves up to `n` numbers of the block in use into `taken`.
    fn take(&self, n: usize, taken: &mut Vec<i64>) {
        let mut block = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(block) = block.as_mut().filter(|block| block.is_in_use()) else { return };
        while taken.len() < n && block.next < block.end {
            taken.push(block.next);
            block.next += 1;
        }
    }

    /// Adds a block that was drawn. Where two were drawn at once the later one is used, in whatever order their answers
    /// arrived, so that the numbers of one batch rise.
    fn add(&self, first: i64) {
        let mut block = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_later = |block: &Block| block.next > first && block.is_in_use();
        if !block.as_ref().is_some_and(is_later) {
            *block = Some(Block { next: first, end: first.saturating_add(BLOCK_N), drawn: Instant::now() });
        }
    }

    /// Gives no more numbers of the block in use. The next one is compared with what is there, as the first one was.
    pub(crate) fn leave(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn is_unused(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

impl Store {
    /// `n` numbers that no event has, rising.
    pub async fn event_numbers(&self, n: usize) -> Result<Vec<i64>, StoreError> {
        let mut taken = Vec::with_capacity(n);
        self.parts.numbers.take(n, &mut taken);
        while taken.len() < n {
            let is_first = self.parts.numbers.is_unused();
            let first: i64 = together!(self, writer, "event_block_draw", |db| {
                // The first number of a new block. The first one of a process is compared with the tables: an operator
                // who restored them without their counter must not have to guess why nothing is admitted.
                let first = event_blocks_draw(db, 1).await?;
                if !is_first {
                    return Ok(first);
                }
                let sql = "/* event_block_draw */ SELECT COALESCE(MAX(event_seq), 0) AS highest FROM processed_webhook_events";
                let highest = db.fetch_one(sql, &[]).await?.int("highest")?;
                if first > highest {
                    return Ok(first);
                }
                // Forwards alone, block by block: other nodes may draw meanwhile.
                event_blocks_draw(db, (highest - first) / BLOCK_N + 1).await
            })?;
            self.parts.numbers.add(first);
            self.parts.numbers.take(n, &mut taken);
        }
        // Blocks that were drawn at once may have been used up in another order.
        taken.sort_unstable();
        Ok(taken)
    }
}

/// Draws `n` blocks; the first number of the last one.
async fn event_blocks_draw(db: &mut Executor<'_>, n: i64) -> DbResult<i64> {
    let sql = if db.is_postgres() {
        "/* event_block_draw */ SELECT MAX(nextval('event_blocks')) AS first
         FROM generate_series(1, CAST($1 AS BIGINT))"
    } else {
        "/* event_block_draw */ UPDATE event_blocks SET next_seq = next_seq + 4096 * $1
         RETURNING next_seq - 4096 AS first"
    };
    db.fetch_one(sql, &[n.into()]).await?.int("first")
}

#[cfg(test)]
mod blocks_tests {
    use super::*;

    #[test]
    fn numbers_rise_in_whatever_order_blocks_arrive_that_were_drawn_at_once() {
        let (numbers, mut taken) = (EventNumbers::default(), Vec::new());
        numbers.add(2 * BLOCK_N);
        numbers.take(2, &mut taken);
        numbers.add(BLOCK_N);
        numbers.take(5_000, &mut taken);
        assert_eq!(taken.len(), 4_096, "the earlier block is left out");
        // A used-up block is replaced: a counter that was set back is followed.
        numbers.add(BLOCK_N);
        numbers.take(4_097, &mut taken);
        assert_eq!((taken.first(), taken.last()), (Some(&(2 * BLOCK_N)), Some(&BLOCK_N)));
        assert!(taken[..4_096].is_sorted());
    }

    #[tokio::test(start_paused = true)]
    async fn a_block_is_left_when_it_is_old_so_that_numbers_keep_to_the_order_of_time() {
        let (numbers, mut taken) = (EventNumbers::default(), Vec::new());
        assert!(numbers.is_unused());
        numbers.take(1, &mut taken);
        assert!(taken.is_empty(), "nothing was drawn yet");
        numbers.add(BLOCK_N);
        numbers.take(2, &mut taken);
        tokio::time::advance(Duration::from_millis(9_999)).await;
        numbers.take(3, &mut taken);
        assert_eq!(taken, [BLOCK_N, BLOCK_N + 1, BLOCK_N + 2]);
        tokio::time::advance(Duration::from_millis(1)).await;
        numbers.take(4, &mut taken);
        assert_eq!(taken.len(), 3, "its life is over");
        // One that was drawn earlier is better than none.
        numbers.add(0);
        numbers.take(4, &mut taken);
        assert_eq!(taken.last(), Some(&0));
        assert!(!numbers.is_unused());
    }
}
