//! What pauses and resumes a destination or a provider: who did it and why, and the form.

use maud::{Markup, html};

use super::form::{self, ActForm, SentForm};
use super::{field, moment};
use crate::api::{OrderResult, PauseOrder, PauseView};
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;
use crate::times::parse_end;

const PAUSE: &[(&str, &str)] = &[("pause", "Pause")];
const RESUME: &[(&str, &str)] = &[("resume", "Resume")];

/// The sentence about who paused it, why, and until when; empty where nobody did.
pub(in crate::console) fn note(visit: &Visit, pause: Option<&PauseView>) -> Markup {
    html! {
        @if let Some(pause) = pause {
            p class="note" {
                (moment::foreign(&pause.actor)) " paused it at " (moment::moment(pause.paused_at_ms, visit.now_ms)) ": "
                (moment::foreign(&pause.reason))
                @if let Some(until_ms) = pause.until_ms { ". It resumes by itself at " (moment::moment(until_ms, visit.now_ms)) "." }
            }
        }
    }
}

/// The form, at the page `page`: folded away where nothing is paused. `hints` are what follows from a pause, and from its end.
pub(in crate::console) fn section(
    visit: &Visit,
    page: &str,
    (pause, etag): (Option<&PauseView>, Option<&str>),
    hints: [&str; 2],
) -> Markup {
    let [pausing, resuming] = hints;
    let (acts, hint) = if pause.is_none() { (PAUSE, pausing) } else { (RESUME, resuming) };
    let until = field::time("until", "Resumes by itself at (UTC); empty: never", None);
    let more = if pause.is_none() {
        until
    } else {
        html! {}
    };
    let action = visit.link(&format!("{page}/decide"));
    let form = form::act_with(&ActForm { action: &action, etag, acts, hint }, &more);
    html! {
        section id="decide" aria-label="What to do" {
            @if pause.is_some() { (form) }
            @else { details class="fold" { summary { "Pause …" } (form) } }
        }
    }
}

/// Carries out the form: an order about what has this path in the contract.
pub(in crate::console) async fn order(visit: &Visit, subject: &str, form: &SentForm) -> Result<(), Trouble> {
    let until_ms = form.optional("until").map(|text| parse_end(text, visit.now_ms)).transpose();
    let until_ms = until_ms.map_err(|why| Trouble::bad_form(&why))?;
    let order = PauseOrder { act: form.word("act")?, reason: form.needed("reason")?.to_owned(), until_ms };
    visit.order::<OrderResult>(&format!("{subject}/decide"), &form.headers()?, &order).await.map(drop)
}
