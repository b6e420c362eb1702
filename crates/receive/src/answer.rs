//! The answer to a request that was verified: our JSON, or what its kind wants.
//!
//! A program of the operator's own (`first_party`) chose its keys itself and can act on an answer, so it gets a refusal
//! that names the mistake, one status for a key that was used with other content, and a receipt: what followed from its
//! command. These answers follow from the content that is stored under a key. They are computed and never stored: after
//! a crash, and from whichever node, the same request is answered the same.

use std::borrow::Cow;

use serde::Serialize;

use crate::admit::{AdmittedEvents, CallerRules, ProviderEntry};
use hooklatch_core::types::{
    EventState, IdempotencyKey, IncomingEvent, KeyMistake, MessageState, Name, Outcome, UnixMs, is_media_type,
};
use hooklatch_store::{EventReceipt, ReceiptAttempt};
use hooklatch_verify::spec::AnswerSpec;
use hooklatch_verify::{Reply, Verified};

/// The answer that a sender gets, before it is HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SenderAnswer {
    /// The strongest of the request's events; `None` when there was nothing to admit (a challenge, an
    /// empty batch).
    pub outcome: Option<Outcome>,
    /// Code of the refusal, when something is wrong with the request that its caller can set right.
    pub refused: Option<&'static str>,
    /// HTTP status.
    pub status: u16,
    /// Headers besides the content type.
    pub headers: Vec<(String, String)>,
    /// Body of the answer.
    pub body: String,
    /// Content type of the body.
    pub content_type: Cow<'static, str>,
}

impl SenderAnswer {
    fn new(status: u16, body: String, content_type: impl Into<Cow<'static, str>>) -> Self {
        let content_type = content_type.into();
        Self { outcome: None, refused: None, status, headers: Vec::new(), body, content_type }
    }

    /// The answer to a handshake or a challenge.
    pub(super) fn to_handshake(reply: Reply) -> Self {
        Self { headers: reply.headers, ..Self::new(reply.status, reply.body, reply.content_type) }
    }

    /// The answer to a request that was admitted; `of_kind` is what its kind wants instead of our JSON.
    pub(crate) fn of(
        entry: &ProviderEntry,
        of_kind: Option<Cow<'_, AnswerSpec>>,
        admitted: &AdmittedEvents,
    ) -> Self {
        let outcome = admitted.outcome();
        let is_conflict = entry.is_first_party && outcome == Some(Outcome::Conflict);
        let answer = match of_kind {
            Some(spec) if !is_conflict => {
                let AnswerSpec { status, body, content_type, .. } = spec.into_owned();
                Self::new(status, body, content_type)
            }
            _ => Self::new(if is_conflict { 409 } else { 200 }, body_of(outcome, admitted), JSON),
        };
        Self { outcome, ..answer }
    }
}

/// What became of one event.
#[derive(Serialize)]
struct EventAnswer<'a> {
    event_id: &'a str,
    outcome: &'static str,
}

/// What became of several events.
#[derive(Serialize)]
struct EventAnswers<'a> {
    events: Vec<EventAnswer<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
}

fn events(admitted: &AdmittedEvents, word: fn(Outcome) -> &'static str) -> Vec<EventAnswer<'_>> {
    let all = admitted.events.iter();
    all.map(|(event_id, outcome)| EventAnswer { event_id, outcome: word(*outcome) }).collect()
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn body_of(outcome: Option<Outcome>, admitted: &AdmittedEvents) -> String {
    let events = events(admitted, Outcome::as_str);
    if let [one] = events.as_slice() {
        return json(one);
    }
    json(&EventAnswers { events, outcome: Some(outcome.map_or("none", Outcome::as_str)) })
}

/// A type that could not be read, as events say it.
const TYPE_UNKNOWN: &str = "unknown";
const ACCEPTED: &str = "accepted";
const KEY_REUSED: &str = "this key was used with other content, which stands";

/// Media type of a batch: a command a line.
const LINES: &str = "application/x-ndjson";

/// True when a request carries a command a line.
pub(super) fn is_batch(verified: &Verified) -> bool {
    let content_type = verified.request().headers.get(http::header::CONTENT_TYPE);
    content_type.and_then(|value| value.to_str().ok()).is_some_and(|text| is_media_type(text, LINES))
}

/// Refuses a believed request with which something is wrong that its caller can set right; nothing of it is admitted.
pub(crate) fn caller_refusal(verified: &Verified, events: &[IncomingEvent]) -> Option<SenderAnswer> {
    let request = verified.request();
    let is_one = !is_batch(verified);
    let headers_key = IdempotencyKey::of_headers(&request.headers);
    if request.body.is_empty() || events.is_empty() {
        return Some(problem(400, "body_missing", "send a command: {\"type\":…,\"data\":…}"));
    }
    if is_one {
        match (verified.signed_id(), &headers_key) {
            (None, Err(mistake)) => return Some(of_key(*mistake, None)),
            (Some(_), Err(mistake @ (KeyMistake::Repeated | KeyMistake::Malformed(_)))) => {
                return Some(of_key(*mistake, None));
            }
            (Some(signed), Ok(key)) if signed != key.as_str() => {
                let title = "`Idempotency-Key` is another key than the signed `webhook-id`";
                return Some(problem(400, "idempotency_key_unsigned", title));
            }
            _ => {}
        }
    }
    let line_n = |n: usize| if is_one { None } else { Some(n + 1) };
    events.iter().enumerate().find_map(|(n, event)| wrong(event, line_n(n)))
}

/// The mistake in one command of a request.
fn wrong(event: &IncomingEvent, line_n: Option<usize>) -> Option<SenderAnswer> {
    if let Some(why) = &event.unreadable {
        return Some(problem(400, "command_unreadable", &at_line(why, line_n)));
    }
    if let Some(why) = event.unidentified() {
        let code =
            if why.ends_with("missing") { "idempotency_key_missing" } else { "idempotency_key_malformed" };
        return Some(problem(400, code, &at_line(&format!("a command needs a `key`: {why}"), line_n)));
    }
    if let Err(mistake) = IdempotencyKey::of_text(&event.key.event_id) {
        return Some(of_key(mistake, line_n));
    }
    let is_typed = event.event_type != TYPE_UNKNOWN;
    (!is_typed).then(|| {
        problem(400, "type_missing", &at_line("a command needs one `type`, a text of 1 to 255 bytes", line_n))
    })
}

fn of_key(mistake: KeyMistake, line_n: Option<usize>) -> SenderAnswer {
    problem(400, mistake.code().as_str(), &at_line(&mistake.to_string(), line_n))
}

fn at_line(why: &str, line_n: Option<usize>) -> String {
    line_n.map_or_else(
        || why.to_owned(),
        |n| format!("command {n}: {why}; nothing of this request was admitted"),
    )
}

/// The answer to a request that was admitted.
pub(crate) fn caller_answer(
    provider: &Name,
    rules: CallerRules,
    is_batch: bool,
    admitted: &AdmittedEvents,
) -> SenderAnswer {
    let has = |wanted: Outcome| admitted.events.iter().any(|(_, outcome)| *outcome == wanted);
    let mut headers = Vec::new();
    if has(Outcome::Duplicate) && !has(Outcome::Accepted) {
        headers.push(("idempotency-replayed".to_owned(), "true".to_owned()));
    }
    let answer = if has(Outcome::Conflict) {
        let mut problem = problem_body(rules.mismatch_status, "idempotency_key_reused", KEY_REUSED);
        if let Some(members) = problem.as_object_mut() {
            members.insert("events".to_owned(), serde_json::json!(events(admitted, word)));
        }
        SenderAnswer::new(rules.mismatch_status, problem.to_string(), PROBLEM)
    } else {
        let body = match events(admitted, word).as_slice() {
            [one] if !is_batch => {
                headers.push(("location".to_owned(), receipt_path(provider, one.event_id)));
                json(one)
            }
            _ => json(&EventAnswers { events: events(admitted, word), outcome: None }),
        };
        SenderAnswer::new(rules.accepted_status, body, JSON)
    };
    SenderAnswer { outcome: admitted.outcome(), headers, ..answer }
}

const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";

/// The path where the receipt of a command is served.
fn receipt_path(provider: &Name, key: &str) -> String {
    let key = percent_encoding::utf8_percent_encode(key, percent_encoding::NON_ALPHANUMERIC);
    format!("/webhooks/{provider}/{key}")
}

/// The word for an outcome that is the same when the same content is sent again.
fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Accepted | Outcome::Duplicate => ACCEPTED,
        other => other.as_str(),
    }
}

/// A problem (RFC 9457) without a type of its own, which is called by the phrase of its status (4.2.1).
fn problem_body(status: u16, code: &str, detail: &str) -> serde_json::Value {
    let title = http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    serde_json::json!({
        "type": "about:blank", "title": title, "status": status, "code": code, "detail": detail,
    })
}

/// A refusal as its caller reads it.
fn problem(status: u16, code: &'static str, detail: &str) -> SenderAnswer {
    let answer = SenderAnswer::new(status, problem_body(status, code, detail).to_string(), PROBLEM);
    SenderAnswer { refused: Some(code), ..answer }
}

/// Receipts that are looked up at once.
pub(super) const RECEIPT_LOOKS_N: usize = 4;

/// The receipt of one command.
#[derive(Debug, Serialize)]
struct ReceiptView<'a> {
    event_id: &'a str,
    #[serde(rename = "type")]
    event_type: &'a str,
    /// What the first request under the key was answered.
    outcome: &'static str,
    state: EventState,
    received_at_ms: UnixMs,
    /// Until then the key is known, at least.
    known_until_ms: UnixMs,
    /// True while something of it is under way, or waits for a time or a person.
    is_open: bool,
    effects: Vec<EffectView<'a>>,
    /// False when effects may be missing here because they are no longer kept: whether they were delivered is not known.
    effects_known: bool,
    /// True when there are more effects, or more attempts, than are shown.
    has_more: bool,
}

/// One effect of a command.
#[derive(Debug, Serialize)]
struct EffectView<'a> {
    name: &'a str,
    destination: &'a str,
    state: MessageState,
    attempts_n: u32,
    created_at_ms: UnixMs,
    finished_at_ms: Option<UnixMs>,
    /// The newest first. A first attempt that went well has no row of its own.
    attempts: Vec<&'a ReceiptAttempt>,
}

/// Renders the receipt as an answer.
pub(crate) fn render_receipt(receipt: &EventReceipt, kept_ms: i64) -> SenderAnswer {
    let event = &receipt.event;
    let is_event_open = matches!(
        event.state,
        EventState::Retry | EventState::Failed | EventState::Unreadable | EventState::Conflict
    );
    let is_done = |state| matches!(state, MessageState::Done | MessageState::Discarded);
    let effects = receipt.messages.iter().map(|message| EffectView {
        name: &message.effect_name,
        destination: &message.destination,
        state: message.state,
        attempts_n: message.attempts_n,
        created_at_ms: message.created_at_ms,
        finished_at_ms: message.finished_at_ms,
        attempts: receipt.attempts.iter().filter(|one| one.message_id == message.message_id).collect(),
    });
    let view = ReceiptView {
        event_id: &event.key.event_id,
        event_type: &event.event_type,
        outcome: "accepted",
        state: event.state,
        received_at_ms: event.received_at_ms,
        known_until_ms: event.received_at_ms.saturating_add(kept_ms),
        is_open: is_event_open || receipt.messages.iter().any(|message| !is_done(message.state)),
        effects: effects.collect(),
        effects_known: receipt.effects_known,
        has_more: receipt.has_more,
    };
    SenderAnswer::new(200, json(&view), JSON)
}

/// The answer where there is no such command of this caller's.
pub(crate) fn no_receipt() -> SenderAnswer {
    problem(404, "not_found", "no command of yours has this key")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_body_is_json_of_what_became_of_each_event() {
        #[track_caller]
        fn check(events: &[(&str, Outcome)], want: &serde_json::Value) {
            let events = events.iter().map(|(id, outcome)| ((*id).to_owned(), *outcome)).collect();
            let admitted = AdmittedEvents { events, ..AdmittedEvents::default() };
            let outcome = Outcome::strongest(admitted.events.iter().map(|(_, outcome)| *outcome));
            assert_eq!(body_of(outcome, &admitted), want.to_string());
        }
        check(&[], &json!({ "events": [], "outcome": "none" }));
        check(&[("a\"b", Outcome::Accepted)], &json!({ "event_id": "a\"b", "outcome": "accepted" }));
        check(
            &[("1", Outcome::Duplicate), ("é", Outcome::Accepted)],
            &json!({
                "events": [
                    { "event_id": "1", "outcome": "duplicate" },
                    { "event_id": "é", "outcome": "accepted" },
                ],
                "outcome": "accepted",
            }),
        );
    }

    fn answered(outcomes: &[(&str, Outcome)]) -> SenderAnswer {
        let events = outcomes.iter().map(|(key, outcome)| ((*key).to_owned(), *outcome)).collect();
        let rules = CallerRules { accepted_status: 202, mismatch_status: 409, kept_ms: 0 };
        let is_batch = outcomes.len() != 1;
        caller_answer(
            &Name::parse("shop").unwrap(),
            rules,
            is_batch,
            &AdmittedEvents { events, ..AdmittedEvents::default() },
        )
    }

    fn has(answer: &SenderAnswer, name: &str) -> bool {
        answer.headers.iter().any(|(known, _)| known == name)
    }

    #[test]
    fn a_repetition_is_answered_by_the_same_bytes() {
        use Outcome::{Accepted, Conflict, Duplicate};
        for (first, again) in [
            (vec![("k", Accepted)], vec![("k", Duplicate)]),
            (vec![("a", Accepted), ("b", Accepted)], vec![("a", Duplicate), ("b", Duplicate)]),
            (vec![("a", Accepted), ("a", Duplicate)], vec![("a", Duplicate), ("a", Duplicate)]),
            (vec![("a", Accepted), ("b", Conflict)], vec![("a", Duplicate), ("b", Conflict)]),
        ] {
            let (first, again) = (answered(&first), answered(&again));
            assert_eq!((first.status, &first.body), (again.status, &again.body));
            assert_eq!(first.content_type, again.content_type);
            assert!(!has(&first, "idempotency-replayed") && has(&again, "idempotency-replayed"));
        }
    }

    #[test]
    fn each_outcome_has_its_status_and_a_link_to_its_receipt() {
        let one = answered(&[("a/b\"c", Outcome::Accepted)]);
        assert_eq!((one.status, one.body.as_str()), (202, r#"{"event_id":"a/b\"c","outcome":"accepted"}"#));
        assert_eq!(one.headers, [("location".to_owned(), "/webhooks/shop/a%2Fb%22c".to_owned())]);
        let other = answered(&[("k", Outcome::Conflict)]);
        let problem: serde_json::Value = serde_json::from_str(&other.body).unwrap();
        assert_eq!((other.status, &problem["code"]), (409, &"idempotency_key_reused".into()));
        assert_eq!(problem["events"][0]["outcome"], "conflict");
        assert!(!has(&other, "idempotency-replayed"), "a conflict does not show which request was first");
        let nothing = answered(&[]);
        assert_eq!((nothing.status, nothing.body.as_str()), (202, r#"{"events":[]}"#));
    }
}
