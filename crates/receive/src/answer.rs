//! The answer to a sender whose request was believed: our JSON, or what its kind wants.

use std::borrow::Cow;

use crate::admit::{AdmittedEvents, ProviderEntry};
use hooklatch_core::json::push_text;
use hooklatch_core::types::Outcome;
use hooklatch_verify::Reply;
use hooklatch_verify::spec::AnswerSpec;

/// The answer that a sender gets, before it is HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SenderAnswer {
    /// The strongest of the request's events; `None` when there was nothing to admit (a challenge, an
    /// empty batch).
    pub outcome: Option<Outcome>,
    /// Code of the refusal, when something is wrong with the request that its caller can set right.
    pub refused: Option<&'static str>,
    /// True when the sender is a program of the operator's and gets 409.
    pub is_conflict_told: bool,
    /// HTTP status, unless the answer reports a conflict.
    pub status: u16,
    /// Headers besides the content type.
    pub headers: Vec<(String, String)>,
    /// Body of the answer.
    pub body: String,
    /// Content type of the body.
    pub content_type: Cow<'static, str>,
}

impl SenderAnswer {
    /// The answer to a handshake or a challenge.
    pub(super) fn to_handshake(reply: Reply) -> Self {
        Self {
            outcome: None,
            refused: None,
            is_conflict_told: false,
            status: reply.status,
            headers: reply.headers,
            body: reply.body,
            content_type: Cow::Owned(reply.content_type),
        }
    }

    /// The HTTP status of the answer.
    pub(super) fn http_status(&self) -> u16 {
        if self.is_conflict_told { 409 } else { self.status }
    }

    /// The answer to a request that was admitted; `of_kind` is what its kind wants instead of our JSON.
    pub fn of(
        entry: &ProviderEntry,
        of_kind: Option<Cow<'_, AnswerSpec>>,
        admitted: &AdmittedEvents,
    ) -> Self {
        let outcome = Outcome::strongest(admitted.events.iter().map(|(_, outcome)| *outcome));
        let is_conflict_told = entry.is_first_party && outcome == Some(Outcome::Conflict);
        let (status, body, content_type) = match of_kind {
            Some(spec) if !is_conflict_told => {
                let AnswerSpec { status, body, content_type, .. } = spec.into_owned();
                (status, body, Cow::Owned(content_type))
            }
            _ => (200, body_of(outcome, admitted), Cow::Borrowed("application/json")),
        };
        Self { outcome, refused: None, is_conflict_told, status, headers: Vec::new(), body, content_type }
    }
}

fn body_of(outcome: Option<Outcome>, admitted: &AdmittedEvents) -> String {
    let word = outcome.map_or("none", Outcome::as_str);
    // The words take less than what is not in the ids.
    let ids_n: usize = admitted.events.iter().map(|(id, _)| id.len()).sum();
    let mut body = String::with_capacity(48 * (admitted.events.len() + 1) + ids_n);
    match admitted.events.as_slice() {
        [(event_id, _)] => push_event(&mut body, event_id, word),
        events => {
            body.push_str("{\"events\":");
            for (n, (event_id, outcome)) in events.iter().enumerate() {
                body.push(if n == 0 { '[' } else { ',' });
                push_event(&mut body, event_id, outcome.as_str());
            }
            body.push_str(if events.is_empty() { "[]" } else { "]" });
            body.push_str(",\"outcome\":\"");
            body.push_str(word);
            body.push_str("\"}");
        }
    }
    body
}

/// `outcome` is one of our words, which needs no escape.
pub(super) fn push_event(body: &mut String, event_id: &str, outcome: &str) {
    body.push_str("{\"event_id\":");
    push_text(body, event_id);
    body.push_str(",\"outcome\":\"");
    body.push_str(outcome);
    body.push_str("\"}");
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
}
