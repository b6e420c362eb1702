//! What happened to an event and what people may do about it, in the words of its judgement.

use maud::{Markup, html};

use crate::api::{EventAct, JudgedAct, LedgerView, LedgerWhat, MessageView, Risk};
use crate::console::parts::form::{self, ActForm};
use crate::console::parts::{chip, link, list, moment};
use crate::console::visit::Visit;
use crate::plain;
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

/// The sentence of an act, in which the id of another event may stand.
fn hint(one: &JudgedAct<EventAct>) -> String {
    plain::line(&one.sentence).replace('`', "")
}

/// What happened and what it means; then the acts that are harmless, and apart from them the others, in red.
pub(super) fn decisions(
    visit: &Visit,
    view: &LedgerView,
    path: &str,
    etag: Option<&str>,
    what_if: &Markup,
) -> Markup {
    let (harmless, risky): (Vec<_>, Vec<_>) = view.judgement.acts.iter().partition(|one| is_harmless(one));
    let may_act = visit.may(Role::Operator);
    let action = visit.link(&format!("{path}/decide"));
    html! {
        section aria-labelledby="decide" {
            h2 id="decide" { "What to do" }
            p class="headline" { (moment::coded(&view.judgement.headline)) }
            (messages(visit, view))
            @if may_act {
                (what_if)
                @for one in harmless {
                    @let (word, label) = words(one.act);
                    (form::act(&ActForm { action: &action, etag, acts: &[(word, label)], hint: &hint(one) }))
                }
            } @else {
                @let role = visit.principal.role.as_str();
                (list::nothing(&format!("Decisions are for the role operator and stronger ones; yours is {role}.")))
            }
        }
        @if may_act && !risky.is_empty() {
            section aria-labelledby="risky" {
                h2 id="risky" { "What may do harm" }
                @for one in risky {
                    @let (word, label) = words(one.act);
                    details class="fold" {
                        summary { (label) }
                        (form::danger(&ActForm { action: &action, etag, acts: &[(word, label)], hint: &hint(one) }))
                    }
                }
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
    let waiting: Vec<MessageView> = view.entries.iter().filter_map(|entry| of(&entry.what)).collect();
    html! {
        @if !waiting.is_empty() {
            p { "These messages need a decision, each on its own page." }
            ul {
                @for message in &waiting {
                    li {
                        (link::message(visit, &message.message_id.to_string())) " "
                        (moment::foreign(&message.effect_name)) " to "
                        (link::destination(visit, &message.destination)) " " (chip::message(message.state))
                        @if let Some(error) = &message.last_error { " " (moment::foreign(error)) }
                    }
                }
            }
        }
    }
}
