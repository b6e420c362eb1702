//! Drawing blocks of numbers from the database.

use super::blocks::BLOCK_N;
use crate::store::db::{DbResult, Door, StoreError};
use crate::store::handle::Store;

impl Store {
    /// `n` numbers that no event has, rising.
    pub async fn event_numbers(&self, n: usize) -> Result<Vec<i64>, StoreError> {
        let mut taken = Vec::with_capacity(n);
        self.parts.numbers.take(n, &mut taken);
        while taken.len() < n {
            let is_first = self.parts.numbers.is_unused();
            let first: i64 = together!(self.event_block_draw(is_first))?;
            self.parts.numbers.add(first);
            self.parts.numbers.take(n, &mut taken);
        }
        // Blocks that were drawn at once may have been used up in another order.
        taken.sort_unstable();
        Ok(taken)
    }
}

/// The first number of a block that nobody else has. The first one of a process is compared with what is there: whoever
/// restored the tables without their counter must not have to guess why nothing is admitted.
async fn event_block_draw(db: &mut Door<'_>, is_first: bool) -> DbResult<i64> {
    let first = event_blocks_draw(db, 1).await?;
    if !is_first {
        return Ok(first);
    }
    let sql =
        "/* event_block_draw */ SELECT COALESCE(MAX(event_seq), 0) AS highest FROM processed_webhook_events";
    let highest = db.fetch_one(sql, &[]).await?.int("highest")?;
    if first > highest {
        return Ok(first);
    }
    // Forwards alone, block by block: other nodes may draw meanwhile.
    event_blocks_draw(db, (highest - first) / BLOCK_N + 1).await
}

/// Draws `n` blocks; the first number of the last one.
async fn event_blocks_draw(db: &mut Door<'_>, n: i64) -> DbResult<i64> {
    let sql = if db.is_postgres() {
        "/* event_block_draw */ SELECT MAX(nextval('event_blocks')) AS first
         FROM generate_series(1, CAST($1 AS BIGINT))"
    } else {
        "/* event_block_draw */ UPDATE event_blocks SET next_seq = next_seq + 4096 * $1
         RETURNING next_seq - 4096 AS first"
    };
    db.fetch_one(sql, &[n.into()]).await?.int("first")
}
