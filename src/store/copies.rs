//! Further copies of events that came: how many, and when.

use super::db::{DbResult, Door, StoreError};
use super::handle::Store;
use crate::types::UnixMs;

/// Copies of one event that came since the last time this was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyCount {
    /// Name of the provider.
    pub provider: String,
    /// Id of the event.
    pub event_id: String,
    /// Number of copies since then.
    pub copies_n: i64,
    /// Time when the first of them came.
    pub first_at_ms: UnixMs,
    /// Time when the last of them came.
    pub last_at_ms: UnixMs,
}

impl Store {
    /// Adds to what is known of copies: counts are added, the earliest and the latest time stay.
    pub async fn event_copies_add(&self, counts: &[CopyCount]) -> Result<(), StoreError> {
        if counts.is_empty() {
            return Ok(());
        }
        let counts = counts.to_vec();
        together!(self.event_copies_add(&counts))
    }
}

async fn event_copies_add(db: &mut Door<'_>, counts: &[CopyCount]) -> DbResult<()> {
    for one in counts {
        db.execute(
            "/* event_copies_add */ INSERT INTO event_copies AS c
                 (provider, event_id, copies_n, first_at_ms, last_at_ms) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (provider, event_id) DO UPDATE SET copies_n = c.copies_n + excluded.copies_n,
                 first_at_ms = LEAST(c.first_at_ms, excluded.first_at_ms),
                 last_at_ms = GREATEST(c.last_at_ms, excluded.last_at_ms)",
            &[
                one.provider.as_str().into(),
                one.event_id.as_str().into(),
                one.copies_n.into(),
                one.first_at_ms.into(),
                one.last_at_ms.into(),
            ],
        )
        .await?;
    }
    Ok(())
}
