//! The audit log: who decided what, when and why; and whether it is whole.

use std::sync::Arc;

use axum::Router;
use axum::extract::RawQuery;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};

use crate::api::{AuditVerified, AuditView, Page};
use crate::console::contract::with_query;
use crate::console::parts::frame::Place;
use crate::console::parts::moment::{figure, foreign, moment, none};
use crate::console::parts::{field, link, list};
use crate::console::state::ConsoleState;
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;
use crate::types::Role;

pub(super) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new().route("/audit", get(show)).route("/audit/verify", get(verify))
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
        @if visit.may(Role::Admin) {
            p { a class="button" href=(visit.link("/audit/verify")) { "Verify that nothing was changed" } }
        }
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

async fn verify(visit: Visit, raw: RawQuery) -> Response {
    let made = drawn_verdict(&visit, &field::values(&raw)).await;
    visit.answer(Place::Audit, made.map(|body| ("Is the audit log whole?".to_owned(), body)))
}

async fn drawn_verdict(visit: &Visit, values: &[(String, String)]) -> Result<Markup, Trouble> {
    let cursor = field::value(values, "cursor");
    let found: AuditVerified = visit.ask(&with_query("/audit/verify", &[("cursor", cursor)])).await?;
    let (class, sentence) = match (found.is_whole, &found.next) {
        (false, _) => ("trouble", "No. One row does not fit to what was written before it."),
        (true, Some(_)) => ("note", "So far, yes. There are more rows to follow."),
        (true, None) => {
            ("note", "Yes. Every row that was followed is as it was written, and none is missing.")
        }
    };
    let mut facts = vec![
        ("Rows followed", figure(found.rows_n, false)),
        ("From", html! { "row " (found.first_seq) " to row " (found.last_seq) }),
    ];
    if let Some(seq) = found.broken_at_seq {
        facts.push(("First row that does not fit", html! { (seq) }));
    }
    if let Some(reason) = &found.reason {
        facts.push(("Why", foreign(reason)));
    }
    facts.push(("Last row, to keep elsewhere", html! { code { (foreign(&found.head)) } }));
    Ok(html! {
        p class=(class) role="status" { (sentence) }
        (list::facts(&facts))
        @if let Some(next) = &found.next {
            p { a class="button main" href=(visit.link(&with_query("/audit/verify", &[("cursor", Some(next.as_str()))]))) { "Follow the next rows" } }
        }
        form class="act" method="get" action=(visit.link("/audit/verify")) {
            label { span { "A last row that you kept" }
                input type="text" name="cursor" required maxlength="255" autocomplete="off" spellcheck="false";
            }
            div class="buttons" { button type="submit" { "Compare, and follow from there" } }
            p class="hint" { "Whoever owns the database can write the whole log anew. He cannot change what you keep elsewhere." }
        }
        p { a href=(visit.link("/audit")) { "Back to the log" } }
    })
}
