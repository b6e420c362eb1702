//! The audit log: who decided what, when and why.

use std::sync::Arc;

use axum::Router;
use axum::extract::RawQuery;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};

use crate::api::{AuditView, Page};
use crate::console::contract::with_query;
use crate::console::parts::frame::Place;
use crate::console::parts::moment::{foreign, moment, none};
use crate::console::parts::{field, link, list};
use crate::console::state::ConsoleState;
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;

pub(super) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new().route("/audit", get(show))
}

async fn show(visit: Visit, raw: RawQuery) -> Response {
    let made = draw(&visit, &field::values(&raw)).await.map(|body| ("Audit".to_owned(), body));
    visit.answer(Place::Audit, made)
}

async fn draw(visit: &Visit, values: &[(String, String)]) -> Result<Markup, Trouble> {
    let asked = [("cursor", field::value(values, "cursor"))];
    let page: Page<AuditView> = visit.ask(&with_query("/audit", &asked)).await?;
    let rows: Vec<Markup> = page.items.iter().map(|one| row(visit, one)).collect();
    Ok(html! {
        p { "Every decision, every look at a content and every sign-in, in the order in which they were written. The "
            "database changes none of these rows." }
        @if rows.is_empty() { (list::nothing("Nobody has decided anything, or looked at a content.")) }
        @else { (list::table("Audit log", &["No.", "Time", "Who", "What", "About", "Why"], &rows)) }
        (list::onwards(visit, "/audit", values, &page))
    })
}

fn row(visit: &Visit, one: &AuditView) -> Markup {
    html! {
        tr {
            td class="figure" { (one.audit_seq) }
            td { (moment(one.at_ms, visit.now_ms)) }
            td { (foreign(&one.actor)) }
            td { code { (foreign(&one.action)) } }
            td { (about(visit, one)) }
            td { (foreign(&one.detail)) }
        }
    }
}

/// What it is about, as links.
fn about(visit: &Visit, one: &AuditView) -> Markup {
    let mut parts: Vec<Markup> = Vec::new();
    match (&one.provider, &one.event_id) {
        (Some(provider), Some(event_id)) => {
            parts.push(html! { "event " (link::event(visit, provider, event_id)) });
        }
        (Some(provider), None) => parts.push(html! { "sender " (link::provider(visit, provider)) }),
        _ => {}
    }
    if let Some(message_id) = &one.message_id {
        parts.push(html! { "message " (link::message(visit, message_id)) });
    }
    if let Some(operation_id) = &one.operation_id {
        parts.push(html! { "operation " (link::operation(visit, operation_id)) });
    }
    if parts.is_empty() {
        return none();
    }
    html! { @for (n, part) in parts.iter().enumerate() { @if n > 0 { ", " } (part) } }
}
