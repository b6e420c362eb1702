//! How late pruning is: a look at the low end of each table that is walked by number, and nothing is deleted.

use super::pruner::cuts;
use hooklatch_core::config::RetentionConfig;
use hooklatch_core::types::Clock;
use hooklatch_store::{PrunePlace, PruneWalk, PrunedKind, Store, StoreError};

/// Rows that are looked at in each table.
const LOOKED_N: u32 = 50;

/// How late the oldest rows are that should have gone, by table. Milliseconds; 0 where none are.
pub async fn overdue(
    store: &Store,
    clock: &Clock,
    config: &RetentionConfig,
) -> Result<Vec<(&'static str, i64)>, StoreError> {
    let now_ms = store.prune_now(clock.now_ms()).await?;
    let cuts = cuts(config, now_ms);
    let mut late_ms = Vec::new();
    for kind in [PrunedKind::Bodies, PrunedKind::Contents, PrunedKind::Messages, PrunedKind::Audit] {
        let found = store.prune_look(PruneWalk::of(kind), &cuts, &PrunePlace::default(), LOOKED_N).await?;
        // What something still needs is not late.
        let goes_n = if found.is_empty() { 0 } else { store.prune_count(kind, &found, &cuts).await? };
        late_ms.push((kind.table(), if goes_n > 0 { found.overdue_ms() } else { 0 }));
    }
    Ok(late_ms)
}
