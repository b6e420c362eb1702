//! Words of the contract as values of arguments: the shell completes them, and another word is a mistake at once.

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::types::{DeliveryFilter, EventState, MessageState, Role};

/// Reads the state of an event.
pub(super) fn event_states() -> impl TypedValueParser<Value = EventState> {
    let words = PossibleValuesParser::new(EventState::ALL.iter().map(|state| state.as_str()));
    words.try_map(|word| EventState::parse(&word).ok_or("is no state"))
}

/// Reads a choice of events by their calls.
pub(super) fn delivery_filters() -> impl TypedValueParser<Value = DeliveryFilter> {
    let words = PossibleValuesParser::new(DeliveryFilter::ALL.iter().map(|one| one.as_str()));
    words.try_map(|word| DeliveryFilter::parse(&word).ok_or("is no choice of calls"))
}

/// Reads the state of a message.
pub(super) fn message_states() -> impl TypedValueParser<Value = MessageState> {
    let words = PossibleValuesParser::new(MessageState::ALL.iter().map(|state| state.as_str()));
    words.try_map(|word| MessageState::parse(&word).ok_or("is no state"))
}

/// Reads the role of a token.
pub(super) fn roles() -> impl TypedValueParser<Value = Role> {
    let words = PossibleValuesParser::new(Role::ALL.map(Role::as_str));
    words.try_map(|word| Role::parse(&word).ok_or("is no role"))
}
