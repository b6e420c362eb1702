//! The entries of a ledger in order of time, each with how long after the one before it was.

use super::{identity, shown};
use crate::pages::prelude::*;
use crate::parts::body;
use crate::parts::body::BodyLook;
use crate::parts::text::colour;
use hooklatch_contract::{
    AttemptView, AuditView, EventView, LedgerEntry, LedgerView, LedgerWhat, MessageView,
};
use hooklatch_core::times::{ago, day, in_day, rfc3339};
use hooklatch_core::types::{AttemptResult, EventState, MessageState};

/// Entries that are shown of the beginning, and of the end, of a ledger that has many.
const FIRST_N: usize = 20;
const LAST_N: usize = 100;

pub(crate) fn timeline(visit: &Visit, view: &LedgerView, path: &str, values: &Values) -> Markup {
    let has_all = values.get("entries") == Some("all");
    let entries = &view.entries;
    let left_out_n = if has_all { 0 } else { entries.len().saturating_sub(FIRST_N + LAST_N) };
    let last_n = entries.len() - entries.len().min(FIRST_N) - left_out_n;
    let (mut today, mut before_ms) = (String::new(), None);
    let mut drawn = |one: &LedgerEntry| {
        let at_ms = one.at_ms;
        let date = Some(day(at_ms)).filter(|date| *date != today);
        let after_ms = before_ms.replace(at_ms).map(|before_ms| at_ms.saturating_sub(before_ms));
        today = date.clone().unwrap_or_else(|| std::mem::take(&mut today));
        item(&draw_entry(visit, view, &one.what), at_ms, date, after_ms)
    };
    html! {
        ol class="timeline" {
            @for one in entries.iter().take(FIRST_N) { (drawn(one)) }
            @if left_out_n > 0 {
                li class="left-out" {
                    a href=(visit.link(&with_query(path, &[("entries", Some("all"))]))) {
                        (grouped(left_out_n as u64)) " entries between are not shown: show all"
                    }
                }
            }
            @for one in entries.iter().rev().take(last_n).rev() { (drawn(one)) }
        }
        p class="hint" { "Times are in UTC, to the millisecond; beside each stands how long after the entry before it arrived." }
    }
}

fn item((mood, name, more): &DrawnEntry, at_ms: i64, date: Option<String>, after_ms: Option<i64>) -> Markup {
    let exact = rfc3339(at_ms).unwrap_or_else(|| at_ms.to_string());
    html! {
        li class=(colour(*mood)) {
            div class="when" {
                @if let Some(date) = date { span class="date" { (date) } " " }
                time datetime=(exact) title=(exact) { (in_day(at_ms)) }
                @if let Some(after_ms) = after_ms { " " span class="after" { "+" (distance(after_ms)) } }
            }
            div class="what" {
                strong { (name) } " " (more)
            }
        }
    }
}

/// A distance between two entries, with as many digits as are useful. Milliseconds.
fn distance(ms: i64) -> String {
    match ms.max(0) {
        ms @ 0..=999 => format!("{ms} ms"),
        ms @ 1_000..=119_999 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        ms => ago(ms),
    }
}

/// Longest piece of an answer that is shown. Bytes.
const ANSWER_BYTES_MAX: usize = 4 << 10;

/// An entry as it is drawn: the colour of its mark, its name, and the rest.
type DrawnEntry = (Mood, &'static str, Markup);

/// Draws an entry.
fn draw_entry(visit: &Visit, view: &LedgerView, what: &LedgerWhat) -> DrawnEntry {
    match what {
        LedgerWhat::Received { body_bytes_n, secret_position, secret_fingerprint } => {
            let bytes_n = view.content.as_ref().map(|content| content.body_bytes_n).or(*body_bytes_n);
            let secret = (*secret_position, secret_fingerprint.as_deref());
            (Mood::Good, "Received", received(bytes_n, secret))
        }
        LedgerWhat::Latched { digest, identity: rule } => {
            let more = html! {
                "Identified by " (identity(rule)) "."
                div class="more" { "Content " code { (text::foreign(digest)) } }
            };
            (Mood::Good, "Latched", more)
        }
        LedgerWhat::Duplicates { copies_n, first_at_ms } => {
            (Mood::Quiet, "Duplicates", duplicates(visit, *copies_n, *first_at_ms))
        }
        LedgerWhat::Conflict { event, digest } => (Mood::Needed, "Conflict", conflict(visit, event, digest)),
        LedgerWhat::Replayed { event } => {
            let more = html! { "The same signed text arrived under the id " (linked(visit, event)) };
            (Mood::Quiet, "Replayed", more)
        }
        LedgerWhat::Handled { state, attempts_n, error } => {
            let more = html! {
                (text::event_chip(*state)) " after " (plural(u64::from(*attempts_n), "attempt"))
                @if let Some(error) = error { div class="more" { (text::foreign(error)) } }
            };
            (state.mood(), "Handled", more)
        }
        LedgerWhat::Effect { message } => (message.state.mood(), "Effect", effect(visit, message)),
        LedgerWhat::Attempt { message_id, effect_name, attempt } => {
            let mood = attempt.result.map_or(Mood::Busy, AttemptResult::mood);
            (mood, "Attempt", self::attempt(visit, (message_id, effect_name), attempt))
        }
        LedgerWhat::Decision { decision } if decision.action == "what_if" => {
            let more = html! { (text::foreign(&decision.actor)) " asked what its handlers would do now. Nothing was written." };
            (Mood::Quiet, "Tried", more)
        }
        LedgerWhat::Decision { decision } => (Mood::Busy, "Decided", self::decision(visit, decision)),
    }
}

/// An event with its states.
fn linked(visit: &Visit, event: &EventView) -> Markup {
    html! {
        (link::event(visit, &event.provider, &event.event_id)) " " (text::event_chip(event.state)) " " (text::delivery_chip(&event.delivery))
    }
}

fn received(bytes_n: Option<u64>, (position, fingerprint): (Option<u32>, Option<&str>)) -> Markup {
    html! {
        @if let Some(bytes_n) = bytes_n { (grouped(bytes_n)) " bytes. " }
        @match (position, fingerprint) {
            (Some(position), Some(fingerprint)) => {
                "Secret " (position) " of the configuration matched, with the fingerprint "
                code { (text::foreign(fingerprint)) } "."
            },
            (None, Some(fingerprint)) => {
                "A secret matched that is configured no longer, with the fingerprint "
                code { (text::foreign(fingerprint)) } "."
            },
            (_, None) => "Which secret matched is not known.",
        }
    }
}

fn duplicates(visit: &Visit, copies_n: u64, first_at_ms: Option<i64>) -> Markup {
    let copies = if copies_n == 1 { "copy" } else { "copies" };
    html! {
        (grouped(copies_n)) " more " (copies) " arrived and changed nothing."
        @if let (Some(first_at_ms), true) = (first_at_ms, copies_n > 1) {
            div class="more" { "The first one arrived " (text::moment(first_at_ms, visit.now_ms)) ", the last one at this time." }
        }
    }
}

fn conflict(visit: &Visit, event: &EventView, digest: &str) -> Markup {
    let kept = link::event_path(&event.provider, &event.event_id);
    html! {
        "Other content arrived under this id and was kept as " (linked(visit, event))
        div class="more" {
            "Content " code { (text::foreign(digest)) } " "
            @if event.state == EventState::Conflict || event.state == EventState::Dismissed {
                a href=(visit.link(&format!("{kept}#differs"))) { "What differs" }
            }
        }
    }
}

fn effect(visit: &Visit, message: &MessageView) -> Markup {
    html! {
        (text::foreign(&message.effect_name)) " to " (link::destination(visit, &message.destination)) " "
        (text::message_chip(message.state)) " " (waits(visit, message))
        div class="more" {
            "Message " (link::message(visit, &message.message_id.to_string()))
            ", key " code { (text::foreign(&message.idempotency_key)) }
            @if let Some(lane) = &message.lane { ", lane " (text::foreign(lane)) }
            @if message.generation > 0 { ", of re-run " (message.generation) }
        }
    }
}

/// The reason why an effect is not done yet, or what it waits for.
fn waits(visit: &Visit, message: &MessageView) -> Markup {
    let at_ms = message.visible_at_ms;
    html! {
        @match message.state {
            MessageState::Ready if at_ms > visit.now_ms => { "It is sent at " (text::moment(at_ms, visit.now_ms)) "." },
            MessageState::Ready => "It is due, and is sent as soon as its destination takes it.",
            MessageState::Waiting => "It is behind another message of its lane.",
            MessageState::Held => "On hold until someone decides, on the page of its message.",
            MessageState::Dead => "Given up. Decide about it on the page of its message.",
            MessageState::Leased | MessageState::Done | MessageState::Discarded => "",
        }
    }
}

fn attempt(visit: &Visit, (message_id, effect_name): (&str, &str), attempt: &AttemptView) -> Markup {
    let took_ms = attempt.finished_at_ms.map(|ms| ms.saturating_sub(attempt.started_at_ms).max(0));
    html! {
        (attempt.attempt_n) " of "
        @if effect_name.is_empty() { "message " (link::message(visit, message_id)) }
        @else { (text::foreign(effect_name)) }
        " " (text::attempt_chip(attempt.result))
        @if let Some(status) = attempt.http_status { " HTTP " (status) }
        @if let Some(took_ms) = took_ms { ", took " (grouped(took_ms.unsigned_abs())) " ms" }
        ", by " (text::foreign(&attempt.node))
        @if let Some(error) = &attempt.error { div class="more" { (text::foreign(shown(error, ANSWER_BYTES_MAX).0)) } }
        @if let Some(answer) = &attempt.response { (answered(answer)) }
    }
}

/// The piece of an answer that was kept.
fn answered(answer: &str) -> Markup {
    let (text, is_cut) = shown(answer, ANSWER_BYTES_MAX);
    html! {
        details {
            summary { "What it answered" }
            (body::body(text, "The answer", BodyLook { is_cut: true, is_as_sent: false }))
            @if is_cut { p class="hint" { "More of it is on the page of the message." } }
        }
    }
}

fn decision(visit: &Visit, decision: &AuditView) -> Markup {
    html! {
        (text::foreign(&decision.actor)) ": " code { (text::foreign(&decision.action)) }
        @if let Some(message_id) = &decision.message_id { " of message " (link::message(visit, message_id)) }
        @if let Some(operation_id) = &decision.operation_id {
            " in operation " (link::operation(visit, operation_id))
        }
        @if !decision.detail.is_empty() { div class="more" { "“" (text::foreign(&decision.detail)) "”" } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_is_formatted_in_a_readable_unit() {
        #[track_caller]
        fn check(ms: i64, want: &str) {
            assert_eq!(distance(ms), want);
        }
        check(-1, "0 ms");
        check(999, "999 ms");
        check(1_000, "1.0 s");
        check(119_999, "119.9 s");
        check(120_000, "2 min");
        check(7_200_000, "2 h");
    }
}
