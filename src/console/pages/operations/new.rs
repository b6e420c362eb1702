//! The first of two steps: what a filter finds, and what can be done to all of it. Each act has a page of its own.

use axum::extract::RawQuery;
use axum::response::Response;
use maud::{Markup, html};

use super::chosen::Chosen;
use super::figures;
use crate::api::{OperationPreview, PreviewedAct};
use crate::console::contract::OrderHeaders;
use crate::console::parts::frame::Place;
use crate::console::parts::{field, list};
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;
use crate::types::Role;

/// Acts that delete what is stored: they are reached by a link apart, and from there one by the other.
pub(super) const ERASURES: [&str; 2] = ["erase", "erase_and_discard"];

pub(super) async fn show(visit: Visit, raw: RawQuery) -> Response {
    let made = draw(&visit, &field::values(&raw)).await;
    visit.answer(Place::Operations, made.map(|body| ("New operation".to_owned(), body)))
}

/// What an operation on a choice would be.
pub(super) async fn preview(visit: &Visit, chosen: &Chosen) -> Result<OperationPreview, Trouble> {
    visit.order("/operations/preview", &OrderHeaders::default(), &chosen.0).await
}

async fn draw(visit: &Visit, values: &[(String, String)]) -> Result<Markup, Trouble> {
    let chosen = Chosen::asked(visit.now_ms, values)?;
    if !chosen.has_acts() {
        return Ok(no_acts());
    }
    let preview = preview(visit, &chosen).await?;
    Ok(html! {
        (figures::found(visit, &chosen, &preview.figures))
        (nothing_to_choose(visit, &preview).unwrap_or_else(|| choices(visit, &chosen, &preview.acts)))
        (figures::samples(visit, &preview))
    })
}

/// Stands where no act is for rows in this state.
pub(super) fn no_acts() -> Markup {
    list::nothing("Nothing can be done to what stands in this state.")
}

/// Why no act can be chosen.
pub(super) fn nothing_to_choose(visit: &Visit, preview: &OperationPreview) -> Option<Markup> {
    if preview.figures.is_more {
        let why = "That is more than one operation acts on. Say more, such as a provider or a time, and do it in parts.";
        return Some(html! { p class="note" { (why) } });
    }
    if preview.figures.counted_n == 0 {
        return Some(list::nothing("There is nothing to do."));
    }
    let may = visit.may(Role::Operator);
    (!may).then(|| html! { p class="note" { "To act on them takes the role " code { "operator" } "." } })
}

fn choices(visit: &Visit, chosen: &Chosen, acts: &[PreviewedAct]) -> Markup {
    let is_erasure = |act: &&PreviewedAct| ERASURES.contains(&act.act.as_str());
    let href = |act: &PreviewedAct| visit.link(&chosen.page(Some(&act.act)));
    html! {
        h2 { "What is to be done?" }
        p class="hint" { "Each leads to a page of its own, where it is confirmed. Nothing is done yet." }
        @for act in acts.iter().filter(|act| !is_erasure(act)) {
            section class="choice" {
                p { a class=(if act.is_dangerous() { "button danger" } else { "button" }) href=(href(act)) { (act.label) "…" } }
                p { (act.sentence) }
            }
        }
        @if let Some(act) = acts.iter().find(is_erasure) {
            h2 { "Delete what is stored" }
            p { "If their contents must not be kept: " a href=(href(act)) { "delete the contents of these events…" } }
        }
    }
}
