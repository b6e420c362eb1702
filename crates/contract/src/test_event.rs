//! Test events: events that an operator makes, on a server that has real ones.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An order to make a test event. At most 1 MiB of JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestEventOrder {
    /// Type of the sample, one of the provider's `samples`; the first of them unless it is said. With `body` the type
    /// for kinds that carry it in a header.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub event_type: Option<String>,
    /// Body as its sender would post it, instead of a sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// True to dispatch the event. Real destinations then get real calls, each with `Hooklatch-Synthetic: true`: what they
    /// do about it is theirs. Left out, nothing follows from the event.
    #[serde(default)]
    pub route: bool,
    /// Reason, for the audit log.
    #[schemars(length(min = 1, max = 255), regex(pattern = super::reason::REASON_PATTERN))]
    pub reason: String,
}

/// Test events that were made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestEventView {
    /// Name of the provider.
    pub provider: String,
    /// Type of the first of them.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Their ids, which begin with `test:`; several where the body is a batch.
    pub event_ids: Vec<String>,
    /// True when they are dispatched.
    pub route: bool,
}
