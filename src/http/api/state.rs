//! The things that the API needs of the app, and who asks.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;

use super::super::error::Problem;
use super::super::token_gate::TokenGate;
use crate::admit::WhatIf;
use crate::api::{CallTimesView, PolicyView, SenderView, UnknownPathView};
use crate::config::EffectiveSetting;
use crate::doctor::{NodeDoctor, ProbeKey};
use crate::idempotency::IdempotencyLayer;
use crate::receive::{Explainer, TestEvents};
use crate::store::{ActivityCounts, BulkRules, People, PeopleDoor};
use crate::traces::Traces;
use crate::types::{Clock, Name, Principal, TYPED_BY, TypedBy};

/// The word for how the circuit breaker of a destination stands on this node; `None` for one that it does not call.
pub(crate) type BreakerState = dyn Fn(&str) -> Option<&'static str> + Send + Sync;

/// How long this node's newest calls to a destination took; `None` before the first.
pub(crate) type CallTimesOf = dyn Fn(&str) -> Option<CallTimesView> + Send + Sync;

/// Delays of a provider's newest requests behind the times that they were signed at. Milliseconds.
pub(crate) type DelaysOf = dyn Fn(&str) -> Vec<i64> + Send + Sync;

/// The paths that no provider has, and that were posted to since the start.
pub(crate) type UnknownPathsOf = dyn Fn() -> Vec<UnknownPathView> + Send + Sync;

/// What this node counted and did not add to the table yet.
pub(crate) type UnsavedActivity = dyn Fn() -> ActivityCounts + Send + Sync;

/// State of the API: all that it needs of the app.
pub(crate) struct ApiState {
    /// The store for those who ask.
    pub(crate) people: PeopleDoor,
    pub(crate) clock: Clock,
    /// Events as they come in.
    /// Around what is carried out once for each `Idempotency-Key` and takes it in no transaction of its own.
    pub(crate) once: IdempotencyLayer,
    /// The tokens of those who may ask.
    pub(crate) gate: Arc<TokenGate>,
    /// Facts about each configured destination.
    pub(crate) destinations: BTreeMap<Name, DestinationFacts>,
    /// Says how the circuit breaker of this node stands, for a destination of that name that it calls.
    pub(crate) breaker: Box<BreakerState>,
    /// Says how long its calls to a destination of that name took lately.
    pub(crate) call_times: Box<CallTimesOf>,
    /// What this node counted and did not save yet.
    pub(crate) unsaved: Box<UnsavedActivity>,
    /// Facts about each configured provider.
    pub(crate) providers: Vec<ProviderFacts>,
    /// Judges requests that people have saved.
    pub(crate) explainer: Explainer,
    /// Every value of the configuration that is in force, by key.
    pub(crate) settings: Vec<EffectiveSetting>,
    /// What an operation needs before it begins.
    pub(crate) bulk: BulkRules,
    /// Knows the traces of events.
    pub(crate) traces: Traces,
    /// Says how long after they were signed the newest requests of a provider of that name came. Milliseconds.
    pub(crate) delays_ms: Box<DelaysOf>,
    /// Paths that no provider has, and that were posted to.
    pub(crate) unknown_paths: Box<UnknownPathsOf>,
    /// Examines this node and its database.
    pub(crate) doctor: NodeDoctor,
    /// What it takes to send probes to the receiver.
    pub(crate) probes: ProbeFacts,
    /// Makes test events.
    pub(crate) test_events: TestEvents,
    /// Runs the handlers of this server without writing.
    pub(crate) what_if: WhatIf,
    /// Name of the installation, where it has one.
    pub(crate) server_name: Option<String>,
    /// True when it is a test server.
    pub(crate) is_test: bool,
    /// Called when a decision may have made something due: nobody should wait for the next look.
    pub(crate) decided: Box<dyn Fn() + Send + Sync>,
}

/// What it takes to send probes to the receiver.
pub(crate) struct ProbeFacts {
    /// The key of tokens.
    pub(crate) key: ProbeKey,
    /// The URL that senders call, without a trailing slash.
    pub(crate) public_url: String,
    /// Largest body of a request. Bytes.
    pub(crate) body_bytes_max: u32,
}

/// One configured destination, for the API.
pub(crate) struct DestinationFacts {
    /// The kind: `http`, `nats`, ….
    pub(crate) kind: &'static str,
    /// Most calls at once of this node.
    pub(crate) concurrency_n: u32,
    /// Most calls a second of this node; 0 for any number.
    pub(crate) rate_per_s: u32,
    /// How it is called, and when calls are repeated.
    pub(crate) policy: PolicyView,
}

/// One configured provider, for the API.
pub(crate) struct ProviderFacts {
    pub(crate) name: Name,
    pub(crate) kind: String,
    /// The URL to register with the sender.
    pub(crate) url: String,
    /// Rules that tell its events from each other, the first that applies.
    pub(crate) identity: String,
    /// Time that its sender goes on sending an event by itself, and so with the secret it had then. Hours.
    pub(crate) horizon_h: u32,
    /// True when its requests are accepted although nobody signs them.
    pub(crate) is_unverified: bool,
    /// True while it takes a secret that its sender posts to the URL.
    pub(crate) is_pairing: bool,
    /// Time for which the ids of its events are remembered. Days.
    pub(crate) ids_days: u32,
    /// What is known of its sender.
    pub(crate) sender: SenderView,
    /// False when its events are not found by the ids inside them; `None`: its kind names none.
    pub(crate) has_search: Option<bool>,
    /// Headers that its kind reads.
    pub(crate) headers: Vec<String>,
    /// Its secrets by what they go by, newest first.
    pub(crate) fingerprints: Vec<String>,
    /// Types of which its kind has sample events.
    pub(crate) samples: Vec<String>,
}

/// The store as the caller of a route may see it.
pub(super) struct Asking(pub(super) People);

impl FromRequestParts<Arc<ApiState>> for Asking {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<ApiState>) -> Result<Self, Problem> {
        let principal = parts.extensions.get::<Principal>().cloned().ok_or(Problem::NOT_FOUND)?;
        let typed_by = parts.headers.get(TYPED_BY).and_then(|text| TypedBy::parse(text.to_str().ok()?));
        Ok(Self(state.people.open(principal).typed_by(typed_by)))
    }
}
