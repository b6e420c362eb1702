//! Bodies that need care: those that could not be read, of which only so many bytes are kept (senders are answered with
//! 200 whatever they send, so something else has to be the bound), and large ones, which are stored in parts before the
//! transaction that latches their events begins.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::time::Instant;
use tracing::warn;

use super::AdmitContext;
use super::room::LARGE_BYTES;
use hooklatch_core::logging::Lines;
use hooklatch_core::types::{IncomingEvent, Name, Outcome};
use hooklatch_store::{Candidate, StoreError};

/// The bytes of unreadable events that are kept, by provider.
pub struct Unreadable {
    bytes_max: u64,
    kept: Mutex<BTreeMap<String, u64>>,
}

impl Unreadable {
    /// At most `bytes_max` are kept of each provider.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, kept: Mutex::default() }
    }

    /// Takes over what the tables say, in bytes by provider; in between this node counts what it adds itself.
    pub fn set(&self, kept: impl Iterator<Item = (String, u64)>) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = kept.collect();
    }

    fn has_room(&self, provider: &Name, bytes_n: u64) -> bool {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(provider.as_str()).copied().unwrap_or(0).saturating_add(bytes_n) <= self.bytes_max
    }

    /// Counts an event that is committed, if it was kept as unreadable.
    pub fn note(&self, event: &IncomingEvent, outcome: Outcome) {
        if outcome != Outcome::Unreadable {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let one = kept.entry(event.key.provider.to_string()).or_default();
        *one = one.saturating_add(bytes_n(event));
    }

    /// Takes the bytes from those events that could not be read and have no room any more.
    pub fn cut(&self, lines: &Lines, events: &mut [IncomingEvent]) {
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
            event.search_ids.clear();
            (event.body, event.payload, event.envelope) = (Bytes::new(), Bytes::new(), Bytes::new());
            event.redacted = None;
        }
    }
}

fn bytes_n(event: &IncomingEvent) -> u64 {
    u64::try_from(event.body.len().saturating_add(event.headers.len())).unwrap_or(u64::MAX)
}

/// Stores the body of a large event in parts, under the number that the event is to be latched with, and returns the
/// event that refers to them. To be followed by [`delete_unlatched`], whatever became of the event.
pub(super) async fn stored_in_parts(
    context: &AdmitContext,
    event: &Arc<IncomingEvent>,
    event_seq: i64,
) -> Result<Arc<IncomingEvent>, StoreError> {
    let is_large = event.body.len() > LARGE_BYTES && event.redacted.is_none();
    if !is_large || context.store.event_is_known(event).await? {
        return Ok(Arc::clone(event));
    }
    match context.store.body_parts_write(event_seq, event, context.clock.now_ms()).await {
        Ok(parts_n) => {
            Ok(Arc::new(IncomingEvent { stored_parts_n: Some(parts_n), ..IncomingEvent::clone(event) }))
        }
        Err(failure) => {
            delete(context, event_seq).await;
            Err(failure)
        }
    }
}

/// Does so for the large events of a batch, and returns those with their numbers. Each part is bounded in time, and all
/// of them may take longer than a handler may: readiness looks at the batch before and after them.
pub(super) async fn store_large(
    context: &AdmitContext,
    candidates: &mut [Candidate],
) -> Result<Vec<(i64, Arc<IncomingEvent>)>, StoreError> {
    context.under_way.note(true, None);
    let mut stored = Vec::new();
    for one in candidates.iter_mut().filter(|one| one.event.body.len() > LARGE_BYTES) {
        one.event = stored_in_parts(context, &one.event, one.event_seq).await?;
        stored.push((one.event_seq, Arc::clone(&one.event)));
    }
    context.under_way.note(true, Some(Instant::now()));
    Ok(stored)
}

/// Deletes the parts of events that were not latched: copies, and those whose transaction failed.
pub(super) async fn delete_unlatched(
    context: &AdmitContext,
    events: impl Iterator<Item = (i64, &Arc<IncomingEvent>)>,
) {
    for (event_seq, _) in events.filter(|(_, event)| event.stored_parts_n.is_some()) {
        delete(context, event_seq).await;
    }
}

async fn delete(context: &AdmitContext, event_seq: i64) {
    if let Err(failure) = context.store.body_parts_delete(event_seq).await {
        warn!(error = %failure, "could not delete the parts of a large body; pruning does");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::decision::tests::event;

    #[test]
    fn what_cannot_be_read_is_kept_whole_until_its_providers_share_is_full() {
        let (unreadable, lines) = (Unreadable::new(10), Lines::default());
        let body = Bytes::from_static(b"12345678");
        let why = || Some("it is not JSON".to_owned());
        let bad =
            || IncomingEvent { body: body.clone(), payload: body.clone(), unreadable: why(), ..event() };
        let good = IncomingEvent { unreadable: None, ..bad() };
        let mut events = [bad(), good.clone()];
        unreadable.cut(&lines, &mut events);
        assert!(events.iter().all(|event| event.body == body), "its headers are two bytes more, and fit");
        unreadable.note(&events[0], Outcome::Duplicate);
        unreadable.cut(&lines, &mut events);
        assert_eq!(events[0].body, body, "a copy was not kept again");
        unreadable.note(&events[0], Outcome::Unreadable);
        unreadable.cut(&lines, &mut events);
        let [cut, whole] = &events;
        assert_eq!((cut.body.len(), cut.payload.len(), &*cut.headers), (0, 0, "{}"));
        assert!(cut.unreadable.as_deref().is_some_and(|why| why.ends_with("; it is not JSON")));
        assert_eq!(whole.body, body, "what can be read has no bound here");
        unreadable.set(std::iter::empty());
        let mut events = [bad()];
        unreadable.cut(&lines, &mut events);
        assert_eq!(events[0].body, body, "the tables say that there is room again");
    }
}
