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
use super::database::open_store;
use super::entries::Entries;
use super::entries::{LookedAt, be_seen};
use super::gauges::{self, Counting, Counts, LiveGauges, NodeActivity, Rhythms};
use super::listeners::{Side, opened};
use super::looks::{Looker, look};
use super::reload::Reload;
use super::running::{Background, Exporting, Running};
use super::running::{Parts, ReadinessSources, Witnessing, noted, spawn};
use hooklatch_core::config::Config;
use hooklatch_core::current::Current;
use hooklatch_core::logging;
use hooklatch_core::stop::Stop;
use hooklatch_operator::http::operator::{OperatorState, Readiness};
use hooklatch_operator::service::Sockets;
use hooklatch_outbox::traces::{SpanExporter, TraceOptions, Traces};
use hooklatch_outbox::{NodeCalls, Outbox};
use hooklatch_receive::admit::{
    self, AdmissionHealth, AdmitContext, AdmitTasks, Planner, Providers, StartCall, UnderWay, Unreadable,
};
use hooklatch_receive::operations::OperationRunner;
use hooklatch_receive::retention::{Pruner, delete_wholes};
use hooklatch_receive::{Receiver, RequestNotes};
use hooklatch_store::{LostTime, Store};

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
    calls: NodeCalls,
    stopping: Stop,
    parts: Parts,
    watched: ReadinessSources,
    config: Current<Config>,
    providers: Providers,
    live: LiveGauges,
}

impl App {
    /// Starts every part and returns the handle that stops them.
    pub async fn start(self) -> anyhow::Result<Running> {
        self.start_on(Sockets::default()).await
    }

    /// Starts as [`App::start`] does, on the listeners that are open already.
    pub(super) async fn start_on(self, sockets: Sockets) -> anyhow::Result<Running> {
        let startup = self.startup().await?;
        let listener = opened(sockets.server, self.config.server.listen, "server.listen")?;
        let admin_listener = opened(sockets.admin, self.config.admin.listen, "admin.listen")?;
        let (receiver_addr, admin_addr) = (listener.address()?, admin_listener.address()?);
        let entries = Arc::clone(&startup.entries);
        let core = self.core(startup)?;
        let (mut background, stopping, live) = (core.background, core.stopping, core.live);
        let readiness = live.readiness.clone();
        let operator = Arc::new(OperatorState {
            readiness: readiness.clone(),
            metrics: Box::new(move || live.text()),
            leaving: stopping.leaving().clone(),
        });
        let looked_at = LookedAt {
            calls: core.calls,
            requests: core.receiver.counted(),
            readiness: readiness.clone(),
            activity: Arc::clone(&background.activity),
            admitter: background.admitter.clone(),
        };
        let gate = self.token_gate(&core.admission.store);
        let api = self.api(&core.admission, &entries, looked_at.clone(), Arc::clone(&gate));
        let operator_routes = Current::new(self.operator_routes(&operator, api));
        let id = core.admission.installation_id;
        let receiver_routes = Current::new(self.receiver_routes(core.receiver.clone(), &id));
        let tokens = Arc::clone(&gate);
        let run = async move |stop| tokens.run(stop).await;
        background.workers.push(spawn(core.parts.keep("tokens", &stopping, run)));
        background.listeners = vec![
            self.serve(Side::Receiver, listener, receiver_routes.clone(), stopping.clone())?,
            self.serve(Side::Operator, admin_listener, operator_routes.clone(), stopping)?,
        ];
        let reload = Some(Box::new(Reload {
            app: self,
            config: core.config,
            providers: core.providers,
            receiver: core.receiver,
            looked_at,
            admission: core.admission,
            gate,
            operator,
            receiver_routes,
            operator_routes,
        }));
        Ok(Running { receiver_addr, admin_addr, readiness, watched: core.watched, background, reload })
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
        self.mount().await
    }

    /// What [`App::router`] does, whether there is the feature or not.
    pub(super) async fn mount(self) -> anyhow::Result<(Router, Background)> {
        let startup = self.startup().await?;
        let core = self.core(startup)?;
        // What is latched must also be sent: nothing stops while the router lives, also when the other half is dropped.
        let keeps_running = axum::Extension(core.background.stop.clone());
        let state = self.receiver_state(core.receiver, &core.admission.installation_id);
        Ok((hooklatch_operator::http::receiver::router(state).layer(keeps_running), core.background))
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
        let (metrics, entries, store) =
            (startup.metrics.clone(), Arc::clone(&startup.entries), startup.store.clone());
        let server = &self.config.server;
        let (stop, stopping) = Stop::channel();
        let parts = Parts::default();
        let (outbox, exporter) = self.outbox(&startup)?;
        let exporting = exporter.map(|exporter| Exporting::start(&parts, exporter));
        let lines = Arc::new(logging::Lines::default());
        let notes = RequestNotes::new(Arc::clone(&entries), &startup.installation_id, Arc::clone(&lines));
        let admission = Arc::new(self.admission(startup, &outbox, lines));
        let answer_timeout = Duration::from_millis(server.answer_timeout_ms);
        let (queue_n_max, context) = (server.queue_n_max as usize, Arc::clone(&admission));
        let (admitter, tasks) = admit::admitter(context, queue_n_max, answer_timeout, entries.len());
        let (config, providers) = (Current::new(self.config.clone()), Current::new(Arc::clone(&entries)));
        let calls = outbox.calls();
        let events_n_max = server.events_n_max as usize;
        let receiver = Receiver::new(&entries, admitter.clone(), notes.clone(), store.clone(), events_n_max)
            .traced(admission.traces.clone());
        let rhythms = Arc::new(Rhythms::new(config.clone(), self.clock.clone()));
        let activity = Arc::new(NodeActivity::new(receiver.counted(), calls.clone()));
        let (readiness, ready) = watch::channel(Readiness::default());
        let watched = ReadinessSources {
            is_outbox_running: outbox.is_well(),
            parts: parts.clone(),
            admission: Arc::clone(&admission),
        };
        let is_outbox_running = outbox.is_well();
        let looker = Looker::new(readiness, &watched, &self.clock, (&config, &calls));
        let workers = vec![
            spawn(noted(outbox.run(stopping.clone()), is_outbox_running)),
            spawn(parts.keep("looks", &stopping, move |stop| look(looker.clone(), stop))),
        ];
        let background = Background {
            stop,
            listeners: Vec::new(),
            admitter,
            admission: admitting(&parts, &stopping, tasks),
            workers,
            activity,
            exporting,
            witnessing: Witnessing::start(&parts, &store, &self.clock),
            store: store.clone(),
            clock: self.clock.clone(),
            stop_timeout: Duration::from_millis(self.config.outbox.stop_timeout_ms),
        };
        let live = LiveGauges {
            handle: metrics,
            readiness: ready,
            providers: providers.clone(),
            requests: receiver.counted(),
            rhythms,
            store,
            memory: self.memory.clone(),
        };
        let mut core = Core {
            background,
            admission,
            receiver,
            calls,
            stopping,
            parts,
            watched,
            config,
            providers,
            live,
        };
        let workers = self.workers(&core, notes);
        core.background.workers.extend(workers);
        Ok(core)
    }

    /// The outbox, which publishes its attempts as configured, and the exporter that this needs.
    fn outbox(&self, startup: &Startup) -> anyhow::Result<(Outbox, Option<SpanExporter>)> {
        let (config, destinations) = (self.config.outbox.clone(), self.config.destinations.clone());
        // For readers of the tables: the process id and a random part.
        let node = format!("{}-{:08x}", std::process::id(), fastrand::u32(..));
        let outbox = Outbox::new(startup.store.clone(), self.clock.clone(), config, destinations, node)
            .context("could not set up the destinations")?;
        let (config, clock, calls) = (&self.config.tracing, &self.clock, outbox.calls());
        let installation_id = &startup.installation_id;
        let options = TraceOptions { config, installation_id, node: calls.node(), clock };
        let (traces, exporter) = Traces::new(&options).map_err(anyhow::Error::msg)?;
        outbox.trace(traces);
        Ok((outbox, exporter))
    }

    /// Builds the context that the parts of admission share.
    fn admission(&self, startup: Startup, outbox: &Outbox, lines: Arc<logging::Lines>) -> AdmitContext {
        let Startup { store, installation_id, lost, .. } = startup;
        let (waker, handover) = (outbox.waker(), outbox.handover());
        AdmitContext {
            clock: self.clock.clone(),
            installation_id,
            planner: Planner::new(self.clock.clone(), installation_id).after(lost),
            unreadable: Unreadable::new(self.config.server.unreadable_bytes_max.into()),
            lines,
            handler_timeout: Duration::from_millis(self.config.server.handler_timeout_ms),
            turns: Arc::new(Semaphore::new(store.handlers_n())),
            slots: Box::new(move |destination| {
                let (lease, start) = handover.take(destination)?;
                Some((lease, Box::new(start) as StartCall))
            }),
            wake_outbox: Box::new(move || waker.wake()),
            under_way: UnderWay::default(),
            health: AdmissionHealth::default(),
            batch_events: metrics::histogram!("hooklatch_batch_events"),
            traces: outbox.traces(),
            wake_retries: Notify::new(),
            queue_gate: RwLock::default(),
            wake_pauses: Notify::new(),
            store,
        }
    }

    /// Spawns the long-running parts besides admission and outbox.
    fn workers(&self, core: &Core, notes: RequestNotes) -> Vec<JoinHandle<()>> {
        let Core { admission, providers, parts, stopping, .. } = core;
        let (store, clock) = (&admission.store, &self.clock);
        let mut counting = Counting {
            admission: Arc::clone(admission),
            config: core.config.clone(),
            counts: Counts::default(),
            rhythms: Arc::clone(&core.live.rhythms),
            requests: core.receiver.counted(),
            activity: Arc::clone(&core.background.activity),
            handle: core.live.handle.clone(),
        };
        let poll = Duration::from_millis(self.config.outbox.poll_ms);
        let (shared, tried) = (Arc::clone(admission), providers.clone());
        let retries = move |stop| admit::run_retries(Arc::clone(&shared), tried.clone(), poll, stop);
        let (shared, paused) = (Arc::clone(admission), providers.clone());
        let pauses = move |stop| admit::run_pauses(Arc::clone(&shared), paused.clone(), stop);
        let of_notes = store.clone();
        let woken = Arc::clone(admission);
        let wake = move || {
            (woken.wake_outbox)();
            woken.wake_retries.notify_one();
        };
        let mut runner = OperationRunner::new(store.clone(), clock.clone(), Box::new(wake));
        let (of_nodes, node_clock, node) = (store.clone(), clock.clone(), core.calls.node().to_owned());
        let nodes = async move |stop| be_seen(&of_nodes, &node_clock, &node, stop).await;
        let mut tasks = vec![
            spawn(parts.keep("nodes", stopping, nodes)),
            spawn(parts.keep("retry", stopping, retries)),
            spawn(parts.keep("pauses", stopping, pauses)),
            spawn(parts.keep("counts", stopping, async move |stop| counting.run(stop).await)),
            spawn(parts.keep("notes", stopping, async move |stop| notes.run(&of_notes, stop).await)),
            spawn(parts.keep("operations", stopping, async move |stop| runner.run(stop).await)),
        ];
        if self.config.providers.values().any(|provider| !provider.redact.is_empty()) {
            let store = store.clone();
            let redacting = async move |stop| delete_wholes(&store, stop).await;
            tasks.push(spawn(parts.keep("redaction", stopping, redacting)));
        }
        if self.config.retention.every_ms > 0 {
            let pruner = Pruner::new(store.clone(), clock.clone(), core.config.clone(), false);
            let mut pruner = pruner.beside(Arc::clone(admission));
            tasks.push(spawn(parts.keep("retention", stopping, async move |stop| pruner.run(stop).await)));
        }
        tasks
    }
}

/// The tasks of admission, which run until the last who could admit anything is gone.
fn admitting(parts: &Parts, stop: &Stop, tasks: AdmitTasks) -> Vec<JoinHandle<()>> {
    let AdmitTasks { mut committer, mut large, mut transactional } = tasks;
    vec![
        spawn(parts.keep("committer", stop, async move |_| committer.run().await)),
        spawn(parts.keep("large", stop, async move |_| large.run().await)),
        spawn(parts.keep("transactional", stop, async move |_| transactional.run().await)),
    ]
}
