//! `[providers.NAME]`: who may send, how it signs, and where its events go.

use super::kind_settings::KindSettings;
use super::retry::RetryConfig;
use super::secret::Secret;
use crate::types::{Name, OnConflict};

/// `[providers.NAME]`
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// The provider kind; the name unless set.
    pub kind: Name,
    /// Newest first; all are tried.
    pub secrets: Vec<Secret>,
    /// What else the kind's scheme needs.
    pub settings: KindSettings,
    /// Whether requests that nothing signs are taken.
    pub is_unverified_accepted: bool,
    /// What a failing plain handler means.
    pub on_handler_error: OnHandlerError,
    /// How old a signed time may be.
    pub age: AgeConfig,
    /// What becomes of another content under an event's key; as its kind says when absent.
    pub on_conflict: Option<OnConflict>,
    /// The only types that are believed where the type stands in an unsigned header: patterns, checked by
    /// `TypePattern::parse`. Empty for any.
    pub types: Vec<String>,
    /// Whether the sender is ours and can act on 409 for `conflict`.
    pub is_first_party: bool,
    /// Type patterns to destinations.
    pub routes: Vec<RouteConfig>,
    /// How failing handlers are tried again.
    pub retry: RetryConfig,
}

/// `[[providers.NAME.routes]]`
#[derive(Debug, Clone)]
pub struct RouteConfig {
    /// Type patterns, checked by `TypePattern::parse`.
    pub on: Vec<String>,
    /// A configured destination.
    pub to: Name,
    /// Only the newest version of an object.
    pub latest: bool,
    /// Where in the payload the lane's name is: a JSON pointer.
    pub lane: Option<String>,
}

/// What a failing plain handler means for its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnHandlerError {
    /// Kept as `retry`; the sender gets 200.
    Keep,
    /// Nothing is kept; the sender gets 500 and sends it again.
    Reject,
}

/// How old a signed time may be where the operator says so. Seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AgeConfig {
    /// Instead of the kind's own tolerance.
    pub tolerance_s: Option<u32>,
    /// Where the sender signs a time and bounds its age nowhere.
    pub max_age_s: Option<u32>,
}
