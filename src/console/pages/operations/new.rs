//! A choice counted and said in words, with the form that confirms it.

use axum::extract::RawQuery;
use axum::response::Response;
use maud::{Markup, html};

use super::chosen::Chosen;
use crate::api::CountView;
use crate::console::parts::form::{self, ActForm};
use crate::console::parts::frame::Place;
use crate::console::parts::{field, list, moment};
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;
use crate::types::Role;

pub(super) async fn show(visit: Visit, raw: RawQuery) -> Response {
    let made = draw(&visit, &field::values(&raw)).await;
    visit.answer(Place::Operations, made.map(|body| ("New operation".to_owned(), body)))
}

async fn draw(visit: &Visit, values: &[(String, String)]) -> Result<Markup, Trouble> {
    let chosen = Chosen::asked(visit.now_ms, values)?;
    let count: CountView = visit.ask(&chosen.target(&format!("/{}/count", chosen.list()))).await?;
    Ok(html! {
        (found(visit, &chosen, count.counted_n, count.is_more))
        @if count.is_more {
            p class="note" {
                "That is more than one operation acts on. Say more, such as a provider or a time, and do it in parts."
            }
        } @else if count.counted_n == 0 {
            (list::nothing("There is nothing to do."))
        } @else {
            (confirm(visit, &chosen, count.counted_n))
        }
    })
}

/// What was found, with the way to look at it.
pub(super) fn found(visit: &Visit, chosen: &Chosen, counted_n: u64, is_more: bool) -> Markup {
    let list = chosen.target(&format!("/{}", chosen.list()));
    html! {
        p class="found" {
            @if is_more { "At least " }
            strong { (moment::foreign(&chosen.words(counted_n))) } ". "
            a href=(visit.link(&list)) { "Look at them" }
        }
    }
}

/// The form that begins the operation, about this number of rows and no other.
pub(super) fn confirm(visit: &Visit, chosen: &Chosen, counted_n: u64) -> Markup {
    let possible = chosen.acts();
    if !visit.may(Role::Operator) {
        return html! { p class="note" { "To act on them takes the role " code { "operator" } "." } };
    }
    if possible.is_empty() {
        return list::nothing("Nothing can be done to what stands in this state.");
    }
    let acts: Vec<(&str, &str)> = possible.iter().map(|(word, label, _)| (word.as_str(), *label)).collect();
    let more = html! {
        input type="hidden" name="subject" value=(chosen.list());
        @for (name, value) in chosen.fields() { input type="hidden" name=(name) value=(value); }
        input type="hidden" name="counted_n" value=(counted_n);
    };
    let hint = "It begins only if the number is still the same, goes on when you leave, and can be cancelled while it runs.";
    let form = ActForm { action: &visit.link("/operations"), etag: None, acts: &acts, hint };
    html! {
        ul { @for (_, _, follows) in &possible { li { (follows) } } }
        (form::act_with(&form, &more))
    }
}
