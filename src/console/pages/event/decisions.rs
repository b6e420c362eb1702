//! What people may do about an event, and what follows from it.

use maud::{Markup, html};

use crate::api::{EventAct, LedgerView, LedgerWhat, MessageView};
use crate::console::parts::form::{self, ActForm};
use crate::console::parts::{chip, link, list, moment};
use crate::console::visit::Visit;
use crate::types::{MessageState, Role};

/// An act as a form offers it.
struct OfferedAct {
    act: EventAct,
    /// The word of the contract.
    word: &'static str,
    label: &'static str,
    /// What follows from it.
    hint: &'static str,
    /// True when it stands behind a fold, because it cannot be taken back or makes calls again.
    is_folded: bool,
}

const OFFERED: [OfferedAct; 5] = [
    OfferedAct {
        act: EventAct::Dispatch,
        word: "dispatch",
        label: "Dispatch it",
        hint: "Its handler is asked, and its effects are sent under keys of their own: for content that is an event of its own.",
        is_folded: false,
    },
    OfferedAct {
        act: EventAct::Dismiss,
        word: "dismiss",
        label: "Dismiss it",
        hint: "It needs nobody any more. Nothing is sent; it stays where it is and can be dispatched later.",
        is_folded: false,
    },
    OfferedAct {
        act: EventAct::Rerun,
        word: "rerun",
        label: "Run it again",
        hint: "Its handler is asked once more, and all that it wants is sent as new messages under new keys: destinations cannot tell them from a new order. What was sent before is not taken back.",
        is_folded: true,
    },
    OfferedAct {
        act: EventAct::Erase,
        word: "erase",
        label: "Erase its content",
        hint: "Headers, body, bodies of messages and kept answers are deleted for good. Id, digest and state stay, so that a copy is still known. It is refused while messages of it are open.",
        is_folded: true,
    },
    OfferedAct {
        act: EventAct::EraseAndDiscard,
        word: "erase_and_discard",
        label: "Erase its content and discard what is open",
        hint: "Open messages of it are discarded and never sent, whatever it waits for is given up, and its content is deleted for good.",
        is_folded: true,
    },
];

pub(super) fn decisions(visit: &Visit, view: &LedgerView, path: &str, etag: Option<&str>) -> Markup {
    if !visit.may(Role::Operator) {
        let role = visit.principal.role.as_str();
        let sentence = format!("Decisions are for the role operator and stronger ones; yours is {role}.");
        return list::nothing(&sentence);
    }
    let action = visit.link(&format!("{path}/decide"));
    let offered = OFFERED.iter().filter(|one| one.act.is_for(view.event.state));
    html! {
        (messages(visit, view))
        @for one in offered {
            @let drawn = form::act(&ActForm { action: &action, etag, acts: &[(one.word, one.label)], hint: one.hint });
            @if one.is_folded { details class="fold" { summary { (one.label) } (drawn) } }
            @else { (drawn) }
        }
    }
}

/// The messages of the event that wait for a person: what to do about them is decided on their own pages.
fn messages(visit: &Visit, view: &LedgerView) -> Markup {
    let of = |what: &LedgerWhat| -> Option<MessageView> {
        let LedgerWhat::Effect { message } = what else { return None };
        matches!(message.state, MessageState::Held | MessageState::Dead).then(|| message.clone())
    };
    let waiting: Vec<MessageView> = view.entries.iter().filter_map(|entry| of(&entry.what)).collect();
    html! {
        @if !waiting.is_empty() {
            p { "These messages of it wait for a person; decide about each on its own page." }
            ul {
                @for message in &waiting {
                    li {
                        (link::message(visit, &message.message_id.to_string())) " "
                        (moment::foreign(&message.effect_name)) " to "
                        (link::destination(visit, &message.destination)) " " (chip::message(message.state))
                    }
                }
            }
        }
    }
}
