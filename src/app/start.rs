//! The start, step by step.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::watch;
use tracing::{info, warn};
use uuid::Uuid;

use super::admission::Helpers;
use super::builder::App;
use super::database::open_store;
use super::entries::{Entries, LookedAt};
use super::health::{self, ReadinessSources};
use super::listeners::bind;
use super::parts::Parts;
use super::running::{Background, Running};
use super::tasks::spawn;
use crate::admit::{self, AdmitContext, AdmitTasks, Admitter};
use crate::http::operator::{OperatorState, Readiness};
use crate::logging;
use crate::outbox::{NodeCalls, Outbox};
use crate::receive::{Receiver, RequestNotes};
use crate::stop::Stop;
use crate::store::Store;
use crate::tail::TailHub;

/// The things that all parts stand on.
struct Ground {
    metrics: PrometheusHandle,
    entries: Entries,
    store: Store,
    installation_id: Uuid,
}

/// The parts that run before anybody listens.
struct Core {
    background: Background,
    admission: Arc<AdmitContext>,
    receiver: Receiver,
    operator: OperatorState,
    calls: NodeCalls,
    tail: TailHub,
    stopping: Stop,
    parts: Parts,
}

impl App {
    /// Runs until SIGTERM or SIGINT, then stops in order. Installs neither a log nor a panic hook: see
    /// [`App::install_log`].
    pub async fn run(self) -> anyhow::Result<()> {
        let running = self.start().await?;
        info!(receiver.addr = %running.receiver_addr, admin.addr = %running.admin_addr, "started");
        stop_signal().await?;
        info!("stopping");
        running.stop().await;
        info!("stopped");
        Ok(())
    }

    /// Starts every part and gives back the handle that stops them.
    pub async fn start(self) -> anyhow::Result<Running> {
        let ground = self.ground().await?;
        let listener = bind(self.config.server.listen)?;
        let admin_listener = bind(self.config.admin.listen)?;
        let (receiver_addr, admin_addr) = (listener.local_addr()?, admin_listener.local_addr()?);
        let entries = Arc::clone(&ground.entries);
        let mut core = self.core(ground)?;
        let gate = self.token_gate(&core.admission.store);
        let looked_at = LookedAt { calls: core.calls, requests: core.receiver.counted(), tail: core.tail };
        let api = self.api(&core.admission, &entries, looked_at, Arc::clone(&gate))?;
        let stopping = core.stopping.clone();
        core.background
            .workers
            .push(spawn(core.parts.keep("tokens", async move || gate.run(stopping.clone()).await)));
        core.background.listeners = vec![
            self.serve_receiver(listener, core.receiver, core.stopping.clone())?,
            self.serve_operator(admin_listener, core.operator, api, core.stopping)?,
        ];
        Ok(Running { receiver_addr, admin_addr, background: core.background })
    }

    /// The receiver for a server of your own, and everything behind it, which runs already. For axum 0.8, behind the
    /// feature `router`.
    ///
    /// The router answers `/webhooks/NAME`; mount it at the root, where `server.public_url` leads, without layers that
    /// change method, path, headers or body: signatures cover them. Your server must bound what [`App::run`] bounds by
    /// itself: open connections, in all and of one peer, header size and time, slow bodies and slow readers, the life
    /// of a connection. Size, time and memory of bodies are bounded here. There is no operator side: no API, no
    /// `/metrics`, no `/readyz`; the commands that ask a running server (`events`, `messages`, `explain`, …) have
    /// nobody to ask.
    ///
    /// To stop: stop your server, drop the router, then [`Background::stop`].
    #[cfg(feature = "router")]
    pub async fn router(self) -> anyhow::Result<(Router, Background)> {
        self.mounted().await
    }

    /// Does the same as [`App::router`], for us and for tests.
    #[doc(hidden)]
    pub async fn mounted(self) -> anyhow::Result<(Router, Background)> {
        let ground = self.ground().await?;
        let core = self.core(ground)?;
        // What is latched must also be sent: nothing stops while the router lives, whatever becomes of the other half.
        let keeps_running = axum::Extension(core.background.stop.clone());
        let router = crate::http::receiver::router(self.receiver_state(core.receiver)).layer(keeps_running);
        Ok((router, core.background))
    }

    /// Checks the providers and opens the database.
    async fn ground(&self) -> anyhow::Result<Ground> {
        // First: what the parts measure is registered as they are made.
        let metrics = health::metrics_handle();
        let entries = self.entries()?;
        for warning in &self.warnings {
            warn!("{warning}");
        }
        let store = open_store(&self.config, &self.clock, &self.migrations).await?;
        let installation_id =
            store.installation_id().await.context("could not read the installation's id")?;
        Ok(Ground { metrics, entries, store, installation_id })
    }

    /// Starts admission, the outbox and what runs beside them.
    fn core(&self, ground: Ground) -> anyhow::Result<Core> {
        let Ground { metrics, entries, store, installation_id } = ground;
        let (stop, stopping) = Stop::channel();
        let outbox = self.outbox(&store)?;
        let lines = Arc::new(logging::Lines::default());
        let admission = Arc::new(self.admission(&store, &installation_id, &outbox, &lines)?);
        let (admitter, tasks) = self.admitter(&admission, entries.len() > 1);
        let notes = RequestNotes::new(Arc::clone(&entries), &installation_id, lines);
        let (readiness, ready) = watch::channel(Readiness::default());
        let (is_outbox_running, calls) = (outbox.is_well(), outbox.calls());
        let parts = Parts::default();
        let watched =
            ReadinessSources { is_outbox_running: Arc::clone(&is_outbox_running), parts: parts.clone() };
        let mut workers = vec![
            spawn(health::noted(outbox.run(stopping.clone()), is_outbox_running)),
            spawn(health::watch(Arc::clone(&admission), readiness, watched, stopping.clone())),
        ];
        let tail = TailHub::new(store.clone(), stopping.clone());
        let helpers = Helpers {
            admission: &admission,
            entries: &entries,
            notes: &notes,
            metrics: &metrics,
            tail: &tail,
        };
        workers.extend(self.helpers(&parts, &helpers, &stopping));
        let events_n_max = self.config.server.events_n_max as usize;
        let receiver = Receiver::new(&entries, admitter.clone(), notes, store.clone(), events_n_max);
        let AdmitTasks { mut committer, mut transactional } = tasks;
        let background = Background {
            stop,
            listeners: Vec::new(),
            admitter,
            admission: vec![
                spawn(parts.clone().keep("committer", async move || committer.run().await)),
                spawn(parts.clone().keep("transactional", async move || transactional.run().await)),
            ],
            workers,
            store,
            clock: self.clock.clone(),
            stop_timeout: Duration::from_millis(self.config.outbox.stop_timeout_ms),
        };
        let operator = OperatorState { readiness: ready, metrics };
        Ok(Core { background, admission, receiver, operator, calls, tail, stopping, parts })
    }

    /// The way into admission, and the tasks behind it.
    fn admitter(&self, admission: &Arc<AdmitContext>, has_several_providers: bool) -> (Admitter, AdmitTasks) {
        let server = &self.config.server;
        let answer_timeout = Duration::from_millis(server.answer_timeout_ms);
        admit::admitter(
            Arc::clone(admission),
            server.queue_n_max as usize,
            answer_timeout,
            has_several_providers,
        )
    }

    fn outbox(&self, store: &Store) -> anyhow::Result<Outbox> {
        let (config, destinations) = (self.config.outbox.clone(), self.config.destinations.clone());
        Outbox::new(store.clone(), self.clock.clone(), config, destinations, node_name())
            .context("could not set up the destinations")
    }
}

/// Name of this node in leases, for people who look at the tables: the process's id and a random part.
fn node_name() -> String {
    format!("{}-{:08x}", std::process::id(), fastrand::u32(..))
}

async fn stop_signal() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).context("could not listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("could not listen for SIGINT")?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
