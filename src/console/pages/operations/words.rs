//! Filters, acts and operations in words.

use crate::api::{EventFilter, MessageFilter, OperationChoice, OperationState, OperationSubject};
use crate::console::parts::chip::{self, Mood};
use crate::figures::plural;
use crate::times;
use maud::Markup;

/// Messages of a filter: `12 dead messages to billing`.
fn messages(filter: &MessageFilter, counted_n: u64) -> String {
    let state = filter.state.map_or("", |state| state.as_str());
    let mut words = plural(counted_n, &noun(state, "message"));
    let parts =
        [("to", &filter.destination), ("of events from", &filter.provider), ("in the lane", &filter.lane)];
    add(&mut words, &parts);
    add_time(&mut words, "written before", filter.created_before_ms);
    words
}

/// Events of a filter: `3 failed events from stripe of the type invoice.paid`.
fn events(filter: &EventFilter, counted_n: u64) -> String {
    let state = filter.state.map_or("", |state| state.as_str());
    let mut words = plural(counted_n, &noun(state, "event"));
    let parts = [
        ("from", &filter.provider),
        ("of the type", &filter.event_type),
        ("about the object", &filter.object),
    ];
    add(&mut words, &parts);
    if let Some(calls) = filter.delivery {
        words = format!("{words} {}", calls.shown());
    }
    add_time(&mut words, "that came at or after", filter.received_from_ms);
    add_time(&mut words, "that came before", filter.received_to_ms);
    words
}

fn noun(state: &str, noun: &str) -> String {
    format!("{state} {noun}").trim_start().to_owned()
}

fn add(words: &mut String, parts: &[(&str, &Option<String>)]) {
    for (before, value) in parts {
        if let Some(value) = value {
            *words = format!("{words} {before} {value}");
        }
    }
}

fn add_time(words: &mut String, before: &str, at_ms: Option<i64>) {
    if let Some(at_ms) = at_ms {
        let at = times::rfc3339(at_ms).unwrap_or_else(|| at_ms.to_string());
        *words = format!("{words} {before} {at}");
    }
}

/// What an operation does: `send 12 dead messages to billing`.
pub(super) fn subject(subject: &OperationSubject, total_n: u64) -> String {
    format!("{} {}", subject.act().replace('_', " "), choice(&subject.choice(), total_n))
}

/// A choice with its number.
pub(super) fn choice(choice: &OperationChoice, counted_n: u64) -> String {
    match choice {
        OperationChoice::Messages(filter) => messages(filter, counted_n),
        OperationChoice::Events(filter) => events(filter, counted_n),
    }
}

/// State of an operation.
pub(super) fn state(state: OperationState) -> Markup {
    let mood = match state {
        OperationState::Running => Mood::Busy,
        OperationState::Waiting => Mood::Needed,
        OperationState::Stopped => Mood::Bad,
        OperationState::Done => Mood::Good,
        OperationState::Cancelled => Mood::Quiet,
    };
    chip::chip(mood, state.as_str())
}

/// The reason why a row was passed over.
pub(super) fn passed_over(outcome: &str) -> &str {
    match outcome {
        "not_found" => "it was not there any more",
        "not_allowed" => "it had moved on by itself",
        "body_gone" => "its bytes are no longer kept",
        "still_open" => "messages of it are open",
        "moved" => "it was sent or handled after the order",
        "test_event" => "it is a test event",
        "failed" => "it failed; the log says why",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{EventAct, MessageAct};
    use crate::types::{DeliveryFilter, EventState, MessageState};

    #[test]
    fn an_operation_is_told_as_a_person_would() {
        let filter = MessageFilter {
            state: Some(MessageState::Dead),
            destination: Some("billing".to_owned()),
            ..MessageFilter::default()
        };
        assert_eq!(messages(&filter, 12), "12 dead messages to billing");
        let whole = MessageFilter {
            provider: Some("stripe".to_owned()),
            lane: Some("in_1".to_owned()),
            created_before_ms: Some(0),
            ..filter.clone()
        };
        let want = "1 dead message to billing of events from stripe in the lane in_1 written before 1970-01-01T00:00:00.000Z";
        assert_eq!(messages(&whole, 1), want);
        let sent = OperationSubject::Messages { act: MessageAct::Send, filter };
        assert_eq!(subject(&sent, 1_000), "send 1,000 dead messages to billing");
        let filter = EventFilter {
            state: Some(EventState::Failed),
            provider: Some("stripe".to_owned()),
            event_type: Some("paid".to_owned()),
            object: Some("in_1".to_owned()),
            delivery: Some(DeliveryFilter::Stuck),
            received_from_ms: Some(0),
            received_to_ms: Some(i64::MAX),
        };
        let want = "erase and discard 2 failed events from stripe of the type paid about the object in_1 with held or dead \
                    calls that came at or after 1970-01-01T00:00:00.000Z that came before 9223372036854775807";
        assert_eq!(subject(&OperationSubject::Events { act: EventAct::EraseAndDiscard, filter }, 2), want);
    }

    #[test]
    fn every_reason_for_passing_over_is_said() {
        for word in ["not_found", "not_allowed", "body_gone", "still_open", "moved", "test_event", "failed"] {
            assert_ne!(passed_over(word), word);
        }
        assert_eq!(passed_over("of_a_newer_version"), "of_a_newer_version");
    }
}
