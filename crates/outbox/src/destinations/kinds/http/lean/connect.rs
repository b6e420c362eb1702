//! Makes a connection: looks the name up, leaves out what may not be called, then TCP, and TLS where the address says
//! so. Nothing of a request is sent in here.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::Service;

use super::wire::{Seen, Wire};
use crate::destinations::kinds::http::address::Origin;
use hooklatch_core::net::{Allowed, lookup};

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
    Http1(Stream, Arc<Seen>),
    /// The destination would rather have HTTP/2.
    Http2,
}

impl Connector {
    /// `allowed` has the addresses that a name may lead to; `None` for all.
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
        let seen = wire.seen();
        if !origin.is_tls {
            return Ok(Connected::Http1(Stream::Plain(wire), seen));
        }
        let stream = self.over(origin, wire).await?;
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            return Ok(Connected::Http2);
        }
        Ok(Connected::Http1(Stream::Tls(Box::new(stream)), seen))
    }

    /// A connection, without TLS yet.
    pub(super) async fn wire(&self, origin: &Origin) -> Result<Wire, BoxError> {
        let tcp = self.tcp.clone().call(origin.uri.clone()).await?;
        Ok(Wire::new(tcp.into_inner()))
    }

    /// TLS over such a connection.
    pub(crate) async fn over(&self, origin: &Origin, wire: Wire) -> Result<TlsStream<Wire>, BoxError> {
        let tls = self.tls.as_ref().ok_or_else(|| io::Error::other("no TLS was made ready"))?;
        let name = ServerName::try_from(origin.host.clone())?;
        Ok(tls.connect(name, wire).await?)
    }
}

/// Looks names up as the system does, for each connection again, and returns only addresses that may be called.
#[derive(Clone)]
pub(crate) enum Lookup {
    /// The addresses that the system knows; with a list, those of them that may be called.
    System(Option<Arc<Allowed>>),
    /// The addresses that a test says, one answer after the other.
    #[cfg(test)]
    Scripted(Arc<Allowed>, Arc<std::sync::Mutex<Vec<SocketAddr>>>),
}

impl Service<Name> for Lookup {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            match this {
                Self::System(allowed) => Ok(lookup(name.as_str(), allowed.as_deref()).await?.into_iter()),
                #[cfg(test)]
                Self::Scripted(allowed, addresses) => {
                    let found = addresses.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop();
                    Ok(hooklatch_core::net::permitted(&allowed, name.as_str(), found.into_iter())?
                        .into_iter())
                }
            }
        })
    }
}

/// A connection, with TLS or without.
pub(crate) enum Stream {
    Plain(Wire),
    Tls(Box<TlsStream<Wire>>),
}

/// Does the same with either.
macro_rules! with {
    ($stream:expr, $inner:ident => $does:expr) => {
        match $stream {
            Stream::Plain($inner) => $does,
            Stream::Tls($inner) => $does,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        with!(&mut *self, inner => Pin::new(inner).poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        with!(&mut *self, inner => Pin::new(inner).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        with!(&mut *self, inner => Pin::new(inner).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with!(&mut *self, inner => Pin::new(inner).poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with!(&mut *self, inner => Pin::new(inner).poll_shutdown(cx))
    }
}
