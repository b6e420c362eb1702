//! The settings of a layer: whose keys, how long each thing may take, and where keys are kept.

use std::any::Any;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::request::Parts;
use tokio::sync::{Notify, Semaphore};

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

    /// The same, keeping `keeps` alive as long as a request is carried out.
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
