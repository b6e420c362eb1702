//! HTTP destinations: one request per attempt, and what its end means.
//!
//! Redirects are not followed, bodies are not decompressed, proxies of the environment are not used. What
//! fails before the first byte has left was surely not sent; everything later is unknown. Addresses and header
//! values are secrets: neither is ever part of an error's words.

mod address;
mod answer;
mod bare;
mod call;
mod client;
mod headers;
mod lean;
mod sign;
mod tls;

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{CACHE_CONTROL, HeaderValue};
use reqwest::Url;

use self::address::{Address, Base};
use self::answer::Reader;
pub use self::bare::BareCalls;
use self::call::{ANSWER_BYTES_MAX, Answered, Call, Cut, Failed};
use self::client::Caller;
pub(crate) use self::client::http_client;
use self::headers::Headers;
use self::sign::Signers;
use super::query::Query;
use super::{Asked, CallAnswer, DestinationError, Sent};
use crate::config::DestinationConfig;
use crate::store::LeasedMessage;
use crate::types::{Name, UnixMs};

/// One destination, its headers and its connections.
pub(super) struct HttpDestination {
    caller: Caller,
    base: Base,
    headers: Headers,
    timeout: Duration,
    signers: Signers,
    reader: Reader,
}

impl HttpDestination {
    /// `timeout` is from connect to last byte.
    pub(super) fn new(
        name: &Name,
        config: &DestinationConfig,
        timeout: Duration,
    ) -> Result<Self, DestinationError> {
        let base = Base::new(config).map_err(|why| DestinationError::Url { name: name.clone(), why })?;
        let headers =
            Headers::new(config).map_err(|header| DestinationError::Header { name: name.clone(), header })?;
        let caller = Caller::new(config, timeout)
            .map_err(|why| DestinationError::Client { name: Some(name.clone()), why })?;
        let (signers, reader) = (Signers::new(config), Reader::new(config));
        Ok(Self { caller, base, headers, timeout, signers, reader })
    }

    /// Sends the message once and says what came back.
    pub(super) async fn send(&self, message: &LeasedMessage, now_ms: UnixMs) -> Sent {
        // No attempt of it can end better, and the destination has no part in it.
        let forbidden = |why: String| Sent::from(CallAnswer::Forbidden { why });
        let address = match self.base.address_of(message) {
            Ok(address) => address,
            Err(why) => return forbidden(why),
        };
        let call = match self.call(message, &address, now_ms) {
            Ok(call) => call,
            Err(why) => return forbidden(why),
        };
        match self.caller.call(call).await {
            Ok(answered) => self.read(answered),
            Err(Failed::Private(why)) => forbidden(why),
            Err(Failed::NotSent(why)) => CallAnswer::NotSent { why }.into(),
            Err(Failed::Unknown(why)) => CallAnswer::Unknown { why }.into(),
        }
    }

    fn call<'a>(
        &self,
        message: &LeasedMessage,
        address: &'a Address,
        now_ms: UnixMs,
    ) -> Result<Call<'a>, String> {
        let method = Method::from_bytes(message.method.as_bytes())
            .ok()
            .filter(|method| *method != Method::CONNECT)
            .ok_or_else(|| format!("`{}` is not a method", message.method))?;
        let mut headers = self.headers.of(message)?;
        self.signers.sign(message, now_ms / 1_000, &mut headers)?;
        let (body, is_body_wanted) = (message.body.clone(), self.reader.wants_body());
        Ok(Call { method, address, headers, body, timeout: self.timeout, is_body_wanted })
    }

    fn read(&self, answered: Answered) -> Sent {
        let body = answered.body.as_deref().ok();
        Sent {
            response: self.reader.captured(body),
            answer: self.reader.confirm(answered.code, answered.retry_after, body),
        }
    }

    /// Asks whether an earlier attempt of the message took effect.
    pub(super) async fn ask(&self, query: &Query, message: &LeasedMessage, timeout: Duration) -> Asked {
        let unclear = |why: String| Asked::Unclear { why: format!("asked whether it happened: {why}") };
        let Some(address) = Url::parse(&query.url_of(message)).ok().and_then(|url| Address::new(url).ok())
        else {
            return unclear("the query's url is not an address".to_owned());
        };
        let mut headers = self.headers.of_question(self.base.is_home_of(&address.url));
        // Whatever a cache remembers was said before the call ended.
        headers.append(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        let (method, body) = (Method::GET, Bytes::new());
        let call = Call { method, address: &address, headers, body, timeout, is_body_wanted: true };
        match self.caller.call(call).await {
            Ok(Answered { code, body: Ok(body), .. }) => query.judge(code, &body),
            Ok(Answered { body: Err(Cut::TooLong), .. }) => {
                unclear(format!("the answer is longer than {ANSWER_BYTES_MAX} bytes"))
            }
            Ok(Answered { body: Err(Cut::TooSlow), .. }) => unclear(call::no_answer(timeout)),
            Ok(Answered { body: Err(Cut::Broken(why)), .. }) => unclear(why),
            Err(failed) => unclear(failed.why()),
        }
    }
}
