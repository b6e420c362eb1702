//! Operations that run and that ran, the newest first.

use axum::extract::RawQuery;
use axum::response::Response;
use maud::{Markup, html};

use super::{progress, words};
use crate::api::{OperationView, Page};
use crate::console::contract::with_query;
use crate::console::parts::frame::Place;
use crate::console::parts::{brief, field, link, list, moment};
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;
use crate::types::Role;

/// Characters of what an operation does and of its reason that a row shows.
const WORDS_CHARS_MAX: usize = 160;
const HEADINGS: [&str; 7] = ["Operation", "What", "State", "Progress", "Ordered", "By", "Reason"];

pub(super) async fn show(visit: Visit, raw: RawQuery) -> Response {
    let made = draw(&visit, &field::values(&raw)).await.map(|body| ("Operations".to_owned(), body));
    visit.answer(Place::Operations, made)
}

async fn draw(visit: &Visit, values: &[(String, String)]) -> Result<Markup, Trouble> {
    let cursor = field::value(values, "cursor");
    let page: Page<OperationView> = visit.ask(&with_query("/operations", &[("cursor", cursor)])).await?;
    let rows: Vec<Markup> = page.items.iter().map(|operation| row(visit, operation)).collect();
    Ok(html! {
        @if visit.may(Role::Operator) {
            p class="hint" {
                "An operation acts on all that a filter finds. Begin one from the list of "
                a href=(visit.link("/messages")) { "messages" } " or "
                a href=(visit.link("/events")) { "events" } ", filtered by a state."
            }
        }
        @if rows.is_empty() { (list::nothing("There are no operations yet.")) }
        @else { (list::table("Operations", &HEADINGS, &rows)) }
        (list::onwards(visit, "/operations", values, &page))
    })
}

fn row(visit: &Visit, operation: &OperationView) -> Markup {
    let what = words::subject(&operation.subject, operation.total_n);
    html! {
        tr {
            td { (link::operation(visit, &operation.operation_id)) }
            td { (brief::line(&what, WORDS_CHARS_MAX)) }
            td { (words::state(operation.state)) }
            td { (progress::brief(operation)) }
            td { (moment::moment(operation.created_at_ms, visit.now_ms)) }
            td { (moment::foreign(&operation.actor)) }
            td { (brief::line(&operation.reason, WORDS_CHARS_MAX)) }
        }
    }
}
