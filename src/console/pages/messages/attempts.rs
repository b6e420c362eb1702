//! What was tried with a message and what came back, and what people decided about it.

use maud::{Markup, html};

use crate::api::{AttemptView, AuditView};
use crate::console::parts::{brief, chip, link, list, moment};
use crate::console::visit::Visit;
use crate::figures::grouped;
use crate::types::Role;

/// Attempts that are shown, the newest ones.
const SHOWN_N: usize = 30;
/// Answers that are shown, of the newest attempts that have one.
const ANSWERS_N: usize = 5;
/// Characters of an answer that are shown.
const ANSWER_CHARS_MAX: usize = 4_096;
/// Characters of an error or a reason that a row shows.
const TEXT_CHARS_MAX: usize = 255;

/// What was tried, the newest first.
pub(super) fn tried(visit: &Visit, attempts: &[AttemptView]) -> Markup {
    let rows: Vec<Markup> = attempts.iter().take(SHOWN_N).map(|attempt| row(visit, attempt)).collect();
    let headings = ["Attempt", "Started", "Took", "Result", "Status", "Error", "Node"];
    html! {
        section aria-labelledby="attempts" {
            h2 id="attempts" { "Attempts" }
            @if rows.is_empty() { (list::nothing("It was not sent yet.")) }
            @else { (list::table("Attempts", &headings, &rows)) }
            @if attempts.len() > SHOWN_N {
                p class="hint" { "The newest " (SHOWN_N) " are shown." }
            }
            (answers(visit, attempts))
        }
    }
}

fn row(visit: &Visit, attempt: &AttemptView) -> Markup {
    let took_ms = attempt.finished_at_ms.map(|at_ms| at_ms.saturating_sub(attempt.started_at_ms).max(0));
    html! {
        tr {
            td { (attempt.attempt_n) }
            td { (moment::moment(attempt.started_at_ms, visit.now_ms)) }
            td { @match took_ms { Some(ms) => { (grouped(ms.unsigned_abs())) " ms" }, None => (moment::none()) } }
            td { (chip::attempt(attempt.result)) }
            td { @match attempt.http_status { Some(status) => (status), None => (moment::none()) } }
            td {
                @match &attempt.error {
                    Some(error) => (brief::line(error, TEXT_CHARS_MAX)),
                    None => (moment::none()),
                }
            }
            td { (brief::line(&attempt.node, TEXT_CHARS_MAX)) }
        }
    }
}

/// The pieces of answers that were kept, as the destination sent them.
fn answers(visit: &Visit, attempts: &[AttemptView]) -> Markup {
    let kept = attempts.iter().filter_map(|one| Some((one.attempt_n, one.response.as_deref()?)));
    html! {
        @for (attempt_n, response) in kept.take(ANSWERS_N) {
            h3 { "Answer to attempt " (attempt_n) }
            (brief::lines(response, ANSWER_CHARS_MAX))
        }
        @if !attempts.is_empty() && !visit.may(Role::Reader) {
            p class="hint" { "What the destination answered is shown to the role " code { "reader" } "." }
        }
    }
}

/// What people decided, the newest first.
pub(super) fn decided(visit: &Visit, decisions: &[AuditView]) -> Markup {
    let rows: Vec<Markup> = decisions.iter().take(SHOWN_N).map(|one| decision(visit, one)).collect();
    html! {
        @if !rows.is_empty() {
            section aria-labelledby="decisions" {
                h2 id="decisions" { "Decisions" }
                (list::table("Decisions", &["When", "Who", "What", "Reason"], &rows))
            }
        }
    }
}

fn decision(visit: &Visit, one: &AuditView) -> Markup {
    html! {
        tr {
            td { (moment::moment(one.at_ms, visit.now_ms)) }
            td { (moment::foreign(&one.actor)) }
            td {
                code { (moment::foreign(&one.action)) }
                @if let Some(operation_id) = &one.operation_id { " in " (link::operation(visit, operation_id)) }
            }
            td { (brief::line(&one.detail, TEXT_CHARS_MAX)) }
        }
    }
}
