//! Carries out `[retention]`: rounds over everything that is kept, in batches that grow while admission does not suffer,
//! with pauses between. One node at a time. What may be deleted, and that nothing else is, is the store's part
//! (`crates/store/src/retention/`).
//!
//! [`Pruner`] makes the rounds, [`overdue`] measures how late it is without deleting anything, and [`delete_wholes`]
//! deletes the received bytes of redacted events once nothing needs them any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use crate::admit::{AdmitContext, BatchTimes};
use hooklatch_core::config::{ACTIVITY_DAYS, Config, RetentionConfig};
use hooklatch_core::current::Current;
use hooklatch_core::stop::Stop;
use hooklatch_core::types::{Clock, UnixMs};
use hooklatch_store::{Cuts, PRUNED_N_MAX, PruneLease, PrunePlace, PruneWalk, PrunedKind, Store, StoreError};

/// Batches that take longer get smaller whatever admission does: their locks and one file's only writer are held as long.
const LONG: Duration = Duration::from_millis(250);
/// Fewest rows of a batch; and fewest when admission suffers, since below it a batch is mostly its commit, so that
/// smaller ones only make more of those.
const ROWS_N_MIN: u32 = 50;
const ROWS_N_BESIDE: u32 = 200;
/// Admission suffers when its batches take longer than this while rows are deleted: so many times as long as they do
/// otherwise, and so much more.
const SUFFERS_TIMES: f64 = 1.5;
const SUFFERS_MORE_MS: f64 = 1.0;
/// Time without admissions after which none suffer.
const FORGOTTEN: Duration = Duration::from_secs(1);
/// Longest and shortest pause between two batches.
const PAUSE_MAX: Duration = Duration::from_millis(500);
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// Time overdue beyond which pauses get shorter where nothing is admitted. Milliseconds.
const OVERDUE_MS: i64 = 3_600_000;
/// Least time between two lines of the log that say that pruning is behind.
const LOG_EVERY: Duration = Duration::from_hours(1);

/// What deleting does to admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admission {
    /// Unknown: nothing was admitted lately, or it is another process that admits.
    Unseen,
    /// As fast as without it.
    Fine,
    /// Slower.
    Suffers,
}

impl Admission {
    /// By the mean times of its batches while rows are deleted, and otherwise. Milliseconds.
    fn of(during_ms: Option<f64>, beside_ms: Option<f64>) -> Self {
        match (during_ms, beside_ms) {
            (Some(during), Some(beside)) if during > beside * SUFFERS_TIMES + SUFFERS_MORE_MS => {
                Self::Suffers
            }
            (Some(_), Some(_)) => Self::Fine,
            _ => Self::Unseen,
        }
    }

    /// Returns how many rows follow on a batch of `rows_n` that took so long. It is not the batch's own time that
    /// decides: where a round trip and a commit take 10 ms, small batches do, too, and would stay small for ever.
    fn rows_n(self, rows_n: u32, took: Duration) -> u32 {
        match self {
            _ if took > LONG => (rows_n / 2).max(ROWS_N_MIN),
            Self::Suffers if rows_n > ROWS_N_BESIDE => (rows_n - rows_n / 4).max(ROWS_N_BESIDE),
            Self::Suffers => (rows_n + rows_n / 2).min(ROWS_N_BESIDE),
            Self::Fine | Self::Unseen => (rows_n + rows_n / 2).min(PRUNED_N_MAX),
        }
    }

    /// Returns how long others work alone after a batch: as long as it took; less where they do not notice it, or where
    /// much is overdue and nobody is known to notice.
    fn pause(self, took: Duration, overdue_ms: i64) -> Duration {
        let pause = match self {
            Self::Suffers => took,
            Self::Unseen if overdue_ms <= OVERDUE_MS => took,
            Self::Fine | Self::Unseen => took / 4,
        };
        pause.clamp(PAUSE_MIN, PAUSE_MAX)
    }
}

/// The mean time of admission's batches, of which late ones count most. Milliseconds.
#[derive(Debug, Clone, Copy, Default)]
struct MeanMs(Option<f64>);

impl MeanMs {
    fn add(&mut self, times: BatchTimes) {
        let Some(mean_ms) = times.mean_ms() else { return };
        let weight = f64::from(u32::try_from(times.n.min(8)).unwrap_or_default()) / 16.0;
        self.0 = Some(self.0.map_or(mean_ms, |before_ms| before_ms + (mean_ms - before_ms) * weight));
    }
}

/// The pace of one node.
#[derive(Debug)]
pub(super) struct PrunePace {
    rows_n: u32,
    /// Times of admission's batches while rows are deleted, and otherwise.
    during: MeanMs,
    beside: MeanMs,
    /// All batches of admission up to the last look.
    seen: BatchTimes,
    /// When the last of them was seen beside a deletion.
    admitted_at: Option<Instant>,
    logged_at: Option<Instant>,
}

impl Default for PrunePace {
    fn default() -> Self {
        let (during, beside, seen) = (MeanMs::default(), MeanMs::default(), BatchTimes::default());
        Self { rows_n: 200, during, beside, seen, admitted_at: None, logged_at: None }
    }
}

impl PrunePace {
    /// Returns how many rows the next batch looks at.
    pub(crate) fn rows_n(&self) -> u32 {
        self.rows_n
    }

    fn admission(&self) -> Admission {
        Admission::of(self.during.0, self.beside.0)
    }

    /// To be called before a batch, with all batches of admission up to now.
    fn begins(&mut self, admitted: BatchTimes) {
        self.beside.add(admitted.since(self.seen));
        self.seen = admitted;
    }

    /// Takes in how long a batch took, with all batches of admission up to now.
    fn took(&mut self, elapsed: Duration, admitted: BatchTimes) {
        let during = admitted.since(self.seen);
        self.seen = admitted;
        self.during.add(during);
        if during.n > 0 {
            self.admitted_at = Some(Instant::now());
        } else if self.admitted_at.is_none_or(|at| at.elapsed() > FORGOTTEN) {
            self.during = MeanMs::default();
        }
        self.rows_n = self.admission().rows_n(self.rows_n, elapsed);
    }

    /// Takes in that a batch came to nothing: it may have been too large.
    fn failed(&mut self) {
        self.rows_n = (self.rows_n / 2).max(ROWS_N_MIN);
    }

    /// Lets others work.
    pub(crate) async fn rest(&self, elapsed: Duration, overdue_ms: i64, stop: &mut Stop) {
        stop.pause(self.admission().pause(elapsed, overdue_ms)).await;
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
/// Time overdue beyond which pruning does not keep up; longer by the time between two rounds, and by [`FROM_BELOW_MS`]
/// for ids, some of which are passed by until they are walked from the low end again. Milliseconds.
const LATE_MS: i64 = 3 * 3_600_000;

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
    /// Admission of this node, which must not suffer.
    admission: Option<Arc<AdmitContext>>,
    looked_through_at_ms: Option<UnixMs>,
    pace: PrunePace,
    /// When the clock was doubted first. A machine that sleeps does not count.
    doubted_since: Option<Instant>,
    /// True when a person says that the clock is right.
    is_clock_right: bool,
    /// True when ids are walked from the low end, wherever the last walk ended.
    is_from_below: bool,
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
            admission: None,
            looked_through_at_ms: None,
            pace: PrunePace::default(),
            doubted_since: None,
            is_clock_right: is_dry,
            is_from_below: is_dry,
        }
    }

    /// Goes by what this admission notices of it.
    pub fn beside(self, admission: Arc<AdmitContext>) -> Self {
        Self { admission: Some(admission), ..self }
    }

    fn admitted(&self) -> BatchTimes {
        self.admission.as_ref().map_or_else(BatchTimes::default, |context| context.under_way.times())
    }

    /// Prunes by a clock that an operator has confirmed, however far it is beyond the last round.
    pub fn by_a_right_clock(self) -> Self {
        Self { is_clock_right: true, ..self }
    }

    /// Walks ids from the low end, as a dry round does: for one round that an operator orders, which then deletes what the
    /// dry one counts.
    pub fn from_below(self) -> Self {
        Self { is_from_below: true, ..self }
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
            let mark = if self.is_from_below { None } else { self.store.prune_mark(days).await? };
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
                    self.pace.begins(self.admitted());
                    self.store.prune_delete(kind, &found, &self.lease()).await
                };
                // What cannot be deleted at all is the worst lag.
                let gone = gone.inspect_err(|_| {
                    if !self.is_dry {
                        self.pace.failed();
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
                    self.pace.took(started.elapsed(), self.admitted());
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
        let every_ms = i64::try_from(self.config.get().retention.every_ms).unwrap_or(i64::MAX);
        let passed_ms = if kind == PrunedKind::Ids { FROM_BELOW_MS } else { 0 };
        if overdue_ms > every_ms.saturating_add(passed_ms + LATE_MS) && self.pace.is_log_due() {
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
    fn a_batch_grows_while_admission_does_not_suffer_however_long_it_takes() {
        let ms = Duration::from_millis;
        // Times of admission's batches during and beside, the batch's own, and what follows on 50, 200 and 1,000 rows.
        for (what, during, beside, took, wanted) in [
            ("a quick one", Some(1.0), Some(1.0), ms(3), [75, 300, 1_000]),
            ("far away", Some(9.0), Some(8.0), ms(45), [75, 300, 1_000]),
            ("a slow commit", Some(20.0), Some(14.0), ms(120), [75, 300, 1_000]),
            ("nobody admits", None, None, ms(60), [75, 300, 1_000]),
            ("nobody does now", None, Some(1.0), ms(60), [75, 300, 1_000]),
            ("a stall", Some(150.0), Some(1.0), ms(300), [50, 100, 500]),
            ("a stall that nobody noticed", None, None, ms(300), [50, 100, 500]),
            ("admission suffers", Some(9.0), Some(3.0), ms(20), [75, 200, 750]),
            ("it suffers from little", Some(9.0), Some(3.0), ms(1), [75, 200, 750]),
            ("hardly more than nothing", Some(1.4), Some(0.3), ms(20), [75, 300, 1_000]),
        ] {
            let admission = Admission::of(during, beside);
            let found = [50, 200, 1_000].map(|rows_n| admission.rows_n(rows_n, took));
            assert_eq!(found, wanted, "{what}");
        }
    }

    #[test]
    fn three_stalls_are_forgotten_within_ten_batches() {
        let mut pace = PrunePace { rows_n: PRUNED_N_MAX, ..PrunePace::default() };
        let mut admitted = BatchTimes::default();
        // A database with 12 ms for each commit: never does a batch take less than 40 ms.
        let mut batch = |took_ms: u64, batch_ms: u64| {
            for (times_n, is_batch) in [(2, false), (3, true)] {
                let each = Duration::from_millis(if is_batch { batch_ms } else { 14 });
                admitted = BatchTimes { n: admitted.n + times_n, took: admitted.took + each * 3 };
                if is_batch {
                    pace.took(Duration::from_millis(took_ms), admitted);
                } else {
                    pace.begins(admitted);
                }
            }
            pace.rows_n()
        };
        assert_eq!((0..20).map(|_| batch(45, 16)).last(), Some(PRUNED_N_MAX));
        assert!((0..3).map(|_| batch(400, 160)).last() < Some(200));
        assert_eq!((0..10).map(|_| batch(45, 16)).last(), Some(PRUNED_N_MAX));
    }

    #[tokio::test(start_paused = true)]
    async fn an_admission_that_is_over_does_not_suffer() {
        let mut pace = PrunePace::default();
        let at = |n: u64, ms: u64| BatchTimes { n, took: Duration::from_millis(ms) };
        pace.begins(at(10, 10));
        pace.took(Duration::from_millis(5), at(20, 500));
        assert_eq!(pace.admission(), Admission::Suffers);
        pace.took(Duration::from_millis(5), at(20, 500));
        assert_eq!(pace.admission(), Admission::Suffers, "it is only quiet");
        tokio::time::advance(FORGOTTEN + Duration::from_millis(1)).await;
        pace.took(Duration::from_millis(5), at(20, 500));
        assert_eq!(pace.admission(), Admission::Unseen);
    }

    #[test]
    fn a_batch_that_fails_is_smaller_the_next_time() {
        let mut pace = PrunePace { rows_n: PRUNED_N_MAX, ..PrunePace::default() };
        pace.failed();
        assert_eq!(pace.rows_n(), PRUNED_N_MAX / 2);
        (0..9).for_each(|_| pace.failed());
        assert_eq!(pace.rows_n(), ROWS_N_MIN);
    }

    #[test]
    fn a_pause_is_short_where_nobody_notices_or_much_is_overdue() {
        let pause = |admission: Admission, overdue_ms| {
            admission.pause(Duration::from_millis(40), overdue_ms).as_millis()
        };
        let all = [Admission::Unseen, Admission::Fine, Admission::Suffers];
        assert_eq!(all.map(|one| pause(one, 0)), [40, 10, 40]);
        assert_eq!(all.map(|one| pause(one, OVERDUE_MS + 1)), [10, 10, 40]);
        assert_eq!(Admission::Fine.pause(Duration::from_secs(9), 0), PAUSE_MAX);
        assert_eq!(Admission::Fine.pause(Duration::ZERO, 0), PAUSE_MIN);
    }

    #[test]
    fn being_behind_is_logged_at_most_once_an_hour() {
        let mut pace = PrunePace::default();
        assert_eq!([pace.is_log_due(), pace.is_log_due()], [true, false]);
    }
}
