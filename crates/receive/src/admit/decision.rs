//! What becomes of one event: decided without I/O, in one order, for all three drivers.
//!
//! Three drivers admit or dispatch events: the shared batch (`commit.rs`), a transaction of its own
//! (`transactional.rs`), and a later try (`retry.rs`). They differ in how handlers run, and in nothing else. Each goes
//! through the same steps:
//!
//! 1. latched: an event that is known already rests, whatever it says;
//! 2. unreadable: it is kept for a person;
//! 3. undispatched: it is a test event of which nothing is to follow: it rests, as `ignored`;
//! 4. superseded: it is kept, but a newer version of its object was seen, and its handlers want the latest alone;
//! 5. unwanted: no handler and no route takes it: it rests, as `ignored`;
//! 6. later: it repeats a signal within its window, so it waits for the end of that as `retry`;
//! 7. paused: its provider is, so it waits as `retry`;
//! 8. dispatch: the driver runs the handlers;
//! 9. fill in, reject, plan: `Planner::conclude` in `plan.rs` turns their answer into rows and messages.
//!
//! Steps 1 to 7 are [`decide`]. An event that is tried later was new and readable once; its driver starts at step 7.

use std::sync::Arc;

use super::entry::ProviderEntry;
use hooklatch_core::types::{EventState, IncomingEvent, Outcome, UnixMs};
use hooklatch_store::{Candidate, Latched};

/// The way that an event goes, once it is known whether it is new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Nothing more: it is known already, or no handler or route wants it.
    Rest,
    /// It is kept for a person, who sees why it cannot be read.
    Unreadable,
    /// It is kept and not dispatched: its object has moved on.
    Superseded,
    /// It is kept and not dispatched: a test event, of which nothing is to follow.
    Undispatched,
    /// It repeats a signal within its window: it is dispatched when that has ended.
    Later(UnixMs),
    /// Its provider is paused, for this reason: it is dispatched later.
    Paused(Arc<str>),
    /// Handlers and routes say what follows.
    Dispatch,
}

/// Decides what becomes of one event. `is_stale` says that a newer version of its object was seen before.
pub(crate) fn decide(
    entry: &ProviderEntry,
    event: &IncomingEvent,
    latched: &Latched,
    is_stale: bool,
) -> Decision {
    let handlers = entry.provider.handlers();
    if *latched != Latched::New {
        Decision::Rest
    } else if event.unreadable.is_some() {
        Decision::Unreadable
    } else if event.is_undispatched {
        Decision::Undispatched
    } else if is_stale && handlers.wants_latest_only(&event.event_type) {
        Decision::Superseded
    } else if !handlers.wants(&event.event_type) {
        Decision::Rest
    } else if let Some(not_before_ms) = event.not_before_ms {
        Decision::Later(not_before_ms)
    } else {
        entry.pause.reason().map_or(Decision::Dispatch, Decision::Paused)
    }
}

/// An event as it asks to be admitted.
pub(crate) fn candidate(entry: &ProviderEntry, event: &Arc<IncomingEvent>, event_seq: i64) -> Candidate {
    Candidate {
        event: Arc::clone(event),
        event_seq,
        state: initial_state(entry, event),
        // No invented version may supersede a real one.
        is_raising: entry.provider.handlers().uses_latest() && !event.key.is_synthetic(),
    }
}

/// The state that a row is inserted with, so that the usual case needs no second write.
fn initial_state(entry: &ProviderEntry, event: &IncomingEvent) -> EventState {
    if event.unreadable.is_some() {
        EventState::Unreadable
    } else if !event.is_undispatched && entry.provider.handlers().wants(&event.event_type) {
        EventState::Handled
    } else {
        EventState::Ignored
    }
}

/// True when everything that follows from an event, if it is new, is known before it is latched: no handler
/// takes it, no version decides, and its provider is not paused.
pub(super) fn is_known_beforehand(entry: &ProviderEntry, event: &IncomingEvent) -> bool {
    let handlers = entry.provider.handlers();
    event.unreadable.is_none()
        && !event.is_undispatched
        && event.not_before_ms.is_none()
        && !handlers.uses_latest()
        && handlers.is_only_routed(&event.event_type)
        && entry.pause.reason().is_none()
}

/// The outcome of one event that is in the sender's answer.
pub(crate) fn outcome(latched: &Latched, event: &IncomingEvent, is_superseded: bool) -> Outcome {
    match latched {
        Latched::New if event.unreadable.is_some() => Outcome::Unreadable,
        Latched::New if is_superseded => Outcome::Superseded,
        Latched::New | Latched::Repeated => Outcome::Accepted,
        Latched::Duplicate => Outcome::Duplicate,
        Latched::Conflict { .. } => Outcome::Conflict,
        Latched::Replayed { .. } => Outcome::Replayed,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::handler::{Effects, Event};
    use crate::provider::Provider;
    use hooklatch_core::config::OnHandlerError;
    use hooklatch_core::types::{EventKey, Name};

    /// An event that can be read, for tests.
    pub(crate) fn event() -> IncomingEvent {
        let key = EventKey { provider: Name::parse("p").expect("a name"), event_id: "e".to_owned() };
        IncomingEvent::new(key, "t", [0; 32], Bytes::new(), 0)
    }

    #[test]
    fn the_answer_follows_from_what_the_latch_found() {
        let readable = event();
        let unreadable = IncomingEvent { unreadable: Some("it is not JSON".to_owned()), ..readable.clone() };
        let (duplicate, new) = (Latched::Duplicate, Latched::New);
        for (latched, event, is_superseded, want) in [
            (&new, &readable, false, Outcome::Accepted),
            (&new, &readable, true, Outcome::Superseded),
            (&new, &unreadable, false, Outcome::Unreadable),
            (&duplicate, &readable, false, Outcome::Duplicate),
            (&Latched::Repeated, &readable, false, Outcome::Accepted),
            (&duplicate, &unreadable, false, Outcome::Duplicate),
        ] {
            assert_eq!(outcome(latched, event, is_superseded), want, "{latched:?}");
        }
    }

    #[test]
    fn a_test_event_is_dispatched_when_that_was_asked_for_and_raises_no_version() {
        let kind = Provider::from_spec(include_str!("../../../../providers/stripe/provider.toml"));
        let kind = kind.on("t", |_: Event<()>| Ok(Effects::new()));
        let entry = ProviderEntry::example(&kind, OnHandlerError::Keep);
        let latest = kind.on_latest("t", |_: Event<()>| Ok(Effects::new()));
        let of_latest = ProviderEntry::example(&latest, OnHandlerError::Keep);
        for (id, is_undispatched, want, state) in [
            ("e", false, Decision::Dispatch, EventState::Handled),
            ("test:e", false, Decision::Dispatch, EventState::Handled),
            ("test:e", true, Decision::Undispatched, EventState::Ignored),
        ] {
            let mut event = IncomingEvent { is_undispatched, ..event() };
            event.key.event_id = id.to_owned();
            assert_eq!(decide(&entry, &event, &Latched::New, false), want);
            assert_eq!(decide(&entry, &event, &Latched::Duplicate, false), Decision::Rest);
            assert!(!is_known_beforehand(&entry, &event), "a handler takes it");
            let event = Arc::new(event);
            assert_eq!(candidate(&entry, &event, 1).state, state);
            assert_eq!(candidate(&of_latest, &event, 1).is_raising, id == "e");
        }
    }

    #[test]
    fn the_first_reason_that_applies_decides_the_fate() {
        let kind = Provider::from_spec(include_str!("../../../../providers/stripe/provider.toml"));
        let kind = kind.on("wanted", |_: Event<()>| Ok(Effects::new()));
        let kind = kind.on_latest("newest", |_: Event<()>| Ok(Effects::new()));
        let entry = ProviderEntry::example(&kind, OnHandlerError::Keep);
        let (new, known) = (Latched::New, Latched::Duplicate);
        for (event_type, latched, is_readable, is_stale, want) in [
            ("wanted", &new, true, false, Decision::Dispatch),
            ("wanted", &new, true, true, Decision::Dispatch),
            ("newest", &new, true, false, Decision::Dispatch),
            ("newest", &new, true, true, Decision::Superseded),
            ("newest", &new, false, true, Decision::Unreadable),
            ("newest", &known, true, true, Decision::Rest),
            ("wanted", &known, false, false, Decision::Rest),
            ("other", &new, false, false, Decision::Unreadable),
            ("other", &new, true, true, Decision::Rest),
        ] {
            let unreadable = (!is_readable).then(|| "it is not JSON".to_owned());
            let event = IncomingEvent { event_type: event_type.to_owned(), unreadable, ..event() };
            assert_eq!(decide(&entry, &event, latched, is_stale), want, "{event_type} {latched:?}");
            assert!(!is_known_beforehand(&entry, &event), "versions decide here, so nothing is known before");
            let later = IncomingEvent { not_before_ms: Some(9), ..event };
            let want = if want == Decision::Dispatch { Decision::Later(9) } else { want };
            assert_eq!(decide(&entry, &later, latched, is_stale), want, "{}", later.event_type);
        }
    }
}
