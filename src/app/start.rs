//! The start: database, providers, admission, outbox, what runs beside them, listeners.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::{Notify, RwLock, Semaphore, watch};
use tokio::task::JoinHandle;
use tracing::warn;
use uuid::Uuid;

use super::App;
use super::api::{LookedAt, be_seen};
use super::database::open_store;
use super::entries::Entries;
use super::gauges::{self, Counting, Counts, LiveGauges, NodeActivity, Rhythms};
use super::listeners::opened;
use super::reload::Reload;
use super::running::{Background, Exporting, Running};
use super::tasks::{Parts, ReadinessSources, Witnessing, spawn};
use super::tasks::{noted, watch_readiness};
use hooklatch_core::config::Config;
use hooklatch_core::current::Current;
use hooklatch_core::logging;
use hooklatch_core::stop::Stop;
use hooklatch_operator::http::operator::{OperatorState, Readiness};
use hooklatch_operator::service::Sockets;
use hooklatch_outbox::traces::{TraceOptions, Traces};
use hooklatch_outbox::{Handover, NodeCalls, Outbox};
use hooklatch_receive::admit::{
    self, AdmitContext, AdmitTasks, Admitter, Planner, Providers, StartCall, TakeSlot, UnderWay, Unreadable,
};
use hooklatch_receive::operations::OperationRunner;
use hooklatch_receive::retention::{Pruner, delete_wholes};
use hooklatch_receive::{CountedRequests, Receiver, RequestNotes};
use hooklatch_store::{InitialLease, LostTime, Store};

/// What every part of the program needs.
struct Startup {
    metrics: PrometheusHandle,
    entries: Entries,
    store: Store,
    installation_id: Uuid,
    /// The time spans that were lost by restores.
    lost: Vec<LostTime>,
}

/// The parts that run before the listeners accept.
struct Core {
    background: Background,
    admission: Arc<AdmitContext>,
    receiver: Receiver,
    operator: OperatorState,
    calls: NodeCalls,
    stopping: Stop,
    parts: Parts,
    readiness: watch::Receiver<Readiness>,
    watched: ReadinessSources,
    config: Current<Config>,
    providers: Providers,
}

impl App {
    /// Starts every part and returns the handle that stops them.
    pub async fn start(self) -> anyhow::Result<Running> {
        self.start_on(Sockets::default()).await
    }

    /// Starts as [`App::start`] does, on the listeners that are open already.
    pub(super) async fn start_on(self, sockets: Sockets) -> anyhow::Result<Running> {
        let startup = self.startup().await?;
        let listener = opened(sockets.server, self.config.server.listen)?;
        let admin_listener = opened(sockets.admin, self.config.admin.listen)?;
        let (receiver_addr, admin_addr) = (listener.address()?, admin_listener.address()?);
        let entries = Arc::clone(&startup.entries);
        let mut core = self.core(startup)?;
        let gate = self.token_gate(&core.admission.store);
        let looked_at = LookedAt {
            calls: core.calls,
            requests: core.receiver.counted(),
            readiness: core.operator.readiness.clone(),
            activity: Arc::clone(&core.background.activity),
            admitter: core.background.admitter.clone(),
        };
        let operator = Arc::new(core.operator);
        let api = self.api(&core.admission, &entries, looked_at.clone(), Arc::clone(&gate));
        let operator_routes = Current::new(self.operator_routes(&operator, api)?);
        let id = core.admission.installation_id;
        let receiver_routes = Current::new(self.receiver_routes(core.receiver.clone(), &id));
        let (stopping, tokens) = (core.stopping.clone(), Arc::clone(&gate));
        core.background
            .workers
            .push(spawn(core.parts.keep("tokens", async move || tokens.run(stopping.clone()).await)));
        core.background.listeners = vec![
            self.serve_receiver(listener, receiver_routes.clone(), core.stopping.clone())?,
            self.serve_operator(admin_listener, operator_routes.clone(), core.stopping)?,
        ];
        let (readiness, watched) = (core.readiness, core.watched);
        let reload = Reload {
            app: self,
            config: core.config,
            providers: core.providers,
            receiver: core.receiver,
            looked_at,
            admission: core.admission,
            activity: Arc::clone(&core.background.activity),
            gate,
            operator,
            receiver_routes,
            operator_routes,
        };
        let (background, reload) = (core.background, Some(Box::new(reload)));
        Ok(Running { receiver_addr, admin_addr, readiness, watched, background, reload })
    }

    /// The receiver as a router for your own server, and the parts behind it, which run already. For axum 0.8, behind
    /// the feature `router`.
    ///
    /// The router answers `/webhooks/NAME`; mount it at the root, where `server.public_url` leads, without layers that
    /// change method, path, headers or body: signatures cover them. Your server must bound what [`App::run`] bounds by
    /// itself: open connections, in all and of one peer, header size and time, slow bodies and slow readers, the life
    /// of a connection. Size, time and memory of bodies are bounded here. There is no operator side: no API, no
    /// `/metrics`, no `/readyz`; the commands that ask a running server (`events`, `messages`, `explain`, …) have
    /// no server to query.
    ///
    /// To stop: stop your server, drop the router, then [`Background::stop`].
    #[cfg(feature = "router")]
    pub async fn router(self) -> anyhow::Result<(Router, Background)> {
        self.mounted().await
    }

    /// Does the same as [`App::router`], for us and for tests.
    #[doc(hidden)]
    pub async fn mounted(self) -> anyhow::Result<(Router, Background)> {
        let startup = self.startup().await?;
        let core = self.core(startup)?;
        // What is latched must also be sent: nothing stops while the router lives, also when the other half is dropped.
        let keeps_running = axum::Extension(core.background.stop.clone());
        let router = hooklatch_operator::http::receiver::router(
            self.receiver_state(core.receiver, &core.admission.installation_id),
        )
        .layer(keeps_running);
        Ok((router, core.background))
    }

    /// Checks the providers and opens the database.
    async fn startup(&self) -> anyhow::Result<Startup> {
        // First, because the parts register their metrics when they are created.
        let metrics = gauges::metrics_handle();
        let entries = self.entries()?;
        gauges::publish_info(&self.config, &entries);
        for warning in &self.warnings {
            warn!("{warning}");
        }
        let store = open_store(&self.config, &self.clock, &self.migrations).await?;
        let installation_id =
            store.installation_id().await.context("could not read the installation's id")?;
        let lost = store.lost_times().await.context("could not read which restores there were")?;
        // Before anything is admitted: a pause outlives a restart.
        let paused = admit::load_pauses(&store, &entries, (self.clock.steady_ms(), &RwLock::default())).await;
        paused.context("could not read which providers are paused")?;
        let now_ms = self.clock.now_ms();
        let keys = store.fetched_keys(now_ms).await.context("could not read the stored keys of senders")?;
        for (name, entry) in &*entries {
            if let Some(fetcher) = &entry.fetcher {
                fetcher.restore(name, &keys);
                fetcher.share(name, &store);
            }
        }
        Ok(Startup { metrics, entries, store, installation_id, lost })
    }

    /// Starts admission, the outbox and what runs beside them.
    fn core(&self, startup: Startup) -> anyhow::Result<Core> {
        let Startup { metrics, entries, store, installation_id, lost } = startup;
        let (stop, stopping) = Stop::channel();
        let parts = Parts::default();
        let (outbox, exporting) = self.outbox(&store, &installation_id, &parts)?;
        let lines = Arc::new(logging::Lines::default());
        let admission = Arc::new(self.admission(&store, (&installation_id, lost), &outbox, &lines));
        let (admitter, tasks) = self.admitter(&admission, entries.len());
        let (config, providers) = (Current::new(self.config.clone()), Current::new(Arc::clone(&entries)));
        let notes = RequestNotes::new(Arc::clone(&entries), &installation_id, lines);
        let calls = outbox.calls();
        let (watched, ready, mut workers) = run_outbox(outbox, &parts, &admission, &stopping);
        workers.push(self.seen(&parts, &store, calls.node(), &stopping));
        let events_n_max = self.config.server.events_n_max as usize;
        let receiver = Receiver::new(&entries, admitter.clone(), notes.clone(), store.clone(), events_n_max)
            .traced(admission.traces.clone());
        let rhythms = Arc::new(Rhythms::new(config.clone(), self.clock.clone()));
        let activity = Arc::new(NodeActivity::new(receiver.counted(), calls.clone()));
        let more = SharedParts {
            admission: &admission,
            providers: &providers,
            config: &config,
            notes: &notes,
            counting: (&rhythms, receiver.counted(), metrics.clone()),
            activity: &activity,
        };
        workers.extend(self.spawn_shared_tasks(&parts, more, &stopping));
        let background = Background {
            stop,
            listeners: Vec::new(),
            admitter,
            admission: admitting(&parts, tasks),
            workers,
            activity,
            exporting,
            witnessing: Witnessing::start(&parts, &store, &self.clock),
            store,
            clock: self.clock.clone(),
            stop_timeout: Duration::from_millis(self.config.outbox.stop_timeout_ms),
        };
        let live = LiveGauges {
            handle: metrics,
            readiness: ready.clone(),
            providers: providers.clone(),
            requests: receiver.counted(),
            rhythms,
            store: admission.store.clone(),
            memory: self.memory.clone(),
        };
        let (readiness, leaving) = (ready.clone(), stopping.leaving().clone());
        let operator = OperatorState { readiness: ready, metrics: Box::new(move || live.text()), leaving };
        Ok(Core {
            background,
            admission,
            receiver,
            operator,
            calls,
            stopping,
            parts,
            readiness,
            watched,
            config,
            providers,
        })
    }

    /// Spawns the task that makes this node visible to other nodes and the doctor.
    fn seen(&self, parts: &Parts, store: &Store, node: &str, stop: &Stop) -> JoinHandle<()> {
        let (store, clock, node, stop) = (store.clone(), self.clock.clone(), node.to_owned(), stop.clone());
        spawn(parts.clone().keep("nodes", async move || be_seen(&store, &clock, &node, stop.clone()).await))
    }

    /// The handle of admission, and its tasks.
    fn admitter(&self, admission: &Arc<AdmitContext>, providers_n: usize) -> (Admitter, AdmitTasks) {
        let server = &self.config.server;
        let answer_timeout = Duration::from_millis(server.answer_timeout_ms);
        admit::admitter(Arc::clone(admission), server.queue_n_max as usize, answer_timeout, providers_n)
    }

    /// The outbox, which publishes its attempts as configured, and the task that this needs.
    fn outbox(
        &self,
        store: &Store,
        installation_id: &Uuid,
        parts: &Parts,
    ) -> anyhow::Result<(Outbox, Option<Exporting>)> {
        let (config, destinations) = (self.config.outbox.clone(), self.config.destinations.clone());
        let outbox = Outbox::new(store.clone(), self.clock.clone(), config, destinations, node_name())
            .context("could not set up the destinations")?;
        let (config, clock, calls) = (&self.config.tracing, &self.clock, outbox.calls());
        let options = TraceOptions { config, installation_id, node: calls.node(), clock };
        let (traces, exporter) = Traces::new(&options).map_err(anyhow::Error::msg)?;
        outbox.trace(traces);
        Ok((outbox, exporter.map(|exporter| Exporting::start(parts, exporter))))
    }
}

/// Runs the outbox, and watches what this node needs to take traffic.
fn run_outbox(
    outbox: Outbox,
    parts: &Parts,
    admission: &Arc<AdmitContext>,
    stopping: &Stop,
) -> (ReadinessSources, watch::Receiver<Readiness>, Vec<JoinHandle<()>>) {
    let (readiness, ready) = watch::channel(Readiness::default());
    let is_outbox_running = outbox.is_well();
    let watched = ReadinessSources {
        is_outbox_running: Arc::clone(&is_outbox_running),
        parts: parts.clone(),
        admission: Arc::clone(admission),
    };
    let workers = vec![
        spawn(noted(outbox.run(stopping.clone()), is_outbox_running)),
        spawn(watch_readiness(readiness, watched.clone(), stopping.clone())),
    ];
    (watched, ready, workers)
}

/// The tasks of admission, which run until the last who could admit anything is gone.
fn admitting(parts: &Parts, tasks: AdmitTasks) -> Vec<JoinHandle<()>> {
    let AdmitTasks { mut committer, mut large, mut transactional } = tasks;
    vec![
        spawn(parts.clone().keep("committer", async move || committer.run().await)),
        spawn(parts.clone().keep("large", async move || large.run().await)),
        spawn(parts.clone().keep("transactional", async move || transactional.run().await)),
    ]
}

/// Name of this node in leases, for readers of the tables: the process id and a random part.
fn node_name() -> String {
    format!("{}-{:08x}", std::process::id(), fastrand::u32(..))
}

/// What the parts besides admission and outbox share.
struct SharedParts<'a> {
    pub(super) admission: &'a Arc<AdmitContext>,
    pub(super) providers: &'a Providers,
    pub(super) config: &'a Current<Config>,
    pub(super) notes: &'a RequestNotes,
    /// The counters of this node, and the handle that renders them.
    pub(super) counting: (&'a Arc<Rhythms>, CountedRequests, PrometheusHandle),
    pub(super) activity: &'a Arc<NodeActivity>,
}

/// The outbox, as admission reserves slots in it.
struct OutboxSlots(Handover);

impl TakeSlot for OutboxSlots {
    fn take_slot(&self, destination: &str) -> Option<(InitialLease, Box<dyn StartCall>)> {
        let (lease, start) = self.0.take(destination)?;
        Some((lease, Box::new(start)))
    }
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
            slots: Box::new(OutboxSlots(handover)),
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
    fn spawn_shared_tasks(
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
