//! What happened to an event and what people may do about it, in the words of its judgement.

use maud::{Markup, html};

use crate::api::{EventAct, JudgedAct, LedgerView, LedgerWhat, MessageView, Risk};
use crate::console::contract::path;
use crate::console::parts::judged::{self, JudgedForm};
use crate::console::parts::{chip, link, list, moment};
use crate::console::visit::Visit;
use crate::types::{MessageState, Role};

/// The word of the contract for an act, and what its button says.
fn words(act: EventAct) -> (&'static str, &'static str) {
    match act {
        EventAct::Dispatch => ("dispatch", "Dispatch it"),
        EventAct::Dismiss => ("dismiss", "Dismiss it"),
        EventAct::Rerun => ("rerun", "Run it again"),
        EventAct::Erase => ("erase", "Erase its content"),
        EventAct::EraseAndDiscard => ("erase_and_discard", "Erase its content and discard what is open"),
    }
}

/// True when an act repeats nothing, loses nothing and can be followed by any other.
fn is_harmless(one: &JudgedAct<EventAct>) -> bool {
    one.risk == Risk::None && !matches!(one.act, EventAct::Erase | EventAct::EraseAndDiscard)
}

/// What happened and what it means; then the acts that are harmless, and folded apart from them the others, in red.
pub(super) fn decisions(
    visit: &Visit,
    view: &LedgerView,
    path: &str,
    etag: Option<&str>,
    what_if: &Markup,
) -> Markup {
    let (harmless, risky): (Vec<_>, Vec<_>) = view.judgement.acts.iter().cloned().partition(is_harmless);
    let action = visit.link(&format!("{path}/decide"));
    let form = |acts: &[JudgedAct<EventAct>]| {
        judged::form(&JudgedForm { action: &action, etag, acts, button: words })
    };
    html! {
        section id="decide" aria-label="What happened, and what to do" {
            p class="headline" {
                (chip::event(view.event.state)) " " (chip::delivery(&view.event.delivery)) " "
                (moment::coded(&view.judgement.headline))
            }
            (messages(visit, view))
            @if visit.may(Role::Operator) {
                @if !harmless.is_empty() { (form(&harmless)) }
                div id="risky" class="folds" {
                    (what_if)
                    @for one in risky.chunks(1) {
                        details class="fold" {
                            summary { @for act in one { (words(act.act).1) " …" } }
                            (form(one))
                        }
                    }
                }
            } @else {
                @let role = visit.principal.role.as_str();
                (list::nothing(&format!("Decisions are for the role operator and stronger ones; yours is {role}.")))
            }
        }
    }
}

/// The messages of the event that wait for a decision, which is made on their own pages.
fn messages(visit: &Visit, view: &LedgerView) -> Markup {
    let of = |what: &LedgerWhat| -> Option<MessageView> {
        let LedgerWhat::Effect { message } = what else { return None };
        matches!(message.state, MessageState::Held | MessageState::Dead).then(|| message.clone())
    };
    let may_act = visit.may(Role::Operator);
    let waiting: Vec<MessageView> = view.entries.iter().filter_map(|entry| of(&entry.what)).collect();
    html! {
        @if !waiting.is_empty() {
            ul class="waiting" {
                @for message in &waiting {
                    @let id = message.message_id.to_string();
                    li {
                        a class="button" href=(visit.link(&path(&["messages", &id]))) { @if may_act { "Decide about message " } @else { "Message " } (id) }
                        (chip::message(message.state)) " to " (link::destination(visit, &message.destination))
                        @if message.effect_name != message.destination { " (" (moment::foreign(&message.effect_name)) ")" }
                        @if let Some(error) = &message.last_error { span class="hint" { (moment::foreign(error)) } }
                    }
                }
            }
        }
    }
}
