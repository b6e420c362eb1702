//! Test events: an operator has the server admit an event that no sender sent.
//!
//! They enter behind verification. What they are is their id, which no sender's event can have (`read/identity.rs`), so
//! that nothing in a request makes one, and none takes a real event's place in the latch.

use std::sync::Arc;

use uuid::Uuid;

use crate::admit::{AdmitError, Admitter, MemoryRoom, ProviderEntry, ProviderTable};
use crate::provider::{Kind, Provider, filled_sample};
use hooklatch_contract::TestEventOrder;
use hooklatch_core::types::{IncomingEvent, Name, UnixMs};
use hooklatch_verify::SignAt;

/// Makes test events and has them admitted.
pub struct TestEvents {
    entries: Arc<ProviderTable>,
    kinds: Vec<Provider>,
    admitter: Admitter,
    memory: MemoryRoom,
    installation_id: Uuid,
    events_n_max: usize,
}

/// Reason why no test event was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoTestEvent {
    /// No provider is configured under that name.
    NoProvider,
    /// Its kind has no sample of that type, and no body was given.
    NoSample,
    /// The body is larger than the provider takes.
    TooLarge,
    /// No event can be read in the body.
    Unreadable,
}

/// A test event that was made and is not admitted yet; several for the body of a batch.
pub struct MadeTestEvents {
    entry: Arc<ProviderEntry>,
    pub events: Vec<IncomingEvent>,
}

impl TestEvents {
    pub fn new(
        entries: &Arc<ProviderTable>,
        kinds: &[Provider],
        (admitter, memory): (Admitter, MemoryRoom),
        installation_id: Uuid,
        events_n_max: usize,
    ) -> Self {
        let (entries, kinds) = (Arc::clone(entries), kinds.to_vec());
        Self { entries, kinds, admitter, memory, installation_id, events_n_max }
    }

    fn kind(&self, entry: &ProviderEntry) -> Option<&Provider> {
        self.kinds.iter().find(|kind| kind.kind() == entry.provider.spec().kind)
    }

    /// Makes what is ordered. `asked` names the order among all: the same one makes the same ids.
    pub fn make(
        &self,
        provider: &Name,
        order: &TestEventOrder,
        asked: &str,
        now_ms: UnixMs,
    ) -> Result<MadeTestEvents, NoTestEvent> {
        let entry = self.entries.get(provider).ok_or(NoTestEvent::NoProvider)?;
        let id = Uuid::new_v5(&self.installation_id, format!("test event\0{provider}\0{asked}").as_bytes());
        let now_s = now_ms.div_euclid(1_000);
        let wanted = order.event_type.as_deref();
        let (event_type, body) = if let Some(body) = &order.body {
            (wanted.unwrap_or("test"), body.clone())
        } else {
            let samples = self.kind(entry).map(Provider::sample_list).unwrap_or_default();
            let mut samples = samples.into_iter();
            let sample = samples.find(|(known, _)| wanted.is_none_or(|wanted| wanted == *known));
            let (event_type, sample) = sample.ok_or(NoTestEvent::NoSample)?;
            // Objects that do not exist, as digits and letters, of which some kinds take digits alone.
            let digits = id.as_u128() % 1_000_000_000_000_000;
            (event_type, filled_sample(sample, &format!("{digits:015}test"), now_s))
        };
        if body.len() > entry.body_bytes_max {
            return Err(NoTestEvent::TooLarge);
        }
        let url = entry.provider.url().to_owned();
        let at = SignAt { now_s, url, id: id.to_string(), event_type: event_type.to_owned() };
        let events = entry.provider.test_events(body.as_bytes(), &at, self.events_n_max);
        let mut events = events.map_err(|_| NoTestEvent::Unreadable)?;
        if events.is_empty() || events.iter().any(|event| event.unreadable.is_some()) {
            return Err(NoTestEvent::Unreadable);
        }
        for event in &mut events {
            event.is_undispatched = !order.route;
            event.received_at_ms = now_ms;
        }
        Ok(MadeTestEvents { entry: Arc::clone(entry), events })
    }

    /// Admits them. Where an earlier request of the same order did, nothing changes.
    pub async fn admit(&self, made: MadeTestEvents) -> Result<(), AdmitError> {
        let bytes_n = made.events.iter().map(|event| event.body.len()).sum();
        let held = self.memory.hold(bytes_n).ok_or(AdmitError::Saturated)?;
        let n = made.events.len() as u64;
        self.admitter.admit(&made.entry, made.events, held, None).await?;
        let provider = made.entry.provider.name().to_string();
        metrics::counter!("hooklatch_test_events_total", "provider" => provider).increment(n);
        Ok(())
    }
}
