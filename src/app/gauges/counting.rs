//! Counts in the background what is only in the tables and in the system.
//!
//! A count reads a bounded number of rows, by indexes, and uses a hundredth of the time: the pause after it grows with
//! its duration, up to two minutes, and one slow count between two quick ones does not delay the next. While the
//! database is away, the counts keep their values and their time. The system is read every few seconds all the same.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::time::Instant;
use tracing::warn;

use super::activity::NodeActivity;
use super::counts::Counts;
use super::numbers::seconds;
use super::rhythms::Rhythms;
use super::system;
use hooklatch_core::config::Config;
use hooklatch_core::current::Current;
use hooklatch_core::stop::Stop;
use hooklatch_receive::CountedRequests;
use hooklatch_receive::admit::AdmitContext;

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
    /// The database's file, where it is one.
    pub(crate) database: Option<PathBuf>,
}

impl Counting {
    /// Counts until the stop, and stores the rhythms of senders at the end.
    pub(crate) async fn run(&mut self, mut stop: Stop) {
        let (mut seldom, mut due): (Option<Instant>, _) = (None, Instant::now());
        let (mut took_before, mut saved) = (Duration::ZERO, Instant::now());
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
            if since >= due {
                let is_due_seldom = seldom.is_none_or(|last| last.elapsed() >= SELDOM_EVERY);
                if is_due_seldom {
                    // Before numbers are published: where they are seen, the bound holds.
                    self.unreadable().await;
                }
                let is_counted = self.count().await;
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

    /// True when the count succeeded.
    async fn count(&mut self) -> bool {
        let (store, clock) = (&self.admission.store, &self.admission.clock);
        let found = store.open_counts().await;
        match &found {
            Ok(found) => self.counts.publish(&self.config.get(), found, clock.now_ms()),
            Err(error) => warn!(%error, "could not count what is open"),
        }
        found.is_ok()
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
        let database = self.database.clone();
        let asked = tokio::task::spawn_blocking(move || system::publish(database.as_deref()));
        if let Err(error) = asked.await {
            warn!(%error, "could not ask the system for open files and disk");
        }
    }
}

/// Pause after a count that took so long.
fn pause_after(took: Duration) -> Duration {
    took.saturating_mul(COUNT_PART).min(COUNT_PAUSE_MAX)
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
}
