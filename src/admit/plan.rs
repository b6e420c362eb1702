//! Decides, without I/O, what admission writes: states of events, messages with their keys.

use uuid::{Timestamp, Uuid};

use super::{Admission, Entry};
use crate::backoff;
use crate::config::OnHandlerError;
use crate::handler::{Effects, Handled, HandlerError, RawEvent};
use crate::store::{EventUpdate, Latched, NewMessage};
use crate::types::{EventKey, EventState, IncomingEvent, Outcome, UnixMs};

/// What is to be written about one new event after its dispatch.
#[derive(Default)]
pub(super) struct Writes {
    pub(super) messages: Vec<NewMessage>,
    pub(super) updates: Vec<EventUpdate>,
}

/// The state a row is born with, so that the usual case needs no second write.
pub(super) fn initial_state(entry: &Entry, event: &IncomingEvent) -> EventState {
    if event.unreadable.is_some() {
        EventState::Unreadable
    } else if entry.provider.handlers().wants(&event.event_type) {
        EventState::Done
    } else {
        EventState::Ignored
    }
}

/// Whether everything that follows from an event, if it is new, is known before it is latched: no handler
/// takes it, no version decides, and it cannot be another event's replay.
pub(super) fn is_known_beforehand(entry: &Entry, event: &IncomingEvent) -> bool {
    let handlers = entry.provider.handlers();
    event.unreadable.is_none()
        && event.replay_key.is_none()
        && !handlers.uses_latest()
        && handlers.is_only_routed(&event.event_type)
}

/// What the sender hears about one event.
pub(super) fn outcome(latched: &Latched, event: &IncomingEvent, is_superseded: bool) -> Outcome {
    match latched {
        Latched::New if event.unreadable.is_some() => Outcome::Unreadable,
        Latched::New if is_superseded => Outcome::Superseded,
        Latched::New => Outcome::Accepted,
        Latched::Duplicate => Outcome::Duplicate,
        Latched::Conflict { .. } => Outcome::Conflict,
        Latched::Replayed { .. } => Outcome::Replayed,
    }
}

/// The event as handlers see it.
pub(super) fn raw_event(event: &IncomingEvent, attempt_n: u32) -> RawEvent {
    RawEvent {
        provider: event.key.provider.clone(),
        event_id: event.key.event_id.clone(),
        event_type: event.event_type.clone(),
        payload: event.payload.clone(),
        received_at_ms: event.received_at_ms,
        attempt_n,
    }
}

/// Why a whole request is to be answered 500, when its provider asks for that.
pub(super) fn rejection(entry: &Entry, handled: &Handled) -> Option<String> {
    match (entry.on_handler_error, handled) {
        (_, Ok(_) | Err(HandlerError::Ignore(_))) | (OnHandlerError::Keep, Err(_)) => None,
        (OnHandlerError::Reject, Err(error)) => Some(error.to_string()),
    }
}

/// Which event was dispatched, and how often.
pub(super) struct Dispatched<'a> {
    pub(super) key: &'a EventKey,
    pub(super) event_type: &'a str,
    pub(super) received_at_ms: UnixMs,
    /// This dispatch included.
    pub(super) attempts_n: u32,
    /// 0, and one more for each deliberate re-run: part of every key.
    pub(super) generation: i32,
    /// Whether its row says something else than that it was dispatched.
    pub(super) is_again: bool,
}

impl Admission {
    /// What a handler answered, with the templates of its messages' destinations filled in.
    pub(super) fn filled(&self, event: &RawEvent, generation: i32, handled: Handled) -> Handled {
        let handled = self.destined(handled);
        if self.templates.is_empty() {
            return handled;
        }
        let key = EventKey { provider: event.provider.clone(), event_id: event.event_id.clone() };
        let key_of = |name: &str| idempotency_key(&self.installation_id, &key, generation, name);
        self.templates.fill(event, handled?, key_of).map_err(HandlerError::Refused)
    }

    /// Turns what a handler answered into rows.
    pub(super) fn plan(&self, entry: &Entry, event: &Dispatched<'_>, handled: Handled, writes: &mut Writes) {
        match handled {
            Ok(effects) => {
                writes.messages.extend(self.messages(event, &effects));
                if event.is_again {
                    writes.updates.push(self.update(event, EventState::Done, None));
                }
            }
            Err(HandlerError::Ignore(why)) => {
                writes.updates.push(self.update(event, EventState::Ignored, Some(why.to_owned())));
            }
            Err(error @ HandlerError::Retry(_)) => {
                writes.updates.push(self.retry_update(entry, event, &error));
            }
            Err(error @ (HandlerError::Payload(_) | HandlerError::Refused(_))) => {
                writes.updates.push(self.update(event, EventState::Failed, Some(error.to_string())));
            }
        }
    }

    /// The row of an event that failed for now: again later, or `failed` when it was the last time.
    pub(super) fn retry_update(
        &self,
        entry: &Entry,
        event: &Dispatched<'_>,
        error: &HandlerError,
    ) -> EventUpdate {
        let now_ms = self.clock.now_ms();
        let mut update = self.update(event, EventState::Retry, Some(error.to_string()));
        // A person had it dispatched once more: its attempts began anew, so the first copy's age says nothing.
        let first_at_ms = if event.generation > 0 { now_ms } else { event.received_at_ms };
        if backoff::is_exhausted(&entry.retry, event.attempts_n, first_at_ms, now_ms) {
            update.state = EventState::Failed;
        } else {
            let delay_ms = backoff::delay_ms(&entry.retry, event.attempts_n, fastrand::f64());
            // Nobody who sets the clock back makes it wait until it is as late again.
            update.due_at_ms = Some(self.clock.steady_ms().saturating_add(delay_ms));
        }
        update
    }

    /// A row in `state`, with `error` cut to what a column and a screen can bear.
    pub(super) fn update(
        &self,
        event: &Dispatched<'_>,
        state: EventState,
        error: Option<String>,
    ) -> EventUpdate {
        EventUpdate {
            key: event.key.clone(),
            state,
            error: error.map(|text| text.chars().filter(|c| *c != '\0').take(500).collect()),
            attempts_n: event.attempts_n,
            due_at_ms: None,
            processed_at_ms: self.clock.now_ms(),
        }
    }

    fn messages(&self, event: &Dispatched<'_>, effects: &Effects) -> Vec<NewMessage> {
        let now_ms = self.clock.now_ms();
        let one = |message: &crate::handler::Message| NewMessage {
            message_id: message_id(now_ms),
            key: event.key.clone(),
            event_type: event.event_type.to_owned(),
            generation: event.generation,
            effect_name: message.name.clone(),
            idempotency_key: idempotency_key(
                &self.installation_id,
                event.key,
                event.generation,
                &message.name,
            ),
            destination: message.destination.clone(),
            method: message.method.clone(),
            path: message.path.clone(),
            headers: message.headers.clone(),
            body: message.body.clone(),
            lane: message.lane.clone(),
            created_at_ms: now_ms,
            lease: None,
        };
        effects.messages().iter().map(one).collect()
    }
}

/// A `UUIDv7` of `now_ms`.
fn message_id(now_ms: UnixMs) -> String {
    let ms = u64::try_from(now_ms).unwrap_or(0);
    let nanos = u32::try_from(ms % 1_000).unwrap_or(0) * 1_000_000;
    Uuid::new_v7(Timestamp::from_unix(uuid::NoContext, ms / 1_000, nanos)).to_string()
}

/// The key every attempt of a message carries: a `UUIDv5` of what the message follows from. The parts carry
/// their lengths, so that no two different lists of parts read the same.
fn idempotency_key(installation_id: &Uuid, key: &EventKey, generation: i32, effect_name: &str) -> String {
    let provider = key.provider.as_str();
    let name = format!(
        "{}:{provider},{}:{},{generation},{}:{effect_name}",
        provider.len(),
        key.event_id.len(),
        key.event_id,
        effect_name.len(),
    );
    Uuid::new_v5(installation_id, name.as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Name;

    fn key(provider: &str, event_id: &str) -> EventKey {
        EventKey { provider: Name::parse(provider).expect("a name"), event_id: event_id.to_owned() }
    }

    #[test]
    fn idempotency_key_never_changes_because_far_sides_remember_it() {
        let of = |k: &EventKey, name: &str| idempotency_key(&Uuid::nil(), k, 0, name);
        let first = of(&key("stripe", "evt_1"), "billing");
        assert_eq!(first, "d2a4bec6-cea3-515b-abf2-81dbd5fe4791");
        assert_ne!(first, of(&key("stripe", "evt_1"), "ledger"));
        assert_ne!(first, of(&key("stripe_test", "evt_1"), "billing"));
        assert_ne!(of(&key("a", "b,1:c"), "d"), of(&key("a", "b"), "c,1:d"), "parts carry their lengths");
    }

    #[test]
    fn message_ids_sort_by_time() {
        assert!(message_id(1_700_000_000_000) < message_id(1_700_000_000_001));
    }
}
