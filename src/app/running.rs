//! The handles of a running app, and its stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::gauges::NodeActivity;
use super::health::ReadinessSources;
use super::parts::Parts;
use super::reload::Reload;
use super::tasks::{join, spawn};
use super::witness::Witnessing;
use hooklatch_core::stop::{Stop, Stopper};
use hooklatch_core::types::Clock;
use hooklatch_operator::http::operator::Readiness;
use hooklatch_outbox::traces::SpanExporter;
use hooklatch_receive::admit::Admitter;
use hooklatch_receive::idempotency::{IdempotencyLayer, RequestRules};
use hooklatch_store::Store;

/// Time that a stop may take beyond `stop_timeout_ms`: results that are written, commits that are confirmed.
pub(super) const STOP_MARGIN: Duration = Duration::from_secs(5);

/// Time that a stop may take for the last spans: longer than they need.
const EXPORT_MARGIN: Duration = Duration::from_secs(3);

/// Time that a stop may take to save what was counted: one short transaction.
const SAVE_MARGIN: Duration = Duration::from_secs(2);

/// The task that exports spans.
pub(super) struct Exporting {
    stop: Stopper,
    task: JoinHandle<()>,
}

impl Exporting {
    pub(super) fn start(parts: &Parts, mut exporter: SpanExporter) -> Self {
        let (stop, stopping) = Stop::channel();
        let run = async move || exporter.run(stopping.clone()).await;
        Self { stop, task: spawn(parts.clone().keep("traces", run)) }
    }
}

/// A running Hooklatch. Dropping it signals its parts to stop and waits for none of them: see [`Running::stop`].
pub struct Running {
    /// Address where senders reach the receiver.
    pub receiver_addr: SocketAddr,
    /// Address where operators reach it.
    pub admin_addr: SocketAddr,
    pub(super) readiness: watch::Receiver<Readiness>,
    pub(super) watched: ReadinessSources,
    pub(super) background: Background,
    /// Reads the configuration again.
    pub(super) reload: Option<Box<Reload>>,
}

impl Running {
    /// Stops accepting, answers what is under way, commits what waits, finishes or hands back what is being
    /// sent, closes the database. Ends within `stop_timeout_ms` for calls and requests under way, the time that
    /// their results may take to be written, and the seconds of closing, whatever the database does: a part that does
    /// not end by itself is given up, and what it had not confirmed is sent again.
    pub async fn stop(self) {
        // A reload could admit events.
        drop(self.reload);
        self.background.stop().await;
    }
}

/// Everything of a Hooklatch that runs besides a receiver: admission, calls, retries, retention. Dropping it signals
/// its parts to stop, as soon as its router is dropped too, and waits for none of them: see [`Background::stop`].
pub struct Background {
    pub(super) stop: Stopper,
    /// Empty where the receiver is mounted into another server.
    pub(super) listeners: Vec<JoinHandle<()>>,
    pub(super) admitter: Admitter,
    pub(super) admission: Vec<JoinHandle<()>>,
    pub(super) workers: Vec<JoinHandle<()>>,
    /// Saved after all that is counted.
    pub(super) activity: Arc<NodeActivity>,
    /// Stopped after every part whose spans it exports.
    pub(super) exporting: Option<Exporting>,
    /// Stopped after every task that writes.
    pub(super) witnessing: Witnessing,
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) stop_timeout: Duration,
}

impl Background {
    /// A layer for your own routes that executes each request under an `Idempotency-Key` once, and answers its
    /// repetitions with the first answer: see [`idempotency`](hooklatch::idempotency).
    ///
    /// `principal` names whose key it is, as your authentication stored it in the request; `None` is answered with 401.
    /// The routes belong to the router that is dropped before [`Background::stop`].
    pub fn idempotency(
        &self,
        principal: impl Fn(&http::request::Parts) -> Option<String> + Send + Sync + 'static,
    ) -> IdempotencyLayer {
        let rules = RequestRules::new(self.store.clone(), self.clock.clone(), "app", Arc::new(principal));
        // A stop waits for everything that could admit events, which includes requests in progress.
        IdempotencyLayer::from(rules.keeping(Arc::new(self.admitter.clone())))
    }

    /// Commits what waits, finishes or hands back what is being sent, closes the database. Stop the server that the
    /// receiver is mounted into first, and drop its router: what it takes meanwhile is waited for. Ends as
    /// [`Running::stop`] does.
    pub async fn stop(self) {
        self.stop.stop();
        let until = Instant::now() + self.stop_timeout + STOP_MARGIN;
        join("listeners", self.listeners, until).await;
        drop(self.admitter);
        join("admission", self.admission, until).await;
        join("workers", self.workers, until).await;
        let saved = timeout(SAVE_MARGIN, self.activity.save(&self.store, self.clock.now_ms())).await;
        if saved.is_err() {
            warn!("could not save the counts of the last minute in time");
        }
        if let Some(exporting) = self.exporting {
            exporting.stop.stop();
            join("traces", vec![exporting.task], Instant::now() + EXPORT_MARGIN).await;
        }
        self.witnessing.stop().await;
        self.store.close().await;
    }
}
