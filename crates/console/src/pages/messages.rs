//! Messages: what waits for a person first, then the newest, or what a filter finds; one message with its attempts and
//! decisions, and the form that decides about it.

use super::prelude::*;
use crate::parts::list::Asked;
use hooklatch_contract::{AttemptView, AuditView, MessageAct, MessageDetail, MessageView};
use hooklatch_core::types::MessageState;

/// Messages in each of the states that need a person, on the page without a filter.
const WAITING_N: &str = "10";
/// The newest ones on that page.
const NEWEST_N: &str = "30";

pub(crate) async fn show_all(visit: Visit, values: Values) -> PageResult {
    let asked = list::asked(&values, visit.now_ms)?;
    let is_filtered = asked.keys().any(|name| name != "cursor");
    let found = if asked.is_empty() { first(&visit).await? } else { found(&visit, &values, asked).await? };
    let body = html! {
        (filter(&visit, &values, is_filtered))
        (found)
    };
    Ok(PageBody::new("Messages", body))
}

/// The page without a filter: each of its parts is bounded.
async fn first(visit: &Visit) -> Result<Markup, PageError> {
    let mut waiting = Vec::new();
    for (state, title) in [
        (MessageState::Held, "Held: each waits for a decision"),
        (MessageState::Dead, "Dead: they were given up"),
    ] {
        let target = with_query("/messages", &[("state", Some(state.as_str())), ("limit", Some(WAITING_N))]);
        let found: Page<MessageView> = visit.get(&target).await?;
        waiting.extend((!found.items.is_empty()).then(|| self::waiting(visit, state, title, &found)));
    }
    let newest: Page<MessageView> = visit.get(&with_query("/messages", &[("limit", Some(NEWEST_N))])).await?;
    let shown = html! {
        @if newest.items.is_empty() { (list::nothing("There are no messages yet.")) }
        @else { (table(visit, "The newest messages", &newest.items)) }
        (list::onwards(visit, "/messages", &Values::parse(""), &newest))
    };
    Ok(html! {
        @if waiting.is_empty() { (list::nothing("No message waits for a decision.")) }
        @for section in &waiting { (section) }
        (list::section("newest", "The newest", &shown))
    })
}

/// Those that stand in a state which only a person ends.
fn waiting(visit: &Visit, state: MessageState, title: &str, page: &Page<MessageView>) -> Markup {
    let word = state.as_str();
    let all = with_query("/messages", &[("state", Some(word))]);
    let shown = html! {
        (table(visit, title, &page.items))
        p class="links" {
            a href=(visit.link(&all)) { "All that are " (text::message_chip(state)) }
            (bulk(visit, &Asked::from([("state".to_owned(), word.to_owned())])))
        }
    };
    list::section(word, title, &shown)
}

/// The way to act on all that a filter finds, for those who may.
fn bulk(visit: &Visit, asked: &Asked) -> Markup {
    let path = list::target("/operations/new", asked, ("subject", Some("messages")));
    html! {
        @if visit.may(Role::Operator) { " · " a href=(visit.link(&path)) { "Act on all of them …" } }
    }
}

/// The page with a filter, or a later one.
async fn found(visit: &Visit, values: &Values, mut asked: Asked) -> Result<Markup, PageError> {
    let cursor = asked.remove("cursor");
    let target = list::target("/messages", &asked, ("cursor", cursor.as_deref()));
    let page: Page<MessageView> = visit.get(&target).await?;
    let has_state = asked.contains_key("state");
    Ok(html! {
        @if page.items.is_empty() { (list::nothing("No message is found by this filter.")) }
        @else {
            (table(visit, "Messages", &page.items))
            @if has_state { p class="links" { "By this filter" (bulk(visit, &asked)) } }
        }
        (list::onwards(visit, "/messages", values, &page))
    })
}

fn filter(visit: &Visit, values: &Values, is_filtered: bool) -> Markup {
    let fields = html! {
        (list::choice("state", "State", values, MessageState::ALL.iter().map(|state| state.as_str())))
        (list::destination_field(visit, values))
        (list::provider_field(visit, values))
        (list::text_field("lane", "Lane", values))
        (list::text_field("created_before", "Before (2h, or a date)", values))
    };
    list::filter(&visit.link("/messages"), &fields, is_filtered)
}

/// Characters of an error that a row shows.
const ROW_ERROR_CHARS_MAX: usize = 120;
/// Characters of an effect's name and an event's type that a row shows.
const NAME_CHARS_MAX: usize = 60;

const HEADINGS: [&str; 7] =
    ["Message", "Written", "Destination", "Event", "State", "Attempts", "What it means"];

/// A table of messages.
pub(crate) fn table(visit: &Visit, caption: &str, messages: &[MessageView]) -> Markup {
    let rows: Vec<Markup> = messages.iter().map(|message| row(visit, message)).collect();
    list::table_as(list::LINES, caption, &HEADINGS, &rows)
}

fn row(visit: &Visit, message: &MessageView) -> Markup {
    let is_named = message.effect_name != message.destination;
    html! {
        tr {
            td class="what" { (link::message(visit, &message.message_id.to_string())) }
            td { (text::moment(message.created_at_ms, visit.now_ms)) }
            td {
                (link::destination(visit, &message.destination))
                @if is_named { div class="hint" { (text::brief(&message.effect_name, NAME_CHARS_MAX)) } }
            }
            td class="wide" {
                (link::event(visit, &message.provider, &message.event_id))
                div class="hint" { (message.provider) " · " (text::brief(&message.event_type, NAME_CHARS_MAX)) }
            }
            td { (text::message_chip(message.state)) }
            td class="named" { (text::figure(u64::from(message.attempts_n), false)) }
            td class="wide long" {
                @if let Some(judgement) = &message.judgement { (judgement.headline) }
                @if let Some(error) = &message.last_error {
                    div class="hint" { (text::brief(error, ROW_ERROR_CHARS_MAX)) }
                }
            }
        }
    }
}

/// Characters of the last error that are shown.
const ERROR_CHARS_MAX: usize = 2_000;

pub(crate) async fn show_one(visit: Visit, Path(message_id): Path<String>) -> PageResult {
    let (view, etag) = visit.get_tagged::<MessageDetail>(&path(&["messages", &message_id])).await?;
    let MessageDetail { message, decisions, policy, damaged, .. } = &view;
    let body = html! {
        p class="headline" { (text::message_chip(message.state)) " " @if let Some(one) = &message.judgement { (text::coded(&one.headline)) } }
        (decide_form(&visit, message, etag.as_deref()))
        (list::section("facts", "What it is", &facts(&visit, &view)))
        (list::section("policy", "Its destination", &list::facts(&list::policy(policy.as_ref()))))
        (list::damaged(damaged))
        (list::section("attempts", "Attempts", &tried(&visit, &view)))
        @if !decisions.is_empty() { (list::section("decisions", "Decisions", &decided(&visit, decisions))) }
    };
    Ok(PageBody::new(format!("Message {message_id}"), body))
}

/// The form for a decision, for those who may and where there is one to make.
fn decide_form(visit: &Visit, message: &MessageView, etag: Option<&str>) -> Markup {
    let acts = message.judgement.as_ref().map_or(&[][..], |one| &one.acts);
    if acts.is_empty() || !visit.may(Role::Operator) {
        return html! {};
    }
    let id = message.message_id.to_string();
    let action = visit.link(&(path(&["messages", &id]) + "/decide"));
    html! {
        section id="decide" aria-label="Decide" {
            (form::judged(&action, etag, acts, button))
        }
    }
}

/// The word of the contract for an act, and the label of its button.
fn button(act: MessageAct) -> (&'static str, &'static str) {
    match act {
        MessageAct::Done => ("done", "Settle as done"),
        MessageAct::Send => ("send", "Send it again"),
        MessageAct::Discard => ("discard", "Discard"),
    }
}

fn facts(visit: &Visit, detail: &MessageDetail) -> Markup {
    let message = &detail.message;
    let lane = message.lane.as_deref().map_or_else(text::none, |lane| {
        let values = [("destination", Some(message.destination.as_str())), ("lane", Some(lane))];
        html! { a href=(visit.link(&with_query("/messages", &values))) { (text::foreign(lane)) } }
    });
    let event = html! {
        (link::event(visit, &message.provider, &message.event_id)) " of "
        (link::provider(visit, &message.provider)) ", " (text::foreign(&message.event_type))
        @if message.generation > 0 { ", re-run " (message.generation) }
    };
    let result = message.last_result.map_or_else(text::none, |result| text::attempt_chip(Some(result)));
    // An order to send it again begins to count anew; what a destination is asked about began with the first attempt.
    let started = detail.attempts.iter().map(|attempt| attempt.started_at_ms);
    let first_sent_at_ms = message.first_sent_at_ms.into_iter().chain(started).min();
    let mut rows = vec![
        ("Message id", text::copied("message-id", &message.message_id.to_string())),
        ("Effect", text::foreign(&message.effect_name)),
        ("Destination", link::destination(visit, &message.destination)),
        ("Event", event),
        ("State", text::message_chip(message.state)),
        ("Lane", lane),
        ("Idempotency key", text::copied("key", &message.idempotency_key)),
        ("Attempts", text::figure(u64::from(message.attempts_n), false)),
        ("Last result", result),
        ("Last error", text::brief_or_none(message.last_error.as_deref(), ERROR_CHARS_MAX)),
        ("Written", text::moment(message.created_at_ms, visit.now_ms)),
        ("First tried", text::moment_or_none(first_sent_at_ms, visit.now_ms)),
        ("Finished", text::moment_or_none(message.finished_at_ms, visit.now_ms)),
    ];
    if let Some(at_ms) = detail.key_known_until_ms() {
        rows.push(("Key remembered until", text::moment(at_ms, visit.now_ms)));
    }
    list::facts(&rows)
}

/// Attempts that are shown, the newest ones.
const SHOWN_N: usize = 30;
/// Answers that are shown, of the newest attempts that have one.
const ANSWERS_N: usize = 5;
/// Characters of an answer that are shown.
const ANSWER_CHARS_MAX: usize = 4_096;
/// Characters of an error or a reason that a row shows.
const TEXT_CHARS_MAX: usize = 255;

/// What was tried, the newest first.
fn tried(visit: &Visit, detail: &MessageDetail) -> Markup {
    let attempts = &detail.attempts;
    let nothing = detail.no_attempts().unwrap_or("None of its attempts can be read.");
    let headings = ["Attempt", "Started", "Took", "Result", "Status", "Error", "Node"];
    let cells = |attempt: &AttemptView| {
        let ended_ms = attempt.finished_at_ms;
        let took_ms = ended_ms.map(|at_ms| at_ms.saturating_sub(attempt.started_at_ms).max(0));
        [
            html! { (attempt.attempt_n) },
            text::moment(attempt.started_at_ms, visit.now_ms),
            took_ms.map_or_else(text::none, |ms| html! { (grouped(ms.unsigned_abs())) " ms" }),
            text::attempt_chip(attempt.result),
            attempt.http_status.map_or_else(text::none, |status| html! { (status) }),
            text::brief_or_none(attempt.error.as_deref(), TEXT_CHARS_MAX),
            text::brief(&attempt.node, TEXT_CHARS_MAX),
        ]
    };
    html! {
        (list::rows("Attempts", headings, nothing, attempts.iter().take(SHOWN_N), cells))
        @if attempts.len() > SHOWN_N {
            p class="hint" { "The newest " (SHOWN_N) " are shown." }
        }
        (answers(visit, attempts))
    }
}

/// The pieces of answers that were kept, as the destination sent them.
fn answers(visit: &Visit, attempts: &[AttemptView]) -> Markup {
    let kept = attempts.iter().filter_map(|one| Some((one.attempt_n, one.response.as_deref()?)));
    html! {
        @for (attempt_n, response) in kept.take(ANSWERS_N) {
            h3 { "Answer to attempt " (attempt_n) }
            (text::brief_lines(response, ANSWER_CHARS_MAX))
        }
        @if !attempts.is_empty() && !visit.may(Role::Reader) {
            p class="hint" { "What the destination answered is shown to the role " code { "reader" } "." }
        }
    }
}

/// What people decided, the newest first.
fn decided(visit: &Visit, decisions: &[AuditView]) -> Markup {
    let cells = |one: &AuditView| {
        let action = html! {
            code { (text::foreign(&one.action)) }
            @if let Some(operation_id) = &one.operation_id { " in " (link::operation(visit, operation_id)) }
        };
        [
            text::moment(one.at_ms, visit.now_ms),
            text::foreign(&one.actor),
            action,
            text::brief(&one.detail, TEXT_CHARS_MAX),
        ]
    };
    list::rows("Decisions", ["When", "Who", "What", "Reason"], "", decisions.iter().take(SHOWN_N), cells)
}

pub(crate) async fn decide(
    visit: Visit,
    Path(id): Path<String>,
    form: SentForm,
) -> Result<Response, PageError> {
    form::decide::<MessageAct>(&visit, &path(&["messages", &id]), &form).await
}
