//! The answer to a caller of ours: a program of the team's, which chose its keys itself and can act on an answer.
//!
//! The answer follows from the content that stands under a key, so it is computed and never stored: whatever was killed
//! in between, and on whichever node, the same request is answered the same.

use std::borrow::Cow;

use super::answer::{SenderAnswer, push_event};
use crate::admit::{AdmittedEvents, CallerRules};
use hooklatch_core::json::push_text;
use hooklatch_core::types::{IdempotencyKey, IncomingEvent, KeyMistake, Name, Outcome, is_media_type};
use hooklatch_verify::Verified;

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
pub(crate) fn refusal(verified: &Verified, events: &[IncomingEvent]) -> Option<SenderAnswer> {
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
    (!is_typed).then(|| problem(400, "type_missing", &at_line("a command needs a `type`, a text", line_n)))
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
pub(crate) fn answer(
    provider: &Name,
    rules: CallerRules,
    is_batch: bool,
    admitted: &AdmittedEvents,
) -> SenderAnswer {
    let outcome = Outcome::strongest(admitted.events.iter().map(|(_, outcome)| *outcome));
    let has = |wanted: Outcome| admitted.events.iter().any(|(_, outcome)| *outcome == wanted);
    let mut headers = Vec::new();
    if has(Outcome::Duplicate) && !has(Outcome::Accepted) {
        headers.push(("idempotency-replayed".to_owned(), "true".to_owned()));
    }
    let mut body = String::with_capacity(128);
    let is_conflict = has(Outcome::Conflict);
    if is_conflict {
        body.push_str("{\"type\":\"about:blank\",\"title\":");
        push_text(&mut body, title_of(rules.mismatch_status));
        body.push_str(",\"status\":");
        body.push_str(&rules.mismatch_status.to_string());
        body.push_str(",\"code\":\"idempotency_key_reused\",\"detail\":");
        push_text(&mut body, KEY_REUSED);
        body.push_str(",\"events\":");
        push_events(&mut body, admitted);
        body.push('}');
    } else if is_batch {
        body.push_str("{\"events\":");
        push_events(&mut body, admitted);
        body.push('}');
    } else if let [(key, outcome)] = admitted.events.as_slice() {
        push_event(&mut body, key, word(*outcome));
        headers.push(("location".to_owned(), receipt_path(provider, key)));
    }
    SenderAnswer {
        outcome,
        refused: None,
        is_conflict_told: false,
        status: if is_conflict { rules.mismatch_status } else { rules.accepted_status },
        headers,
        body,
        content_type: Cow::Borrowed(if is_conflict { PROBLEM } else { "application/json" }),
    }
}

const PROBLEM: &str = "application/problem+json";

/// The path where the receipt of a command is served.
fn receipt_path(provider: &Name, key: &str) -> String {
    let key = percent_encoding::utf8_percent_encode(key, percent_encoding::NON_ALPHANUMERIC);
    format!("/webhooks/{provider}/{key}")
}

fn push_events(body: &mut String, admitted: &AdmittedEvents) {
    body.push('[');
    for (n, (key, outcome)) in admitted.events.iter().enumerate() {
        if n > 0 {
            body.push(',');
        }
        push_event(body, key, word(*outcome));
    }
    body.push(']');
}

/// The word for an outcome that is the same when the same content is sent again.
fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Accepted | Outcome::Duplicate => ACCEPTED,
        other => other.as_str(),
    }
}

/// The phrase of a status: what a problem without a type of its own is called (RFC 9457, 4.2.1).
fn title_of(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        404 => "Not Found",
        409 => "Conflict",
        _ => "Unprocessable Entity",
    }
}

/// A refusal as its caller reads it.
pub(crate) fn problem(status: u16, code: &'static str, sentence: &str) -> SenderAnswer {
    let body = serde_json::json!({
        "type": "about:blank", "title": title_of(status), "status": status, "code": code, "detail": sentence,
    });
    SenderAnswer {
        outcome: None,
        refused: Some(code).filter(|_| status >= 400),
        is_conflict_told: false,
        status,
        headers: Vec::new(),
        body: body.to_string(),
        content_type: Cow::Borrowed(PROBLEM),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(outcomes: &[(&str, Outcome)]) -> SenderAnswer {
        let events = outcomes.iter().map(|(key, outcome)| ((*key).to_owned(), *outcome)).collect();
        let rules = CallerRules { accepted_status: 202, mismatch_status: 409, kept_ms: 0 };
        let is_batch = outcomes.len() != 1;
        answer(
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
        assert!(!has(&other, "idempotency-replayed"), "what came first is not known of a conflict");
        let nothing = answered(&[]);
        assert_eq!((nothing.status, nothing.body.as_str()), (202, r#"{"events":[]}"#));
    }
}
