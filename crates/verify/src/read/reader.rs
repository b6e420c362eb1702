//! The context for reading one event: what its request has for all events, and the event's text.

use std::sync::Arc;

use http::HeaderMap;

use crate::Believed;
use crate::spec::EventSpec;
use hooklatch_core::json::Document;
use hooklatch_core::types::{BodyDigest, Name, OnConflict, TypePattern, UnixMs};

/// Prefix of the ids that we give to what has none: no sender can take one of those.
pub(crate) const UNREADABLE: &str = "unreadable:";
/// Type of an event whose type is missing or cannot be stored.
pub(crate) const TYPE_UNKNOWN: &str = "unknown";

/// Everything that reading one event needs besides its own text; the events of one request share it.
pub(super) struct EventReader<'a> {
    pub provider: &'a Name,
    pub spec: &'a EventSpec,
    pub types: &'a [TypePattern],
    pub on_conflict: Option<OnConflict>,
    pub believed: &'a Believed,
    pub headers: &'a HeaderMap,
    pub kept: Arc<str>,
    pub received_at_ms: UnixMs,
    /// The whole body of a batch.
    pub(super) outer: Option<&'a Document<'a>>,
    /// The name of the list that the event is in, where a body has several.
    pub list: Option<&'a str>,
    /// Most events that are read.
    pub n_max: usize,
    /// True when the ids that people search for are kept.
    pub has_search: bool,
    /// True when the kind derived the JSON text from the received body.
    pub(super) is_opened: bool,
}

/// One event's text, the digest of its bytes, and its place in the request.
#[derive(Clone, Copy)]
pub(super) struct EventText<'a> {
    pub document: Option<&'a Document<'a>>,
    pub text: &'a [u8],
    pub event_n: usize,
    pub digest: &'a BodyDigest,
}
