//! Counts from the tables, for `/metrics`; and a warning about events and messages for names that are not
//! configured: no handler or worker will ever take it.

use std::collections::{BTreeMap, BTreeSet};

use tracing::warn;

use super::numbers::seconds;
use hooklatch_contract::OperationState;
use hooklatch_core::config::Config;
use hooklatch_core::types::{EventState, MessageState, UnixMs};
use hooklatch_store::{EventCount, MessageCount, OpenCounts};

/// Most names that are not configured, of providers and of destinations each, whose counts are published.
const STRAYS_N_MAX: usize = 50;

/// The counts that were published before, and the warnings that were given.
#[derive(Default)]
pub(crate) struct Counts {
    providers: PublishedNames,
    destinations: PublishedNames,
    /// Providers or destinations with states that were published before: those that are gone now are at 0.
    events: BTreeSet<(String, String)>,
    messages: BTreeSet<(String, String)>,
    /// Names that were warned about.
    warned: BTreeSet<(&'static str, String)>,
}

/// Names whose counts are published.
#[derive(Default)]
struct PublishedNames {
    configured: BTreeSet<String>,
    strays: BTreeSet<String>,
}

impl PublishedNames {
    fn is_configured(&self, name: &str) -> bool {
        self.configured.contains(name)
    }

    /// True for a name that is configured, and for the first few others.
    fn is_published(&mut self, name: &str) -> bool {
        if self.is_configured(name) || self.strays.contains(name) {
            return true;
        }
        self.strays.len() < STRAYS_N_MAX && self.strays.insert(name.to_owned())
    }
}

impl Counts {
    /// Publishes the counts of everything that is open.
    pub(super) fn publish(&mut self, config: &Config, found: &OpenCounts, now_ms: UnixMs) {
        self.providers.configured = config.providers.keys().map(ToString::to_string).collect();
        self.destinations.configured = config.destinations.keys().map(ToString::to_string).collect();
        self.messages(&found.messages, now_ms);
        self.lanes(&found.blocked_lanes);
        self.keys(&found.keys_until_ms, now_ms);
        self.pauses(&found.pauses_due_ms);
        self.provider_pauses(&found.provider_pauses_due_ms);
        operations(&found.operations);
        self.events(&found.events, now_ms);
    }

    /// Publishes how many messages each destination has in each state.
    fn messages(&mut self, counts: &[MessageCount], now_ms: UnixMs) {
        let published = counts.iter().filter(|one| self.destinations.is_published(&one.destination));
        self.messages.extend(published.map(|one| (one.destination.clone(), one.state.to_string())));
        for (destination, state) in &self.messages {
            let count =
                counts.iter().find(|one| one.destination == *destination && one.state.as_str() == state);
            let (messages_n, age_s) =
                gauges(count.map(|one| (one.messages_n, one.oldest_visible_at_ms)), now_ms);
            metrics::gauge!(
                "hooklatch_outbox_messages",
                "destination" => destination.clone(),
                "state" => state.clone(),
            )
            .set(messages_n);
            metrics::gauge!(
                "hooklatch_outbox_oldest_due_seconds",
                "destination" => destination.clone(),
                "state" => state.clone(),
            )
            .set(age_s);
        }
        self.strays(counts);
    }

    /// Publishes how many messages have no configured destination, and warns once for each such destination.
    fn strays(&mut self, counts: &[MessageCount]) {
        let strays = || counts.iter().filter(|one| !self.destinations.is_configured(&one.destination));
        metrics::gauge!("hooklatch_outbox_stray_messages")
            .set(count(strays().map(|one| one.messages_n).sum()));
        let is_waiting = |one: &&MessageCount| {
            matches!(one.state, MessageState::Ready | MessageState::Waiting | MessageState::Leased)
        };
        for one in strays().filter(is_waiting) {
            if self.warned.len() < STRAYS_N_MAX
                && self.warned.insert(("destination", one.destination.clone()))
            {
                warn!(
                    destination.name = one.destination,
                    messages_n = one.messages_n,
                    "messages wait for a destination that is not configured: add it again, or discard them"
                );
            }
        }
    }

    /// Publishes how many lanes wait for an operator: 0 where none does.
    fn lanes(&self, blocked: &[(String, u64)]) {
        for destination in &self.destinations.configured {
            let lanes_n = blocked.iter().find(|(name, _)| name == destination).map_or(0, |(_, n)| *n);
            metrics::gauge!("hooklatch_lanes_blocked", "destination" => destination.clone())
                .set(count(lanes_n));
        }
    }

    /// Publishes how long the keys of open messages remain valid: NaN where none is open.
    fn keys(&self, until_ms: &[(String, UnixMs)], now_ms: UnixMs) {
        let until: BTreeMap<&str, UnixMs> = until_ms.iter().map(|(name, ms)| (name.as_str(), *ms)).collect();
        for destination in &self.destinations.configured {
            let left_ms = until.get(destination.as_str()).map(|until_ms| until_ms.saturating_sub(now_ms));
            metrics::gauge!("hooklatch_key_left_seconds", "destination" => destination.clone())
                .set(left_ms.map_or(f64::NAN, seconds));
        }
    }

    /// Publishes which destinations are paused, and when that should be over.
    fn pauses(&self, due_ms: &[(String, UnixMs)]) {
        for destination in &self.destinations.configured {
            let due_ms = due_ms.iter().find(|(name, _)| name == destination).map(|(_, due_ms)| *due_ms);
            metrics::gauge!("hooklatch_destination_paused", "destination" => destination.clone())
                .set(f64::from(u8::from(due_ms.is_some())));
            metrics::gauge!("hooklatch_pause_due_timestamp_seconds", "destination" => destination.clone())
                .set(due_ms.map_or(f64::NAN, seconds));
        }
    }

    /// The same of providers.
    fn provider_pauses(&self, due_ms: &[(String, UnixMs)]) {
        for provider in &self.providers.configured {
            let due_ms = due_ms.iter().find(|(name, _)| name == provider).map(|(_, due_ms)| *due_ms);
            metrics::gauge!("hooklatch_provider_paused", "provider" => provider.clone())
                .set(f64::from(u8::from(due_ms.is_some())));
            metrics::gauge!("hooklatch_provider_pause_due_timestamp_seconds", "provider" => provider.clone())
                .set(due_ms.map_or(f64::NAN, seconds));
        }
    }

    /// Publishes how many events there are in each state, with the age of the oldest.
    fn events(&mut self, counts: &[EventCount], now_ms: UnixMs) {
        let published = counts.iter().filter(|one| self.providers.is_published(&one.provider));
        self.events.extend(published.map(|one| (one.provider.clone(), one.state.to_string())));
        for (provider, state) in &self.events {
            let count = counts.iter().find(|one| one.provider == *provider && one.state.as_str() == state);
            let (events_n, age_s) =
                gauges(count.map(|one| (one.events_n, one.oldest_received_at_ms)), now_ms);
            metrics::gauge!("hooklatch_events", "provider" => provider.clone(), "state" => state.clone())
                .set(events_n);
            metrics::gauge!(
                "hooklatch_events_oldest_seconds",
                "provider" => provider.clone(),
                "state" => state.clone(),
            )
            .set(age_s);
        }
        for one in counts {
            let is_waiting = one.state == EventState::Retry && !self.providers.is_configured(&one.provider);
            if is_waiting
                && self.warned.len() < STRAYS_N_MAX
                && self.warned.insert(("provider", one.provider.clone()))
            {
                warn!(
                    provider.name = one.provider,
                    events_n = one.events_n,
                    "events wait to be dispatched again, but their provider is not configured: add it again"
                );
            }
        }
    }
}

/// The number, and the age of the oldest in seconds.
fn gauges(found: Option<(u64, UnixMs)>, now_ms: UnixMs) -> (f64, f64) {
    found.map_or((0.0, 0.0), |(n, oldest_ms)| (count(n), seconds(now_ms.saturating_sub(oldest_ms).max(0))))
}

#[expect(clippy::cast_precision_loss, reason = "a gauge")]
fn count(n: u64) -> f64 {
    n as f64
}

/// Publishes how many operations wait for an operator: 0 where none does.
fn operations(counts: &[(String, u64)]) {
    for state in [OperationState::Waiting, OperationState::Stopped].map(OperationState::as_str) {
        let operations_n = counts.iter().find(|(one, _)| one == state).map_or(0, |(_, n)| *n);
        metrics::gauge!("hooklatch_operations", "state" => state).set(count(operations_n));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unconfigured_names_are_published_up_to_a_bound() {
        let mut names = PublishedNames { configured: ["billing".to_owned()].into(), strays: BTreeSet::new() };
        let published_n = (0..1_000).filter(|n| names.is_published(&format!("removed_{n}"))).count();
        assert_eq!(published_n, STRAYS_N_MAX);
        assert!(names.is_published("billing") && names.is_published("removed_0"));
        assert!(!names.is_published("removed_999") && !names.is_configured("removed_0"));
    }

    #[test]
    fn an_age_is_never_negative_whatever_the_clock_says() {
        assert_eq!(gauges(Some((3, 10_000)), 4_000), (3.0, 0.0));
        assert_eq!(gauges(Some((3, 1_000)), 4_000), (3.0, 3.0));
        assert_eq!(gauges(None, 4_000), (0.0, 0.0));
    }
}
