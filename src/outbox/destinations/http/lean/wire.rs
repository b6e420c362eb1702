//! The socket below a connection. It knows whether any byte of the current request has left, looks once more
//! whether the far side is still there before one does, and lets an early answer be read.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// How much the look before a request reads: a notice that a TLS connection is over is shorter.
const LOOK_BYTES: usize = 64;

/// What became of the current request, as far as the socket knows.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Whether any byte of the request went to the system.
    is_sent: AtomicBool,
    /// Whether the far side stopped to take bytes.
    is_broken: AtomicBool,
    /// Whether the next read is the look before a request.
    is_look: AtomicBool,
}

impl Seen {
    /// A request begins: nothing of it has been sent, and the socket is to be looked at.
    pub(super) fn begin(&self) {
        self.is_sent.store(false, Ordering::Relaxed);
        self.is_look.store(true, Ordering::Relaxed);
    }

    /// Whether the far side may have any byte of the request.
    pub(super) fn is_sent(&self) -> bool {
        self.is_sent.load(Ordering::Relaxed)
    }

    /// Whether the far side did not take all of it.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }
}

/// A TCP connection.
pub(super) struct Wire {
    tcp: TcpStream,
    seen: Arc<Seen>,
}

impl Wire {
    pub(super) fn new(tcp: TcpStream) -> Self {
        Self { tcp, seen: Arc::default() }
    }

    pub(super) fn seen(&self) -> Arc<Seen> {
        Arc::clone(&self.seen)
    }

    /// A far side may answer, and close, before it has read everything (413, say). What it said is there to be read,
    /// so the rest of the request is thrown away and the connection with it.
    fn wrote(&self, wrote: io::Result<usize>, given_n: usize) -> io::Result<usize> {
        match wrote {
            Ok(wrote_n) => {
                if wrote_n > 0 {
                    self.seen.is_sent.store(true, Ordering::Relaxed);
                }
                Ok(wrote_n)
            }
            Err(_) if self.seen.is_sent() => {
                self.seen.is_broken.store(true, Ordering::Relaxed);
                Ok(given_n)
            }
            Err(error) => Err(error),
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.seen.is_look.swap(false, Ordering::Relaxed) {
            // Of the system itself: the runtime may not have been told yet that the far side has closed it.
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
        Poll::Ready(self.wrote(wrote, buf.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = ready!(Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs));
        Poll::Ready(self.wrote(wrote, bufs.iter().map(|buf| buf.len()).sum()))
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
