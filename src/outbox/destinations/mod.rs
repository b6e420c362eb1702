//! The far sides. HTTP is the first; a destination takes a leased message and says what came of the call.

mod http;
mod query;

pub(crate) use http::http_client;
pub(super) use query::Happened;

use ::http::{HeaderMap, HeaderName, HeaderValue};

use super::DestinationError;
use super::policy::{Answer, Rules};
use crate::config::{DestinationConfig, UnknownPolicy};
use crate::store::{LeaseWant, LeasedMessage};
use crate::types::{Clock, Name};

/// One `[destinations.NAME]`, ready to be called.
pub(super) struct Destination {
    pub(super) name: Name,
    pub(super) config: DestinationConfig,
    /// Configured headers; their values are secrets.
    headers: HeaderMap,
    client: reqwest::Client,
}

impl Destination {
    pub(super) fn new(
        name: Name,
        config: DestinationConfig,
        client: reqwest::Client,
    ) -> Result<Self, DestinationError> {
        let is_http =
            reqwest::Url::parse(&config.url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
        if !is_http {
            return Err(DestinationError::Url { name });
        }
        let mut headers = HeaderMap::new();
        for (header, value) in &config.headers {
            let wrong = || DestinationError::Header { name: name.clone(), header: header.clone() };
            let key = HeaderName::from_bytes(header.as_bytes()).map_err(|_| wrong())?;
            let mut value = HeaderValue::from_str(value.reveal()).map_err(|_| wrong())?;
            value.set_sensitive(true);
            headers.insert(key, value);
        }
        Ok(Self { name, config, headers, client })
    }

    /// What may be leased for it with `free_n` slots.
    pub(super) fn want(&self, free_n: u32) -> LeaseWant {
        let valid_ms = i64::try_from(self.config.key_valid_for_ms).unwrap_or(i64::MAX / 2);
        // A tenth less than the far side promises: clocks differ, and the last send takes its time.
        LeaseWant { destination: self.name.clone(), free_n, key_valid_for_ms: valid_ms - valid_ms / 10 }
    }

    pub(super) fn rules(&self) -> Rules<'_> {
        Rules {
            retry: &self.config.retry,
            unknown: &self.config.unknown,
            retry_after_ms_max: i64::try_from(self.config.retry_after_max_ms).unwrap_or(i64::MAX),
        }
    }

    /// Makes the call.
    pub(super) async fn send(&self, message: &LeasedMessage, clock: &Clock) -> Answer {
        http::send(self, message, clock).await
    }

    /// Asks whether an earlier call took effect; `Unclear` without a `query`.
    pub(super) async fn ask(&self, message: &LeasedMessage) -> Happened {
        match &self.config.unknown {
            UnknownPolicy::Query(query) => query::ask(self, query, message).await,
            UnknownPolicy::Retry | UnknownPolicy::Hold => Happened::Unclear("nothing to ask".to_owned()),
        }
    }
}
