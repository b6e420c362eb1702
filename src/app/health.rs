//! The readiness of the app, seen from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use super::parts::Parts;
use hooklatch_core::stop::Stop;
use hooklatch_operator::http::operator::Readiness;
use hooklatch_receive::admit::AdmitContext;
use hooklatch_store::SchemaState;

/// Pause between two probes of the database.
const HEALTH_EVERY: Duration = Duration::from_secs(1);

/// Runs `task` and records its end, also by a panic.
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

/// The parts that readiness checks.
#[derive(Clone)]
pub(super) struct ReadinessSources {
    pub(super) is_outbox_running: Arc<AtomicBool>,
    pub(super) parts: Parts,
    pub(super) admission: Arc<AdmitContext>,
}

impl ReadinessSources {
    /// True while no part of this process is down or hangs; the database does not count.
    pub(super) fn are_running(&self) -> bool {
        self.is_outbox_running.load(Ordering::Relaxed) && self.are_parts_running()
    }

    fn are_parts_running(&self) -> bool {
        self.parts.are_running() && !self.admission.under_way.is_stuck()
    }
}

/// Keeps `readiness` up to date until the stop.
pub(super) async fn watch(readiness: watch::Sender<Readiness>, watched: ReadinessSources, mut stop: Stop) {
    let store = &watched.admission.store;
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
            are_parts_running: watched.are_parts_running(),
            is_accepting: !stop.leaving().has_begun(),
        });
        stop.pause(HEALTH_EVERY).await;
    }
    readiness.send_modify(|state| state.is_accepting = false);
}
