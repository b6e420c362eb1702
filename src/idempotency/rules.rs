//! What a layer was told: whose keys, how long each thing may take, and where keys are kept.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use tokio::sync::{Notify, Semaphore};

use crate::store::{KeyRequest, Store};
use crate::types::{Clock, IdempotencyKey};

/// Names whose key it is; `None` refuses the request.
pub(super) type Principals = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

/// The rules of one layer.
#[derive(Clone)]
pub(crate) struct RequestRules {
    pub(super) store: Store,
    pub(super) clock: Clock,
    /// Keeps the keys of operators and of programs apart.
    pub(super) namespace: &'static str,
    pub(super) principals: Principals,
    pub(super) mismatch_status: u16,
    pub(super) wait: Duration,
    pub(super) lock: Duration,
    pub(super) kept: Duration,
    /// Rings whenever a request of this layer has come to its end.
    pub(super) ended: Arc<Notify>,
    /// Places for transactions of handlers.
    pub(super) transactions: Arc<Semaphore>,
    /// What has to live as long as requests are carried out.
    _keeps: Option<Arc<dyn Any + Send + Sync>>,
}

impl RequestRules {
    /// The rules that hold unless the layer is told otherwise.
    pub(crate) fn new(store: Store, clock: Clock, namespace: &'static str, principals: Principals) -> Self {
        // As many as leave connections for everything else.
        let transactions_n = (store.handlers_n() / 2).max(1);
        Self {
            store,
            clock,
            namespace,
            principals,
            mismatch_status: 409,
            wait: Duration::from_secs(2),
            lock: Duration::from_mins(1),
            kept: Duration::from_hours(24),
            ended: Arc::new(Notify::new()),
            transactions: Arc::new(Semaphore::new(transactions_n)),
            _keeps: None,
        }
    }

    /// The same, keeping `keeps` alive as long as a request is carried out.
    #[must_use]
    pub(crate) fn keeping(self, keeps: Arc<dyn Any + Send + Sync>) -> Self {
        Self { _keeps: Some(keeps), ..self }
    }

    pub(super) fn request(&self, principal: &str, key: &IdempotencyKey, fingerprint: [u8; 32]) -> KeyRequest {
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

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
