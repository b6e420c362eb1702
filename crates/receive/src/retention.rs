//! Carries out `[retention]`: rounds over everything that is kept, in small batches whose size follows how long they
//! take, with pauses between, so that admission hardly notices. One node at a time. What may be deleted, and that
//! nothing else is, is the store's part (`crates/store/src/retention/`).
//!
//! [`Pruner`] makes the rounds, [`overdue`] measures how late it is without deleting anything, and [`delete_wholes`]
//! deletes the received bytes of redacted events once nothing needs them any more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use hooklatch_core::config::{ACTIVITY_DAYS, Config, RetentionConfig};
use hooklatch_core::current::Current;
use hooklatch_core::stop::Stop;
use hooklatch_core::types::{Clock, UnixMs};
use hooklatch_store::{Cuts, PRUNED_N_MAX, PruneLease, PrunePlace, PruneWalk, PrunedKind, Store, StoreError};

/// Batches that take longer get smaller; those that take less than the other get larger.
const SLOW: Duration = Duration::from_millis(50);
const FAST: Duration = Duration::from_millis(10);
/// Fewest rows of a batch.
const ROWS_N_MIN: u32 = 50;
/// Longest and shortest pause between two batches.
const PAUSE_MAX: Duration = Duration::from_millis(500);
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// Time overdue beyond which pauses get shorter. Milliseconds.
const OVERDUE_MS: i64 = 3_600_000;
/// Least time between two lines of the log that say that pruning is behind.
const LOG_EVERY: Duration = Duration::from_hours(1);

/// The pace of one node.
#[derive(Debug)]
pub(super) struct PrunePace {
    rows_n: u32,
    logged_at: Option<Instant>,
}

impl Default for PrunePace {
    fn default() -> Self {
        Self { rows_n: 200, logged_at: None }
    }
}

impl PrunePace {
    /// Returns how many rows the next batch looks at.
    pub(crate) fn rows_n(&self) -> u32 {
        self.rows_n
    }

    /// Takes in how long a batch took.
    pub(crate) fn took(&mut self, elapsed: Duration) {
        if elapsed > SLOW {
            self.rows_n = (self.rows_n / 2).max(ROWS_N_MIN);
        } else if elapsed < FAST {
            self.rows_n = (self.rows_n + self.rows_n / 2).min(PRUNED_N_MAX);
        }
    }

    /// Lets others work for as long as the last batch took; a quarter of it when a lot is overdue.
    pub(crate) async fn rest(&self, elapsed: Duration, overdue_ms: i64, stop: &mut Stop) {
        let pause = if overdue_ms > OVERDUE_MS { elapsed / 4 } else { elapsed };
        stop.pause(pause.clamp(PAUSE_MIN, PAUSE_MAX)).await;
    }

    /// True when it is time to log again that pruning is behind.
    pub(super) fn is_log_due(&mut self) -> bool {
        let is_due = self.logged_at.is_none_or(|at| at.elapsed() >= LOG_EVERY);
        if is_due {
            self.logged_at = Some(Instant::now());
        }
        is_due
    }
}

const DAY_MS: i64 = 86_400_000;
/// Time for which this node may go on after its last word before another one may take over. Milliseconds.
const LEASE_MS: i64 = 60_000;
/// Tables that have to be looked through to find what is old are, so often. Milliseconds.
const LOOKED_THROUGH_MS: i64 = DAY_MS;
/// Time after which ids are walked from the low end again, for those that something needed when they were
/// passed. Milliseconds.
const FROM_BELOW_MS: i64 = 7 * DAY_MS;
/// Time overdue beyond which pruning does not keep up; longer by [`FROM_BELOW_MS`] for ids, some of which
/// are passed by until they are walked from the low end again. Milliseconds.
const LATE_MS: i64 = DAY_MS;

/// Age at which parts of a large body count as left behind, because its event was never latched. Milliseconds.
const UNLATCHED_MS: i64 = 15 * 60_000;

/// A clock that is further than this beyond the last round is doubted, until the server has run for as long with it or
/// a person says that it is right: what is deleted too early cannot be brought back. Milliseconds.
const DOUBTED_MS: i64 = DAY_MS;

/// Result of one round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PruneRound {
    /// Rows by table, in the order in which they went.
    pub pruned: BTreeMap<PrunedKind, u64>,
    /// True when another node prunes.
    pub is_anothers: bool,
    /// How far the clock is beyond the last round, where nothing was deleted because of it. Milliseconds.
    pub doubted_ms: Option<i64>,
}

impl PruneRound {
    /// Returns how many rows of a kind of thing went.
    pub fn rows_n(&self, kind: PrunedKind) -> u64 {
        self.pruned.get(&kind).copied().unwrap_or_default()
    }
}

/// Prunes, or counts what would go.
pub struct Pruner {
    store: Store,
    clock: Clock,
    /// A reload may change how long ids of a provider are kept.
    config: Current<Config>,
    /// Name of this node in its lease.
    node: String,
    /// True when nothing is deleted.
    is_dry: bool,
    looked_through_at_ms: Option<UnixMs>,
    pace: PrunePace,
    /// When the clock was doubted first. A machine that sleeps does not count.
    doubted_since: Option<Instant>,
    /// True when a person says that the clock is right.
    is_clock_right: bool,
}

/// End of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Walked {
    /// The place at its end, from which the next one may go on.
    To(i64),
    /// Because of the stop.
    Stopped,
    /// Because another node prunes.
    Anothers,
}

/// A round that is under way.
struct Run<'a> {
    now_ms: UnixMs,
    cuts: Cuts,
    round: PruneRound,
    stop: &'a mut Stop,
    /// Called for each batch in which something was deleted.
    on_pruned: &'a mut (dyn FnMut(PrunedKind, u64) + Send),
}

impl Pruner {
    /// Prunes as `config` says, or, if it is dry, counts.
    pub fn new(store: Store, clock: Clock, config: Current<Config>, is_dry: bool) -> Self {
        let node = format!("{}-{:08x}", std::process::id(), fastrand::u32(..));
        Self {
            store,
            clock,
            config,
            node,
            is_dry,
            looked_through_at_ms: None,
            pace: PrunePace::default(),
            doubted_since: None,
            is_clock_right: is_dry,
        }
    }

    /// Prunes by a clock that an operator has confirmed, however far it is beyond the last round.
    pub fn by_a_right_clock(self) -> Self {
        Self { is_clock_right: true, ..self }
    }

    /// How far the clock is beyond the last round, if that is too far to be believed yet.
    async fn doubted_ms(&mut self, now_ms: UnixMs) -> Result<Option<i64>, StoreError> {
        let counted_at_ms = self.store.prune_counted_at().await?;
        let ahead_ms = counted_at_ms.map_or(0, |at_ms| now_ms.saturating_sub(at_ms));
        // A round that is due less often than that begins when it is due.
        let bound_ms = DOUBTED_MS
            .max(i64::try_from(self.config.get().retention.every_ms).unwrap_or(i64::MAX).saturating_mul(2));
        if self.is_clock_right || ahead_ms <= bound_ms {
            self.doubted_since = None;
            return Ok(None);
        }
        let since = *self.doubted_since.get_or_insert_with(Instant::now);
        let has_run_ms = i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX);
        Ok((has_run_ms < DOUBTED_MS).then_some(ahead_ms))
    }

    /// A round every so often until the stop.
    pub async fn run(&mut self, mut stop: Stop) {
        let every = Duration::from_millis(self.config.get().retention.every_ms);
        let through = metrics::gauge!("hooklatch_pruned_timestamp_seconds");
        through.set(seconds(self.clock.now_ms()));
        while !stop.pause(every).await {
            let started = Instant::now();
            match self.round(&mut stop, |_, _| {}).await {
                Ok(round) if round.is_anothers => {}
                Ok(PruneRound { doubted_ms: Some(ms), .. }) => warn!(
                    days = ms / DAY_MS,
                    "deleted nothing: the clock is days beyond the last time that old rows were deleted. If the server was \
                     off for so long, it goes on after a day, or at once with `hooklatch prune --yes`; else set the clock"
                ),
                Ok(round) => {
                    let rows_n: u64 = round.pruned.values().sum();
                    through.set(seconds(self.clock.now_ms()));
                    metrics::gauge!("hooklatch_prune_round_seconds").set(started.elapsed().as_secs_f64());
                    if rows_n > 0 {
                        info!(rows_n, took_s = started.elapsed().as_secs(), "pruned what is old");
                    }
                }
                Err(error) => warn!(%error, "could not prune what is old; it is tried again"),
            }
        }
    }

    /// Makes one round over everything. `on_pruned` is called for each batch in which something was deleted.
    pub async fn round(
        &mut self,
        stop: &mut Stop,
        mut on_pruned: impl FnMut(PrunedKind, u64) + Send,
    ) -> Result<PruneRound, StoreError> {
        let now_ms = self.store.prune_now(self.clock.now_ms()).await?;
        let doubted_ms = self.doubted_ms(now_ms).await?;
        if doubted_ms.is_some() {
            return Ok(PruneRound { doubted_ms, ..PruneRound::default() });
        }
        let (cuts, round) = (cuts(&self.config.get().retention, now_ms), PruneRound::default());
        let mut run = Run { now_ms, cuts, round, stop, on_pruned: &mut on_pruned };
        if self.is_dry {
            self.prune(&mut run).await?;
            return Ok(run.round);
        }
        if !self.store.prune_begin(&self.lease()).await? {
            run.round.is_anothers = true;
            says_no_lag();
            return Ok(run.round);
        }
        self.sweep_parts(&mut run).await?;
        let pruned = self.prune(&mut run).await;
        let given = self.give_back(run.stop).await;
        self.store.prune_end(&self.node, now_ms).await?;
        if run.round.is_anothers {
            says_no_lag();
        }
        pruned.and(given).map(|()| run.round)
    }

    async fn prune(&mut self, run: &mut Run<'_>) -> Result<(), StoreError> {
        let now_ms = run.now_ms;
        let is_looked_through =
            self.looked_through_at_ms.is_none_or(|at_ms| now_ms.saturating_sub(at_ms) >= LOOKED_THROUGH_MS);
        for kind in PrunedKind::ALL.iter().copied() {
            if kind.is_looked_through() && !is_looked_through {
                continue;
            }
            let walked = match kind {
                PrunedKind::Ids => self.ids(run).await?,
                _ => self.walk(PruneWalk::of(kind), PrunePlace::default(), run).await?,
            };
            if !matches!(walked, Walked::To(_)) {
                run.round.is_anothers = walked == Walked::Anothers;
                return Ok(());
            }
        }
        if is_looked_through {
            self.looked_through_at_ms = Some(now_ms);
        }
        Ok(())
    }

    /// Deletes the parts of large bodies whose events were never latched, because their node died.
    async fn sweep_parts(&self, run: &mut Run<'_>) -> Result<(), StoreError> {
        while !run.stop.is_set() && self.store.body_parts_sweep(run.now_ms - UNLATCHED_MS).await? {
            metrics::counter!("hooklatch_pruned_rows_total", "table" => "unlatched_bodies").increment(1);
        }
        Ok(())
    }

    fn lease(&self) -> PruneLease {
        PruneLease { node: self.node.clone(), for_ms: LEASE_MS }
    }

    /// Gives what is free back to the file system, a little at a time.
    async fn give_back(&self, stop: &mut Stop) -> Result<(), StoreError> {
        while !stop.is_set() {
            let started = Instant::now();
            if !self.store.prune_reclaim().await? {
                break;
            }
            self.pace.rest(started.elapsed(), 0, stop).await;
        }
        Ok(())
    }

    /// Ids, those that are kept equally long together, each from where the last walk ended.
    async fn ids(&mut self, run: &mut Run<'_>) -> Result<Walked, StoreError> {
        let now_ms = run.now_ms;
        let all: BTreeSet<UnixMs> = run.cuts.ids_of.values().copied().chain([run.cuts.ids_ms]).collect();
        let mut walked = Walked::To(0);
        for cut_ms in all {
            let days = u32::try_from((now_ms - cut_ms) / DAY_MS).unwrap_or(u32::MAX);
            let mark = if self.is_dry { None } else { self.store.prune_mark(days).await? };
            let mark = mark.filter(|(_, begun_at_ms)| now_ms.saturating_sub(*begun_at_ms) < FROM_BELOW_MS);
            let (event_seq, begun_at_ms) = mark.unwrap_or((0, now_ms));
            walked = self.walk(PruneWalk::of_ids(cut_ms), PrunePlace::after(event_seq), run).await?;
            match walked {
                Walked::To(end) if !self.is_dry => {
                    self.store.prune_mark_set(days, end, begun_at_ms).await?;
                }
                Walked::To(_) => {}
                Walked::Stopped | Walked::Anothers => break,
            }
        }
        Ok(walked)
    }

    /// All of one kind of thing that is old, from `from` on.
    async fn walk(
        &mut self,
        walk: PruneWalk,
        mut from: PrunePlace,
        run: &mut Run<'_>,
    ) -> Result<Walked, StoreError> {
        let kind = walk.kind;
        let lag = lag_of(kind);
        let rows = metrics::counter!("hooklatch_pruned_rows_total", "table" => kind.table());
        loop {
            if run.stop.is_set() {
                return Ok(Walked::Stopped);
            }
            // Tables whose rows are found by their age cannot be counted in parts.
            let rows_n =
                if self.is_dry && kind.is_small() { i32::MAX.unsigned_abs() } else { self.pace.rows_n() };
            let found = self.store.prune_look(walk, &run.cuts, &from, rows_n).await?;
            let started = Instant::now();
            let (mut overdue_ms, mut gone_n) = (0, 0);
            if !found.is_empty() {
                let gone = if self.is_dry {
                    self.store.prune_count(kind, &found, &run.cuts).await.map(Some)
                } else {
                    self.store.prune_delete(kind, &found, &self.lease()).await
                };
                // What cannot be deleted at all is the worst lag.
                let gone = gone.inspect_err(|_| {
                    if !self.is_dry {
                        lag.set(seconds(found.overdue_ms()));
                    }
                })?;
                let Some(rows_n) = gone else { return Ok(Walked::Anothers) };
                gone_n = rows_n;
                if gone_n > 0 {
                    *run.round.pruned.entry(kind).or_default() += gone_n;
                    overdue_ms = found.overdue_ms();
                    (run.on_pruned)(kind, gone_n);
                }
                if !self.is_dry {
                    self.pace.took(started.elapsed());
                    rows.increment(gone_n);
                    lag.set(seconds(overdue_ms));
                }
            }
            // In small tables the next look begins at the low end again, so it is not made when this one found nothing,
            // or left all of it there.
            let is_useless = kind.is_small() && (gone_n == 0 || self.is_dry);
            let Some(next) = found.next.filter(|_| !is_useless) else { break };
            from = next;
            if !self.is_dry {
                self.late(kind, overdue_ms);
                self.pace.rest(started.elapsed(), overdue_ms, run.stop).await;
            }
        }
        if !self.is_dry {
            lag.set(0.0);
        }
        Ok(Walked::To(from.number()))
    }

    /// Says, once in a while, that it does not keep up.
    fn late(&mut self, kind: PrunedKind, overdue_ms: i64) {
        let late_ms = if kind == PrunedKind::Ids { FROM_BELOW_MS + LATE_MS } else { LATE_MS };
        if overdue_ms > late_ms && self.pace.is_log_due() {
            warn!(
                table = kind.table(),
                overdue_h = overdue_ms / 3_600_000,
                "pruning is behind: what goes now should have gone long ago"
            );
        }
    }
}

/// Returns what is older than its window may go.
pub(crate) fn cuts(config: &RetentionConfig, now_ms: UnixMs) -> Cuts {
    let cut = |days: u32| now_ms.saturating_sub(i64::from(days) * DAY_MS);
    let of = |name: &hooklatch_core::types::Name| (name.clone(), cut(config.ids_days_for(name)));
    Cuts {
        now_ms,
        bodies_ms: cut(config.bodies_days),
        attempts_ms: cut(config.attempts_days),
        messages_ms: cut(config.messages_days),
        ids_ms: cut(config.ids_days_unknown()),
        ids_of: config.ids_of.keys().map(of).collect(),
        lanes_ms: cut(config.lanes_days),
        rejections_ms: cut(config.rejections_days),
        secret_uses_ms: cut(config.secret_uses_days),
        pairing_ms: cut(config.pairing_days),
        activity_ms: cut(ACTIVITY_DAYS),
        // Each row says itself when its window is over.
        answers_ms: now_ms,
        operations_ms: cut(config.messages_days),
        audit_ms: cut(config.audit_days),
    }
}

fn lag_of(kind: PrunedKind) -> metrics::Gauge {
    metrics::gauge!("hooklatch_prune_lag_seconds", "table" => kind.table())
}

/// Another node prunes, and knows how far it is behind: what was the lag here is none any more.
fn says_no_lag() {
    for kind in PrunedKind::ALL {
        lag_of(*kind).set(f64::NAN);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge")]
fn seconds(ms: i64) -> f64 {
    ms as f64 / 1_000.0
}

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

/// Time between two looks. So long, and as long as one look takes, such bytes are there at most when they are no longer
/// needed.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Rows of one transaction.
const BATCH_N: u32 = 500;

/// Looks again and again until `stop`; any number of nodes may.
pub async fn delete_wholes(store: &Store, mut stop: Stop) {
    while !stop.pause(LOOK_EVERY).await {
        if let Err(error) = look(store).await {
            warn!(%error, "could not delete what redacted events are no longer needed with");
        }
    }
}

async fn look(store: &Store) -> Result<(), StoreError> {
    let mut after = Some(0);
    while let Some(place) = after {
        after = store.wholes_delete(place, BATCH_N).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_shrink_when_they_are_slow_and_grow_when_they_are_fast_within_bounds() {
        let mut pace = PrunePace::default();
        let mut after = |ms: u64, times: u32| {
            (0..times).for_each(|_| pace.took(Duration::from_millis(ms)));
            pace.rows_n()
        };
        assert_eq!(after(30, 5), 200, "neither slow nor fast");
        assert_eq!(after(51, 1), 100);
        assert_eq!(after(400, 20), ROWS_N_MIN);
        assert_eq!(after(9, 1), 75);
        assert_eq!(after(1, 50), PRUNED_N_MAX);
    }

    #[test]
    fn being_behind_is_logged_at_most_once_an_hour() {
        let mut pace = PrunePace::default();
        assert_eq!([pace.is_log_due(), pace.is_log_due()], [true, false]);
    }
}
