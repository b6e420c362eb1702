//! [`IdempotencyLayer`], as it is laid over a router.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use tower::{Layer, Service};

use super::carry::carried;
use super::rules::RequestRules;

/// Carries each request under an `Idempotency-Key` out once.
///
/// A request is carried out to its end, whether its caller still waits or not.
#[derive(Clone)]
pub struct IdempotencyLayer(Arc<RequestRules>);

impl IdempotencyLayer {
    #[doc(hidden)]
    pub fn of(rules: RequestRules) -> Self {
        Self(Arc::new(rules))
    }

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

    /// Time within which a handler has to answer, and after which the key of a process that died is free: 60 s, from 1 s
    /// to 1 h. A handler that takes longer is given up.
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
