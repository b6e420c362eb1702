//! Where messages go. A destination sends one message and says what came back; it may also ask the destination
//! whether an earlier attempt took effect. It never retries, never stores and never decides.

mod broker;
mod envelope;
mod http;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "brokers")]
mod pooled;
#[cfg(feature = "postgres-table")]
mod postgres_table;
mod query;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
#[cfg(feature = "redis")]
mod redis;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::config::{DestinationConfig, OutboxConfig, UnknownPolicy};
use crate::store::LeasedMessage;
use crate::types::{Name, UnixMs};

use super::gate::CallGate;
use super::policy::CallAnswer;
use broker::Broker;
pub use http::BareCalls;
use http::HttpDestination;
pub(crate) use http::http_client;
use query::Query;

/// What came of one call.
pub(super) struct Sent {
    pub(super) answer: CallAnswer,
    /// The piece of the answer that is kept, when the destination keeps any.
    pub(super) response: Option<String>,
}

impl From<CallAnswer> for Sent {
    fn from(answer: CallAnswer) -> Self {
        Self { answer, response: None }
    }
}

/// What the destination says about an earlier attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asked {
    /// The effect is there.
    Happened,
    /// It is not.
    DidNotHappen,
    /// No answer that can be relied on.
    Unclear {
        /// In words without URLs, bodies or secrets.
        why: String,
    },
}

/// Why a destination cannot be used as configured.
#[derive(Debug, thiserror::Error)]
pub enum DestinationError {
    /// The address is not one that messages can be sent to.
    #[error("destination `{name}`: url cannot be used: {why}")]
    Url {
        /// Which destination.
        name: Name,
        /// What is wrong with it, without the address.
        why: String,
    },
    /// A configured header is not a header.
    #[error(
        "destination `{name}`: `{header}` is not a header name, or its value has characters a header cannot carry"
    )]
    Header {
        /// Which destination.
        name: Name,
        /// Which header.
        header: String,
    },
    /// The client could not be made; as a rule, no certificate authorities were found.
    #[error("could not make an HTTP client{}: {why}", name.as_ref().map(|name| format!(" for destination `{name}`")).unwrap_or_default())]
    Client {
        /// Which destination, if it is for one.
        name: Option<Name>,
        /// What the library says.
        why: String,
    },
}

/// The times of one destination.
#[expect(clippy::struct_field_names, reason = "quantities end in their unit")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    /// Connect to last byte.
    pub(super) timeout_ms: u64,
    /// The same for a question; a question and a call fit into one lease.
    pub(super) ask_timeout_ms: u64,
    /// What must be left of the lease after a call.
    pub(super) margin_ms: u64,
    /// How often a lease is prolonged while a call is under way; `None`: never, because the call fits into it.
    pub(super) beat_ms: Option<u64>,
}

impl Times {
    /// Keeps a call, and a question before it, inside the lease, whatever was configured.
    fn within(lease_ms: u64, timeout_ms: u64) -> Self {
        let margin_ms = lease_ms / 20;
        let timeout_ms = timeout_ms.min(lease_ms - 2 * margin_ms).max(1);
        let rest_ms = lease_ms.saturating_sub(timeout_ms + 2 * margin_ms);
        let ask_timeout_ms = timeout_ms.min(rest_ms.max(margin_ms / 2)).max(1);
        Self { timeout_ms, ask_timeout_ms, margin_ms, beat_ms: None }
    }

    /// For calls that may outlast the lease, which is prolonged four times in its length.
    fn with_heartbeat(lease_ms: u64, timeout_ms: u64) -> Self {
        let within = Self::within(lease_ms, timeout_ms);
        Self { timeout_ms: timeout_ms.max(1), beat_ms: Some((lease_ms / 4).max(1)), ..within }
    }

    /// Whether a call that starts now ends, at its slowest, well before the lease does.
    pub(super) fn fit(self, lease_until_ms: UnixMs, now_ms: UnixMs) -> bool {
        let left_ms = u64::try_from(lease_until_ms.saturating_sub(now_ms)).unwrap_or(0);
        let needed_ms = match self.beat_ms {
            // Until the first beats are written, late ones included.
            Some(beat_ms) => self.timeout_ms.min(2 * beat_ms),
            None => self.timeout_ms,
        };
        left_ms >= needed_ms + self.margin_ms
    }
}

/// One destination, ready.
pub(super) struct Destination {
    pub(super) name: Name,
    pub(super) config: DestinationConfig,
    pub(super) times: Times,
    pub(super) gate: CallGate,
    far: Far,
    query: Option<Query>,
}

/// How it is reached.
enum Far {
    Http(Box<HttpDestination>),
    Broker(Box<dyn Broker>),
}

impl Destination {
    pub(super) fn new(
        name: Name,
        config: DestinationConfig,
        lease_ms: u64,
    ) -> Result<Self, DestinationError> {
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
        let query = match &config.unknown {
            UnknownPolicy::Query(query) => Some(Query::new(query.clone())),
            UnknownPolicy::Retry | UnknownPolicy::Hold => None,
        };
        let timeout = Duration::from_millis(times.timeout_ms);
        let far = match broker::broker(&name, &config, timeout)? {
            Some(broker) => Far::Broker(broker),
            None => Far::Http(Box::new(HttpDestination::new(&name, &config, timeout)?)),
        };
        let gate = CallGate::new(name.clone(), &config);
        Ok(Self { name, config, times, gate, far, query })
    }

    /// How long, from the first send, a key may be used: what the destination promises, less a twentieth for
    /// clocks that differ and calls under way.
    pub(super) fn key_valid_for_ms(&self) -> i64 {
        let for_ms = self.config.key_valid_for_ms;
        i64::try_from(for_ms - for_ms / 20).unwrap_or(i64::MAX)
    }

    /// Makes the call, once.
    pub(super) async fn send(&self, message: &LeasedMessage, now_ms: UnixMs) -> Sent {
        let message = match envelope::shaped(self.config.format, message) {
            Ok(message) => message,
            Err(why) => return CallAnswer::Forbidden { why }.into(),
        };
        match &self.far {
            Far::Http(http) => http.send(&message, now_ms).await,
            Far::Broker(broker) => broker.send(&message).await.into(),
        }
    }

    /// Asks whether an earlier attempt took effect.
    pub(super) async fn ask(&self, message: &LeasedMessage) -> Asked {
        match (&self.query, &self.far) {
            (Some(query), Far::Http(http)) => {
                http.ask(query, message, Duration::from_millis(self.times.ask_timeout_ms)).await
            }
            _ => Asked::Unclear { why: "no query is configured".to_owned() },
        }
    }
}

/// Makes every configured destination ready, or says which one is not.
pub(super) fn ready(
    configs: BTreeMap<Name, DestinationConfig>,
    outbox: &OutboxConfig,
) -> Result<BTreeMap<Name, Destination>, DestinationError> {
    configs
        .into_iter()
        .map(|(name, config)| Ok((name.clone(), Destination::new(name, config, outbox.lease_ms)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first attempt of `key-1`.
    pub(super) fn message() -> LeasedMessage {
        LeasedMessage {
            message_id: crate::types::MessageId::from_column(7),
            key: crate::types::EventKey {
                provider: Name::parse("stripe").expect("a name"),
                event_id: "evt_1".to_owned(),
            },
            event_type: "invoice.paid".to_owned(),
            effect_name: "billing".to_owned(),
            idempotency_key: "key-1".to_owned(),
            destination: Name::parse("billing").expect("a name"),
            method: "POST".to_owned(),
            path: String::new(),
            headers: BTreeMap::new(),
            body: bytes::Bytes::from_static(b"{}"),
            event_content_type: None,
            lane: None,
            attempt_n: 1,
            is_previous_unsettled: false,
            is_previous_unknown: false,
            previous_ended_at_ms: None,
            attempts_before_n: 0,
            created_at_ms: 1_000,
            first_sent_at_ms: 1_000,
            key_valid_until_ms: 1_000_000,
            lease_until_ms: 31_000,
        }
    }

    #[test]
    fn a_question_and_a_call_fit_into_one_lease() {
        #[track_caller]
        fn check(lease_ms: u64, timeout_ms: u64, want: (u64, u64)) {
            let times = Times::within(lease_ms, timeout_ms);
            assert_eq!((times.timeout_ms, times.ask_timeout_ms), want);
            assert!(
                times.timeout_ms + times.ask_timeout_ms + times.margin_ms <= lease_ms.max(2),
                "{times:?}"
            );
        }
        check(30_000, 10_000, (10_000, 10_000));
        check(30_000, 20_000, (20_000, 7_000));
        check(30_000, 26_500, (26_500, 750));
        check(30_000, 29_999, (27_000, 750));
        check(30_000, u64::MAX, (27_000, 750));
        check(1_000, 100, (100, 100));
        check(1, 1, (1, 1));
    }

    #[test]
    fn a_call_that_could_outlive_its_lease_is_not_started() {
        let times = Times::within(30_000, 10_000);
        assert!(times.fit(30_000, 0));
        assert!(times.fit(30_000, 18_500));
        assert!(!times.fit(30_000, 18_501));
        assert!(!times.fit(30_000, 60_000));
        assert!(!times.fit(i64::MIN, i64::MAX));
    }
}
