//! Decides, without I/O, what admission writes: states of events, messages with their keys.

use std::sync::Arc;

use super::{AdmitContext, ProviderEntry};
use crate::backoff;
use crate::config::OnHandlerError;
use crate::handler::{Effects, Handled, HandlerError, Message, RawEvent};
use crate::store::{Candidate, EventUpdate, Latched, NewMessage, Writes};
use crate::types::{
    EventKey, EventState, IncomingEvent, MESSAGES_N_MAX, MessageId, Outcome, UnixMs, idempotency_key,
};

/// What is to be done about an event, once it is known what it met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nothing more: it is known already, or nobody wants it.
    Rest,
    /// It is kept for a person, who is told why it cannot be read.
    Unreadable,
    /// It is kept and not dispatched: its object has moved on.
    Superseded,
    /// Handlers and routes say what follows.
    Dispatch,
}

/// Decides an event's fate. The one place that does, whoever drives: the shared batch, a transaction of its own.
pub(super) fn fate(entry: &ProviderEntry, event: &IncomingEvent, latched: &Latched, is_stale: bool) -> Fate {
    let handlers = entry.provider.handlers();
    if *latched != Latched::New {
        Fate::Rest
    } else if event.unreadable.is_some() {
        Fate::Unreadable
    } else if is_stale && handlers.wants_latest_only(&event.event_type) {
        Fate::Superseded
    } else if handlers.wants(&event.event_type) {
        Fate::Dispatch
    } else {
        Fate::Rest
    }
}

/// An event as it asks to be admitted.
pub(super) fn candidate(entry: &ProviderEntry, event: &Arc<IncomingEvent>, event_seq: i64) -> Candidate {
    Candidate {
        event: Arc::clone(event),
        event_seq,
        state: initial_state(entry, event),
        is_raising: entry.provider.handlers().uses_latest(),
    }
}

/// The state a row is born with, so that the usual case needs no second write.
fn initial_state(entry: &ProviderEntry, event: &IncomingEvent) -> EventState {
    if event.unreadable.is_some() {
        EventState::Unreadable
    } else if entry.provider.handlers().wants(&event.event_type) {
        EventState::Done
    } else {
        EventState::Ignored
    }
}

/// Whether everything that follows from an event, if it is new, is known before it is latched: no handler
/// takes it, and no version decides.
pub(super) fn is_known_beforehand(entry: &ProviderEntry, event: &IncomingEvent) -> bool {
    let handlers = entry.provider.handlers();
    event.unreadable.is_none() && !handlers.uses_latest() && handlers.is_only_routed(&event.event_type)
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
pub(super) fn rejection(entry: &ProviderEntry, handled: &Handled) -> Option<String> {
    match (entry.on_handler_error, handled) {
        (_, Ok(_) | Err(HandlerError::Ignore(_))) | (OnHandlerError::Keep, Err(_)) => None,
        (OnHandlerError::Reject, Err(error)) => Some(error.to_string()),
    }
}

/// Which event was dispatched, and how often.
pub(super) struct Dispatched<'a> {
    pub(super) key: &'a EventKey,
    pub(super) event_seq: i64,
    /// The first place that no message of the event has.
    pub(super) next_place: u16,
    pub(super) received_at_ms: UnixMs,
    /// This dispatch included.
    pub(super) attempts_n: u32,
    /// 0, and one more for each deliberate re-run: part of every key.
    pub(super) generation: i32,
    /// Whether its row says something else than that it was dispatched.
    pub(super) is_again: bool,
}

impl<'a> Dispatched<'a> {
    /// An event that is dispatched for the first time.
    pub(super) fn first(event: &'a IncomingEvent, event_seq: i64) -> Self {
        Self { attempts_n: 1, ..Self::never(event, event_seq) }
    }

    /// An event that is not dispatched.
    pub(super) fn never(event: &'a IncomingEvent, event_seq: i64) -> Self {
        Self {
            key: &event.key,
            event_seq,
            next_place: 0,
            received_at_ms: event.received_at_ms,
            attempts_n: 0,
            generation: 0,
            is_again: false,
        }
    }
}

impl AdmitContext {
    /// What a new event's row is to say, when it is not dispatched and its row does not say it yet.
    pub(super) fn undispatched(
        &self,
        fate: Fate,
        event: &IncomingEvent,
        event_seq: i64,
    ) -> Option<EventUpdate> {
        match fate {
            Fate::Rest | Fate::Dispatch => None,
            Fate::Unreadable => {
                let event_never = Dispatched::never(event, event_seq);
                Some(self.update(&event_never, EventState::Unreadable, event.unreadable.clone()))
            }
            Fate::Superseded => {
                let why = "a newer version of its object was seen before it".to_owned();
                Some(self.update(&Dispatched::first(event, event_seq), EventState::Superseded, Some(why)))
            }
        }
    }

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
    pub(super) fn plan(
        &self,
        entry: &ProviderEntry,
        event: &Dispatched<'_>,
        handled: Handled,
        writes: &mut Writes,
    ) {
        let planned = handled.and_then(|effects| self.messages(event, effects));
        match planned {
            Ok(messages) => {
                writes.messages.extend(messages);
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
        entry: &ProviderEntry,
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
            event_seq: event.event_seq,
            key: event.key.clone(),
            state,
            error: error.map(|text| text.chars().filter(|c| *c != '\0').take(500).collect()),
            attempts_n: event.attempts_n,
            due_at_ms: None,
            processed_at_ms: self.clock.now_ms(),
        }
    }

    fn messages(&self, event: &Dispatched<'_>, effects: Effects) -> Result<Vec<NewMessage>, HandlerError> {
        let (now_ms, shard) = (self.clock.now_ms(), event.key.shard());
        let wanted_n = effects.messages().len();
        let one = |(place, message): (u16, Message)| {
            Some(NewMessage {
                message_id: MessageId::of(event.event_seq, place)?,
                shard,
                generation: event.generation,
                effect_name: message.name,
                destination: message.destination,
                method: message.method,
                path: message.path,
                headers: message.headers,
                body: message.body,
                lane: message.lane,
                created_at_ms: now_ms,
                lease: None,
            })
        };
        let planned: Vec<NewMessage> =
            (event.next_place..).zip(effects.into_messages()).filter_map(one).collect();
        if planned.len() < wanted_n {
            let why =
                format!("an event has {MESSAGES_N_MAX} messages at most, those of its re-runs included");
            return Err(HandlerError::Refused(why));
        }
        Ok(planned)
    }
}
