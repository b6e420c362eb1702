//! One operation: how far it is, whose it is, what it passed over, and its end.

use axum::extract::Path;
use axum::response::Response;
use maud::{Markup, html};

use super::chosen::Chosen;
use super::{act, figures, progress, words};
use crate::api::{OperationPreview, OperationState, OperationSubject, OperationView, SkippedRow};
use crate::console::contract::path;
use crate::console::parts::form::{self, ActForm};
use crate::console::parts::frame::Place;
use crate::console::parts::{brief, link, list, moment};
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;
use crate::figures::grouped;
use crate::types::Role;

/// Seconds after which the progress is drawn again.
const AGAIN_S: u32 = 2;
/// Characters of a row's name that are shown.
const SUBJECT_CHARS_MAX: usize = 255;

pub(super) async fn show(visit: Visit, Path(operation_id): Path<String>) -> Response {
    let made = draw(&visit, &operation_id).await.map(|body| ("Operation".to_owned(), body));
    visit.answer(Place::Operations, made)
}

async fn draw(visit: &Visit, operation_id: &str) -> Result<Markup, Trouble> {
    let page = path(&["operations", operation_id]);
    let operation: OperationView = visit.ask(&page).await?;
    let is_running = operation.state == OperationState::Running;
    let is_waiting = operation.state == OperationState::Waiting;
    let acts_on = if is_waiting {
        acts_on(visit, &operation, &page).await?
    } else {
        html! {}
    };
    Ok(html! {
        p { strong { (moment::foreign(&words::subject(&operation.subject, operation.total_n))) } }
        div id="progress" data-refresh=[is_running.then_some(AGAIN_S)] {
            section aria-label="Progress" aria-live="polite" {
                (progress::bar(&operation))
                @if let Some(note) = &operation.note { p class="trouble" { "Why: " (moment::foreign(note)) "." } }
                (facts(visit, &operation))
                @if let Some(steps) = &operation.steps { (progress::steps(steps)) }
            }
            @if is_running {
                noscript { p { a class="button" href=(visit.link(&page)) { "Look again" } } }
            }
            (passed_over(visit, &operation))
        }
        (acts_on)
        div id="decide" data-ends-with="progress" {
            @if visit.may(Role::Operator) { (decisions(visit, &operation, &page)) }
        }
    })
}

/// What is to be approved: the same figures, sentence and rows as the person saw who ordered it, as they are now.
async fn acts_on(visit: &Visit, operation: &OperationView, page: &str) -> Result<Markup, Trouble> {
    let preview: OperationPreview = visit.ask(&format!("{page}/preview")).await?;
    let moved_n = operation.total_n.saturating_sub(preview.figures.counted_n);
    Ok(html! {
        section aria-labelledby="acts-on" {
            h2 id="acts-on" { "What it acts on" }
            @if moved_n > 0 { p class="note" { (grouped(moved_n)) " of its rows have changed since the order; they may be passed over." } }
            (figures::found(visit, &Chosen(operation.subject.choice()), &preview.figures))
            (figures::recent(&preview))
            @for act in &preview.acts { (act::what_follows(visit, act)) }
            (figures::samples(visit, &preview))
        }
    })
}

fn facts(visit: &Visit, operation: &OperationView) -> Markup {
    let cancelled_by = operation.cancelled_by.as_deref().map_or_else(moment::none, moment::foreign);
    let mut facts = vec![
        ("State", words::state(operation.state)),
        ("Ordered by", moment::foreign(&operation.actor)),
        ("Reason", moment::foreign(&operation.reason)),
        ("Ordered", moment::moment(operation.created_at_ms, visit.now_ms)),
        ("Ended", moment::moment_or_none(operation.finished_at_ms, visit.now_ms)),
        ("Cancelled by", cancelled_by),
    ];
    facts.extend(operation.approved_by.as_deref().map(|actor| ("Approved by", moment::foreign(actor))));
    let until = operation.approve_until_ms.map(|ms| moment::moment(ms, visit.now_ms));
    facts.extend(until.map(|until| ("To be approved until", until)));
    list::facts(&facts)
}

fn passed_over(visit: &Visit, operation: &OperationView) -> Markup {
    let is_messages = matches!(operation.subject, OperationSubject::Messages { .. });
    let rows: Vec<Markup> = operation.skipped.iter().map(|row| skipped(visit, row, is_messages)).collect();
    html! {
        @if !rows.is_empty() {
            section aria-labelledby="skipped" {
                h2 id="skipped" { "Passed over" }
                (list::table("Rows that were passed over", &["Which", "Why", "State"], &rows))
                p class="hint" { "The newest of them, ten at most." }
            }
        }
    }
}

fn skipped(visit: &Visit, row: &SkippedRow, is_message: bool) -> Markup {
    html! {
        tr {
            td {
                @if is_message { (link::message(visit, &row.subject)) }
                @else if let Some((provider, event_id)) = row.subject.split_once('/') { (link::event(visit, provider, event_id)) }
                @else { (brief::line(&row.subject, SUBJECT_CHARS_MAX)) }
            }
            td { (words::passed_over(&row.outcome)) }
            td { @match &row.state { Some(state) => (moment::foreign(state)), None => (moment::none()) } }
        }
    }
}

/// What a person can decide about it, each apart.
fn decisions(visit: &Visit, operation: &OperationView, page: &str) -> Markup {
    let is_own = operation.actor == visit.principal.name.as_str();
    html! {
        @match operation.state {
            OperationState::Waiting if is_own => p class="note" { "Another person has to approve it. You ordered it." },
            OperationState::Waiting => (approve(visit, operation, page)),
            OperationState::Stopped => (resume(visit, page)),
            _ => {}
        }
        @if !matches!(operation.state, OperationState::Done | OperationState::Cancelled) { (cancel(visit, page)) }
    }
}

fn approve(visit: &Visit, operation: &OperationView, page: &str) -> Markup {
    let action = visit.link(&format!("{page}/approve"));
    let hint = "It begins at once. Read above what it acts on, and what that risks.";
    let form = ActForm { action: &action, etag: None, acts: &[("approve", "Approve: let it begin")], hint };
    html! {
        section aria-labelledby="approve" {
            h2 id="approve" { "Approve" }
            p { (moment::foreign(&operation.actor)) " ordered it, and needs your agreement." }
            (form::act_with(&form, &act::typed_field(operation.total_n)))
        }
    }
}

fn resume(visit: &Visit, page: &str) -> Markup {
    let action = visit.link(&format!("{page}/continue"));
    let hint =
        "Look at the calls that failed first. It goes on with the rest, and stops again when too many fail.";
    let form = ActForm { action: &action, etag: None, acts: &[("continue", "Continue the operation")], hint };
    html! {
        section aria-labelledby="continue" {
            h2 id="continue" { "Continue" }
            (form::act(&form))
        }
    }
}

fn cancel(visit: &Visit, page: &str) -> Markup {
    let action = visit.link(&format!("{page}/cancel"));
    let hint = "What was done stays done; the rest is left as it is.";
    let form = ActForm { action: &action, etag: None, acts: &[("cancel", "Cancel the operation")], hint };
    html! {
        section aria-labelledby="cancel" {
            h2 id="cancel" { "Cancel" }
            (form::act(&form))
        }
    }
}
