//! The health of the app, seen from outside: readiness, and for `/metrics` what only the tables can say.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::warn;

use super::counts::Counts;
use super::parts::Parts;
use crate::admit::AdmitContext;
use crate::http::operator::Readiness;
use crate::stop::Stop;
use crate::store::SchemaState;

/// Pause between two questions to the database whether it is there.
const HEALTH_EVERY: Duration = Duration::from_secs(1);
/// Shortest pause between two counts of the tables for `/metrics`.
const COUNT_EVERY: Duration = Duration::from_secs(5);
/// Counting takes up at most this part of the time, however much there is to count.
const COUNT_PART: u32 = 20;
/// After how many counts it is asked again how much is kept of what could not be read.
const UNREADABLE_EVERY_N: u64 = 12;

/// The process's one recorder of metrics. A recorder that the program installed before keeps what we measure, and
/// `/metrics` stays empty.
pub(super) fn metrics_handle() -> PrometheusHandle {
    static HANDLE: std::sync::OnceLock<PrometheusHandle> = std::sync::OnceLock::new();
    HANDLE.get_or_init(install_metrics).clone()
}

fn install_metrics() -> PrometheusHandle {
    let seconds = [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
    let events = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];
    let builder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &seconds)
        .and_then(|builder| builder.set_buckets_for_metric(Matcher::Suffix("_events".to_owned()), &events))
        .unwrap_or_default();
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    if metrics::set_global_recorder(recorder).is_err() {
        warn!("another recorder of metrics was installed before ours; /metrics stays empty");
    }
    handle
}

/// Runs `task` and notes when it ends, in whatever way.
pub(super) async fn noted(task: impl Future<Output = ()>, is_running: Arc<AtomicBool>) {
    struct Note(Arc<AtomicBool>);
    impl Drop for Note {
        fn drop(&mut self) {
            self.0.store(false, Ordering::Relaxed);
        }
    }
    let _note = Note(is_running);
    task.await;
}

/// The parts that readiness asks.
pub(super) struct ReadinessSources {
    pub(super) is_outbox_running: Arc<AtomicBool>,
    pub(super) parts: Parts,
}

/// Keeps `readiness` up to date until the stop.
pub(super) async fn watch(
    admission: Arc<AdmitContext>,
    readiness: watch::Sender<Readiness>,
    watched: ReadinessSources,
    mut stop: Stop,
) {
    let store = &admission.store;
    let mut is_schema_current = false;
    while !stop.is_set() {
        let is_database_there = store.probe().await.is_ok();
        if is_database_there && !is_schema_current {
            is_schema_current = store.schema_state().await.is_ok_and(SchemaState::is_usable);
        }
        readiness.send_replace(Readiness {
            is_database_there,
            is_schema_current,
            is_outbox_running: watched.is_outbox_running.load(Ordering::Relaxed),
            are_parts_running: watched.parts.are_running() && !admission.under_way.is_stuck(),
            is_accepting: true,
        });
        stop.pause(HEALTH_EVERY).await;
    }
    readiness.send_modify(|state| state.is_accepting = false);
}

/// Counts what stands where, for `/metrics`, and folds histograms so that they stay small.
pub(super) async fn count_tables(
    admission: &AdmitContext,
    counts: &mut Counts,
    metrics: &PrometheusHandle,
    mut stop: Stop,
) {
    let (store, clock) = (&admission.store, &admission.clock);
    let mut counted_n: u64 = 0;
    while !stop.is_set() {
        let since = Instant::now();
        match store.message_counts().await {
            Ok(found) => counts.messages(&found, clock.now_ms()),
            Err(error) => warn!(%error, "could not count messages"),
        }
        match store.event_counts_open().await {
            Ok(found) => counts.events(&found, clock.now_ms()),
            Err(error) => warn!(%error, "could not count events"),
        }
        if counted_n.is_multiple_of(UNREADABLE_EVERY_N) {
            match store.unreadable_bytes().await {
                Ok(kept) => admission.unreadable.set(kept.into_iter()),
                Err(error) => warn!(%error, "could not count what is kept of unreadable events"),
            }
        }
        counted_n += 1;
        let pause = COUNT_EVERY.max(since.elapsed().saturating_mul(COUNT_PART));
        metrics.run_upkeep();
        stop.pause(pause).await;
    }
}
