//! The things that the API needs of the app.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::token_gate::TokenGate;
use crate::store::{PeopleDoor, Store};
use crate::types::{Clock, Name};

/// State of the API: all that it needs of the app.
pub(crate) struct ApiState {
    pub(crate) store: Store,
    /// The store for those who ask.
    pub(crate) people: PeopleDoor,
    pub(crate) clock: Clock,
    /// The tokens of those who may ask.
    pub(crate) gate: Arc<TokenGate>,
    /// Names of the configured destinations.
    pub(crate) destinations: BTreeSet<Name>,
    /// Facts about each configured provider.
    pub(crate) providers: Vec<ProviderFacts>,
    /// Called when a decision may have made something due: nobody should wait for the next look.
    pub(crate) decided: Box<dyn Fn() + Send + Sync>,
}

/// One configured provider, for the API.
pub(crate) struct ProviderFacts {
    pub(crate) name: Name,
    pub(crate) kind: String,
    /// Time that its sender goes on sending an event by itself, and so with the secret it had then. Hours.
    pub(crate) horizon_h: u32,
    /// True when its requests are accepted although nobody signs them.
    pub(crate) is_unverified: bool,
    /// Its secrets by what they go by, newest first.
    pub(crate) fingerprints: Vec<String>,
}
