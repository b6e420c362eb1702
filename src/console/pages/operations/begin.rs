//! Takes the form that begins an operation.

use axum::response::Response;
use http::StatusCode;
use maud::html;

use super::chosen::Chosen;
use super::new;
use crate::api::{OperationOrder, OperationView};
use crate::console::contract::path;
use crate::console::parts::form::{self, SentForm};
use crate::console::parts::frame::Place;
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;

pub(super) async fn begin(visit: Visit, form: SentForm) -> Response {
    match order(&visit, &form).await {
        Ok(begun) => form::go(&visit.link(&path(&["operations", &begun.operation_id]))),
        Err(trouble) => counted_anew(&visit, &form, &trouble)
            .unwrap_or_else(|| visit.trouble(Place::Operations, &trouble)),
    }
}

async fn order(visit: &Visit, form: &SentForm) -> Result<OperationView, Trouble> {
    let chosen = Chosen::read(visit.now_ms, |name| form.optional(name))?;
    let counted_n = counted_n(form)?;
    let subject = chosen.subject(form.needed("act")?)?;
    let order = OperationOrder { subject, counted_n, reason: form.needed("reason")?.to_owned() };
    visit.order("/operations", &form.headers()?, &order).await
}

fn counted_n(form: &SentForm) -> Result<u64, Trouble> {
    let counted_n = form.needed("counted_n")?.parse();
    counted_n.map_err(|_| Trouble::bad_form("the number in the form is none"))
}

/// The page for a count that moved: the number as it is now, to be confirmed anew.
fn counted_anew(visit: &Visit, form: &SentForm, trouble: &Trouble) -> Option<Response> {
    let now_n = trouble.counted_n.filter(|_| trouble.code == "other_count")?;
    let chosen = Chosen::read(visit.now_ms, |name| form.optional(name)).ok()?;
    let before_n = counted_n(form).ok()?;
    let body = html! {
        p class="trouble" role="alert" {
            "Nothing was done: when you looked there were " (before_n) ", and now there are " (now_n) "."
        }
        (new::found(visit, &chosen, now_n, false))
        @if now_n > 0 { (new::confirm(visit, &chosen, now_n)) }
    };
    let mut page = visit.page(Place::Operations, "The number has changed", &body);
    *page.status_mut() = StatusCode::CONFLICT;
    Some(page)
}
