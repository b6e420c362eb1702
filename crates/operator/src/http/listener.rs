//! Accepts connections and serves each of them until it ends, gives way to another one, or the process stops.
//!
//! A process usually starts with a limit of 1024 open files, whatever it may have. Without a free one no message is
//! sent and no row is written, so connections of clients must not take the last: there are no more connections than the
//! limit allows.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use axum::body::Body;
use futures_util::FutureExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::TokioTimer;
use ipnet::IpNet;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit, setrlimit};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::connection::{Bounded, handshake, shown_by};
use super::edge::{ConnectionContext, Edge, Peer, Routes};
use super::origin::OriginRule;
use super::receiver::ReceiverState;
use super::room::{ConnectionLimiter, ConnectionPermit, Served};
use hooklatch_core::current::Current;
use hooklatch_core::stop::Stop;
use hooklatch_core::tls::ListenerTls;

/// Largest header block, in bytes; beyond it, or with more than 100 headers, hyper answers 431.
const HEADER_BYTES_MAX: usize = 64 * 1024;
/// Pause after `accept` failed, for want of file descriptors as a rule.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Time that a connection stays open at a stop although nothing is under way on it: its next request may have been sent
/// before the client could know, and would be lost. It is the last one.
const STOP_GRACE: Duration = Duration::from_millis(200);

/// Time after that for the rest of a head that has begun to arrive: nothing is under way yet, and a client that sends a
/// few bytes and no more must not hold up a stop.
const HEAD_GRACE: Duration = Duration::from_secs(1);

/// Connections that may wait to be accepted; beyond it the kernel leaves newcomers to try again.
const BACKLOG_N: u32 = 4096;
/// Part of an answer that the kernel takes for a peer that does not read it. Bytes; Linux doubles it. Answers are
/// smaller as a rule, and a thousand peers that do not read cost 32 MiB of the kernel's memory, not gigabytes.
const SEND_BUFFER_BYTES: u32 = 16 * 1024;

/// Files that the process needs besides connections, calls and the database: its log, its clocks, its libraries.
const OWN_N: usize = 64;
/// Fewest connections, however little the system gives.
const CONNECTIONS_N_MIN: usize = 8;

/// Bounds that protect a listener.
#[derive(Debug)]
pub struct Limits {
    /// Name of the listener in metrics.
    pub name: &'static str,
    /// Most open connections. When there are more, those go that have waited for their peers the longest; while
    /// none waits, newcomers stay in the kernel's queue.
    pub connections_n_max: usize,
    /// Most open connections of one peer, which is an IPv4 address or an IPv6 /64.
    pub peer_n_max: usize,
    /// Peers that stand for many: no share is counted for them.
    pub proxies: Vec<IpNet>,
    /// Longest time from connection, or from the last answer, to the last header byte.
    pub header_timeout: Duration,
    /// Until an answer that has to wait for its peer is with the system.
    pub write_timeout: Duration,
    /// Slowest body, in bytes a second; 0 for any.
    pub body_bytes_per_s_min: u64,
    /// Longest life of a connection, and most requests on it; then it is closed behind an answer.
    pub life: Duration,
    pub requests_n_max: u32,
    /// Longest time that a stop waits for requests under way.
    pub stop_timeout: Duration,
    /// Its certificate; plain HTTP when absent.
    pub tls: Option<Arc<ListenerTls>>,
    /// Finds the client address of requests.
    pub origin: OriginRule,
}

/// A socket that is listened on, for [`serve`].
pub struct Listener {
    socket: TcpListener,
    /// True when the service manager holds it too, and passes it to the next process.
    is_lent: bool,
}

impl Listener {
    /// The address that it listens on.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Listens on a socket that listens already, and that its owner keeps.
    pub fn lent(socket: std::net::TcpListener) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        // A socket is a socket; only the names of the types differ.
        let socket = TcpSocket::from_std_stream(OwnedFd::from(socket).into());
        Ok(Self { socket: listening(socket)?, is_lent: true })
    }
}

/// Listens on `address`, for [`serve`].
pub fn listen(address: SocketAddr) -> io::Result<Listener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(Listener { socket: listening(socket)?, is_lent: false })
}

fn listening(socket: TcpSocket) -> io::Result<TcpListener> {
    // Connections get it from their listener.
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.listen(BACKLOG_N)
}

/// Serves `routes` on `listener` until `stop` turns true, then waits for requests under way.
///
/// `axum::serve` bounds nothing of this, so we have our own loop. It always accepts: in the kernel's queue, a peer that
/// waits could not be distinguished from an attacker.
///
/// Connections that wait to be accepted at the stop are left to the next process, or still served where none
/// follows.
pub async fn serve(listener: Listener, routes: Current<Routes>, limits: Limits, mut stop: Stop) {
    let limits = Arc::new(limits);
    let limiter = ConnectionLimiter::new(
        limits.name,
        limits.connections_n_max,
        limits.peer_n_max,
        limits.proxies.clone(),
    );
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(HEADER_BYTES_MAX)
        .half_close(false)
        .writev(false);
    let mut left_n = if listener.is_lent { 0 } else { BACKLOG_N };
    loop {
        let next = tokio::select! {
            next = accept(&listener.socket, &limiter) => next,
            () = stop.wait() => {
                let Some(n) = left_n.checked_sub(1) else { break };
                left_n = n;
                let Some(next) = accept(&listener.socket, &limiter).now_or_never() else { break };
                next
            }
        };
        let Some((stream, address, place)) = next else { continue };
        let edge = Edge {
            routes: routes.clone(),
            peer: Peer(address.ip().to_canonical()),
            limits: Arc::clone(&limits),
            client: None,
            connection: ConnectionContext { limiter: Arc::clone(&limiter), slot: Arc::clone(&place.slot) },
            refusals_n: AtomicU32::new(0),
            requests_n_left: AtomicU32::new(limits.requests_n_max),
            leaving: stop.leaving().clone(),
            ends_at: Instant::now() + limits.life,
            tls: limits.tls.as_ref().map(|tls| tls.current()),
        };
        match &edge.tls {
            None => {
                let stream = Bounded::new(stream, Arc::clone(&place.slot), limits.write_timeout);
                let receiver = edge.routes.get().state();
                spawn(served(builder.serve_connection(stream, service(edge)), place, receiver));
            }
            Some(config) => spawn(encrypted(builder.clone(), Arc::clone(config), stream, edge, place)),
        }
    }
    drop(listener);
    if tokio::time::timeout(limits.stop_timeout, limiter.stop()).await.is_err() {
        warn!("stopped with requests still under way");
    }
}

/// What a connection's requests go through.
fn service(
    edge: Edge,
) -> impl HttpService<Incoming, ResBody = Body, Error = Infallible, Future: Send> + Send {
    let edge = Arc::new(edge);
    service_fn(move |request| Arc::clone(&edge).answer(request))
}

#[expect(
    clippy::disallowed_methods,
    reason = "a connection ends by itself; `ConnectionLimiter::stop` waits for it"
)]
fn spawn(connection: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(connection);
}

/// Serves a peer that is to begin with a handshake, for which it has as long as for its headers.
async fn encrypted(
    builder: http1::Builder,
    config: Arc<ServerConfig>,
    stream: TcpStream,
    mut edge: Edge,
    place: ConnectionPermit,
) {
    let within = edge.limits.header_timeout;
    let Some(stream) = handshake(config, stream, &place, within).await else { return };
    edge.client = shown_by(&stream);
    let stream = Bounded::new(stream, Arc::clone(&place.slot), edge.limits.write_timeout);
    let receiver = edge.routes.get().state();
    served(builder.serve_connection(stream, service(edge)), place, receiver).await;
}

/// Serves a connection until it ends, or gives way to another one.
async fn served<I, S>(
    connection: http1::Connection<Bounded<I>, S>,
    place: ConnectionPermit,
    receiver: Option<Arc<ReceiverState>>,
) where
    I: AsyncRead + AsyncWrite + Unpin,
    S: HttpService<Incoming, ResBody = Body, Error = Infallible>,
{
    let mut connection = pin!(connection);
    let mut is_listening = false;
    let ended = loop {
        match place.served(connection.as_mut(), &mut is_listening).await {
            Served::Ended(ended) => break ended,
            Served::Evicted => {
                debug!("connection gave way to another one");
                return;
            }
            Served::Stopping => {}
        }
        if let Ok(ended) = tokio::time::timeout(STOP_GRACE, connection.as_mut()).await {
            break ended;
        }
        connection.as_mut().graceful_shutdown();
        if let Ok(ended) = tokio::time::timeout(HEAD_GRACE, connection.as_mut()).await {
            break ended;
        }
        if place.slot.is_in_head() {
            debug!("connection had sent a part of a head at the stop");
            return;
        }
    };
    if let Err(error) = ended {
        ended_early(&error, &place, receiver.as_deref());
    }
}

/// Records that a connection failed. What is no HTTP was answered 400 by hyper, and a head that is too large 431 (also
/// for its URL: at 64 KiB hyper would answer 414), before there was a request; one whose head did not arrive in time
/// was closed.
fn ended_early(error: &hyper::Error, place: &ConnectionPermit, receiver: Option<&ReceiverState>) {
    debug!(%error, "connection ended early");
    let reason = if error.is_parse_too_large() {
        "head_too_large"
    } else if error.is_parse() {
        "head_malformed"
    } else if error.is_timeout() && place.slot.is_in_head() {
        "head_too_slow"
    } else {
        return;
    };
    if let Some(state) = receiver {
        state.receiver.count_headless(reason, state.clock.now_ms());
    }
}

/// The next connection and its place; `None` when `accept` failed, or when its peer has its share.
async fn accept(
    listener: &TcpListener,
    limiter: &Arc<ConnectionLimiter>,
) -> Option<(TcpStream, SocketAddr, ConnectionPermit)> {
    match listener.accept().await {
        Ok((stream, address)) => {
            // Answers are small and written whole; waiting for more would only delay them.
            if let Err(error) = stream.set_nodelay(true) {
                debug!(%error, "could not set TCP_NODELAY");
            }
            let place = limiter.enter(address.ip()).await?;
            Some((stream, address, place))
        }
        Err(error) => {
            warn!(%error, "could not accept a connection");
            limiter.evict(None);
            // No file descriptor is free: retrying at once would spin.
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

/// Returns how many connections of clients there may be, of `wanted_n`, when `others_n` files are for other things.
/// Raises the process's limit as far as possible and needed.
pub fn connections_n(wanted_n: usize, others_n: usize) -> usize {
    let needed_n = wanted_n.saturating_add(others_n).saturating_add(OWN_N) as u64;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed_n) {
        limit.current = limit.maximum.map_or(Some(needed_n), |most| Some(most.min(needed_n)));
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            debug!(%error, "could not raise the limit of open files");
        }
    }
    fit_n(wanted_n, others_n)
}

/// Returns how many connections fit within the limit as it is.
pub fn fit_n(wanted_n: usize, others_n: usize) -> usize {
    let has_n = getrlimit(Resource::Nofile).current.and_then(|current| usize::try_from(current).ok());
    let left_n = has_n.unwrap_or(usize::MAX).saturating_sub(others_n).saturating_sub(OWN_N);
    wanted_n.min(left_n.max(CONNECTIONS_N_MIN))
}

/// Files that are open, and those that may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFiles {
    /// `None` where the system does not say.
    pub n: Option<u64>,
    /// `None` where there is no limit.
    pub n_max: Option<u64>,
}

impl OpenFiles {
    /// Those of this process.
    pub fn of_process() -> Self {
        let n_max = getrlimit(Resource::Nofile).current;
        // The one that is open while they are counted is not among them.
        let counted = std::fs::read_dir("/proc/self/fd").map(|all| all.count().saturating_sub(1) as u64);
        Self { n: open_n(counted, n_max), n_max }
    }
}

/// Who may open none any more cannot count either, and has all.
fn open_n(counted: io::Result<u64>, n_max: Option<u64>) -> Option<u64> {
    match counted {
        Ok(n) => Some(n),
        Err(error) if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => n_max,
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_open_are_counted() {
        let Some(before_n) = OpenFiles::of_process().n else { return };
        let held: Vec<_> = (0..10).map(|_| std::fs::File::open("/dev/null").expect("a file")).collect();
        assert_eq!(OpenFiles::of_process().n, Some(before_n + 10));
        drop(held);
    }

    #[test]
    fn all_files_count_as_open_when_they_cannot_be_counted() {
        let failed = |errno: Errno| Err(io::Error::from_raw_os_error(errno.raw_os_error()));
        assert_eq!(open_n(failed(Errno::MFILE), Some(1_024)), Some(1_024));
        assert_eq!(open_n(failed(Errno::MFILE), None), None, "without a limit that is known");
        assert_eq!(open_n(failed(Errno::NOENT), Some(1_024)), None, "not on Linux");
    }

    #[test]
    fn connections_fit_into_what_the_system_gives_and_some_are_always_left() {
        assert_eq!(connections_n(4, 0), 4, "fewer than there may be");
        let all_n = connections_n(usize::MAX, 0);
        assert!(all_n >= CONNECTIONS_N_MIN);
        assert!(connections_n(usize::MAX, 100) <= all_n.saturating_sub(100).max(CONNECTIONS_N_MIN));
        assert_eq!(connections_n(1_000, usize::MAX), CONNECTIONS_N_MIN, "however much the rest takes");
    }
}
