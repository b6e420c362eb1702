//! How much is kept of what could not be read: senders are answered with 200 whatever they send, so something else
//! has to be the bound.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use tracing::warn;

use crate::logging::Lines;
use crate::types::{IncomingEvent, Name, Outcome};

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

    /// Takes over what the tables say, in bytes by provider; in between this node counts what it adds itself.
    pub(crate) fn set(&self, kept: impl Iterator<Item = (String, u64)>) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = kept.collect();
    }

    fn has_room(&self, provider: &Name, bytes_n: u64) -> bool {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(provider.as_str()).copied().unwrap_or(0).saturating_add(bytes_n) <= self.bytes_max
    }

    /// Counts an event that is committed, if it was kept as unreadable.
    pub(super) fn note(&self, event: &IncomingEvent, outcome: Outcome) {
        if outcome != Outcome::Unreadable {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let one = kept.entry(event.key.provider.to_string()).or_default();
        *one = one.saturating_add(bytes_n(event));
    }

    /// Takes the bytes from those events that could not be read and have no room any more.
    pub(super) fn cut(&self, lines: &Lines, events: &mut [IncomingEvent]) {
        for event in events {
            let Some(why) = &event.unreadable else { continue };
            let provider = &event.key.provider;
            if self.has_room(provider, bytes_n(event)) {
                continue;
            }
            metrics::counter!("hooklatch_unreadable_cut_total", "provider" => provider.to_string())
                .increment(1);
            if let Some(left_out_n) = lines.may_write(provider, "unreadable_cut") {
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

fn bytes_n(event: &IncomingEvent) -> u64 {
    u64::try_from(event.body.len().saturating_add(event.headers.len())).unwrap_or(u64::MAX)
}
