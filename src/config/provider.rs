//! `[providers.NAME]`: who may send, how it signs, and where its events go.

use ipnet::IpNet;

use super::kind_settings::KindSettings;
use super::retry::RetryConfig;
use super::secret::Secret;
use crate::filter::{Filter, Place};
use crate::types::{Name, OnConflict, TypePattern};

/// `[providers.NAME]`: one sender as it is configured.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the file")]
pub struct ProviderConfig {
    /// The provider kind; the name unless set.
    pub kind: Name,
    /// Newest first; all are tried.
    pub secrets: Vec<Secret>,
    /// Settings that the kind's scheme needs besides secrets.
    pub settings: KindSettings,
    /// True when requests that nothing signs are taken.
    pub is_unverified_accepted: bool,
    /// Rule for a plain handler that fails.
    pub on_handler_error: OnHandlerError,
    /// Bounds of the age of a signed time.
    pub age: AgeConfig,
    /// Rule for other content under an event's key; the kind's own rule when absent.
    pub on_conflict: Option<OnConflict>,
    /// The only types that are believed where the type stands in an unsigned header: patterns. Empty for any.
    pub types: Vec<TypePattern>,
    /// JSON pointers to values that are not stored; `*` for every element of an array.
    pub redact: Vec<String>,
    /// True when its events are found by the ids in them that its kind names.
    pub has_search: bool,
    /// True when handlers get the whole envelope as payload, instead of the part that the kind names.
    pub is_payload_whole: bool,
    /// Addresses that its requests may come from; empty for any.
    pub allow_from: Vec<IpNet>,
    /// True when the sender is ours and can act on 409 for `conflict`.
    pub is_first_party: bool,
    /// Largest body. Bytes.
    pub body_bytes_max: u32,
    /// Type patterns to destinations.
    pub routes: Vec<RouteConfig>,
    /// Delays and bounds with which failing handlers are tried again.
    pub retry: RetryConfig,
}

/// `[[providers.NAME.routes]]`: events that go to a destination as they are.
#[derive(Debug, Clone)]
pub struct RouteConfig {
    /// Patterns of the types that go there.
    pub on: Vec<TypePattern>,
    /// Name of a configured destination.
    pub to: Name,
    /// Only the newest version of an object.
    pub latest: bool,
    /// Place of the name of the lane.
    pub(crate) lane: Option<Place>,
    /// Condition without which it does not take an event.
    pub(crate) when: Option<Filter>,
}

/// Rules for the event of a plain handler that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnHandlerError {
    /// The event is kept as `retry`; the sender gets 200.
    Keep,
    /// The event is not kept; the sender gets 500 and sends it again.
    Reject,
}

/// The operator's bounds of the age of a signed time. Seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AgeConfig {
    /// Tolerance in place of the kind's own; 1 to 86,400.
    pub tolerance_s: Option<u32>,
    /// Bound for a sender that signs a time and bounds its age nowhere; 60 to 34,560,000.
    pub max_age_s: Option<u32>,
}
