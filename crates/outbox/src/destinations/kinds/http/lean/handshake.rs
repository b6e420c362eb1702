//! Connects and hangs up: TCP and TLS as a call has them, and no byte of a request.

use std::io;
use std::time::Duration;

use rustls::{AlertDescription, CertificateError, Error as TlsError};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use super::caller::Lean;
use super::connect::BoxError;
use super::wire::Wire;
use crate::destinations::handshake::HandshakeEnd;
use crate::destinations::kinds::http::address::Origin;
use crate::destinations::kinds::http::call::words;
use hooklatch_core::tls;

/// In TLS 1.3 a client is done before the other side has looked at its certificate: it says so within this time.
const OBJECTION: Duration = Duration::from_millis(300);

impl Lean {
    /// Connects to `origin`, which has TLS, within `limit`.
    pub(crate) async fn handshake(&self, origin: &Origin, limit: Duration) -> HandshakeEnd {
        let limit = limit.min(self.connect_timeout);
        let done = timeout(limit, async {
            let wire = match self.connector.wire(origin).await {
                Ok(wire) => wire,
                Err(error) => return HandshakeEnd::Unreached(words(&*error)),
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

/// Reads what the other side answers to our certificate, once we believe its own.
async fn read_response(mut stream: TlsStream<Wire>) -> HandshakeEnd {
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let not_after_s = shown.and_then(|certificate| tls::not_after_s(certificate));
    match timeout(OBJECTION, stream.read_u8()).await {
        Ok(Err(error)) if alert(&error).is_some() => refused(&(error.into())),
        // A server that closes the connection without an alert may do so with every silent client.
        _ => HandshakeEnd::Well { not_after_s },
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
        Some(TlsError::InvalidCertificate(why)) => HandshakeEnd::NotBelieved(why_not(why)),
        Some(TlsError::AlertReceived(alert)) => HandshakeEnd::NotTaken(format!("it says {alert:?}")),
        _ => HandshakeEnd::NoTls(words(&**error)),
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
