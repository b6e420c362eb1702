//! Messages: what waits for a person first, then the newest, or what a filter finds; one message with its attempts and
//! decisions, and the form that decides about it.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery};
use axum::response::Response;
use axum::routing::{get, post};
use maud::{Markup, html};

use crate::contract::{ContractAnswer, path, with_query};
use crate::parts::field::Asked;
use crate::parts::form::JudgedForm;
use crate::parts::form::SentForm;
use crate::parts::frame::Place;
use crate::parts::list::Narrow;
use crate::parts::{chip, field, form, link, list, moment};
use crate::state::ConsoleState;
use crate::trouble::PageError;
use crate::visit::Visit;
use hooklatch_contract::{
    AttemptView, AuditView, MessageAct, MessageDetail, MessageOrder, MessageView, OrderResult, Page,
};
use hooklatch_core::figures::grouped;
use hooklatch_core::types::{MessageState, Role};

pub(crate) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new()
        .route("/messages", get(show_all))
        .route("/messages/{message_id}", get(show_one))
        .route("/messages/{message_id}/decide", post(decide))
}

/// Messages in each of the states that need a person, on the page without a filter.
const WAITING_N: &str = "10";
/// The newest ones on that page.
const NEWEST_N: &str = "30";

async fn show_all(visit: Visit, raw: RawQuery) -> Response {
    let made = draw_all(&visit, &field::values(&raw)).await.map(|body| ("Messages".to_owned(), body));
    visit.answer(Place::Messages, made)
}

async fn draw_all(visit: &Visit, values: &[(String, String)]) -> Result<Markup, PageError> {
    let asked = field::asked(values, visit.now_ms)?;
    let is_filtered = asked.keys().any(|name| name != "cursor");
    let found = if asked.is_empty() { first(visit).await? } else { found(visit, values, asked).await? };
    Ok(html! {
        (filter(visit, values, is_filtered))
        (found)
    })
}

/// The page without a filter: each of its parts is bounded.
async fn first(visit: &Visit) -> Result<Markup, PageError> {
    let held = some(visit, "held", WAITING_N).await?;
    let dead = some(visit, "dead", WAITING_N).await?;
    let newest: Page<MessageView> = visit.get(&with_query("/messages", &[("limit", Some(NEWEST_N))])).await?;
    Ok(html! {
        @if held.items.is_empty() && dead.items.is_empty() {
            (list::nothing("No message waits for a decision."))
        }
        (waiting(visit, MessageState::Held, "Held: each waits for a decision", &held))
        (waiting(visit, MessageState::Dead, "Dead: they were given up", &dead))
        section aria-labelledby="newest" {
            h2 id="newest" { "The newest" }
            @if newest.items.is_empty() { (list::nothing("There are no messages yet.")) }
            @else { (table(visit, "The newest messages", &newest.items)) }
            (list::onwards(visit, "/messages", &[], &newest))
        }
    })
}

async fn some(visit: &Visit, state: &str, limit: &str) -> Result<Page<MessageView>, PageError> {
    visit.get(&with_query("/messages", &[("state", Some(state)), ("limit", Some(limit))])).await
}

/// Those that stand in a state which only a person ends.
fn waiting(visit: &Visit, state: MessageState, title: &str, page: &Page<MessageView>) -> Markup {
    let word = state.as_str();
    let all = with_query("/messages", &[("state", Some(word))]);
    html! {
        @if !page.items.is_empty() {
            section aria-labelledby=(word) {
                h2 id=(word) { (title) }
                (table(visit, title, &page.items))
                p class="links" {
                    a href=(visit.link(&all)) { "All that are " (chip::message(state)) }
                    (bulk(visit, &Asked::from([("state".to_owned(), word.to_owned())])))
                }
            }
        }
    }
}

/// The way to act on all that a filter finds, for those who may.
fn bulk(visit: &Visit, asked: &Asked) -> Markup {
    let path = field::target("/operations/new", asked, ("subject", Some("messages")));
    html! {
        @if visit.may(Role::Operator) { " · " a href=(visit.link(&path)) { "Act on all of them …" } }
    }
}

/// The page with a filter, or a later one.
async fn found(visit: &Visit, values: &[(String, String)], mut asked: Asked) -> Result<Markup, PageError> {
    let cursor = asked.remove("cursor");
    let target = field::target("/messages", &asked, ("cursor", cursor.as_deref()));
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

fn filter(visit: &Visit, values: &[(String, String)], is_filtered: bool) -> Markup {
    let fields = html! {
        (field::choice("state", "State", values, MessageState::ALL.iter().map(|state| state.as_str())))
        (field::destination(visit, values))
        (field::provider(visit, values))
        (field::text("lane", "Lane", values))
        (field::text("created_before", "Before (2h, or a date)", values))
    };
    field::filter(&visit.link("/messages"), &fields, is_filtered)
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
    list::table_as(Narrow::Lines, caption, &HEADINGS, &rows)
}

fn row(visit: &Visit, message: &MessageView) -> Markup {
    let is_named = message.effect_name != message.destination;
    html! {
        tr {
            td class="what" { (link::message(visit, &message.message_id.to_string())) }
            td { (moment::moment(message.created_at_ms, visit.now_ms)) }
            td {
                (link::destination(visit, &message.destination))
                @if is_named { div class="hint" { (moment::brief(&message.effect_name, NAME_CHARS_MAX)) } }
            }
            td class="wide" {
                (link::event(visit, &message.provider, &message.event_id))
                div class="hint" { (message.provider) " · " (moment::brief(&message.event_type, NAME_CHARS_MAX)) }
            }
            td { (chip::message(message.state)) }
            td class="named" { (moment::figure(u64::from(message.attempts_n), false)) }
            td class="wide long" {
                @if let Some(judgement) = &message.judgement { (judgement.headline) }
                @if let Some(error) = &message.last_error {
                    div class="hint" { (moment::brief(error, ROW_ERROR_CHARS_MAX)) }
                }
            }
        }
    }
}

/// Characters of the last error that are shown.
const ERROR_CHARS_MAX: usize = 2_000;

async fn show_one(visit: Visit, Path(message_id): Path<String>) -> Response {
    let made = draw_one(&visit, &message_id).await.map(|body| (format!("Message {message_id}"), body));
    visit.answer(Place::Messages, made)
}

async fn draw_one(visit: &Visit, message_id: &str) -> Result<Markup, PageError> {
    let answer: ContractAnswer<MessageDetail> = visit.get_tagged(&path(&["messages", message_id])).await?;
    let MessageDetail { message, attempts, decisions, policy, damaged } = &answer.view;
    Ok(html! {
        p class="headline" { (chip::message(message.state)) " " @if let Some(one) = &message.judgement { (moment::coded(&one.headline)) } }
        (decide_form(visit, message, answer.etag.as_deref()))
        section aria-labelledby="facts" {
            h2 id="facts" { "What it is" }
            (facts(visit, &answer.view))
        }
        section aria-labelledby="policy" {
            h2 id="policy" { "Its destination" }
            (list::facts(&list::policy(policy.as_ref())))
        }
        (list::damaged(damaged))
        (tried(visit, attempts))
        (decided(visit, decisions))
    })
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
            (form::judged(&JudgedForm { action: &action, etag, acts, button }))
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
    let lane = message.lane.as_deref().map_or_else(moment::none, |lane| of_lane(visit, message, lane));
    let error = message.last_error.as_deref();
    let error = error.map_or_else(moment::none, |error| moment::brief(error, ERROR_CHARS_MAX));
    let event = html! {
        (link::event(visit, &message.provider, &message.event_id)) " of "
        (link::provider(visit, &message.provider)) ", " (moment::foreign(&message.event_type))
        @if message.generation > 0 { ", re-run " (message.generation) }
    };
    let state = html! { (chip::message(message.state)) };
    let result = html! {
        @match message.last_result { Some(result) => (chip::attempt(Some(result))), None => (moment::none()) }
    };
    // An order to send it again begins to count anew; what a destination is asked about began with the first attempt.
    let started = detail.attempts.iter().map(|attempt| attempt.started_at_ms);
    let first_sent_at_ms = message.first_sent_at_ms.into_iter().chain(started).min();
    let mut rows = vec![
        ("Message id", moment::copied("message-id", &message.message_id.to_string())),
        ("Effect", moment::foreign(&message.effect_name)),
        ("Destination", link::destination(visit, &message.destination)),
        ("Event", event),
        ("State", state),
        ("Lane", lane),
        ("Idempotency key", moment::copied("key", &message.idempotency_key)),
        ("Attempts", moment::figure(u64::from(message.attempts_n), false)),
        ("Last result", result),
        ("Last error", error),
        ("Written", moment::moment(message.created_at_ms, visit.now_ms)),
        ("First sent", moment::moment_or_none(first_sent_at_ms, visit.now_ms)),
        ("Finished", moment::moment_or_none(message.finished_at_ms, visit.now_ms)),
    ];
    if let Some(at_ms) = detail.key_known_until_ms() {
        rows.push(("Key remembered until", moment::moment(at_ms, visit.now_ms)));
    }
    list::facts(&rows)
}

fn of_lane(visit: &Visit, message: &MessageView, lane: &str) -> Markup {
    let values = [("destination", Some(message.destination.as_str())), ("lane", Some(lane))];
    html! { a href=(visit.link(&with_query("/messages", &values))) { (moment::foreign(lane)) } }
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
fn tried(visit: &Visit, attempts: &[AttemptView]) -> Markup {
    let rows: Vec<Markup> =
        attempts.iter().take(SHOWN_N).map(|attempt| attempt_row(visit, attempt)).collect();
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

fn attempt_row(visit: &Visit, attempt: &AttemptView) -> Markup {
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
                    Some(error) => (moment::brief(error, TEXT_CHARS_MAX)),
                    None => (moment::none()),
                }
            }
            td { (moment::brief(&attempt.node, TEXT_CHARS_MAX)) }
        }
    }
}

/// The pieces of answers that were kept, as the destination sent them.
fn answers(visit: &Visit, attempts: &[AttemptView]) -> Markup {
    let kept = attempts.iter().filter_map(|one| Some((one.attempt_n, one.response.as_deref()?)));
    html! {
        @for (attempt_n, response) in kept.take(ANSWERS_N) {
            h3 { "Answer to attempt " (attempt_n) }
            (moment::brief_lines(response, ANSWER_CHARS_MAX))
        }
        @if !attempts.is_empty() && !visit.may(Role::Reader) {
            p class="hint" { "What the destination answered is shown to the role " code { "reader" } "." }
        }
    }
}

/// What people decided, the newest first.
fn decided(visit: &Visit, decisions: &[AuditView]) -> Markup {
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
            td { (moment::brief(&one.detail, TEXT_CHARS_MAX)) }
        }
    }
}

async fn decide(visit: Visit, Path(message_id): Path<String>, form: SentForm) -> Response {
    let page = path(&["messages", &message_id]);
    match order(&visit, &page, &form).await {
        Ok(()) => form::go(&visit.link(&page)),
        Err(trouble) => visit.trouble(Place::Messages, &trouble.about(&page)),
    }
}

async fn order(visit: &Visit, page: &str, form: &SentForm) -> Result<(), PageError> {
    let order = MessageOrder { act: form.word("act")?, reason: form.needed("reason")?.to_owned() };
    visit.post::<OrderResult>(&format!("{page}/decide"), &form.headers()?, &order).await.map(drop)
}
