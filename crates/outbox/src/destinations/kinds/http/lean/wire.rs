//! The socket below a connection. It knows how many bytes of the current request have left, and looks once more
//! whether the destination is still there before one does.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

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
    pub(crate) fn new(tcp: TcpStream) -> Self {
        Self { tcp, seen: Arc::default() }
    }

    pub(crate) fn seen(&self) -> Arc<Seen> {
        Arc::clone(&self.seen)
    }

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
