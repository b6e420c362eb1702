//! Puts the parts together and takes them apart again: what `hooklatch serve` runs, and what a user's own
//! `main.rs` runs.
//!
//! Start order: store, schema, providers, admission, outbox, listeners. Stop order is the reverse, and each
//! part is given the time to finish what it holds. Every task of the process is spawned here.

mod admission;
mod counts;
mod health;
mod listeners;
mod parts;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};

use parts::Parts;

use crate::admit::{self, AdmitContext, AdmitTasks, Admitter, ProviderEntry, Room};
use crate::config::{Config, ProviderConfig};
use crate::fetch::Fetcher;
use crate::http::api::ApiState;
use crate::http::auth::Gate;
use crate::http::guard::{self, Hosts};
use crate::http::operator::{OperatorState, Readiness};
use crate::http::receiver::ReceiverState;
use crate::http::rejected::ProviderFacts;
use crate::http::{self, Front, echo};
use crate::load::{Kinds, Loaded};
use crate::mistakes::Mistake;
use crate::outbox::{Outbox, clock_offset_ms_max};
use crate::provider::{ActiveProvider, Provider};
use crate::receive::{Receiver, RequestNotes, fingerprint};
use crate::setup::Opened;
use crate::stop::{Stop, Stopper};
use crate::store::{SchemaState, Store};
use crate::types::{Clock, Name};
use crate::verify::KeySource;
use crate::{load, logging, setup};
use listeners::bind;

/// How long a stop may take beyond `stop_timeout_ms`: results that are written, commits that are confirmed.
const STOP_MARGIN: Duration = Duration::from_secs(5);

/// A Hooklatch before it runs: a configuration and the kinds it may use.
pub struct App {
    config: Config,
    /// The providers that were made while the configuration was checked.
    active: BTreeMap<Name, ActiveProvider>,
    kinds: Vec<Provider>,
    clock: Clock,
    has_echo: bool,
}

/// A Hooklatch that runs. Dropping it without [`Running::stop`] leaves its tasks to the runtime.
pub struct Running {
    /// Where providers reach it.
    pub receiver_addr: SocketAddr,
    /// Where operators reach it.
    pub admin_addr: SocketAddr,
    stop: Stopper,
    listeners: Vec<JoinHandle<()>>,
    admitter: Admitter,
    admission: Vec<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
    store: Store,
    stop_timeout: Duration,
}

impl App {
    /// Starts from a checked configuration and the built-in kinds.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            active: BTreeMap::new(),
            kinds: crate::providers::builtin(),
            clock: Clock::system(),
            has_echo: false,
        }
    }

    /// Reads `file` (else `hooklatch.toml`, else the defaults) and the environment, knowing the built-in
    /// kinds, those of its `[kinds] folder` and `own` ones, and installs the log as configured, unless the process has one.
    pub fn load(file: Option<&std::path::Path>, own: Vec<Provider>) -> anyhow::Result<Self> {
        let kinds = load::kinds(file, own);
        let loaded = load::loaded(file, false, &kinds)?;
        // Another subscriber is the user's own choice.
        drop(logging::install(&loaded.config.log, crate::outbox::silent_log_targets()));
        for warning in load::warnings(&loaded.config, &kinds) {
            warn!("{warning}");
        }
        Ok(Self::of_loaded(loaded, kinds))
    }

    /// Starts from a configuration whose providers are made already, of these kinds.
    pub(crate) fn of_loaded(loaded: Loaded, kinds: Kinds) -> Self {
        Self { active: loaded.active, kinds: kinds.all, ..Self::new(loaded.config) }
    }

    /// The configuration it will run with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Adds a kind, or replaces the built-in one of the same name: how handlers come in.
    #[must_use]
    pub fn provider(mut self, provider: Provider) -> Self {
        self.kinds.retain(|kind| kind.kind() != provider.kind());
        self.active.retain(|_, active| active.spec().kind != provider.kind());
        self.kinds.push(provider);
        self
    }

    /// Uses another clock, for tests.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Serves the built-in `echo` destination on the operator's listener, for `serve --dev`.
    #[must_use]
    pub fn echo(mut self) -> Self {
        self.has_echo = true;
        self
    }

    /// Runs until SIGTERM or SIGINT, then stops in order.
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
        // First: what the parts measure is registered as they are made.
        let metrics = health::metrics_handle();
        let entries = Arc::new(self.entries()?);
        let store = open_store(&self.config, &self.clock).await?;
        let installation_id =
            store.installation_id().await.context("could not read the installation's id")?;
        let (stop, stopping) = Stop::channel();
        let listener = bind(self.config.server.listen)?;
        let admin_listener = bind(self.config.admin.listen)?;

        let outbox = self.outbox(&store)?;
        let lines = Arc::new(logging::Lines::default());
        let admission = Arc::new(self.admission(&store, &installation_id, &outbox, &lines)?);
        let server = &self.config.server;
        let (admitter, AdmitTasks { mut committer, mut own }) = admit::admitter(
            Arc::clone(&admission),
            server.queue_n_max as usize,
            Duration::from_millis(server.answer_timeout_ms),
            entries.len() > 1,
        );
        let (readiness, ready) = watch::channel(Readiness::default());
        let is_outbox_running = outbox.is_well();
        let notes = RequestNotes::new(Arc::clone(&entries), &installation_id, lines);
        let parts = Parts::default();
        let running_parts = (Arc::clone(&is_outbox_running), parts.clone());
        let mut workers = vec![
            spawn(health::noted(outbox.run(stopping.clone()), is_outbox_running)),
            spawn(health::watch(Arc::clone(&admission), readiness, running_parts, stopping.clone())),
        ];
        workers.extend(self.helpers(&parts, (&admission, &entries, &notes), &metrics, &stopping));
        let receiver = Receiver::new(&entries, admitter.clone(), notes, server.events_n_max as usize);
        let running = Running {
            receiver_addr: listener.local_addr()?,
            admin_addr: admin_listener.local_addr()?,
            listeners: vec![
                self.serve_receiver(listener, receiver, stopping.clone()),
                self.serve_operator(
                    admin_listener,
                    OperatorState { readiness: ready, metrics },
                    self.api(&admission, &entries),
                    stopping,
                ),
            ],
            stop,
            admitter,
            admission: vec![
                spawn(parts.clone().keep("committer", async move || committer.run().await)),
                spawn(parts.keep("own", async move || own.run().await)),
            ],
            workers,
            store,
            stop_timeout: Duration::from_millis(self.config.outbox.stop_timeout_ms),
        };
        Ok(running)
    }

    fn outbox(&self, store: &Store) -> anyhow::Result<Outbox> {
        let (config, destinations) = (self.config.outbox.clone(), self.config.destinations.clone());
        Outbox::new(store.clone(), self.clock.clone(), config, destinations, node_name())
            .context("could not set up the destinations")
    }

    /// Every configured provider, ready; or all that is wrong with them.
    fn entries(&self) -> anyhow::Result<BTreeMap<Name, Arc<ProviderEntry>>> {
        let mut entries = BTreeMap::new();
        let mut mistakes = Vec::new();
        for (name, config) in &self.config.providers {
            match self.entry(name, config) {
                Ok(entry) => drop(entries.insert(name.clone(), Arc::new(entry))),
                Err(more) => mistakes.extend(more.into_iter().map(|one| format!("providers.{name}: {one}"))),
            }
        }
        anyhow::ensure!(mistakes.is_empty(), "{}", mistakes.join("\n"));
        Ok(entries)
    }

    fn entry(&self, name: &Name, config: &ProviderConfig) -> Result<ProviderEntry, Vec<Mistake>> {
        let Some(kind) = self.kinds.iter().find(|kind| kind.kind() == config.kind.as_str()) else {
            return Err(vec![Mistake::said("", format!("no provider kind is called `{}`", config.kind), "")]);
        };
        let activate = || kind.activate(name, config, &self.config.server.public_url);
        let mut provider = self.active.get(name).cloned().map_or_else(activate, Ok)?;
        let fetcher = self.fetcher(kind, config).map_err(|why| vec![Mistake::said("[fetch]", why, "")])?;
        if let Some(fetcher) = &fetcher {
            provider = provider.with_key_source(Arc::clone(fetcher) as Arc<dyn KeySource>);
        }
        Ok(ProviderEntry {
            provider,
            fetcher,
            on_handler_error: config.on_handler_error,
            is_first_party: config.is_first_party,
            retry: config.retry,
            admit_seconds: metrics::histogram!("hooklatch_admit_seconds", "provider" => name.to_string()),
            waiting_n: AtomicUsize::new(0),
        })
    }

    /// For a kind whose keys are at the sender's own hosts.
    fn fetcher(&self, kind: &Provider, config: &ProviderConfig) -> Result<Option<Arc<Fetcher>>, String> {
        let spec = kind.shared_spec()?;
        if spec.fetch.is_empty() && spec.confirm.is_empty() {
            return Ok(None);
        }
        let fetcher = Fetcher::new(&spec, &config.settings, &self.config.fetch, &self.clock)?;
        Ok(Some(Arc::new(fetcher)))
    }

    fn serve_receiver(&self, listener: TcpListener, receiver: Receiver, stop: Stop) -> JoinHandle<()> {
        let server = &self.config.server;
        let state = Arc::new(ReceiverState {
            receiver,
            clock: self.clock.clone(),
            public_url: server.public_url.clone(),
            body_bytes_max: server.body_bytes_max as usize,
            body_timeout: Duration::from_millis(server.body_timeout_ms),
            room: Room::new(server.inflight_bytes_max as usize),
        });
        let front = if self.has_echo {
            Front::from(guard::without_browsers(http::receiver::router(state)))
        } else {
            Front::receiver(state)
        };
        spawn(http::serve(listener, front, self.limits("receiver"), stop))
    }

    fn serve_operator(
        &self,
        listener: TcpListener,
        state: OperatorState,
        api: ApiState,
        stop: Stop,
    ) -> JoinHandle<()> {
        let mut router: Router = http::operator::router(Arc::new(state), Arc::new(api));
        if self.has_echo {
            router = echo::router(echo::EchoState::default()).fallback_service(router);
        }
        let hosts = Hosts::new(self.config.admin.listen, &self.config.admin.hosts);
        let front = Front::from(guard::operators(router, hosts));
        spawn(http::serve(listener, front, self.limits("operator"), stop))
    }

    fn api(&self, admission: &Arc<AdmitContext>, entries: &BTreeMap<Name, Arc<ProviderEntry>>) -> ApiState {
        let facts = |(name, entry): (&Name, &Arc<ProviderEntry>)| ProviderFacts {
            name: name.clone(),
            kind: entry.provider.spec().kind.clone(),
            horizon_h: entry.provider.spec().horizon_h,
            is_unverified: self.config.providers.get(name).is_some_and(|one| one.is_unverified_accepted),
            fingerprints: entry
                .provider
                .secrets()
                .map(|secret| fingerprint(&admission.installation_id, name, secret))
                .collect(),
        };
        let woken = Arc::clone(admission);
        ApiState {
            providers: entries.iter().map(facts).collect(),
            store: admission.store.clone(),
            decided: Box::new(move || {
                (woken.wake_outbox)();
                woken.wake_retries.notify_one();
            }),
            clock: self.clock.clone(),
            gate: Arc::new(Gate::new(self.config.admin.tokens.clone())),
            destinations: self.config.destinations.keys().cloned().collect(),
        }
    }
}

impl Running {
    /// Stops accepting, answers what is under way, commits what waits, finishes or hands back what is being
    /// sent, closes the database. Ends within `stop_timeout_ms` for calls and requests under way, the time that
    /// their results may take to be written, and the seconds of closing, whatever the database does: a part that does
    /// not end by itself is given up, and what it had not confirmed is sent again.
    pub async fn stop(self) {
        self.stop.stop();
        let until = Instant::now() + self.stop_timeout + STOP_MARGIN;
        join("listeners", self.listeners, until).await;
        drop(self.admitter);
        join("admission", self.admission, until).await;
        join("workers", self.workers, until).await;
        self.store.close().await;
    }
}

/// Waits for tasks until their time is over, and gives up those that are left.
async fn join(part: &'static str, tasks: Vec<JoinHandle<()>>, until: Instant) {
    for mut task in tasks {
        match timeout_at(until, &mut task).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(%error, part, "a task of the app ended badly"),
            Err(_) => {
                warn!(
                    part,
                    "did not end in time and was given up: what it had not confirmed will be sent again"
                );
                task.abort();
            }
        }
    }
}

/// The one place that spawns the app's tasks, so that a stop can wait for each.
#[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
fn spawn(task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(task)
}

/// Opens the database, brings or checks its schema, and refuses a clock that is minutes away.
async fn open_store(config: &Config, clock: &Clock) -> anyhow::Result<Store> {
    for warning in &config.warnings {
        warn!("{warning}");
    }
    let Opened { store, applied, schema } = setup::store(&config.database, config.database.migrate).await?;
    if !applied.is_empty() {
        info!(versions = ?applied, "migrated the database");
    }
    match schema {
        SchemaState::Current => {}
        state if state.is_usable() => info!("schema of the database is {state}"),
        state => anyhow::bail!("schema of the database is {state}"),
    }
    let offset_ms =
        store.clock_offset_ms(clock.now_ms()).await.context("could not read the database's clock")?;
    let max_ms = clock_offset_ms_max(config.outbox.lease_ms);
    anyhow::ensure!(
        offset_ms.abs() <= max_ms,
        "clock of the database is {offset_ms} ms away from ours, at most {max_ms} ms are allowed (outbox.lease_ms, and never more than two minutes): set one of them right",
    );
    Ok(store)
}

/// Who holds a lease, for people who look at the tables: the process's id and a random part.
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
