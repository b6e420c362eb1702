//! The parts of admission, and the parts that run beside it.

use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::{Notify, RwLock, Semaphore};
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::builder::App;
use super::gauges::{Counting, Counts, NodeActivity, Rhythms};
use super::parts::Parts;
use super::tasks::spawn;
use hooklatch_core::config::Config;
use hooklatch_core::current::Current;
use hooklatch_core::logging;
use hooklatch_core::stop::Stop;
use hooklatch_outbox::Outbox;
use hooklatch_receive::admit::{self, AdmitContext, Planner, Providers, StartCall, UnderWay, Unreadable};
use hooklatch_receive::operations::OperationRunner;
use hooklatch_receive::retention::{Pruner, delete_wholes};
use hooklatch_receive::{CountedRequests, RequestNotes};
use hooklatch_store::{LostTime, Store};

/// What the parts besides admission and outbox share.
pub(super) struct SharedParts<'a> {
    pub(super) admission: &'a Arc<AdmitContext>,
    pub(super) providers: &'a Providers,
    pub(super) config: &'a Current<Config>,
    pub(super) notes: &'a RequestNotes,
    /// The counters of this node, and the handle that renders them.
    pub(super) counting: (&'a Arc<Rhythms>, CountedRequests, PrometheusHandle),
    pub(super) activity: &'a Arc<NodeActivity>,
}

impl App {
    /// Builds the context that the parts of admission share.
    pub(super) fn admission(
        &self,
        store: &Store,
        (installation_id, lost): (&Uuid, Vec<LostTime>),
        outbox: &Outbox,
        lines: &Arc<logging::Lines>,
    ) -> AdmitContext {
        let (waker, handover) = (outbox.waker(), outbox.handover());
        AdmitContext {
            store: store.clone(),
            clock: self.clock.clone(),
            installation_id: *installation_id,
            planner: Planner::new(self.clock.clone(), *installation_id).after(lost),
            unreadable: Unreadable::new(self.config.server.unreadable_bytes_max.into()),
            lines: Arc::clone(lines),
            handler_timeout: Duration::from_millis(self.config.server.handler_timeout_ms),
            turns: Arc::new(Semaphore::new(store.handlers_n())),
            slots: Box::new(move |destination| {
                let (lease, start) = handover.take(destination)?;
                Some((lease, Box::new(start) as StartCall))
            }),
            wake_outbox: Box::new(move || waker.wake()),
            under_way: UnderWay::default(),
            batch_events: metrics::histogram!("hooklatch_batch_events"),
            traces: outbox.traces(),
            wake_retries: Notify::new(),
            queue_gate: RwLock::default(),
            wake_pauses: Notify::new(),
        }
    }

    /// Spawns the long-running parts besides admission and outbox.
    pub(super) fn spawn_shared_tasks(
        &self,
        parts: &Parts,
        shared: SharedParts<'_>,
        stopping: &Stop,
    ) -> Vec<JoinHandle<()>> {
        let SharedParts { admission, providers, config, notes, counting, activity } = shared;
        let (rhythms, requests, handle) = counting;
        let mut counting = Counting {
            admission: Arc::clone(admission),
            config: config.clone(),
            counts: Counts::default(),
            rhythms: Arc::clone(rhythms),
            requests,
            activity: Arc::clone(activity),
            handle,
            database: admission.store.file(),
        };
        let poll = Duration::from_millis(self.config.outbox.poll_ms);
        let (shared, paused, stop) = (Arc::clone(admission), providers.clone(), stopping.clone());
        let pauses = async move || {
            admit::run_pauses(Arc::clone(&shared), paused.clone(), stop.clone()).await;
        };
        let (shared, tried, stop) = (Arc::clone(admission), providers.clone(), stopping.clone());
        let retries = async move || {
            admit::run_retries(Arc::clone(&shared), tried.clone(), poll, stop.clone()).await;
        };
        let stop = stopping.clone();
        let counting = async move || counting.run(stop.clone()).await;
        let (store, notes, stop) = (admission.store.clone(), RequestNotes::clone(notes), stopping.clone());
        let noting = async move || notes.run(&store, stop.clone()).await;
        let mut tasks = vec![
            spawn(parts.clone().keep("retry", retries)),
            spawn(parts.clone().keep("pauses", pauses)),
            spawn(parts.clone().keep("counts", counting)),
            spawn(parts.clone().keep("notes", noting)),
        ];
        let woken = Arc::clone(admission);
        let wake = move || {
            (woken.wake_outbox)();
            woken.wake_retries.notify_one();
        };
        let mut runner = OperationRunner::new(admission.store.clone(), self.clock.clone(), Box::new(wake));
        let stop = stopping.clone();
        let operating = async move || runner.run(stop.clone()).await;
        tasks.push(spawn(parts.clone().keep("operations", operating)));
        if self.config.providers.values().any(|provider| !provider.redact.is_empty()) {
            let (store, stop) = (admission.store.clone(), stopping.clone());
            let redacting = async move || delete_wholes(&store, stop.clone()).await;
            tasks.push(spawn(parts.clone().keep("redaction", redacting)));
        }
        if self.config.retention.every_ms > 0 {
            let (store, clock) = (admission.store.clone(), self.clock.clone());
            let mut pruner = Pruner::new(store, clock, config.clone(), false);
            let stop = stopping.clone();
            let pruning = async move || pruner.run(stop.clone()).await;
            tasks.push(spawn(parts.clone().keep("retention", pruning)));
        }
        tasks
    }
}
