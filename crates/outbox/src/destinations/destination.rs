//! One destination that is ready: its client, its times and its gate. It sends one message and returns the outcome.
//!
//! It never retries, never stores and never decides.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::destinations::kinds::KINDS;
use crate::destinations::{
    Asked, CallOutcome, ClientSettings, DestinationClient, DestinationError, HttpDestination, envelope,
};
use crate::gate::CallGate;
use crate::policy::CallAnswer;
use hooklatch_core::config::{DestinationConfig, OutboxConfig};
use hooklatch_core::types::{Name, UnixMs, key_used_for_ms};
use hooklatch_store::LeasedMessage;

/// The times of calls to one destination. Milliseconds.
#[expect(clippy::struct_field_names, reason = "quantities end in their unit")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    /// Longest time from connecting to the last byte of a call. Milliseconds, from 1.
    pub(crate) timeout_ms: u64,
    /// Longest time of a question; a question and a call fit into one lease. Milliseconds, from 1.
    pub(crate) ask_timeout_ms: u64,
    /// The time that must be left of the lease after a call. Milliseconds.
    pub(crate) margin_ms: u64,
    /// Time after which a lease is extended while a call is under way. Milliseconds; `None`: never, because the call
    /// fits into it.
    pub(crate) beat_ms: Option<u64>,
}

impl Times {
    /// Fits a call, and a question before it, into the lease, whatever was configured.
    pub(crate) fn within(lease_ms: u64, timeout_ms: u64) -> Self {
        let margin_ms = lease_ms / 20;
        let timeout_ms = timeout_ms.min(lease_ms - 2 * margin_ms).max(1);
        let rest_ms = lease_ms.saturating_sub(timeout_ms + 2 * margin_ms);
        let ask_timeout_ms = timeout_ms.min(rest_ms.max(margin_ms / 2)).max(1);
        Self { timeout_ms, ask_timeout_ms, margin_ms, beat_ms: None }
    }

    /// Times of calls that may outlast the lease, which is extended four times in its length.
    pub(crate) fn with_heartbeat(lease_ms: u64, timeout_ms: u64) -> Self {
        let within = Self::within(lease_ms, timeout_ms);
        Self { timeout_ms: timeout_ms.max(1), beat_ms: Some((lease_ms / 4).max(1)), ..within }
    }

    /// True when a call that starts now ends, at its slowest, well before the lease does.
    pub(crate) fn fit(self, lease_until_ms: UnixMs, now_ms: UnixMs) -> bool {
        let left_ms = u64::try_from(lease_until_ms.saturating_sub(now_ms)).unwrap_or(0);
        let needed_ms = match self.beat_ms {
            // Until the first beats are written, late ones included.
            Some(beat_ms) => self.timeout_ms.min(2 * beat_ms),
            None => self.timeout_ms,
        };
        left_ms >= needed_ms + self.margin_ms
    }
}

/// One destination that messages can be sent to.
pub(crate) struct Destination {
    pub(crate) name: Name,
    pub(crate) config: DestinationConfig,
    pub(crate) times: Times,
    pub(crate) gate: CallGate,
    client: DestinationClient,
}

impl Destination {
    pub(crate) fn new(
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
        let settings =
            ClientSettings { name: &name, config: &config, timeout: Duration::from_millis(times.timeout_ms) };
        let client = client(&settings)?;
        let gate = CallGate::new(name.clone(), &config);
        Ok(Self { name, config, times, gate, client })
    }

    /// The time, from the first send, that a key may be used. Milliseconds.
    pub(crate) fn key_valid_for_ms(&self) -> i64 {
        key_used_for_ms(self.config.key_valid_for_ms)
    }

    /// Its HTTP client, where it is called over HTTP.
    pub(crate) fn http(&self) -> Option<&HttpDestination> {
        match &self.client {
            DestinationClient::Http(http) => Some(http),
            DestinationClient::Broker(_) => None,
        }
    }

    /// Makes the call, once.
    pub(crate) async fn send(&self, message: &LeasedMessage, now_ms: UnixMs) -> CallOutcome {
        let message = match envelope::shaped(self.config.format, message) {
            Ok(message) => message,
            Err(why) => return CallAnswer::Forbidden(why).into(),
        };
        match &self.client {
            DestinationClient::Http(http) => {
                http.send(&message, now_ms).await.unwrap_or_else(CallOutcome::from)
            }
            DestinationClient::Broker(broker) => broker.send(&message).await.into(),
        }
    }

    /// Asks whether an earlier attempt took effect.
    pub(crate) async fn ask(&self, message: &LeasedMessage) -> Asked {
        match self.http() {
            Some(http) => http.ask(message, Duration::from_millis(self.times.ask_timeout_ms)).await,
            None => Asked::Unclear("no query is configured".to_owned()),
        }
    }
}

/// The client of the kind that the configuration names.
fn client(settings: &ClientSettings<'_>) -> Result<DestinationClient, DestinationError> {
    // An error says that one is installed already, which is as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    let kind = KINDS.iter().find(|kind| kind.name == settings.config.target.kind());
    let Some(connect) = kind.and_then(|kind| kind.connect) else {
        let why = "this program was built without the feature for it".to_owned();
        return Err(DestinationError::Url(settings.name.clone(), why));
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

#[cfg(test)]
mod tests {
    use super::*;

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
