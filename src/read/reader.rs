//! The things that reading one event needs: what its request says for all events, and the event's text.

use std::sync::Arc;

use http::HeaderMap;

use crate::json::Document;
use crate::spec::EventSpec;
use crate::types::{BodyDigest, Name, OnConflict, TypePattern, UnixMs};
use crate::verify::Believed;

/// Prefix of the ids that we give to what has none: no sender can take one of those.
pub(super) const UNREADABLE: &str = "unreadable:";
/// Type of an event whose type is missing or cannot be stored.
pub(super) const TYPE_UNKNOWN: &str = "unknown";

/// Everything that reading one event needs besides its own text; the events of one request share it.
pub(super) struct EventReader<'a> {
    pub(super) provider: &'a Name,
    pub(super) spec: &'a EventSpec,
    pub(super) types: &'a [TypePattern],
    pub(super) on_conflict: Option<OnConflict>,
    pub(super) believed: &'a Believed,
    pub(super) headers: &'a HeaderMap,
    pub(super) kept: Arc<str>,
    pub(super) received_at_ms: UnixMs,
    /// The whole body of a batch.
    pub(super) outer: Option<&'a Document<'a>>,
    /// The name of the list that the event is in, where a body has several.
    pub(super) list: Option<&'a str>,
    /// Most events that are read.
    pub(super) n_max: usize,
    /// True when the ids that people search for are kept.
    pub(super) has_search: bool,
    /// True when the kind made the JSON text of the one that came.
    pub(super) is_opened: bool,
}

/// One event's text, the digest of its bytes, and its place in the request.
#[derive(Clone, Copy)]
pub(super) struct EventText<'a> {
    pub(super) document: Option<&'a Document<'a>>,
    pub(super) text: &'a [u8],
    pub(super) event_n: usize,
    pub(super) digest: &'a BodyDigest,
}
