//! One message: how it stands, what is known of it, what was tried and what people decided.

use axum::extract::Path;
use axum::response::Response;
use maud::{Markup, html};

use super::{attempts, standing};
use crate::api::{MessageDetail, MessageView};
use crate::console::contract::{ContractAnswer, path, with_query};
use crate::console::parts::frame::Place;
use crate::console::parts::{brief, chip, link, list, moment};
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;

/// Characters of the last error that are shown.
const ERROR_CHARS_MAX: usize = 2_000;

pub(super) async fn show(visit: Visit, Path(message_id): Path<String>) -> Response {
    let made = draw(&visit, &message_id).await.map(|body| (format!("Message {message_id}"), body));
    visit.answer(Place::Messages, made)
}

async fn draw(visit: &Visit, message_id: &str) -> Result<Markup, Trouble> {
    let told: ContractAnswer<MessageDetail> = visit.ask_tagged(&path(&["messages", message_id])).await?;
    let MessageDetail { message, attempts, decisions } = &told.view;
    Ok(html! {
        (standing::told(visit, message))
        section aria-labelledby="facts" {
            h2 id="facts" { "What it is" }
            (facts(visit, message))
        }
        (standing::form(visit, message, told.etag.as_deref()))
        (attempts::tried(visit, attempts))
        (attempts::decided(visit, decisions))
    })
}

fn facts(visit: &Visit, message: &MessageView) -> Markup {
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
    list::facts(&[
        ("Effect", moment::foreign(&message.effect_name)),
        ("Destination", link::destination(visit, &message.destination)),
        ("Event", event),
        ("State", state),
        ("Lane", lane),
        ("Idempotency key", key(visit, message)),
        ("Attempts", moment::figure(u64::from(message.attempts_n), false)),
        ("Last result", result),
        ("Last error", error),
        ("Written", moment::moment(message.created_at_ms, visit.now_ms)),
        ("First sent", moment::moment_or_none(message.first_sent_at_ms, visit.now_ms)),
        ("Finished", moment::moment_or_none(message.finished_at_ms, visit.now_ms)),
    ])
}

/// The key, and until when the destination is sure to know it.
fn key(visit: &Visit, message: &MessageView) -> Markup {
    html! {
        code id="key" { (message.idempotency_key) } " "
        button type="button" class="copy" data-copy="key" { "Copy" }
        div class="hint" { (standing::key_in_words(message, visit.now_ms)) }
    }
}

fn of_lane(visit: &Visit, message: &MessageView, lane: &str) -> Markup {
    let values = [("destination", Some(message.destination.as_str())), ("lane", Some(lane))];
    html! { a href=(visit.link(&with_query("/messages", &values))) { (moment::foreign(lane)) } }
}
