//! What followed from a command, as its caller gets it: the outcome, each effect, and where it stands. No bodies, no
//! headers, no reasons: those are for operators.

use serde::Serialize;

use super::answer::SenderAnswer;
use super::caller::problem;
use hooklatch_core::types::{EventState, MessageState, UnixMs};
use hooklatch_store::{EventReceipt, ReceiptAttempt};

/// Receipts that are looked up at once.
pub(super) const LOOKS_N: usize = 4;

/// The receipt of one command.
#[derive(Debug, Serialize)]
struct ReceiptView<'a> {
    event_id: &'a str,
    #[serde(rename = "type")]
    event_type: &'a str,
    /// What the first request under the key was answered.
    outcome: &'static str,
    state: EventState,
    received_at_ms: UnixMs,
    /// Until then the key is known, at least.
    known_until_ms: UnixMs,
    /// True while something of it is under way, or waits for a time or a person.
    is_open: bool,
    effects: Vec<EffectView<'a>>,
    /// True when there are more effects, or more attempts, than are shown.
    has_more: bool,
}

/// One effect of a command.
#[derive(Debug, Serialize)]
struct EffectView<'a> {
    name: &'a str,
    destination: &'a str,
    state: MessageState,
    attempts_n: u32,
    created_at_ms: UnixMs,
    finished_at_ms: Option<UnixMs>,
    /// The newest first. A first attempt that went well has no row of its own.
    attempts: Vec<&'a ReceiptAttempt>,
}

/// Renders the receipt as an answer.
pub(crate) fn render(receipt: &EventReceipt, kept_ms: i64) -> SenderAnswer {
    let event = &receipt.event;
    let is_event_open = matches!(
        event.state,
        EventState::Retry | EventState::Failed | EventState::Unreadable | EventState::Conflict
    );
    let is_done = |state| matches!(state, MessageState::Done | MessageState::Discarded);
    let effects = receipt.messages.iter().map(|message| EffectView {
        name: &message.effect_name,
        destination: &message.destination,
        state: message.state,
        attempts_n: message.attempts_n,
        created_at_ms: message.created_at_ms,
        finished_at_ms: message.finished_at_ms,
        attempts: receipt.attempts.iter().filter(|one| one.message_id == message.message_id).collect(),
    });
    let view = ReceiptView {
        event_id: &event.key.event_id,
        event_type: &event.event_type,
        outcome: "accepted",
        state: event.state,
        received_at_ms: event.received_at_ms,
        known_until_ms: event.received_at_ms.saturating_add(kept_ms),
        is_open: is_event_open || receipt.messages.iter().any(|message| !is_done(message.state)),
        effects: effects.collect(),
        has_more: receipt.has_more,
    };
    SenderAnswer {
        status: 200,
        body: serde_json::to_string(&view).unwrap_or_default(),
        content_type: "application/json".into(),
        ..problem(200, "", "")
    }
}

/// The answer where there is no such command of this caller's.
pub(crate) fn unknown() -> SenderAnswer {
    problem(404, "not_found", "no command of yours has this key")
}
