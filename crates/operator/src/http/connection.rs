//! The bytes of one connection, bounded in time: its TLS handshake, and answers on their way out.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::debug;

use super::room::{ConnectionPermit, ConnectionSlot, Served};
use hooklatch_core::tls::client_certificate;
use hooklatch_core::types::ClientCertificate;

/// The encrypted stream; `None` when there is none in time, or when the connection gives way.
pub(crate) async fn handshake(
    config: Arc<ServerConfig>,
    stream: TcpStream,
    place: &ConnectionPermit,
    within: Duration,
) -> Option<TlsStream<TcpStream>> {
    let mut accepting = pin!(tokio::time::timeout(within, TlsAcceptor::from(config).accept(stream)));
    let ended = match place.served(accepting.as_mut(), &mut false).await {
        Served::Ended(ended) => ended,
        // Nothing is under way that would have to be answered.
        Served::Stopping => return None,
        Served::Evicted => {
            debug!("connection gave way to another one in its handshake");
            return None;
        }
    };
    match ended {
        // It waits for its first request from now on, unless it was evicted a moment ago.
        Ok(Ok(stream)) => place.slot.waiting(Instant::now()).then_some(stream),
        Ok(Err(error)) => {
            place.count("handshake");
            debug!(%error, "no TLS connection was made");
            None
        }
        Err(_) => {
            place.count("handshake");
            debug!("a TLS handshake took too long");
            None
        }
    }
}

/// The certificate that the client showed, which its handshake has verified.
pub(super) fn shown_by(stream: &TlsStream<TcpStream>) -> Option<Arc<ClientCertificate>> {
    let certificate = stream.get_ref().1.peer_certificates()?.first()?;
    client_certificate(certificate).map(Arc::new)
}

/// A stream whose writes are done within `timeout`, counted from the first one that has to wait until all of it is
/// with the system: a peer that takes a byte now and then gains nothing.
pub(super) struct Bounded<S> {
    io: TokioIo<S>,
    slot: Arc<ConnectionSlot>,
    timeout: Duration,
    /// Runs while something waits to be written.
    deadline: Option<Pin<Box<Sleep>>>,
    /// True when a read was put off until then.
    is_read_wanted: bool,
}

impl<S> Bounded<S> {
    pub(crate) fn new(stream: S, slot: Arc<ConnectionSlot>, timeout: Duration) -> Self {
        Self { io: TokioIo::new(stream), slot, timeout, deadline: None, is_read_wanted: false }
    }

    /// Returns the result of a write, or an error when it took too long.
    fn timed<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            return written;
        }
        let timeout = self.timeout;
        let deadline =
            self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + timeout)));
        ready!(deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer did not read its answer in time")))
    }
}

impl<S: AsyncRead + Unpin> Read for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.deadline.is_some() {
            self.is_read_wanted = true;
            return Poll::Pending;
        }
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        if read.is_ready() {
            self.slot.read();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> Write for Bounded<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.timed(cx, written)
    }

    /// Only called once everything was written, so the time is over here, not at the first byte that was taken.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        if flushed.is_ready() {
            self.deadline = None;
            if std::mem::take(&mut self.is_read_wanted) {
                cx.waker().wake_by_ref();
            }
        }
        self.timed(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.io).poll_shutdown(cx);
        self.timed(cx, closed)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.timed(cx, written)
    }
}
