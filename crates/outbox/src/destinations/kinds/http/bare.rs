//! A destination's client alone, without messages, gates or a store: what a call costs.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use reqwest::Url;

use super::address::Address;
use super::call::{Call, CallFailure};
use super::client::Caller;
use hooklatch_core::config::DestinationConfig;

/// Makes calls as an HTTP destination does. For benches, and not promised.
pub struct BareCalls {
    caller: Caller,
    address: Address,
    timeout: Duration,
}

impl BareCalls {
    /// To `config.url`, which must be an address. `Err(why)` for what cannot be used.
    pub fn new(config: &DestinationConfig) -> Result<Self, String> {
        let url = Url::parse(&config.url).map_err(|error| error.to_string())?;
        let timeout = Duration::from_millis(config.timeout_ms);
        Ok(Self { caller: Caller::new(config, timeout)?, address: Address::new(url)?, timeout })
    }

    /// Posts `body` once, under `key`; the status, once the whole answer was read. `Err(why)` when there was none.
    pub async fn post(&self, key: HeaderValue, body: Bytes) -> Result<u16, String> {
        let mut headers = HeaderMap::new();
        headers.insert("idempotency-key", key);
        let (method, address, timeout) = (Method::POST, &self.address, self.timeout);
        let call = Call { method, address, headers, body, timeout, is_body_wanted: false };
        self.caller.call(call).await.map(|answered| answered.code).map_err(CallFailure::why)
    }
}
