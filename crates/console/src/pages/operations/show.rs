//! One operation: how far it is, whose it is, what it passed over and its end; and the forms that approve, continue and
//! cancel it.

use axum::extract::Path;
use axum::response::Response;
use maud::{Markup, html};

use super::{check_typed, found, samples, subject_words, typed_field, what_follows};
use crate::contract::path;
use crate::parts::chip::{Mood, chip};
use crate::parts::form::{self, ActForm, SentForm};
use crate::parts::frame::Place;
use crate::parts::{link, list, moment};
use crate::trouble::PageError;
use crate::visit::Visit;
use hooklatch_contract::{
    OperationPreview, OperationState, OperationSubject, OperationView, ReasonOrder, SkippedRow, StepView,
    StepsView,
};
use hooklatch_core::figures::grouped;
use hooklatch_core::types::Role;

/// Seconds after which the progress is drawn again.
const AGAIN_S: u32 = 2;
/// Characters of a row's name that are shown.
const SUBJECT_CHARS_MAX: usize = 255;

pub(crate) async fn show(visit: Visit, Path(operation_id): Path<String>) -> Response {
    let made = draw(&visit, &operation_id).await.map(|body| ("Operation".to_owned(), body));
    visit.answer(Place::Operations, made)
}

async fn draw(visit: &Visit, operation_id: &str) -> Result<Markup, PageError> {
    let page = path(&["operations", operation_id]);
    let operation: OperationView = visit.get(&page).await?;
    let is_running = operation.state == OperationState::Running;
    let is_waiting = operation.state == OperationState::Waiting;
    let acts_on = if is_waiting {
        acts_on(visit, &operation, &page).await?
    } else {
        html! {}
    };
    Ok(html! {
        p { strong { (moment::foreign(&subject_words(&operation.subject, operation.total_n))) } }
        div id="progress" data-refresh=[is_running.then_some(AGAIN_S)] {
            section aria-label="Progress" aria-live="polite" {
                (bar(&operation))
                @if let Some(note) = &operation.note { p class="trouble" { "Why: " (moment::foreign(note)) "." } }
                (facts(visit, &operation))
                @if let Some(steps) = &operation.steps { (steps_table(steps)) }
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
async fn acts_on(visit: &Visit, operation: &OperationView, page: &str) -> Result<Markup, PageError> {
    let preview: OperationPreview = visit.get(&format!("{page}/preview")).await?;
    let moved_n = operation.total_n.saturating_sub(preview.figures.counted_n);
    Ok(html! {
        section aria-labelledby="acts-on" {
            h2 id="acts-on" { "What it acts on" }
            @if moved_n > 0 { p class="note" { (grouped(moved_n)) " of its rows have changed since the order; they may be passed over." } }
            (found(visit, &operation.subject.choice(), &preview))
            @for act in &preview.acts { (what_follows(visit, act)) }
            (samples(visit, &preview))
        }
    })
}

fn facts(visit: &Visit, operation: &OperationView) -> Markup {
    let cancelled_by = operation.cancelled_by.as_deref().map_or_else(moment::none, moment::foreign);
    let mut facts = vec![
        ("State", state(operation.state)),
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
                @else { (moment::brief(&row.subject, SUBJECT_CHARS_MAX)) }
            }
            td { (why_passed_over(&row.outcome)) }
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
            OperationState::Stopped => {
                @let hint = "Look at the calls that failed first. It goes on with the rest, and stops again when too many fail.";
                (decision(visit, page, ("continue", "Continue the operation"), hint, &html! {}))
            },
            _ => {}
        }
        @if !matches!(operation.state, OperationState::Done | OperationState::Cancelled) {
            @let hint = "What was done stays done; the rest is left as it is.";
            (decision(visit, page, ("cancel", "Cancel the operation"), hint, &html! {}))
        }
    }
}

fn approve(visit: &Visit, operation: &OperationView, page: &str) -> Markup {
    let hint = "It begins at once. Read above what it acts on, and what that risks.";
    let more = html! {
        p { (moment::foreign(&operation.actor)) " ordered it, and needs your agreement." }
        (typed_field(operation.total_n))
    };
    decision(visit, page, ("approve", "Approve: let it begin"), hint, &more)
}

/// The form of one decision; `more` stands first in it.
fn decision(visit: &Visit, page: &str, act: (&str, &str), hint: &str, more: &Markup) -> Markup {
    let action = visit.link(&format!("{page}/{}", act.0));
    let form = ActForm { action: &action, etag: None, acts: &[act], hint };
    html! { section aria-label=(act.1) { (form::act(&form, more)) } }
}

pub(crate) async fn decide(
    word: &'static str,
    visit: Visit,
    Path(operation_id): Path<String>,
    form: SentForm,
) -> Response {
    let page = path(&["operations", &operation_id]);
    match order(&visit, &page, word, &form).await {
        Ok(()) => form::go(&visit.link(&page)),
        Err(trouble) => visit.trouble(Place::Operations, &trouble.about(&page)),
    }
}

async fn order(visit: &Visit, page: &str, word: &str, form: &SentForm) -> Result<(), PageError> {
    let order = ReasonOrder { reason: form.needed("reason")?.to_owned() };
    let headers = form.headers()?;
    if word == "approve" && visit.may(Role::Operator) {
        let operation: OperationView = visit.get(page).await?;
        check_typed(form, operation.total_n)?;
    }
    visit.post::<OperationView>(&format!("{page}/{word}"), &headers, &order).await.map(drop)
}

/// State of an operation.
pub(crate) fn state(state: OperationState) -> Markup {
    let mood = match state {
        OperationState::Running => Mood::Busy,
        OperationState::Waiting => Mood::Needed,
        OperationState::Stopped => Mood::Bad,
        OperationState::Done => Mood::Good,
        OperationState::Cancelled => Mood::Quiet,
    };
    chip(mood, state.as_str())
}

/// The reason why a row was passed over.
fn why_passed_over(outcome: &str) -> &str {
    match outcome {
        "not_found" => "it was not there any more",
        "not_allowed" => "it had moved on by itself",
        "body_gone" => "its bytes are no longer kept",
        "still_open" => "messages of it are open",
        "moved" => "it was sent or handled after the order",
        "test_event" => "it is a test event",
        "failed" => "it failed; the log says why",
        other => other,
    }
}

/// Number of rows that are behind it.
fn passed_n(operation: &OperationView) -> u64 {
    operation.changed_n.saturating_add(operation.skipped_n)
}

/// How far it is, in a few words: `40 of 1,000`.
pub(crate) fn progress(operation: &OperationView) -> String {
    format!("{} of {}", grouped(passed_n(operation)), grouped(operation.total_n))
}

/// How far it is, as a bar with the same in words.
fn bar(operation: &OperationView) -> Markup {
    let OperationView { total_n, changed_n, skipped_n, .. } = operation;
    let left_n = total_n.saturating_sub(passed_n(operation));
    html! {
        // A bar of nothing has no end: one that is over is full.
        progress max=(total_n.max(&1)) value=(if *total_n == 0 { 1 } else { passed_n(operation) }) aria-label="Progress" {
            (progress(operation))
        }
        p {
            strong { (progress(operation)) } ": "
            (grouped(*changed_n)) " changed, " (grouped(*skipped_n)) " passed over"
            @if left_n > 0 {
                ", " (grouped(left_n))
                @if operation.state == OperationState::Cancelled { " left as they were" } @else { " to go" }
            }
            "."
        }
    }
}

/// The steps, with the results of their calls.
fn steps_table(steps: &StepsView) -> Markup {
    let row = |(n, step): (usize, &StepView)| {
        let numbers = [step.rows_n, step.changed_n, step.open_n(), step.good_n, step.failed_n];
        let is_current = u32::try_from(n + 1).is_ok_and(|n| n == steps.current);
        html! { tr aria-current=[is_current.then_some("step")] { td { (n + 1) } @for number in numbers { td { (grouped(number)) } } } }
    };
    let rows: Vec<Markup> = steps.list.iter().enumerate().map(row).collect();
    html! {
        h2 { "Steps" }
        (list::table("Steps", &["Step", "Rows", "Acted on", "Calls not tried yet", "Good", "Failed"], &rows))
        p class="hint" {
            "At most " (steps.per_s) " rows a second. It stops by itself when a call of the first of several steps fails, or more than "
            (steps.stop_percent) " % of the others. A call that is tried again, or of which nobody knows, counts as failed."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_a_bar_and_the_same_in_words() {
        #[track_caller]
        fn check(state: &str, counts: (u64, u64, u64), wants: &[&str]) {
            let (total_n, changed_n, skipped_n) = counts;
            let view = serde_json::json!({
                "operation_id": "o", "state": state, "actor": "ann", "reason": "r", "created_at_ms": 0, "total_n": total_n,
                "changed_n": changed_n, "skipped_n": skipped_n, "skipped": [],
                "subject": { "messages": { "act": "send", "filter": { "state": "dead" } } },
            });
            let drawn = bar(&serde_json::from_value(view).unwrap()).0;
            for want in wants {
                assert!(drawn.contains(want), "{want}: {drawn}");
            }
        }
        check("running", (1_000, 40, 2), &["max=\"1000\" value=\"42\"", "<strong>42 of 1,000", "958 to go"]);
        check("cancelled", (9, 4, 0), &["value=\"4\"", "5 left as they were"]);
        check("done", (9, 9, 0), &["9 changed, 0 passed over."]);
        check("done", (0, 0, 0), &["max=\"1\" value=\"1\"", "0 of 0"]);
    }

    #[test]
    fn every_reason_for_passing_over_has_a_sentence() {
        for word in ["not_found", "not_allowed", "body_gone", "still_open", "moved", "test_event", "failed"] {
            assert_ne!(why_passed_over(word), word);
        }
        assert_eq!(why_passed_over("of_a_newer_version"), "of_a_newer_version");
    }
}
