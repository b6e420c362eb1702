//! What is old and no longer needed goes, a few rows at a time: first it is looked for (`walk`), then deleted in a short
//! transaction that asks again whether it may go (`delete`). Nothing that an open message or a waiting event needs ever
//! goes, and what goes last is an event's key.
//!
//! Numbers are in the order of time to within seconds, so whoever walks by number from the low end may stop where all is
//! young.

mod delete;
mod walk;

use std::collections::BTreeMap;

use super::db::{DbResult, Door};
use super::{Store, StoreError};
use crate::types::{Name, UnixMs};

/// Most rows of one batch.
pub const PRUNED_N_MAX: u32 = 1_000;

/// Free pages that are left in SQLite's file: so many, or this part of it.
const RESERVE_N: i64 = 256;
const RESERVE_PART: i64 = 20;

/// What is pruned, in the order of a round: a body goes before what is known of its messages, and that before its event's
/// key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// What was received.
    Bodies,
    /// What was made of it to be sent.
    Contents,
    /// Attempts of messages that are finished.
    Attempts,
    /// Messages that are finished.
    Messages,
    /// Events: key, digest and outcome.
    Ids,
    /// How many further contents came under an event's key.
    ConflictCounts,
    /// Firings of signals.
    SignalFirings,
    /// The newest versions of objects.
    ObjectVersions,
    /// Lanes without messages.
    Lanes,
    /// Requests that were not believed.
    Rejections,
    /// When secrets matched.
    SecretUses,
    /// Secrets that senders taught us.
    Taught,
    /// Answers to operators' requests.
    Answers,
    /// What people decided.
    Audit,
}

impl Kind {
    /// All, in the order of a round.
    pub const ALL: &'static [Self] = &[
        Self::Bodies,
        Self::Contents,
        Self::Attempts,
        Self::Messages,
        Self::Ids,
        Self::ConflictCounts,
        Self::SignalFirings,
        Self::ObjectVersions,
        Self::Lanes,
        Self::Rejections,
        Self::SecretUses,
        Self::Taught,
        Self::Answers,
        Self::Audit,
    ];

    /// Its table, for metrics and people.
    pub fn table(self) -> &'static str {
        match self {
            Self::Bodies => "webhook_payloads",
            Self::Contents => "outbox_contents",
            Self::Attempts => "outbox_attempts",
            Self::Messages => "outbox_finished",
            Self::Ids => "processed_webhook_events",
            Self::ConflictCounts => "conflict_counts",
            Self::SignalFirings => "signal_firings",
            Self::ObjectVersions => "object_versions",
            Self::Lanes => "outbox_lanes",
            Self::Rejections => "rejected_requests",
            Self::SecretUses => "secret_uses",
            Self::Taught => "taught_secrets",
            Self::Answers => "idempotency_keys",
            Self::Audit => "audit_log",
        }
    }

    /// Whether it is walked by numbers, which are in the order of time.
    fn is_numbered(self) -> bool {
        matches!(self, Self::Bodies | Self::Contents | Self::Attempts | Self::Messages | Self::Ids)
    }

    /// Whether its rows are few, and found by their age.
    pub fn is_small(self) -> bool {
        matches!(self, Self::Rejections | Self::SecretUses | Self::Taught | Self::Answers)
    }

    /// Whether all of the table has to be looked through to find what is old.
    pub fn is_looked_through(self) -> bool {
        matches!(
            self,
            Self::ConflictCounts | Self::SignalFirings | Self::ObjectVersions | Self::Lanes | Self::Audit
        )
    }
}

/// What is older may go: a time for each kind of thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cuts {
    /// Now: who says to have come later had a clock that was ahead.
    pub now_ms: UnixMs,
    /// Bodies, and what was made of them.
    pub bodies_ms: UnixMs,
    /// Attempts.
    pub attempts_ms: UnixMs,
    /// Finished messages.
    pub messages_ms: UnixMs,
    /// Ids of the providers that are not in `ids_of`.
    pub ids_ms: UnixMs,
    /// Ids, by provider.
    pub ids_of: BTreeMap<Name, UnixMs>,
    /// Lanes.
    pub lanes_ms: UnixMs,
    /// Requests that were not believed.
    pub rejections_ms: UnixMs,
    /// When secrets matched last.
    pub secret_uses_ms: UnixMs,
    /// Secrets that senders taught us.
    pub taught_ms: UnixMs,
    /// Answers to operators' requests.
    pub answers_ms: UnixMs,
    /// What people decided.
    pub audit_ms: UnixMs,
}

impl Cuts {
    fn ids_of(&self, provider: &str) -> UnixMs {
        let known = self.ids_of.iter().find(|(name, _)| name.as_str() == provider);
        known.map_or(self.ids_ms, |(_, cut_ms)| *cut_ms)
    }

    /// Of one kind of thing; ids have one for each provider.
    fn of(&self, kind: Kind) -> UnixMs {
        match kind {
            Kind::Bodies | Kind::Contents => self.bodies_ms,
            Kind::Attempts => self.attempts_ms,
            Kind::Messages => self.messages_ms,
            Kind::Ids | Kind::ConflictCounts | Kind::SignalFirings | Kind::ObjectVersions => self.ids_ms,
            Kind::Lanes => self.lanes_ms,
            Kind::Rejections => self.rejections_ms,
            Kind::SecretUses => self.secret_uses_ms,
            Kind::Taught => self.taught_ms,
            Kind::Answers => self.answers_ms,
            Kind::Audit => self.audit_ms,
        }
    }
}

/// What is walked at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walk {
    /// All of one kind of thing.
    pub kind: Kind,
    /// Of ids, those alone that have this cut: what is kept equally long is walked together.
    pub ids_cut_ms: UnixMs,
}

impl Walk {
    /// All of one kind of thing but ids.
    pub fn of(kind: Kind) -> Self {
        Self { kind, ids_cut_ms: 0 }
    }

    /// The ids that have this cut.
    pub fn of_ids(ids_cut_ms: UnixMs) -> Self {
        Self { kind: Kind::Ids, ids_cut_ms }
    }
}

/// A node's claim to be the only one that prunes, from now on for `for_ms`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PruneLease {
    /// What it is called.
    pub node: String,
    /// How long nobody else may prune when it is not heard of. Milliseconds.
    pub for_ms: i64,
}

/// A key to go on from; the first of all is [`Place::default`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    number: i64,
    texts: (String, String),
    /// Of what is walked by number: when the newest that was passed came.
    newest_ms: UnixMs,
}

impl Place {
    /// Behind this number.
    pub fn after(number: i64) -> Self {
        Self { number, ..Self::default() }
    }

    /// The number to go on from.
    pub fn number(&self) -> i64 {
        self.number
    }
}

/// A row that is old enough to go.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Old {
    key: Place,
    at_ms: UnixMs,
    cut_ms: UnixMs,
    /// What is older should be gone: later than `cut_ms` says where something else goes first.
    due_ms: UnixMs,
}

/// What a look at some rows found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    old: Vec<Old>,
    /// Where to go on; `None`: there is nothing behind it, or all of it is young.
    pub next: Option<Place>,
}

impl Found {
    /// Whether nothing of it may go.
    pub fn is_empty(&self) -> bool {
        self.old.is_empty()
    }

    /// For how long all of them should have been gone: not the oldest, which something may have needed. Milliseconds.
    pub fn overdue_ms(&self) -> i64 {
        self.old.iter().map(|one| one.due_ms.saturating_sub(one.at_ms)).min().unwrap_or_default().max(0)
    }
}

impl Store {
    /// Looks at up to `rows_n` rows behind `from`, for those that are old enough to go.
    pub async fn prune_look(
        &self,
        walk: Walk,
        cuts: &Cuts,
        from: &Place,
        rows_n: u32,
    ) -> Result<Found, StoreError> {
        let (cuts, from) = (cuts.clone(), from.clone());
        alone!(self.reader.prune_look(walk, &cuts, &from, rows_n))
    }

    /// What counts as now for whatever goes by its age: `now_ms`, or what the clock of PostgreSQL says if that is less. A
    /// node whose clock is ahead must not delete what all others still need.
    pub async fn prune_now(&self, now_ms: UnixMs) -> Result<UnixMs, StoreError> {
        alone!(self.reader.prune_now(now_ms))
    }

    /// Deletes what was found, as far as nothing needs it; says how many rows. Nothing, and `None`, if another node
    /// prunes.
    pub async fn prune_delete(
        &self,
        kind: Kind,
        found: &Found,
        lease: &PruneLease,
    ) -> Result<Option<u64>, StoreError> {
        let (found, lease) = (found.clone(), lease.clone());
        together!(self.prune_delete(kind, &found, &lease))
    }

    /// How many of what was found would go with a round of these `cuts`, with what goes before it in that round gone.
    pub async fn prune_count(&self, kind: Kind, found: &Found, cuts: &Cuts) -> Result<u64, StoreError> {
        let (found, cuts) = (found.clone(), cuts.clone());
        alone!(self.reader.prune_count(kind, &found, &cuts))
    }

    /// Whether this node may prune from now on.
    pub async fn prune_begin(&self, lease: &PruneLease) -> Result<bool, StoreError> {
        let claim = lease.clone();
        alone!(self.writer.lease_take(&claim))
    }

    /// Lets another node prune from now on.
    pub async fn prune_end(&self, node: &str) -> Result<(), StoreError> {
        let node = node.to_owned();
        alone!(self.writer.lease_end(&node))
    }

    /// How far ids that are kept for so many days have been walked, and when that began at the low end.
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

    /// Gives some free pages of SQLite's file back to the file system, but for a reserve that new rows will need; `false`
    /// when there is nothing to give. Never anything on PostgreSQL, whose vacuum does that.
    pub async fn prune_reclaim(&self) -> Result<bool, StoreError> {
        alone!(self.writer.reclaim())
    }
}

async fn prune_look(
    db: &mut Door<'_>,
    walk: Walk,
    cuts: &Cuts,
    from: &Place,
    rows_n: u32,
) -> DbResult<Found> {
    walk::look(db, walk, cuts, from, rows_n).await
}

async fn prune_now(db: &mut Door<'_>, now_ms: UnixMs) -> DbResult<UnixMs> {
    let sql = "/* prune_now */ SELECT LEAST(CAST($1 AS BIGINT), {clock_ms}) AS now_ms";
    db.fetch_one(sql, &[now_ms.into()]).await?.int("now_ms")
}

async fn prune_delete(
    db: &mut Door<'_>,
    kind: Kind,
    found: &Found,
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

async fn prune_count(db: &mut Door<'_>, kind: Kind, found: &Found, cuts: &Cuts) -> DbResult<u64> {
    delete::count(db, kind, found, cuts).await
}

/// By the clock that all nodes share. A lease that ends later than any can was given by a clock that was ahead: nobody's.
async fn lease_take(db: &mut Door<'_>, claim: &PruneLease) -> DbResult<bool> {
    // A file has one process, and whoever had it before is gone.
    if !db.is_postgres() {
        return Ok(true);
    }
    let sql = "/* prune_lease */ UPDATE retention_lease SET node = $1, until_ms = {clock_ms} + $2
               WHERE one = 1 AND (node = $1 OR until_ms < {clock_ms} OR until_ms > {clock_ms} + $2)";
    Ok(db.execute(sql, &[claim.node.as_str().into(), claim.for_ms.into()]).await? == 1)
}

async fn lease_end(db: &mut Door<'_>, node: &str) -> DbResult<()> {
    let sql = "/* prune_lease */ UPDATE retention_lease SET until_ms = 0 WHERE one = 1 AND node = $1";
    db.execute(sql, &[node.into()]).await.map(drop)
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
