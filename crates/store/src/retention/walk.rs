//! Finds old rows, on a connection that only reads.
//!
//! The operations of pruning: the lease that lets one node prune, and the place where the last walk stopped.

use super::{Cuts, OldRow, OldRows, PruneLease, PrunePlace, PruneWalk, PrunedKind, delete};
use crate::db::{DbResult, Executor, Row, StoreError};
use crate::handle::Store;
use hooklatch_core::types::UnixMs;

/// Finds bodies by number: `id`, and `at_ms`, the time at which its event was received.
const BODIES: &str =
    "/* prune_look */ SELECT p.event_seq AS id, e.received_at_ms AS at_ms FROM webhook_payloads p
    JOIN processed_webhook_events e ON e.event_seq = p.event_seq
    WHERE p.event_seq > $1 AND e.event_seq > $1 ORDER BY p.event_seq LIMIT $2";
macro_rules! of_messages {
    ($table:literal) => {
        concat!(
            "/* prune_look */ SELECT m.message_id AS id, COALESCE(e.received_at_ms, 0) AS at_ms FROM (
                 SELECT message_id FROM ",
            $table,
            " WHERE message_id > $1 ORDER BY message_id LIMIT $2) m
             LEFT JOIN processed_webhook_events e ON e.event_seq = m.message_id / 1024 ORDER BY m.message_id"
        )
    };
}
const CONTENTS: &str = of_messages!("outbox_contents");
const ATTEMPTS: &str = of_messages!("outbox_attempts");
const MESSAGES: &str = of_messages!("outbox_finished");
const IDS: &str = "/* prune_look */ SELECT event_seq AS id, received_at_ms AS at_ms, provider
    FROM processed_webhook_events WHERE event_seq > $1 ORDER BY event_seq LIMIT $2";
/// Finds counts of conflicts by two texts: `one` and `two`.
const CONFLICT_COUNTS: &str =
    "/* prune_look */ SELECT provider AS one, event_id AS two, CAST(0 AS BIGINT) AS at_ms
    FROM conflict_counts WHERE (provider, event_id) > ($1, $2) ORDER BY provider, event_id LIMIT $3";
const EVENT_COPIES: &str =
    "/* prune_look */ SELECT provider AS one, event_id AS two, CAST(0 AS BIGINT) AS at_ms
    FROM event_copies WHERE (provider, event_id) > ($1, $2) ORDER BY provider, event_id LIMIT $3";
const SIGNAL_FIRINGS: &str =
    "/* prune_look */ SELECT provider AS one, signal AS two, counted_from_ms AS at_ms
    FROM signal_firings WHERE (provider, signal) > ($1, $2) ORDER BY provider, signal LIMIT $3";
const OBJECT_VERSIONS: &str =
    "/* prune_look */ SELECT provider AS one, object AS two, CAST(0 AS BIGINT) AS at_ms
    FROM object_versions WHERE (provider, object) > ($1, $2) ORDER BY provider, object LIMIT $3";
const LANES: &str = "/* prune_look */ SELECT destination AS one, lane AS two, used_at_ms AS at_ms
    FROM outbox_lanes WHERE (destination, lane) > ($1, $2) ORDER BY destination, lane LIMIT $3";
const AUDIT: &str = "/* prune_look */ SELECT audit_seq AS id, at_ms
    FROM audit_log WHERE audit_seq > $1 ORDER BY audit_seq LIMIT $2";
/// Small tables, all that is old at once.
const REJECTIONS: &str =
    "/* prune_look */ SELECT provider AS one, rejection_id AS two, received_at_ms AS at_ms
    FROM rejected_requests WHERE received_at_ms < $1 LIMIT $2";
const SECRET_USES: &str =
    "/* prune_look */ SELECT provider AS one, fingerprint AS two, last_matched_at_ms AS at_ms
    FROM secret_uses WHERE last_matched_at_ms < $1 LIMIT $2";
const TAUGHT: &str = "/* prune_look */ SELECT provider AS one, provider AS two, taught_at_ms AS at_ms
    FROM taught_secrets WHERE taught_at_ms < $1 LIMIT $2";
const ACTIVITY: &str = "/* prune_look */ SELECT subject AS one, name AS two, hour_ms AS at_ms
    FROM activity WHERE hour_ms < $1 ORDER BY hour_ms LIMIT $2";
const ANSWERS: &str =
    "/* prune_look */ SELECT principal AS one, idempotency_key AS two, expires_at_ms AS at_ms
    FROM idempotency_keys WHERE expires_at_ms < $1 ORDER BY expires_at_ms LIMIT $2";
const OPERATIONS: &str = "/* prune_look */ SELECT operation_id AS one, operation_id AS two, finished_at_ms AS at_ms
    FROM operations WHERE finished_at_ms < $1 AND finished_at_ms IS NOT NULL ORDER BY finished_at_ms LIMIT $2";

pub(crate) async fn look(
    db: &mut Executor<'_>,
    PruneWalk { kind, ids_cut_ms }: PruneWalk,
    cuts: &Cuts,
    from: &PrunePlace,
    rows_n: u32,
) -> DbResult<OldRows> {
    let number = [from.number.into(), rows_n.into()];
    let texts = [from.texts.0.as_str().into(), from.texts.1.as_str().into(), rows_n.into()];
    let cut = [cuts.of(kind).into(), rows_n.into()];
    let rows = match kind {
        PrunedKind::Bodies => db.fetch(BODIES, &number).await?,
        PrunedKind::Contents => db.fetch(CONTENTS, &number).await?,
        PrunedKind::Attempts => db.fetch(ATTEMPTS, &number).await?,
        PrunedKind::Messages => db.fetch(MESSAGES, &number).await?,
        PrunedKind::Ids => db.fetch(IDS, &number).await?,
        PrunedKind::ConflictCounts => db.fetch(CONFLICT_COUNTS, &texts).await?,
        PrunedKind::EventCopies => db.fetch(EVENT_COPIES, &texts).await?,
        PrunedKind::SignalFirings => db.fetch(SIGNAL_FIRINGS, &texts).await?,
        PrunedKind::ObjectVersions => db.fetch(OBJECT_VERSIONS, &texts).await?,
        PrunedKind::Lanes => db.fetch(LANES, &texts).await?,
        PrunedKind::Audit => db.fetch(AUDIT, &number).await?,
        PrunedKind::Rejections => db.fetch(REJECTIONS, &cut).await?,
        PrunedKind::SecretUses => db.fetch(SECRET_USES, &cut).await?,
        PrunedKind::Taught => db.fetch(TAUGHT, &cut).await?,
        PrunedKind::Activity => db.fetch(ACTIVITY, &cut).await?,
        PrunedKind::Answers => db.fetch(ANSWERS, &cut).await?,
        PrunedKind::Operations => db.fetch(OPERATIONS, &cut).await?,
    };
    let mut found = OldRows::default();
    let (mut last, mut is_any_old) = (None, false);
    let mut newest_ms = from.newest_ms;
    for row in &rows {
        let (mut key, mut at_ms) = (key(kind, row)?, row.int("at_ms")?);
        if kind.is_numbered() {
            // Numbers rise with time: a row with an older time than the row before it was written by a slow clock.
            newest_ms = newest_ms.max(if at_ms <= cuts.now_ms { at_ms } else { 0 });
            at_ms = at_ms.max(newest_ms);
            key.newest_ms = newest_ms;
        }
        let cut_ms = match kind {
            PrunedKind::Ids => cuts.ids_of(&row.text("provider")?),
            PrunedKind::SignalFirings
            | PrunedKind::ConflictCounts
            | PrunedKind::EventCopies
            | PrunedKind::ObjectVersions => cuts.ids_of(&key.texts.0),
            _ => cuts.of(kind),
        };
        // Ids that are kept longer or shorter have a walk of their own.
        let is_of_walk = kind != PrunedKind::Ids || cut_ms == ids_cut_ms;
        is_any_old |= at_ms < if kind == PrunedKind::Ids { ids_cut_ms } else { cut_ms };
        last = Some(key.clone());
        if is_of_walk && at_ms < cut_ms {
            let due_ms = match kind {
                // They go with their event, whose age is not looked at here.
                PrunedKind::ConflictCounts | PrunedKind::EventCopies | PrunedKind::ObjectVersions => at_ms,
                // After the messages of their event.
                PrunedKind::Ids | PrunedKind::SignalFirings => cut_ms.min(cuts.messages_ms),
                _ => cut_ms,
            };
            found.old.push(OldRow { key, at_ms, cut_ms, due_ms });
        }
    }
    // A few rows of a clock that was ahead are not the end: only where all of a full look is young.
    // An operation goes with the last rows of its set: it is looked at again until then.
    let is_full = rows.len() >= rows_n as usize || (kind == PrunedKind::Operations && !rows.is_empty());
    if is_full && (is_any_old || kind.is_looked_through()) {
        found.next = last;
    }
    Ok(found)
}

fn key(kind: PrunedKind, row: &Row) -> DbResult<PrunePlace> {
    if kind.is_numbered() {
        Ok(PrunePlace::after(row.int("id")?))
    } else {
        Ok(PrunePlace { texts: (row.text("one")?, row.text("two")?), ..PrunePlace::default() })
    }
}

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

    /// Releases the lease, so that another node may prune. `counted_at_ms` is the time by which the round counted.
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

    /// Returns some free pages of SQLite's file to the file system, but for a reserve that new rows will need;
    /// `false` when there is nothing to give. Never anything on PostgreSQL, whose vacuum does that.
    pub async fn prune_reclaim(&self) -> Result<bool, StoreError> {
        alone!(self.writer.reclaim())
    }
}

async fn prune_look(
    db: &mut Executor<'_>,
    walk: PruneWalk,
    cuts: &Cuts,
    from: &PrunePlace,
    rows_n: u32,
) -> DbResult<OldRows> {
    look(db, walk, cuts, from, rows_n).await
}

async fn prune_now(db: &mut Executor<'_>, now_ms: UnixMs) -> DbResult<UnixMs> {
    let sql = "/* prune_now */ SELECT LEAST(CAST($1 AS BIGINT), {clock_ms}) AS now_ms";
    db.fetch_one(sql, &[now_ms.into()]).await?.int("now_ms")
}

async fn prune_delete(
    db: &mut Executor<'_>,
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

async fn prune_count(db: &mut Executor<'_>, kind: PrunedKind, found: &OldRows, cuts: &Cuts) -> DbResult<u64> {
    delete::count(db, kind, found, cuts).await
}

/// Takes the lease by the clock that all nodes share. A lease that ends later than any lease can was written by a clock
/// that was ahead, and counts as free.
async fn lease_take(db: &mut Executor<'_>, claim: &PruneLease) -> DbResult<bool> {
    // A file has one process, and the process that had it before is gone.
    if !db.is_postgres() {
        return Ok(true);
    }
    let sql = "/* prune_lease */ UPDATE retention_lease SET node = $1, until_ms = {clock_ms} + $2
               WHERE one = 1 AND (node = $1 OR until_ms < {clock_ms} OR until_ms > {clock_ms} + $2)";
    Ok(db.execute(sql, &[claim.node.as_str().into(), claim.for_ms.into()]).await? == 1)
}

async fn lease_end(db: &mut Executor<'_>, node: &str, counted_at_ms: UnixMs) -> DbResult<()> {
    let sql = "/* prune_lease */ UPDATE retention_lease
               SET until_ms = CASE WHEN node = $1 THEN 0 ELSE until_ms END, counted_at_ms = $2 WHERE one = 1";
    db.execute(sql, &[node.into(), counted_at_ms.into()]).await.map(drop)
}

async fn counted_at(db: &mut Executor<'_>) -> DbResult<Option<UnixMs>> {
    let sql = "/* prune_now */ SELECT counted_at_ms FROM retention_lease WHERE one = 1";
    db.fetch_one(sql, &[]).await?.int_or_null("counted_at_ms")
}

async fn mark_get(db: &mut Executor<'_>, days: u32) -> DbResult<Option<(i64, UnixMs)>> {
    let sql = "/* prune_mark */ SELECT event_seq, begun_at_ms FROM retention_marks WHERE days = $1";
    let row = db.fetch_optional(sql, &[days.into()]).await?;
    row.map(|row| Ok((row.int("event_seq")?, row.int("begun_at_ms")?))).transpose()
}

async fn mark_set(db: &mut Executor<'_>, days: u32, event_seq: i64, begun_at_ms: UnixMs) -> DbResult<()> {
    let sql = "/* prune_mark */ INSERT INTO retention_marks (days, event_seq, begun_at_ms) VALUES ($1, $2, $3)
               ON CONFLICT (days) DO UPDATE SET event_seq = excluded.event_seq, begun_at_ms = excluded.begun_at_ms";
    db.execute(sql, &[days.into(), event_seq.into(), begun_at_ms.into()]).await.map(drop)
}

async fn reclaim(db: &mut Executor<'_>) -> DbResult<bool> {
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
