//! One destination that is ready: its client, its times and its gate. It sends one message and returns the outcome.
//!
//! It never retries, never stores and never decides.

use std::collections::BTreeMap;
use std::time::Duration;

use super::client::DestinationClient;
use super::client_settings::ClientSettings;
use super::envelope;
use super::error::DestinationError;
use super::handshake::HandshakeEnd;
use super::kinds::kinds;
use super::outcome::{Asked, CallOutcome};
use super::times::Times;
use crate::gate::CallGate;
use crate::policy::CallAnswer;
use crate::traces::HttpServer;
use hooklatch_core::config::{DestinationConfig, OutboxConfig};
use hooklatch_core::types::{Name, UnixMs, key_used_for_ms};
use hooklatch_store::LeasedMessage;

/// One destination that messages can be sent to.
pub struct Destination {
    pub name: Name,
    pub config: DestinationConfig,
    pub times: Times,
    pub gate: CallGate,
    client: DestinationClient,
}

impl Destination {
    pub fn new(name: Name, config: DestinationConfig, lease_ms: u64) -> Result<Self, DestinationError> {
        let times = if config.heartbeat {
            Times::with_heartbeat(lease_ms, config.timeout_ms)
        } else {
            Times::within(lease_ms, config.timeout_ms)
        };
        if times.timeout_ms < config.timeout_ms {
            tracing::warn!(
                destination = %name,
                configured.timeout_ms = config.timeout_ms,
                timeout_ms = times.timeout_ms,
                "shortened a timeout to keep calls inside the lease"
            );
        }
        let settings =
            ClientSettings { name: &name, config: &config, timeout: Duration::from_millis(times.timeout_ms) };
        let client = client(&settings)?;
        let gate = CallGate::new(name.clone(), &config);
        Ok(Self { name, config, times, gate, client })
    }

    /// The time, from the first send, that a key may be used. Milliseconds.
    pub fn key_valid_for_ms(&self) -> i64 {
        key_used_for_ms(self.config.key_valid_for_ms)
    }

    /// True when it is called over HTTP.
    pub(crate) fn is_http(&self) -> bool {
        matches!(self.client, DestinationClient::Http(_))
    }

    /// Host and port that every call goes to over TLS; the empty text where each message names its own, and `None`
    /// where there is no TLS, or none of HTTP's.
    pub(crate) fn tls_host(&self) -> Option<String> {
        match &self.client {
            DestinationClient::Http(http) => http.tls_host(),
            DestinationClient::Broker(_) => None,
        }
    }

    /// The server that a message goes to over HTTP.
    pub(crate) fn server_of(&self, message: &LeasedMessage) -> Option<HttpServer> {
        match &self.client {
            DestinationClient::Http(http) => http.server_of(message),
            DestinationClient::Broker(_) => None,
        }
    }

    /// Connects to an HTTP destination and hangs up; `None` for others, and where the address is unknown without a
    /// message.
    pub async fn handshake(&self, limit: Duration) -> Option<HandshakeEnd> {
        match &self.client {
            DestinationClient::Http(http) => http.handshake(limit).await,
            DestinationClient::Broker(_) => None,
        }
    }

    /// Makes the call, once.
    pub async fn send(&self, message: &LeasedMessage, now_ms: UnixMs) -> CallOutcome {
        let message = match envelope::shaped(self.config.format, message) {
            Ok(message) => message,
            Err(why) => return CallAnswer::Forbidden { why }.into(),
        };
        match &self.client {
            DestinationClient::Http(http) => http.send(&message, now_ms).await,
            DestinationClient::Broker(broker) => broker.send(&message).await.into(),
        }
    }

    /// Asks whether an earlier attempt took effect.
    pub async fn ask(&self, message: &LeasedMessage) -> Asked {
        match &self.client {
            DestinationClient::Http(http) => {
                http.ask(message, Duration::from_millis(self.times.ask_timeout_ms)).await
            }
            DestinationClient::Broker(_) => Asked::Unclear { why: "no query is configured".to_owned() },
        }
    }
}

/// The client of the kind that the configuration names.
fn client(settings: &ClientSettings<'_>) -> Result<DestinationClient, DestinationError> {
    // An error says that one is installed already, which is as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    let kind = kinds().iter().find(|kind| kind.name() == settings.config.target.kind());
    let Some(connect) = kind.and_then(|kind| kind.connect()) else {
        let why = "this program was built without the feature for it".to_owned();
        return Err(DestinationError::Url { name: settings.name.clone(), why });
    };
    connect(settings)
}

/// Makes every configured destination ready, or says which one is not.
pub(crate) fn ready(
    configs: BTreeMap<Name, DestinationConfig>,
    outbox: &OutboxConfig,
) -> Result<BTreeMap<Name, Destination>, DestinationError> {
    configs
        .into_iter()
        .map(|(name, config)| Ok((name.clone(), Destination::new(name, config, outbox.lease_ms)?)))
        .collect()
}
