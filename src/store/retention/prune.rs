//! The operations of pruning; who may prune at all, and how far the last walk came.

use super::types::{Cuts, OldRows, PruneLease, PrunePlace, PruneWalk, PrunedKind};
use super::{delete, walk};
use crate::store::db::{DbResult, Door, StoreError};
use crate::store::handle::Store;
use crate::types::UnixMs;

/// Free pages that are left in SQLite's file: this number, or this part of it.
const RESERVE_N: i64 = 256;
const RESERVE_PART: i64 = 20;

impl Store {
    /// Looks at up to `rows_n` rows behind `from`, for those that are old enough to go.
    pub async fn prune_look(
        &self,
        walk: PruneWalk,
        cuts: &Cuts,
        from: &PrunePlace,
        rows_n: u32,
    ) -> Result<OldRows, StoreError> {
        let (cuts, from) = (cuts.clone(), from.clone());
        alone!(self.reader.prune_look(walk, &cuts, &from, rows_n))
    }

    /// Returns what counts as now for whatever goes by its age: `now_ms`, or what the clock of PostgreSQL
    /// says if that is less. A node whose clock is ahead must not delete what all others still need.
    pub async fn prune_now(&self, now_ms: UnixMs) -> Result<UnixMs, StoreError> {
        alone!(self.reader.prune_now(now_ms))
    }

    /// Deletes what was found, as far as nothing needs it; says how many rows. Nothing, and `None`, if another node
    /// prunes.
    pub async fn prune_delete(
        &self,
        kind: PrunedKind,
        found: &OldRows,
        lease: &PruneLease,
    ) -> Result<Option<u64>, StoreError> {
        let (found, lease) = (found.clone(), lease.clone());
        together!(self.prune_delete(kind, &found, &lease))
    }

    /// Returns how many of what was found would go with a round of these `cuts`, with what goes before it in
    /// that round gone.
    pub async fn prune_count(
        &self,
        kind: PrunedKind,
        found: &OldRows,
        cuts: &Cuts,
    ) -> Result<u64, StoreError> {
        let (found, cuts) = (found.clone(), cuts.clone());
        alone!(self.reader.prune_count(kind, &found, &cuts))
    }

    /// True when this node may prune from now on.
    pub async fn prune_begin(&self, lease: &PruneLease) -> Result<bool, StoreError> {
        let claim = lease.clone();
        alone!(self.writer.lease_take(&claim))
    }

    /// Lets another node prune from now on. `counted_at_ms` is the time by which the round counted.
    pub async fn prune_end(&self, node: &str, counted_at_ms: UnixMs) -> Result<(), StoreError> {
        let node = node.to_owned();
        alone!(self.writer.lease_end(&node, counted_at_ms))
    }

    /// The time by which the last round counted.
    pub async fn prune_counted_at(&self) -> Result<Option<UnixMs>, StoreError> {
        alone!(self.reader.counted_at())
    }

    /// Returns how far ids that are kept for `days` days have been walked, and when that began at the low end.
    pub async fn prune_mark(&self, days: u32) -> Result<Option<(i64, UnixMs)>, StoreError> {
        alone!(self.reader.mark_get(days))
    }

    /// Keeps in mind how far they have been walked.
    pub async fn prune_mark_set(
        &self,
        days: u32,
        event_seq: i64,
        begun_at_ms: UnixMs,
    ) -> Result<(), StoreError> {
        alone!(self.writer.mark_set(days, event_seq, begun_at_ms))
    }

    /// Gives some free pages of SQLite's file back to the file system, but for a reserve that new rows will need;
    /// `false` when there is nothing to give. Never anything on PostgreSQL, whose vacuum does that.
    pub async fn prune_reclaim(&self) -> Result<bool, StoreError> {
        alone!(self.writer.reclaim())
    }
}

async fn prune_look(
    db: &mut Door<'_>,
    walk: PruneWalk,
    cuts: &Cuts,
    from: &PrunePlace,
    rows_n: u32,
) -> DbResult<OldRows> {
    walk::look(db, walk, cuts, from, rows_n).await
}

async fn prune_now(db: &mut Door<'_>, now_ms: UnixMs) -> DbResult<UnixMs> {
    let sql = "/* prune_now */ SELECT LEAST(CAST($1 AS BIGINT), {clock_ms}) AS now_ms";
    db.fetch_one(sql, &[now_ms.into()]).await?.int("now_ms")
}

async fn prune_delete(
    db: &mut Door<'_>,
    kind: PrunedKind,
    found: &OldRows,
    claim: &PruneLease,
) -> DbResult<Option<u64>> {
    if !lease_take(db, claim).await? {
        return Ok(None);
    }
    if db.is_postgres() {
        // Tables grow and shrink faster than they are counted: by their keys alone.
        db.batch(
            "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_hashjoin = off;
             SET LOCAL enable_mergejoin = off; SET LOCAL plan_cache_mode = force_generic_plan",
        )
        .await?;
    }
    delete::delete(db, kind, found).await.map(Some)
}

async fn prune_count(db: &mut Door<'_>, kind: PrunedKind, found: &OldRows, cuts: &Cuts) -> DbResult<u64> {
    delete::count(db, kind, found, cuts).await
}

/// Takes the lease by the clock that all nodes share. A lease that ends later than any lease can was given by a clock
/// that was ahead, and counts as nobody's.
async fn lease_take(db: &mut Door<'_>, claim: &PruneLease) -> DbResult<bool> {
    // A file has one process, and the process that had it before is gone.
    if !db.is_postgres() {
        return Ok(true);
    }
    let sql = "/* prune_lease */ UPDATE retention_lease SET node = $1, until_ms = {clock_ms} + $2
               WHERE one = 1 AND (node = $1 OR until_ms < {clock_ms} OR until_ms > {clock_ms} + $2)";
    Ok(db.execute(sql, &[claim.node.as_str().into(), claim.for_ms.into()]).await? == 1)
}

async fn lease_end(db: &mut Door<'_>, node: &str, counted_at_ms: UnixMs) -> DbResult<()> {
    let sql = "/* prune_lease */ UPDATE retention_lease
               SET until_ms = CASE WHEN node = $1 THEN 0 ELSE until_ms END, counted_at_ms = $2 WHERE one = 1";
    db.execute(sql, &[node.into(), counted_at_ms.into()]).await.map(drop)
}

async fn counted_at(db: &mut Door<'_>) -> DbResult<Option<UnixMs>> {
    let sql = "/* prune_now */ SELECT counted_at_ms FROM retention_lease WHERE one = 1";
    db.fetch_one(sql, &[]).await?.int_or_null("counted_at_ms")
}

async fn mark_get(db: &mut Door<'_>, days: u32) -> DbResult<Option<(i64, UnixMs)>> {
    let sql = "/* prune_mark */ SELECT event_seq, begun_at_ms FROM retention_marks WHERE days = $1";
    let row = db.fetch_optional(sql, &[days.into()]).await?;
    row.map(|row| Ok((row.int("event_seq")?, row.int("begun_at_ms")?))).transpose()
}

async fn mark_set(db: &mut Door<'_>, days: u32, event_seq: i64, begun_at_ms: UnixMs) -> DbResult<()> {
    let sql = "/* prune_mark */ INSERT INTO retention_marks (days, event_seq, begun_at_ms) VALUES ($1, $2, $3)
               ON CONFLICT (days) DO UPDATE SET event_seq = excluded.event_seq, begun_at_ms = excluded.begun_at_ms";
    db.execute(sql, &[days.into(), event_seq.into(), begun_at_ms.into()]).await.map(drop)
}

async fn reclaim(db: &mut Door<'_>) -> DbResult<bool> {
    if db.is_postgres() {
        return Ok(false);
    }
    let sql = "/* prune_reclaim */ SELECT f.freelist_count AS free_n, c.page_count AS all_n
               FROM pragma_freelist_count f, pragma_page_count c";
    let row = db.fetch_one(sql, &[]).await?;
    if row.int("free_n")? <= RESERVE_N.max(row.int("all_n")? / RESERVE_PART) {
        return Ok(false);
    }
    // Page by page: each is moved, and the file cut off behind it.
    db.execute("PRAGMA incremental_vacuum(128)", &[]).await?;
    Ok(true)
}
