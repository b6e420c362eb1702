//! The beginning of a TLS connection. It counts as waiting for its peer, like any other: a handshake that does not go
//! on times out, and is evicted before that when another connection needs the place.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::debug;

use super::room::{ConnectionPermit, ConnectionSignal};
use hooklatch_core::tls::client_certificate;
use hooklatch_core::types::ClientCertificate;

/// The encrypted stream; `None` when there is none in time, or when the connection gives way.
pub(crate) async fn handshake(
    config: Arc<ServerConfig>,
    stream: TcpStream,
    place: &ConnectionPermit,
    within: Duration,
) -> Option<TlsStream<TcpStream>> {
    let accepting = tokio::time::timeout(within, TlsAcceptor::from(config).accept(stream));
    let mut accepting = pin!(accepting);
    let mut is_listening = false;
    let ended = loop {
        let next = std::future::poll_fn(|cx| match accepting.as_mut().poll(cx) {
            Poll::Ready(ended) => Poll::Ready(Err(ended)),
            Poll::Pending => place.slot.poll_signal(cx, &mut is_listening).map(Ok),
        });
        match next.await {
            Err(ended) => break ended,
            // Nothing is under way that would have to be answered.
            Ok(ConnectionSignal::Stop) => return None,
            Ok(ConnectionSignal::Evict) => {}
        }
        // Bytes that arrived already count.
        tokio::task::yield_now().await;
        let looked = std::future::poll_fn(|cx| Poll::Ready(Pin::as_mut(&mut accepting).poll(cx))).await;
        if let Poll::Ready(ended) = looked {
            break ended;
        }
        if place.is_evicted() {
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
