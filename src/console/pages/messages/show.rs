//! One message: what the contract judges of it, what is known of it, what was tried and what people decided.

use axum::extract::Path;
use axum::response::Response;
use maud::{Markup, html};

use super::attempts;
use crate::api::{MessageAct, MessageDetail, MessageView};
use crate::console::contract::{ContractAnswer, path, with_query};
use crate::console::parts::frame::Place;
use crate::console::parts::judged::{self, JudgedForm};
use crate::console::parts::{brief, chip, copy, link, list, moment, policy};
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;
use crate::types::Role;

/// Characters of the last error that are shown.
const ERROR_CHARS_MAX: usize = 2_000;

pub(super) async fn show(visit: Visit, Path(message_id): Path<String>) -> Response {
    let made = draw(&visit, &message_id).await.map(|body| (format!("Message {message_id}"), body));
    visit.answer(Place::Messages, made)
}

async fn draw(visit: &Visit, message_id: &str) -> Result<Markup, Trouble> {
    let told: ContractAnswer<MessageDetail> = visit.ask_tagged(&path(&["messages", message_id])).await?;
    let MessageDetail { message, attempts, decisions, policy, damaged } = &told.view;
    Ok(html! {
        p class="headline" { (chip::message(message.state)) " " @if let Some(one) = &message.judgement { (moment::coded(&one.headline)) } }
        (decide(visit, message, told.etag.as_deref()))
        section aria-labelledby="facts" {
            h2 id="facts" { "What it is" }
            (facts(visit, &told.view))
        }
        section aria-labelledby="policy" {
            h2 id="policy" { "Its destination" }
            (list::facts(&policy::rows(policy.as_ref())))
        }
        (list::damaged(damaged))
        (attempts::tried(visit, attempts))
        (attempts::decided(visit, decisions))
    })
}

/// The form for a decision, for those who may and where there is one to make.
fn decide(visit: &Visit, message: &MessageView, etag: Option<&str>) -> Markup {
    let acts = message.judgement.as_ref().map_or(&[][..], |one| &one.acts);
    if acts.is_empty() || !visit.may(Role::Operator) {
        return html! {};
    }
    let id = message.message_id.to_string();
    let action = visit.link(&(path(&["messages", &id]) + "/decide"));
    html! {
        section id="decide" aria-label="Decide" {
            (judged::form(&JudgedForm { action: &action, etag, acts, button }))
        }
    }
}

/// The word of the contract for an act, and what its button says.
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
    let error = error.map_or_else(moment::none, |error| brief::line(error, ERROR_CHARS_MAX));
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
        ("Message id", copy::line("message-id", &message.message_id.to_string())),
        ("Effect", moment::foreign(&message.effect_name)),
        ("Destination", link::destination(visit, &message.destination)),
        ("Event", event),
        ("State", state),
        ("Lane", lane),
        ("Idempotency key", copy::line("key", &message.idempotency_key)),
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
