//! Makes a connection: looks the name up, leaves out what may not be called, then TCP, and TLS where the address says
//! so. No byte of a request is sent in here. The socket counts how many bytes of the current request have left, and
//! checks once more whether the destination is still there before one does.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, ClientConfig, Error as TlsError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::util::BoxCloneSyncService;
use tower::{Service, service_fn};

use super::Lean;
use crate::destinations::HandshakeEnd;
use crate::destinations::kinds::http::address::Origin;
use crate::destinations::kinds::http::client::error_line;
use hooklatch_core::net::{Allowed, lookup};
use hooklatch_core::tls;

/// Most bytes that the look before a request reads: a notice that a TLS connection is over is shorter.
const LOOK_BYTES: usize = 64;

/// What became of the current request, as far as the socket knows.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Bytes of the request that went to the system, as they are on the wire.
    sent_n: AtomicU64,
    /// True when the next read is the look before a request.
    is_look: AtomicBool,
}

impl Seen {
    /// A request begins: nothing of it has been sent, and the socket is to be looked at.
    pub(crate) fn begin(&self) {
        self.sent_n.store(0, Ordering::Relaxed);
        self.is_look.store(true, Ordering::Relaxed);
    }

    /// True when the destination may have any byte of the request.
    pub(crate) fn is_sent(&self) -> bool {
        self.sent_n() > 0
    }

    /// Bytes of the request that went to the system: no fewer than its own when all of it did.
    pub(crate) fn sent_n(&self) -> u64 {
        self.sent_n.load(Ordering::Relaxed)
    }
}

/// A TCP connection that knows whether it has sent.
pub(crate) struct Wire {
    tcp: TcpStream,
    seen: Arc<Seen>,
}

impl Wire {
    fn noted(&self, wrote: io::Result<usize>) -> io::Result<usize> {
        if let Ok(bytes_n) = wrote {
            self.seen.sent_n.fetch_add(bytes_n as u64, Ordering::Relaxed);
        }
        wrote
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.seen.is_look.swap(false, Ordering::Relaxed) {
            // The system is asked: the runtime may not know yet that the destination has closed the connection.
            let look = buf.initialize_unfilled_to(LOOK_BYTES.min(buf.remaining()));
            match rustix::io::read(&self.tcp, look) {
                Ok(read_n) => {
                    buf.advance(read_n);
                    return Poll::Ready(Ok(()));
                }
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
        Pin::new(&mut self.tcp).poll_read(cx, buf)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = ready!(Pin::new(&mut self.tcp).poll_write(cx, buf));
        Poll::Ready(self.noted(wrote))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = ready!(Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs));
        Poll::Ready(self.noted(wrote))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

/// A silent connection is asked after this time whether it lives, and so often until it counts as dead.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVES_N: u32 = 3;
/// Longest time that bytes may go unacknowledged.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Makes connections for one destination.
pub(crate) struct Connector {
    tcp: HttpConnector<Lookup>,
    tls: Option<TlsConnector>,
}

/// Result of one try to connect.
pub(crate) enum Connected {
    /// A connection that speaks HTTP/1.1, and what its socket knows.
    Http1(Box<dyn Stream>, Arc<Seen>),
    /// The destination would rather have HTTP/2.
    Http2,
}

impl Connector {
    pub(crate) fn new(lookup: Lookup, tls: Option<ClientConfig>, timeout: Duration) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(lookup);
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(timeout));
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(KEEPALIVE));
        tcp.set_keepalive_retries(Some(KEEPALIVES_N));
        #[cfg(target_os = "linux")]
        tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
        Self { tcp, tls: tls.map(|tls| TlsConnector::from(Arc::new(tls))) }
    }

    pub(crate) async fn connect(&self, origin: &Origin) -> Result<Connected, BoxError> {
        let wire = self.wire(origin).await?;
        let seen = Arc::clone(&wire.seen);
        if !origin.is_tls {
            return Ok(Connected::Http1(Box::new(wire), seen));
        }
        let stream = self.over(origin, wire).await?;
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            return Ok(Connected::Http2);
        }
        Ok(Connected::Http1(Box::new(stream), seen))
    }

    /// A connection, without TLS yet.
    pub(crate) async fn wire(&self, origin: &Origin) -> Result<Wire, BoxError> {
        let tcp = self.tcp.clone().call(origin.uri.clone()).await?;
        Ok(Wire { tcp: tcp.into_inner(), seen: Arc::default() })
    }

    /// TLS over such a connection.
    pub(crate) async fn over(&self, origin: &Origin, wire: Wire) -> Result<TlsStream<Wire>, BoxError> {
        let tls = self.tls.as_ref().ok_or_else(|| io::Error::other("no TLS was made ready"))?;
        let name = ServerName::try_from(origin.host.clone())?;
        Ok(tls.connect(name, wire).await?)
    }
}

/// Looks names up for each connection again, and returns only addresses that may be called.
pub(crate) type Lookup = BoxCloneSyncService<Name, std::vec::IntoIter<SocketAddr>, BoxError>;

/// Looks names up as the system does. `allowed` has the addresses that a name may lead to; `None` for all.
pub(crate) fn system_lookup(allowed: Option<Allowed>) -> Lookup {
    let allowed = allowed.map(Arc::new);
    BoxCloneSyncService::new(service_fn(move |name: Name| {
        let allowed = allowed.clone();
        async move { Ok(lookup(name.as_str(), allowed.as_deref()).await?.into_iter()) }
    }))
}

/// A connection, with TLS or without.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl Stream for Wire {}
impl Stream for TlsStream<Wire> {}

/// In TLS 1.3 a client is done before the other side has looked at its certificate: it says so within this time.
const OBJECTION: Duration = Duration::from_millis(300);

impl Lean {
    /// Connects to `origin`, which has TLS, within `limit`.
    pub(crate) async fn handshake(&self, origin: &Origin, limit: Duration) -> HandshakeEnd {
        let limit = limit.min(self.connect_timeout);
        let done = timeout(limit, async {
            let wire = match self.connector.wire(origin).await {
                Ok(wire) => wire,
                Err(error) => return HandshakeEnd::Unreached(error_line(&*error)),
            };
            match self.connector.over(origin, wire).await {
                Ok(stream) => read_response(stream).await,
                Err(error) => refused(&error),
            }
        });
        done.await
            .unwrap_or_else(|_| HandshakeEnd::Silent(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// Reads what the other side answers to our certificate, once we trust its own.
async fn read_response(mut stream: TlsStream<Wire>) -> HandshakeEnd {
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let not_after_s = shown.and_then(|certificate| tls::not_after_s(certificate));
    match timeout(OBJECTION, stream.read_u8()).await {
        Ok(Err(error)) if alert(&error).is_some() => refused(&(error.into())),
        // A server that closes the connection without an alert may do so with every silent client.
        _ => HandshakeEnd::Trusted { not_after_s },
    }
}

fn tls_error(error: &io::Error) -> Option<&TlsError> {
    error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>())
}

fn alert(error: &io::Error) -> Option<AlertDescription> {
    match tls_error(error) {
        Some(TlsError::AlertReceived(alert)) => Some(*alert),
        _ => None,
    }
}

fn refused(error: &BoxError) -> HandshakeEnd {
    let of_tls = error.downcast_ref::<io::Error>().and_then(tls_error);
    match of_tls {
        Some(TlsError::InvalidCertificate(why)) => HandshakeEnd::Untrusted(why_not(why)),
        Some(TlsError::AlertReceived(alert)) => HandshakeEnd::NotTaken(format!("it says {alert:?}")),
        _ => HandshakeEnd::NoTls(error_line(&**error)),
    }
}

/// The reasons that happen, in words that name the remedy.
fn why_not(why: &CertificateError) -> String {
    match why {
        CertificateError::UnknownIssuer => "no authority that is believed here has signed it".to_owned(),
        // An authority that was created again under its old name.
        CertificateError::BadSignature => {
            "no authority that is believed here has signed it: one of that name has another key".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has ended".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet: is the clock of this machine right?".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for another name than the one that is called".to_owned()
        }
        CertificateError::Revoked => "it was revoked".to_owned(),
        other => other.to_string(),
    }
}
