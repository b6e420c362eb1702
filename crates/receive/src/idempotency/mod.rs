//! `Idempotency-Key` for routes of your own: a layer for an axum 0.8 router that carries a request out once and answers
//! its repetitions with the first answer.
//!
//! The layer comes from [`Background::idempotency`](hooklatch::Background::idempotency). Requests that may change
//! something (all but GET, HEAD, OPTIONS and TRACE) need a key: 1 to 255 visible ASCII characters, bare or as a quoted
//! string. Keys belong to a principal, which you name.
//!
//! | a request under a key | answer |
//! |---|---|
//! | is new | your handler's |
//! | was answered 2xx, 3xx or 4xx | that answer again, with `Idempotency-Replayed: true` |
//! | is being carried out | that answer, if it comes within [`wait`](IdempotencyLayer::wait); else 409 `idempotency_key_in_use` with `Retry-After` |
//! | is another request than the first | 422 `idempotency_key_reused`, or [another status](IdempotencyLayer::mismatch_status) |
//! | was answered 401, 403, 408, 425, 429 or 5xx, panicked, or was not answered within its [`lock`](IdempotencyLayer::lock) | your handler is asked again |
//!
//! Without a key the answer is 400 `idempotency_key_missing`; with something else as a key, several or a list of them
//! 400 `idempotency_key_malformed`. Each answer says in `Idempotency-Expires-At-Ms` until when the key is known.
//!
//! A handler by itself takes effect *at least once*: a process that dies between the effect and the answer leaves a key
//! that the next request takes over. Where the effect is in the database of Hooklatch, [`IdempotencyClaim`] makes the
//! effect and the answer one commit, and it is *exactly once*.

mod answers;
mod carry;

pub use answers::fingerprint;
pub use carry::IdempotencyClaim;

use std::any::Any;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use http::request::Parts;
use tokio::sync::{Notify, Semaphore};
use tower::{Layer, Service};

use carry::carried;
use hooklatch_core::types::{Clock, IdempotencyKey};
use hooklatch_store::{KeyReply, KeyRequest, Store};

/// Names whose key it is; `None` refuses the request.
pub(super) type Principals = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

/// The rules of one layer.
#[derive(Clone)]
pub struct RequestRules {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    /// Keeps the keys of operators and of programs apart.
    pub(super) namespace: &'static str,
    pub(super) principals: Principals,
    pub(crate) mismatch_status: u16,
    pub(crate) wait: Duration,
    pub(crate) lock: Duration,
    pub(crate) kept: Duration,
    /// The requests that this process carries out: locks of the database go by a clock, which may jump.
    under_way: Arc<Mutex<RequestsUnderWay>>,
    /// Notified whenever a request of this layer has ended.
    pub ended: Arc<Notify>,
    /// Places for transactions of handlers.
    pub(crate) transactions: Arc<Semaphore>,
    /// What has to live as long as requests are carried out.
    _keeps: Option<Arc<dyn Any + Send + Sync>>,
}

impl RequestRules {
    /// The default rules of a layer.
    pub fn new(store: Store, clock: Clock, namespace: &'static str, principals: Principals) -> Self {
        // As many as leave connections for everything else.
        let transactions_n = (store.handlers_n() / 2).max(1);
        Self {
            store,
            clock,
            namespace,
            principals,
            mismatch_status: 422,
            wait: Duration::from_secs(2),
            lock: Duration::from_mins(1),
            kept: Duration::from_hours(24),
            under_way: Arc::default(),
            ended: Arc::new(Notify::new()),
            transactions: Arc::new(Semaphore::new(transactions_n)),
            _keeps: None,
        }
    }

    /// Keeps `keeps` alive as long as a request is carried out.
    #[must_use]
    pub fn keeping(self, keeps: Arc<dyn Any + Send + Sync>) -> Self {
        Self { _keeps: Some(keeps), ..self }
    }

    pub(crate) fn request(&self, principal: &str, key: &IdempotencyKey, fingerprint: [u8; 32]) -> KeyRequest {
        KeyRequest {
            principal: format!("{}:{principal}", self.namespace),
            key: key.as_str().to_owned(),
            fingerprint,
            now_ms: self.clock.now_ms(),
            lock_ms: ms(self.lock),
            kept_ms: ms(self.kept),
        }
    }
}

/// Fingerprints of requests by principal and key.
type RequestsUnderWay = HashMap<(String, String), [u8; 32]>;

/// The place of a request among those that this process carries out, until it is dropped.
pub(crate) struct UnderWay {
    all: Arc<Mutex<RequestsUnderWay>>,
    key: (String, String),
}

impl UnderWay {
    /// The answer to give instead while another request has the key.
    pub(crate) fn take(rules: &RequestRules, asked: &KeyRequest) -> Result<Self, KeyReply> {
        let (all, key) = (Arc::clone(&rules.under_way), (asked.principal.clone(), asked.key.clone()));
        match all.lock().unwrap_or_else(PoisonError::into_inner).entry(key.clone()) {
            Entry::Vacant(free) => _ = free.insert(asked.fingerprint),
            Entry::Occupied(other) if *other.get() == asked.fingerprint => {
                let (now_ms, locked_until_ms) = (asked.now_ms, asked.now_ms.saturating_add(asked.lock_ms));
                return Err(KeyReply::InProgress { locked_until_ms, now_ms });
            }
            Entry::Occupied(_) => {
                return Err(KeyReply::Reused { expires_at_ms: asked.now_ms.saturating_add(asked.kept_ms) });
            }
        }
        Ok(Self { all, key })
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Carries each request under an `Idempotency-Key` out once.
///
/// A request is carried out to its end, whether its caller still waits or not.
#[derive(Clone)]
pub struct IdempotencyLayer(Arc<RequestRules>);

impl IdempotencyLayer {
    fn with(mut self, change: impl FnOnce(&mut RequestRules)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Status for another request under a key that was used: 422, as the IETF's draft of `Idempotency-Key` has it, or
    /// 409 for clients that expect that. One that is not a 4xx is taken for 422.
    #[must_use]
    pub fn mismatch_status(self, status: u16) -> Self {
        self.with(|rules| rules.mismatch_status = if (400..500).contains(&status) { status } else { 422 })
    }

    /// Longest wait for the answer of a request that is under way, before 409: 2 s, at most 30 s.
    #[must_use]
    pub fn wait(self, longest: Duration) -> Self {
        self.with(|rules| rules.wait = longest.min(Duration::from_secs(30)))
    }

    /// Time within which a handler has to answer, and after which the key of a process that died is free: 60 s, from 1
    /// s to 1 h. A handler that takes longer is given up.
    #[must_use]
    pub fn lock(self, longest: Duration) -> Self {
        self.with(|rules| rules.lock = longest.clamp(Duration::from_secs(1), Duration::from_hours(1)))
    }

    /// Time for which a key and its answer are known: 24 h, from 1 h to 400 days.
    #[must_use]
    pub fn keep(self, window: Duration) -> Self {
        let (least, most) = (Duration::from_hours(1), Duration::from_hours(24 * 400));
        self.with(|rules| rules.kept = window.clamp(least, most))
    }
}

impl From<RequestRules> for IdempotencyLayer {
    fn from(rules: RequestRules) -> Self {
        Self(Arc::new(rules))
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = IdempotencyService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        IdempotencyService { rules: Arc::clone(&self.0), inner }
    }
}

/// A service behind an [`IdempotencyLayer`].
#[derive(Clone)]
pub struct IdempotencyService<S> {
    rules: Arc<RequestRules>,
    inner: S,
}

impl<S> Service<Request> for IdempotencyService<S>
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        // The clone is not ready; what was polled is.
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);
        let rules = Arc::clone(&self.rules);
        Box::pin(async move { Ok(carried(rules, inner, request).await) })
    }
}
