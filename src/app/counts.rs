//! What only the tables can say, for `/metrics`; and a word about what stands there for names that are not
//! configured: nobody will ever take it.

use std::collections::BTreeSet;

use tracing::warn;

use crate::config::Config;
use crate::store::{EventCount, MessageCount};
use crate::types::{EventState, MessageState, UnixMs};

/// What was published before, and what was said.
pub(super) struct Counts {
    providers: BTreeSet<String>,
    destinations: BTreeSet<String>,
    /// Providers or destinations with states that were published before: those that are gone now are at 0.
    events: BTreeSet<(String, String)>,
    messages: BTreeSet<(String, String)>,
    /// Names that were warned about.
    told: BTreeSet<(&'static str, String)>,
}

impl Counts {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            providers: config.providers.keys().map(ToString::to_string).collect(),
            destinations: config.destinations.keys().map(ToString::to_string).collect(),
            events: BTreeSet::new(),
            messages: BTreeSet::new(),
            told: BTreeSet::new(),
        }
    }

    /// Publishes how many messages stand where.
    pub(super) fn messages(&mut self, counts: &[MessageCount], now_ms: UnixMs) {
        self.messages.extend(counts.iter().map(|one| (one.destination.clone(), one.state.to_string())));
        for (destination, state) in &self.messages {
            let count =
                counts.iter().find(|one| one.destination == *destination && one.state.as_str() == state);
            let labels = [("destination", destination.clone()), ("state", state.clone())];
            let (messages_n, age_s) =
                gauges(count.map(|one| (one.messages_n, one.oldest_visible_at_ms)), now_ms);
            metrics::gauge!("hooklatch_outbox_messages", &labels).set(messages_n);
            metrics::gauge!("hooklatch_outbox_oldest_due_seconds", &labels).set(age_s);
        }
        let is_waiting = |one: &&MessageCount| {
            matches!(one.state, MessageState::Ready | MessageState::Waiting | MessageState::Leased)
                && !self.destinations.contains(&one.destination)
        };
        for one in counts.iter().filter(is_waiting) {
            if self.told.insert(("destination", one.destination.clone())) {
                warn!(
                    destination.name = one.destination,
                    messages_n = one.messages_n,
                    "messages wait for a destination that is not configured: add it again, or discard them"
                );
            }
        }
    }

    /// Publishes how many events wait for somebody.
    pub(super) fn events(&mut self, counts: &[EventCount], now_ms: UnixMs) {
        self.events.extend(counts.iter().map(|one| (one.provider.clone(), one.state.to_string())));
        for (provider, state) in &self.events {
            let count = counts.iter().find(|one| one.provider == *provider && one.state.as_str() == state);
            let labels = [("provider", provider.clone()), ("state", state.clone())];
            let (events_n, age_s) =
                gauges(count.map(|one| (one.events_n, one.oldest_received_at_ms)), now_ms);
            metrics::gauge!("hooklatch_events", &labels).set(events_n);
            metrics::gauge!("hooklatch_events_oldest_seconds", &labels).set(age_s);
        }
        for one in counts {
            let is_waiting = one.state == EventState::Retry && !self.providers.contains(&one.provider);
            if is_waiting && self.told.insert(("provider", one.provider.clone())) {
                warn!(
                    provider.name = one.provider,
                    events_n = one.events_n,
                    "events wait to be dispatched again, but their provider is not configured: add it again"
                );
            }
        }
    }
}

/// How many, and how old the oldest is in seconds.
#[expect(clippy::cast_precision_loss, reason = "gauges")]
fn gauges(found: Option<(u64, UnixMs)>, now_ms: UnixMs) -> (f64, f64) {
    found.map_or((0.0, 0.0), |(n, oldest_ms)| {
        (n as f64, now_ms.saturating_sub(oldest_ms).max(0) as f64 / 1_000.0)
    })
}
