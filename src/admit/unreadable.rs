//! How much is kept of what could not be read: senders are answered with 200 whatever they send, so something else
//! has to be the bound.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use tracing::warn;

use super::AdmitContext;
use crate::types::{IncomingEvent, Name};

/// The bytes of unreadable events that are kept, by provider.
pub(crate) struct Unreadable {
    bytes_max: u64,
    kept: Mutex<BTreeMap<String, u64>>,
}

impl Unreadable {
    /// At most `bytes_max` are kept of each provider.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, kept: Mutex::default() }
    }

    /// What the tables say; between two such words this node counts what it adds itself.
    pub(crate) fn set(&self, kept: impl Iterator<Item = (String, u64)>) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = kept.collect();
    }

    fn has_room(&self, provider: &Name, bytes_n: u64) -> bool {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(provider.as_str()).copied().unwrap_or(0).saturating_add(bytes_n) <= self.bytes_max
    }

    /// One was written.
    pub(super) fn add(&self, event: &IncomingEvent) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let one = kept.entry(event.key.provider.to_string()).or_default();
        *one = one.saturating_add(bytes_n(event));
    }
}

fn bytes_n(event: &IncomingEvent) -> u64 {
    u64::try_from(event.body.len().saturating_add(event.headers.len())).unwrap_or(u64::MAX)
}

impl AdmitContext {
    /// Takes the bytes from those events that could not be read and have no room any more.
    pub(super) fn cut_unreadable(&self, events: &mut [IncomingEvent]) {
        for event in events {
            let Some(why) = &event.unreadable else { continue };
            let provider = &event.key.provider;
            if self.unreadable.has_room(provider, bytes_n(event)) {
                continue;
            }
            metrics::counter!("hooklatch_unreadable_cut_total", "provider" => provider.to_string())
                .increment(1);
            if let Some(left_out_n) = self.lines.may_write(provider, "unreadable_cut") {
                warn!(
                    provider.name = %provider,
                    event.id = event.key.event_id,
                    bytes_n = event.body.len(),
                    left_out_n,
                    "kept an unreadable event without its bytes: server.unreadable_bytes_max is reached"
                );
            }
            event.unreadable = Some(format!("its bytes are not kept, there are too many already; {why}"));
            event.headers = "{}".into();
            (event.body, event.payload) = (Bytes::new(), Bytes::new());
        }
    }
}
