//! The two listeners: the receiver for providers, the operator side for people and monitors.
//!
//! The only place that knows HTTP servers. Every bound that protects the process from a client is here or
//! in `receiver.rs`: open connections, header size and time, body size and time, bytes held at once.

pub(crate) mod api;
pub(crate) mod echo;
pub(crate) mod error;
pub(crate) mod evidence;
pub(crate) mod operator;
pub(crate) mod receiver;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tracing::{debug, warn};

/// Largest header block, in bytes; beyond it, or with more than 100 headers, hyper answers 431.
const HEADER_BYTES_MAX: usize = 64 * 1024;
/// How long to wait after `accept` failed, for want of file descriptors as a rule.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What protects a listener.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Most open connections; more wait in the kernel's queue.
    pub(crate) connections_n_max: usize,
    /// From connection, or from the last answer, to the last header byte.
    pub(crate) header_timeout: Duration,
    /// How long a stop waits for requests under way.
    pub(crate) stop_timeout: Duration,
}

/// Serves `router` on `listener` until `stop` turns true, then waits for requests under way.
///
/// `axum::serve` sets no header time-out (its hyper has no timer), hence this loop of our own.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
) {
    let connections = Arc::new(Semaphore::new(limits.connections_n_max));
    let graceful = GracefulShutdown::new();
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(HEADER_BYTES_MAX)
        .half_close(false);
    loop {
        let next = tokio::select! {
            next = accept(&listener, &connections) => next,
            _ = stop.wait_for(|is_stopping| *is_stopping) => break,
        };
        let Some((stream, permit)) = next else { continue };
        let service = TowerToHyperService::new(router.clone());
        let connection = graceful.watch(builder.serve_connection(TokioIo::new(stream), service));
        spawn_connection(connection, permit);
    }
    drop(listener);
    if tokio::time::timeout(limits.stop_timeout, graceful.shutdown()).await.is_err() {
        warn!("stopped with requests still under way");
    }
}

#[expect(clippy::disallowed_methods, reason = "a connection ends by itself; `GracefulShutdown` waits for it")]
fn spawn_connection(
    connection: impl Future<Output = Result<(), hyper::Error>> + Send + 'static,
    permit: OwnedSemaphorePermit,
) {
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            debug!(%error, "connection ended early");
        }
        drop(permit);
    });
}

/// The next connection, once there is room for it; `None` when `accept` failed.
async fn accept(
    listener: &TcpListener,
    connections: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(connections).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => {
            // Answers are small and written whole; waiting for more would only delay them.
            if let Err(error) = stream.set_nodelay(true) {
                debug!(%error, "could not set TCP_NODELAY");
            }
            Some((stream, permit))
        }
        Err(error) => {
            warn!(%error, "could not accept a connection");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}
