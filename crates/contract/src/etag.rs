//! The version of what can change, as an `ETag`: equal as long as nothing has changed that a decision is about.

use sha2::{Digest, Sha256};

use super::destination::DestinationView;
use super::event::EventView;
use super::message::MessageView;
use super::provider::ProviderView;
use hooklatch_core::types::{AttemptResult, EventState, MessageState, UnixMs};

/// A view of something that people decide about.
pub trait Tagged {
    /// Its version: a strong `ETag` with its quotes (RFC 9110, 8.8.3).
    fn etag(&self) -> String;
}

impl Tagged for EventView {
    fn etag(&self) -> String {
        let calls = &self.delivery;
        event_tag(
            (&self.provider, &self.event_id),
            (self.state, self.generation, self.attempts_n, self.processed_at_ms),
            [calls.open_n, calls.held_n, calls.dead_n, calls.delivered_n, calls.discarded_n],
        )
    }
}

impl Tagged for MessageView {
    /// That of a message whose event was not run again after it.
    fn etag(&self) -> String {
        (self, false).etag()
    }
}

/// A message, and whether its event was run again after it was written: then sending it risks more.
impl Tagged for (&MessageView, bool) {
    fn etag(&self) -> String {
        let (message, is_rerun) = self;
        let counted = (message.attempts_n, message.visible_at_ms);
        message_tag(message.state, counted, message.last_result, message.finished_at_ms, *is_rerun)
    }
}

impl Tagged for DestinationView {
    fn etag(&self) -> String {
        pause_tag(self.pause.as_ref().map(|pause| (pause.actor.as_str(), pause.paused_at_ms)))
    }
}

impl Tagged for ProviderView {
    fn etag(&self) -> String {
        pause_tag(self.pause.as_ref().map(|pause| (pause.actor.as_str(), pause.paused_at_ms)))
    }
}

/// The version of an event: its id, its row, and the number of its calls in each state, because a decision about an
/// event is a decision about its calls.
fn event_tag(
    (provider, event_id): (&str, &str),
    (state, generation, attempts_n, processed_at_ms): (EventState, u32, u32, Option<UnixMs>),
    calls: [u32; 5],
) -> String {
    let at = processed_at_ms.unwrap_or_default();
    let calls = calls.map(|n| n.to_string()).join(" ");
    let (generation, attempts_n) = (generation.to_string(), attempts_n.to_string());
    tag(&[provider, event_id, state.as_str(), &generation, &attempts_n, &at.to_string(), &calls])
}

/// The version of a message likewise; `counted` is its number of claims and its due time.
pub fn message_tag(
    state: MessageState,
    counted: (u32, UnixMs),
    last_result: Option<AttemptResult>,
    finished_at_ms: Option<UnixMs>,
    is_rerun: bool,
) -> String {
    let finished = finished_at_ms.unwrap_or_default().to_string();
    let result = last_result.map_or("", AttemptResult::as_str);
    let rerun = if is_rerun { "rerun" } else { "" };
    tag(&[state.as_str(), &counted.0.to_string(), &counted.1.to_string(), result, &finished, rerun])
}

/// The version of a destination: who paused it, and when.
pub fn pause_tag(pause: Option<(&str, UnixMs)>) -> String {
    match pause {
        None => tag(&["running"]),
        Some((actor, paused_at_ms)) => tag(&["paused", actor, &paused_at_ms.to_string()]),
    }
}

fn tag(parts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        // With its length, so that no two lists of parts read the same.
        digest.update([u8::try_from(part.len()).unwrap_or(u8::MAX)]);
        digest.update(part);
    }
    let digest: [u8; 32] = digest.finalize().into();
    format!("\"{}\"", hex::encode(digest.get(..8).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_decision_is_about_has_another_version_when_it_changes() {
        let message = |state, n, at, result, end| message_tag(state, (n, at), result, end, false);
        let (held, dead) = (MessageState::Held, MessageState::Dead);
        let event = |id, row, calls| event_tag(("stripe", id), row, calls);
        let all = [
            message(held, 1, 5, None, None),
            message(dead, 1, 5, None, None),
            message(held, 2, 5, None, None),
            message(held, 1, 6, None, None),
            message(held, 1, 5, Some(AttemptResult::Unknown), None),
            message(held, 1, 5, None, Some(7)),
            message_tag(held, (1, 5), None, None, true),
            event("evt_1", (EventState::Failed, 0, 1, None), [0; 5]),
            event("evt_2", (EventState::Failed, 0, 1, None), [0; 5]),
            event("evt_1", (EventState::Failed, 1, 0, None), [0; 5]),
            event("evt_1", (EventState::Failed, 0, 1, Some(1)), [0; 5]),
            event("evt_1", (EventState::Handled, 0, 1, None), [0; 5]),
            event("evt_1", (EventState::Handled, 0, 1, None), [0, 0, 1, 0, 0]),
            event("evt_1", (EventState::Handled, 0, 1, None), [0, 0, 0, 1, 0]),
            pause_tag(None),
            pause_tag(Some(("ann", 1))),
            pause_tag(Some(("ann", 2))),
            pause_tag(Some(("bob", 1))),
        ];
        assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), all.len());
        assert_eq!(message(held, 1, 5, None, None), all[0], "equal as long as nothing changes");
        assert!(
            all.iter().all(|tag| tag.len() == 18 && tag.starts_with('"') && tag.ends_with('"')),
            "{all:?}"
        );
    }
}
