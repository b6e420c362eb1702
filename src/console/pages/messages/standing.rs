//! How a message stands, in words, and what a person can do about it.

use maud::{Markup, html};

use crate::api::{MessageAct, MessageView};
use crate::console::contract::path;
use crate::console::parts::form::{self, ActForm};
use crate::console::parts::{chip, link, moment};
use crate::console::visit::Visit;
use crate::figures::plural;
use crate::times;
use crate::types::{AttemptResult, MessageState, Role, UnixMs};

/// Acts as the contract says them, and as a button does: of what was sent without an answer, and of all else.
const ACTS: [(MessageAct, &str, &str, &str); 3] = [
    (MessageAct::Done, "done", "It happened: settle as done", "Settle as done"),
    (MessageAct::Send, "send", "Send it again", "Send it again"),
    (MessageAct::Discard, "discard", "Give it up: discard", "Discard"),
];

/// True when nobody knows whether it took effect.
fn is_unknown(message: &MessageView) -> bool {
    message.state == MessageState::Held && message.last_result == Some(AttemptResult::Unknown)
}

/// True when a node may still be at it: nothing is decided about it until its lease has ended.
fn is_under_way(message: &MessageView, now_ms: UnixMs) -> bool {
    message.state == MessageState::Leased && message.visible_at_ms > now_ms
}

/// The state, and what it means for whoever looks.
pub(super) fn told(visit: &Visit, message: &MessageView) -> Markup {
    html! {
        p { (chip::message(message.state)) " " (sentence(visit, message)) }
        @if is_unknown(message) {
            div class="note" {
                p {
                    "It was sent and no answer came, so nobody knows whether it took effect. Ask "
                    (link::destination(visit, &message.destination))
                    " for the idempotency key below, or for the message’s id. There are three answers:"
                }
                ul {
                    li { strong { "It happened." } " Settle it as done; nothing is sent." }
                    li { strong { "It did not, or nobody can tell." } " Send it again, under the same key: " (key_in_words(message, visit.now_ms)) "." }
                    li { strong { "It is not wanted any more." } " Discard it; nothing is sent." }
                }
            }
        }
    }
}

fn sentence(visit: &Visit, message: &MessageView) -> Markup {
    let at = |at_ms| moment::moment(at_ms, visit.now_ms);
    let is_later = message.visible_at_ms > visit.now_ms;
    html! {
        @match message.state {
            MessageState::Ready if !is_later => "It is due, and goes out as soon as its destination takes it.",
            MessageState::Ready if message.attempts_n == 0 => { "It goes out at " (at(message.visible_at_ms)) "." },
            MessageState::Ready => { "The last attempt failed; the next is at " (at(message.visible_at_ms)) "." },
            MessageState::Waiting => "It is behind another message of its lane.",
            MessageState::Leased if is_later => { "A node is sending it. Its lease ends at " (at(message.visible_at_ms)) "." },
            MessageState::Leased => "The node that had it did not say what came of it, and its lease has ended.",
            MessageState::Held => "It waits for a person’s word, and is not sent until then.",
            MessageState::Dead => {
                "It was given up after " (plural(u64::from(message.attempts_n), "attempt"))
                ". It is kept, and is sent again when a person says so."
            },
            MessageState::Done => "It is done; nothing is to be done about it.",
            MessageState::Discarded => "A person said that it shall not be sent.",
        }
    }
}

/// Until when it is safe to send under the key again: as long as its destination is sure to remember it.
pub(super) fn key_in_words(message: &MessageView, now_ms: UnixMs) -> String {
    match message.key_valid_until_ms {
        None => "safe to send".to_owned(),
        Some(at_ms) if at_ms > now_ms => format!("safe to send again until {}", times::told(at_ms, now_ms)),
        Some(at_ms) => format!(
            "no longer safe to send again (it was until {}): if it took effect, it may do so twice",
            times::told(at_ms, now_ms)
        ),
    }
}

/// The form for a decision, for those who may and where there is one to make.
pub(super) fn form(visit: &Visit, message: &MessageView, etag: Option<&str>) -> Markup {
    let acts = acts(message, visit.now_ms);
    if acts.is_empty() || !visit.may(Role::Operator) {
        return html! {};
    }
    let id = message.message_id.to_string();
    let action = visit.link(&(path(&["messages", &id]) + "/decide"));
    let hint = "Done and discarded are for ever. The audit log keeps who decided, and why.";
    html! {
        section aria-labelledby="decide" {
            h2 id="decide" { "Decide" }
            (form::act(&ActForm { action: &action, etag, acts: &acts, hint }))
        }
    }
}

/// The acts that there are for a message as it stands: word, and text of the button.
fn acts(message: &MessageView, now_ms: UnixMs) -> Vec<(&'static str, &'static str)> {
    let possible =
        ACTS.iter().filter(|(act, ..)| act.is_for(message.state) && !is_under_way(message, now_ms));
    let label = |(_, word, of_unknown, of_all)| (word, if is_unknown(message) { of_unknown } else { of_all });
    possible.copied().map(label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(state: &str, more: &serde_json::Value) -> MessageView {
        let mut view = serde_json::json!({
            "message_id": "1024", "provider": "stripe", "event_id": "evt_1", "type": "paid", "effect_name": "pay",
            "idempotency_key": "k", "destination": "billing", "state": state, "attempts_n": 1, "generation": 0,
            "visible_at_ms": 5_000, "created_at_ms": 0,
        });
        view.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(view).unwrap()
    }

    #[test]
    fn buttons_are_those_that_the_state_allows() {
        #[track_caller]
        fn check(state: &str, now_ms: UnixMs, want: &str) {
            let acts = acts(&message(state, &serde_json::json!({})), now_ms);
            let words: Vec<&str> = acts.iter().map(|(word, _)| *word).collect();
            assert_eq!(words.join(" "), want, "{state}");
        }
        check("held", 0, "done send discard");
        check("dead", 0, "done send discard");
        check("ready", 0, "discard");
        check("waiting", 0, "discard");
        check("leased", 0, "");
        check("leased", 5_000, "done discard");
        check("done", 0, "");
        check("discarded", 0, "");
    }

    #[test]
    fn a_key_says_until_when_it_is_safe() {
        #[track_caller]
        fn check(until_ms: Option<i64>, want: &str) {
            let more = serde_json::json!({ "key_valid_until_ms": until_ms });
            assert_eq!(key_in_words(&message("held", &more), 60_000), want);
        }
        check(None, "safe to send");
        check(Some(120_000), "safe to send again until 00:02:00, in 1 min");
        let late = "no longer safe to send again (it was until 00:01:00, 0 s ago): if it took effect, it may do so twice";
        check(Some(60_000), late);
    }

    #[test]
    fn of_what_was_not_answered_the_button_says_what_it_means() {
        let unknown = message("held", &serde_json::json!({ "last_result": "unknown" }));
        assert!(acts(&unknown, 0).contains(&("done", "It happened: settle as done")));
        let refused = message("dead", &serde_json::json!({ "last_result": "refused" }));
        assert!(acts(&refused, 0).contains(&("done", "Settle as done")));
    }
}
