//! Takes the form that begins an operation.

use axum::response::Response;
use http::StatusCode;
use maud::{Markup, html};

use super::act;
use super::chosen::Chosen;
use crate::api::{OperationOrder, OperationView};
use crate::console::contract::path;
use crate::console::parts::form::{self, SentForm};
use crate::console::parts::frame::Place;
use crate::console::parts::link;
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;
use crate::figures::grouped;
use crate::types::Role;

pub(super) async fn begin(visit: Visit, form: SentForm) -> Response {
    match order(&visit, &form).await {
        Ok(begun) => form::go(&visit.link(&path(&["operations", &begun.operation_id]))),
        Err(trouble) => confirmed_anew(&visit, &form, &trouble).await,
    }
}

async fn order(visit: &Visit, form: &SentForm) -> Result<OperationView, Trouble> {
    let chosen = Chosen::read(visit.now_ms, |name| form.optional(name))?;
    let counted_n = counted_n(form)?;
    let subject = chosen.subject(form.needed("act")?)?;
    if visit.may(Role::Operator) {
        check_typed(form, counted_n)?;
    }
    let order = OperationOrder {
        subject,
        counted_n,
        set: form.needed("set")?.to_owned(),
        reason: form.needed("reason")?.to_owned(),
        steps: None,
        again: form.optional("again") == Some("true"),
    };
    visit.order("/operations", &form.headers()?, &order).await
}

fn counted_n(form: &SentForm) -> Result<u64, Trouble> {
    let counted_n = form.needed("counted_n")?.parse();
    counted_n.map_err(|_| Trouble::bad_form("the number in the form is none"))
}

/// Refuses a form in which another number was typed than it is about.
pub(super) fn check_typed(form: &SentForm, counted_n: u64) -> Result<(), Trouble> {
    let typed = form.optional("typed_n").unwrap_or_default();
    let digits: String = typed.chars().filter(|one| !matches!(one, ',' | '.' | ' ' | '_')).collect();
    if digits.parse() == Ok(counted_n) {
        return Ok(());
    }
    let title = format!("nothing was done: the number {counted_n} has to be typed to confirm it");
    Err(Trouble::new(StatusCode::BAD_REQUEST, "other_number_typed", &title))
}

/// The page of the act once more, where its person has to decide anew; else what went wrong.
async fn confirmed_anew(visit: &Visit, form: &SentForm, trouble: &Trouble) -> Response {
    let chosen = Chosen::read(visit.now_ms, |name| form.optional(name));
    let (Some(notice), Ok(chosen), Some(act)) = (notice(visit, form, trouble), chosen, form.optional("act"))
    else {
        return visit.trouble(Place::Operations, trouble);
    };
    let drawn = act::draw(visit, &chosen, act, &notice).await;
    let is_drawn = drawn.is_ok();
    let mut page = visit.answer(Place::Operations, drawn);
    if is_drawn {
        *page.status_mut() = trouble.status;
    }
    page
}

fn notice(visit: &Visit, form: &SentForm, trouble: &Trouble) -> Option<Markup> {
    let involved = trouble.involved.as_deref();
    let operation_id = involved.and_then(|involved| involved.operation_id.as_deref());
    let rows = involved.map_or("", |involved| involved.rows.as_str());
    let said = match trouble.code.as_deref().unwrap_or_default() {
        "other_number_typed" => {
            let typed = form.optional("typed_n").unwrap_or("nothing");
            html! { "Nothing was done: you typed " (crate::console::parts::moment::foreign(typed)) ", which is not the number." }
        }
        "other_count" => {
            let (before_n, now_n) = (counted_n(form).ok()?, trouble.counted_n?);
            html! { "Nothing was done: when you looked there were " (grouped(before_n)) ", and now there are " (grouped(now_n)) "." }
        }
        "other_set" => html! {
            "Nothing was done: there are as many as when you looked, but not the same ones, or one of them was sent or handled \
             since. Look at them again."
        },
        "same_operation" => html! {
            "Nothing was done: another operation does the same, or does it to some of the same rows"
            @if let Some(id) = operation_id { ": operation " (link::operation(visit, id)) }
            @else { ". This token may not see it" }
            ". It is unfinished, or ended less than 10 minutes ago."
        },
        _ => return None,
    };
    let about = match trouble.code.as_deref() {
        _ if rows.is_empty() => None,
        Some("same_operation") => Some("Both are about "),
        _ => Some("New, gone or changed since you looked: "),
    };
    Some(html! {
        p class="trouble" role="alert" {
            (said)
            @if let Some(what) = about { " " (what) (crate::console::parts::moment::foreign(rows)) "." }
        }
    })
}
