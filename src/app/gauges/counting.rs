//! Counts in the background what is only in the tables and in the system.
//!
//! A count reads a bounded number of rows, by indexes, and uses a hundredth of the time: the pause after it grows with
//! its duration, up to two minutes, and one slow count between two quick ones does not delay the next. A node without
//! work (`NodeLooks::touches_n`) counts once a minute, and every two minutes where it may sleep. While the
//! database is away, the counts keep their values and their time. The system is read every few seconds all the same.
//!
//! [`Counting`] is the task; [`Counts`] publishes what is open, and warns about events and messages for names that are
//! not configured; [`NodeActivity`] feeds `/v1/activity`; [`Rhythms`] is how often senders send; the rest is what the
//! operating system says of the process and the disk, mostly on Linux.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::time::Instant;
use tracing::warn;

use super::{flag, number, seconds, seconds_or_nan};
use hooklatch_contract::OperationState;
use hooklatch_core::config::{Config, IdleConfig};
use hooklatch_core::current::Current;
use hooklatch_core::disk::{DiskRoom, beside};
use hooklatch_core::stop::Stop;
use hooklatch_core::types::{Clock, EventState, MessageState, Name, UnixMs};
use hooklatch_operator::http::OpenFiles;
use hooklatch_outbox::NodeCalls;
use hooklatch_receive::CountedRequests;
use hooklatch_receive::admit::AdmitContext;
use hooklatch_store::{
    AHEAD_MS_MAX, ActivityCounts, EventCount, MessageCount, OpenCounts, Rhythm, Store, StoreError,
};

/// Pause between two reads of the system, and the shortest pause between two counts.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Counting takes one part in so many of the time, unless the pause is at its maximum.
const COUNT_PART: u32 = 100;
/// Longest pause after a count. A count that waited seconds for a lock must not leave all numbers old for a quarter of
/// an hour: the alert `counts-old` fires after five minutes.
const COUNT_PAUSE_MAX: Duration = Duration::from_mins(2);
/// Pause between two counts of stored unreadable requests, two updates of senders' rhythms, and two saves of the counts
/// of requests and attempts.
const SELDOM_EVERY: Duration = Duration::from_mins(1);

/// The background task that counts.
pub(crate) struct Counting {
    pub(crate) admission: Arc<AdmitContext>,
    pub(crate) config: Current<Config>,
    pub(crate) counts: Counts,
    pub(crate) rhythms: Arc<Rhythms>,
    pub(crate) requests: CountedRequests,
    pub(crate) activity: Arc<NodeActivity>,
    pub(crate) handle: PrometheusHandle,
}

impl Counting {
    /// Counts until the stop, and stores the rhythms of senders at the end.
    pub(crate) async fn run(&mut self, mut stop: Stop) {
        let (mut seldom, mut due): (Option<Instant>, _) = (None, Instant::now());
        let (mut took_before, mut saved) = (Duration::ZERO, Instant::now());
        let mut counted_touches_n = None;
        let mut newest = OpenCounts::default();
        let counted = metrics::gauge!("hooklatch_counted_timestamp_seconds");
        // What was never counted grows old as well.
        counted.set(seconds(self.admission.clock.now_ms()));
        while !stop.is_set() {
            self.handle.run_upkeep();
            self.system().await;
            let since = Instant::now();
            if since.duration_since(saved) >= SELDOM_EVERY {
                self.activity.save(&self.admission.store, self.admission.clock.now_ms()).await;
                saved = since;
            }
            let touches_n = Some(self.admission.store.node().touches_n());
            let is_quiet = touches_n == counted_touches_n;
            if since >= due && is_quiet && since < due + self.quiet_pause() {
                // Only ages change.
                self.counts.publish(&self.config.get(), &newest, self.admission.clock.now_ms());
            } else if since >= due {
                // Before the minute is over: the next count may be a pause later.
                let is_due_seldom =
                    seldom.is_none_or(|last: Instant| last.elapsed() + LOOK_EVERY * 2 >= SELDOM_EVERY);
                if is_due_seldom {
                    // Before numbers are published: where they are seen, the bound holds.
                    self.unreadable().await;
                }
                let found = self.count().await;
                let is_counted = found.is_some();
                counted_touches_n = touches_n.filter(|_| is_counted);
                newest = found.unwrap_or(newest);
                if is_due_seldom {
                    seldom = self.exchange().await.then_some(since);
                }
                if is_counted && seldom.is_some() {
                    counted.set(seconds(self.admission.clock.now_ms()));
                }
                let took = since.elapsed();
                due = Instant::now() + pause_after(took.min(took_before));
                took_before = took;
            }
            stop.pause(LOOK_EVERY).await;
        }
        self.exchange().await;
    }

    /// Further pause while this node has no work.
    fn quiet_pause(&self) -> Duration {
        match self.config.get().database.idle {
            IdleConfig::Poll => SELDOM_EVERY.saturating_sub(LOOK_EVERY * 2),
            IdleConfig::Sleep => COUNT_PAUSE_MAX.saturating_sub(LOOK_EVERY * 2),
        }
    }

    /// `None` when the count failed.
    async fn count(&mut self) -> Option<OpenCounts> {
        let found = self.admission.store.open_counts().await;
        let found = found.inspect_err(|error| warn!(%error, "could not count what is open")).ok()?;
        self.counts.publish(&self.config.get(), &found, self.admission.clock.now_ms());
        Some(found)
    }

    /// True when the rhythms of senders were written and read.
    async fn exchange(&self) -> bool {
        let exchanged = self.rhythms.exchange(&self.requests, &self.admission.store).await;
        if let Err(error) = &exchanged {
            warn!(%error, "could not write down how often senders send");
        }
        exchanged.is_ok()
    }

    async fn unreadable(&self) {
        match self.admission.store.unreadable_bytes().await {
            Ok(kept) => self.admission.unreadable.set(kept.into_iter()),
            Err(error) => warn!(%error, "could not count what is kept of unreadable events"),
        }
    }

    async fn system(&self) {
        let database = self.admission.store.file();
        let asked = tokio::task::spawn_blocking(move || publish_system(database.as_deref()));
        if let Err(error) = asked.await {
            warn!(%error, "could not ask the system for open files and disk");
        }
    }
}

/// Pause after a count that took so long.
fn pause_after(took: Duration) -> Duration {
    took.saturating_mul(COUNT_PART).min(COUNT_PAUSE_MAX)
}

/// Most names that are not configured, of providers and of destinations each, whose counts are published.
const STRAYS_N_MAX: usize = 50;

/// The names and states whose counts were published before, and the warnings that were given.
#[derive(Default)]
pub(crate) struct Counts {
    providers: PublishedNames,
    destinations: PublishedNames,
}

/// Names whose counts are published.
#[derive(Default)]
struct PublishedNames {
    configured: BTreeSet<String>,
    strays: BTreeSet<String>,
    /// Names with states that were published before: those that are gone now are at 0.
    states: BTreeSet<(String, &'static str)>,
    /// Names that were warned about.
    warned: BTreeSet<String>,
}

/// Rows of one name in one state.
struct OpenRows<'a> {
    name: &'a str,
    state: &'static str,
    rows_n: u64,
    oldest_ms: UnixMs,
    /// True when they wait for a handler or a worker.
    is_waiting: bool,
}

impl PublishedNames {
    fn is_configured(&self, name: &str) -> bool {
        self.configured.contains(name)
    }

    /// True for a name that is configured, and for the first few others.
    fn is_published(&mut self, name: &str) -> bool {
        if self.is_configured(name) || self.strays.contains(name) {
            return true;
        }
        self.strays.len() < STRAYS_N_MAX && self.strays.insert(name.to_owned())
    }

    /// Calls `set` for each name and state, with their number and the age of the oldest; and `warn_of` once for each
    /// name that is not configured: no handler or worker will ever take what waits for it.
    fn publish(
        &mut self,
        open: &[OpenRows<'_>],
        now_ms: UnixMs,
        set: impl Fn(String, &'static str, (f64, f64)),
        warn_of: impl Fn(&OpenRows<'_>),
    ) {
        for rows in open {
            if self.is_published(rows.name) {
                self.states.insert((rows.name.to_owned(), rows.state));
            }
            if rows.is_waiting
                && !self.is_configured(rows.name)
                && self.warned.len() < STRAYS_N_MAX
                && self.warned.insert(rows.name.to_owned())
            {
                warn_of(rows);
            }
        }
        for (name, state) in &self.states {
            let rows = open.iter().find(|rows| rows.name == name && rows.state == *state);
            set(name.clone(), state, gauges(rows.map(|rows| (rows.rows_n, rows.oldest_ms)), now_ms));
        }
    }
}

impl Counts {
    /// Publishes the counts of everything that is open.
    fn publish(&mut self, config: &Config, found: &OpenCounts, now_ms: UnixMs) {
        self.providers.configured = config.providers.keys().map(ToString::to_string).collect();
        self.destinations.configured = config.destinations.keys().map(ToString::to_string).collect();
        self.events(&found.events, now_ms);
        self.messages(&found.messages, now_ms);
        for name in &self.destinations.configured {
            let lanes_n = of(&found.blocked_lanes, name).unwrap_or_default();
            metrics::gauge!("hooklatch_lanes_blocked", "destination" => name.clone()).set(number(lanes_n));
            // NaN where no message is open.
            let left_ms = of(&found.keys_until_ms, name).map(|until_ms| until_ms.saturating_sub(now_ms));
            metrics::gauge!("hooklatch_key_left_seconds", "destination" => name.clone())
                .set(seconds_or_nan(left_ms));
            let due_ms = of(&found.pauses_due_ms, name);
            metrics::gauge!("hooklatch_destination_paused", "destination" => name.clone())
                .set(flag(due_ms.is_some()));
            metrics::gauge!("hooklatch_pause_due_timestamp_seconds", "destination" => name.clone())
                .set(seconds_or_nan(due_ms));
        }
        for name in &self.providers.configured {
            let due_ms = of(&found.provider_pauses_due_ms, name);
            metrics::gauge!("hooklatch_provider_paused", "provider" => name.clone())
                .set(flag(due_ms.is_some()));
            metrics::gauge!("hooklatch_provider_pause_due_timestamp_seconds", "provider" => name.clone())
                .set(seconds_or_nan(due_ms));
        }
        for state in [OperationState::Waiting, OperationState::Stopped].map(OperationState::as_str) {
            let operations_n = of(&found.operations, state).unwrap_or_default();
            metrics::gauge!("hooklatch_operations", "state" => state).set(number(operations_n));
        }
    }

    fn messages(&mut self, counts: &[MessageCount], now_ms: UnixMs) {
        let open = counts.iter().map(|one| OpenRows {
            name: &one.destination,
            state: one.state.as_str(),
            rows_n: one.messages_n,
            oldest_ms: one.oldest_visible_at_ms,
            is_waiting: matches!(
                one.state,
                MessageState::Ready | MessageState::Waiting | MessageState::Leased
            ),
        });
        let open: Vec<OpenRows<'_>> = open.collect();
        let set = |name: String, state, (messages_n, age_s)| {
            metrics::gauge!("hooklatch_outbox_messages", "destination" => name.clone(), "state" => state)
                .set(messages_n);
            metrics::gauge!("hooklatch_outbox_oldest_due_seconds", "destination" => name, "state" => state)
                .set(age_s);
        };
        self.destinations.publish(&open, now_ms, set, |rows| {
            warn!(
                destination.name = rows.name,
                messages_n = rows.rows_n,
                "messages wait for a destination that is not configured: add it again, or discard them"
            );
        });
        let strays = open.iter().filter(|rows| !self.destinations.is_configured(rows.name));
        metrics::gauge!("hooklatch_outbox_stray_messages").set(number(strays.map(|rows| rows.rows_n).sum()));
    }

    fn events(&mut self, counts: &[EventCount], now_ms: UnixMs) {
        let open = counts.iter().map(|one| OpenRows {
            name: &one.provider,
            state: one.state.as_str(),
            rows_n: one.events_n,
            oldest_ms: one.oldest_received_at_ms,
            is_waiting: one.state == EventState::Retry,
        });
        let set = |name: String, state, (events_n, age_s)| {
            metrics::gauge!("hooklatch_events", "provider" => name.clone(), "state" => state).set(events_n);
            metrics::gauge!("hooklatch_events_oldest_seconds", "provider" => name, "state" => state)
                .set(age_s);
        };
        self.providers.publish(&open.collect::<Vec<_>>(), now_ms, set, |rows| {
            warn!(
                provider.name = rows.name,
                events_n = rows.rows_n,
                "events wait to be dispatched again, but their provider is not configured: add it again"
            );
        });
    }
}

/// The value of this name in a list.
fn of<T: Copy>(list: &[(String, T)], name: &str) -> Option<T> {
    list.iter().find(|(one, _)| one == name).map(|(_, value)| *value)
}

/// The number, and the age of the oldest in seconds.
fn gauges(found: Option<(u64, UnixMs)>, now_ms: UnixMs) -> (f64, f64) {
    found.map_or((0.0, 0.0), |(n, oldest_ms)| (number(n), seconds(now_ms.saturating_sub(oldest_ms).max(0))))
}

/// The counts of requests and attempts of this node.
pub(crate) struct NodeActivity {
    requests: CountedRequests,
    calls: NodeCalls,
    /// The totals that were added to the table.
    saved: Mutex<ActivityCounts>,
}

impl NodeActivity {
    pub(crate) fn new(requests: CountedRequests, calls: NodeCalls) -> Self {
        Self { requests, calls, saved: Mutex::default() }
    }

    fn totals(&self) -> ActivityCounts {
        let mut totals = self.requests.totals();
        totals.extend(self.calls.totals());
        totals
    }

    /// What is not in the table yet.
    pub(crate) fn unsaved(&self) -> ActivityCounts {
        self.unsaved_of(self.totals())
    }

    fn unsaved_of(&self, mut totals: ActivityCounts) -> ActivityCounts {
        let saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        totals.retain(|key, total| {
            let saved_n = saved.get(key).copied().unwrap_or_default();
            *total = total.saturating_sub(saved_n);
            *total > 0
        });
        totals
    }

    /// Forgets what was added for providers and destinations that are gone: when one comes back, it counts from 0.
    pub(crate) fn forget_removed(&self) {
        let totals = self.totals();
        self.saved.lock().unwrap_or_else(PoisonError::into_inner).retain(|key, _| totals.contains_key(key));
    }

    /// Adds to the table what is not in it yet. What failed is added the next time.
    pub(crate) async fn save(&self, store: &Store, now_ms: UnixMs) {
        let totals = self.totals();
        match store.activity_add(self.unsaved_of(totals.clone()), now_ms).await {
            Ok(()) => *self.saved.lock().unwrap_or_else(PoisonError::into_inner) = totals,
            Err(error) => warn!(%error, "could not save the counts of requests and attempts"),
        }
    }
}

/// The rhythms of the configured senders, as of the last read of the tables.
pub(crate) struct Rhythms {
    config: Current<Config>,
    clock: Clock,
    known: Mutex<BTreeMap<String, Rhythm>>,
    /// Providers whose numbers were published.
    published: Mutex<BTreeSet<Name>>,
    /// The last values that this node wrote, so that a silent sender costs no write.
    written: Mutex<BTreeMap<String, UnixMs>>,
}

impl Rhythms {
    /// Starts without a rhythm of any provider.
    pub(crate) fn new(config: Current<Config>, clock: Clock) -> Self {
        let (published, known) = (Mutex::default(), Mutex::default());
        Self { config, clock, published, known, written: Mutex::default() }
    }

    /// Adds the measurements of this node to the shared table, and reads the result.
    pub(super) async fn exchange(&self, requests: &CountedRequests, store: &Store) -> Result<(), StoreError> {
        let seen: BTreeMap<String, UnixMs> = {
            let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            let config = self.config.get();
            let last =
                config.providers.keys().filter_map(|name| Some((name, requests.last_accepted_ms(name)?)));
            let is_new = |name: &Name, at_ms: UnixMs| written.get(name.as_str()) != Some(&at_ms);
            last.filter(|(name, at_ms)| is_new(name, *at_ms))
                .map(|(name, at_ms)| (name.to_string(), at_ms))
                .collect()
        };
        let known = store.rhythms_add(&seen, self.clock.now_ms()).await?;
        self.written.lock().unwrap_or_else(PoisonError::into_inner).extend(seen);
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(())
    }

    /// The current time of the app's clock.
    pub(crate) fn now_ms(&self) -> UnixMs {
        self.clock.now_ms()
    }

    /// Publishes the newest accepted event of each provider, by whichever node, and its usual gap. A time
    /// in the future, from a clock that was ahead, is left out: until it has passed, a silent sender would look well.
    pub(super) fn publish(&self, requests: &CountedRequests) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let latest_ms = self.clock.now_ms().saturating_add(AHEAD_MS_MAX);
        let config = self.config.get();
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        published.extend(config.providers.keys().cloned());
        for name in &*published {
            // One that is not configured any more is expected to be silent.
            let rhythm = known.get(name.as_str()).filter(|_| config.providers.contains_key(name));
            let (here_ms, there_ms) =
                (requests.last_accepted_ms(name), rhythm.map(|known| known.last_accepted_at_ms));
            let plausible_ms = [here_ms, there_ms].into_iter().flatten().filter(|ms| *ms <= latest_ms);
            let last_s = seconds_or_nan(plausible_ms.max());
            let gap_s = rhythm.and_then(Rhythm::usual_gap_s).unwrap_or(f64::NAN);
            metrics::gauge!("hooklatch_last_accepted_timestamp_seconds", "provider" => name.to_string())
                .set(last_s);
            metrics::gauge!("hooklatch_usual_gap_seconds", "provider" => name.to_string()).set(gap_s);
        }
    }
}

/// Ticks of a second in /proc: `USER_HZ`, which is 100 wherever Rust has a Linux target.
const TICKS_PER_S: u64 = 100;

/// Publishes what the process has of files, memory and processor, and how large the database's files are. Reads
/// folders: call it where blocking delays no request.
fn publish_system(database: Option<&Path>) {
    let OpenFiles { n, n_max } = OpenFiles::of_process();
    if let Some(n) = n {
        metrics::gauge!("process_open_fds").set(number(n));
    }
    if let Some(n_max) = n_max {
        metrics::gauge!("process_max_fds").set(number(n_max));
    }
    if let Some(kib) = resident_kib() {
        metrics::gauge!("process_resident_memory_bytes").set(number(kib * 1_024));
    }
    if let Some(ticks_n) = cpu_ticks_n() {
        metrics::counter!("process_cpu_seconds_total").absolute(ticks_n / TICKS_PER_S);
    }
    let Some(file) = database else { return };
    let bytes = ["", "-wal", "-shm"].map(|ending| bytes_of(&beside(file, ending))).into_iter().sum::<u64>();
    metrics::gauge!("hooklatch_database_bytes").set(number(bytes));
    if let Some(room) = DiskRoom::of(file) {
        metrics::gauge!("hooklatch_database_disk_free_bytes").set(number(room.free_bytes));
    }
}

/// Memory of the process that is not swapped out, `VmRSS` of `proc_pid_status(5)`.
fn resident_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// Time of the processor that the process took, user and system: fields 14 and 15 of `proc_pid_stat(5)`, behind its
/// name.
fn cpu_ticks_n() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

fn bytes_of(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |found| found.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_takes_a_hundredth_of_the_time_and_begins_again_within_two_minutes() {
        for (took_ms, pause_ms) in
            [(0, 0), (20, 2_000), (1_000, 100_000), (12_000, 120_000), (u64::MAX, 120_000)]
        {
            assert_eq!(pause_after(Duration::from_millis(took_ms)), Duration::from_millis(pause_ms));
        }
    }

    #[test]
    fn unconfigured_names_are_published_up_to_a_bound() {
        let mut names = PublishedNames { configured: ["billing".to_owned()].into(), ..Default::default() };
        let published_n = (0..1_000).filter(|n| names.is_published(&format!("removed_{n}"))).count();
        assert_eq!(published_n, STRAYS_N_MAX);
        assert!(names.is_published("billing") && names.is_published("removed_0"));
        assert!(!names.is_published("removed_999") && !names.is_configured("removed_0"));
    }

    #[test]
    fn an_age_is_never_negative_whatever_the_clock_says() {
        assert_eq!(gauges(Some((3, 10_000)), 4_000), (3.0, 0.0));
        assert_eq!(gauges(Some((3, 1_000)), 4_000), (3.0, 3.0));
        assert_eq!(gauges(None, 4_000), (0.0, 0.0));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn linux_says_what_a_process_takes() {
        let kib = resident_kib().expect("a size");
        assert!((1_000..100_000_000).contains(&kib), "{kib}");
        let before_n = cpu_ticks_n().expect("a time");
        while cpu_ticks_n().expect("a time") < before_n + 2 {
            std::hint::black_box((0..100_000_u64).sum::<u64>());
        }
    }

    #[test]
    fn a_file_that_is_not_there_has_no_size() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("x.db");
        assert_eq!(bytes_of(&file), 0);
        std::fs::write(&file, [0; 1_000]).expect("written");
        assert_eq!(bytes_of(&file), 1_000);
    }
}
