//! "Did it happen?": how a destination with `unknown = "query"` is asked, and what its answers mean.
//!
//! Only two answers settle anything: the value is there, or nothing is. Everything else, another value as well,
//! means to ask again later; it never leads to a second send. When it may be asked at all: `policy.rs`.

use percent_encoding::utf8_percent_encode;
use serde_json::Value;

use super::Asked;
use crate::config::QueryConfig;
use crate::store::LeasedMessage;
use crate::template::URL_ESCAPED;

/// A configured question.
pub(super) struct Query(QueryConfig);

impl Query {
    pub(super) fn new(config: QueryConfig) -> Self {
        Self(config)
    }

    /// The address that is asked about `message`. Values are put in once: what looks like a placeholder
    /// inside a value stays a value.
    pub(super) fn url_of(&self, message: &LeasedMessage) -> String {
        let message_id = message.message_id.to_string();
        let values = [
            ("{idempotency_key}", message.idempotency_key.as_str()),
            ("{event_id}", message.key.event_id.as_str()),
            ("{message_id}", message_id.as_str()),
        ];
        // An escaped value has no braces, so no replacement makes a new placeholder.
        values.iter().fold(self.0.url.clone(), |url, (placeholder, value)| {
            url.replace(placeholder, &utf8_percent_encode(value, URL_ESCAPED).to_string())
        })
    }

    /// What an answer says.
    pub(super) fn judge(&self, code: u16, body: &[u8]) -> Asked {
        match code {
            404 => Asked::DidNotHappen,
            200..=299 => self.judge_body(body),
            _ => Asked::Unclear { why: format!("asked whether it happened: answered {code}") },
        }
    }

    fn judge_body(&self, body: &[u8]) -> Asked {
        let Ok(json) = serde_json::from_slice::<Value>(body) else {
            return Asked::Unclear { why: "asked whether it happened: the answer is not JSON".to_owned() };
        };
        let found = match json.pointer(&self.0.pointer) {
            None | Some(Value::Null) => return Asked::DidNotHappen,
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        if self.0.pending.contains(&found) {
            return Asked::Unclear { why: "asked whether it happened: it is still under way".to_owned() };
        }
        match &self.0.equals {
            // Begun, refused, taken back: a value is no absence, and the words are the destination's own.
            Some(wanted) if *wanted != found => Asked::Unclear {
                why: "asked whether it happened: the value is neither `equals` nor one of `pending`"
                    .to_owned(),
            },
            _ => Asked::Happened,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;

    use super::*;
    use crate::types::{EventKey, Name};

    fn query(equals: Option<&str>) -> Query {
        Query(QueryConfig {
            pending: vec!["open".to_owned(), "8".to_owned()],
            after_ms: 30_000,
            url: "http://far/effects?key={idempotency_key}&e={event_id}&m={message_id}".to_owned(),
            pointer: "/data/state".to_owned(),
            equals: equals.map(str::to_owned),
        })
    }

    #[test]
    fn values_in_the_address_are_escaped() {
        let message = LeasedMessage {
            message_id: crate::types::MessageId::from_column(7),
            key: EventKey {
                provider: Name::parse("stripe").unwrap(),
                event_id: "a b&c={message_id}/é".to_owned(),
            },
            event_type: "t".to_owned(),
            effect_name: "e".to_owned(),
            idempotency_key: "k_1.~".to_owned(),
            destination: Name::parse("far").unwrap(),
            method: "POST".to_owned(),
            path: String::new(),
            headers: BTreeMap::new(),
            body: Bytes::new(),
            event_content_type: None,
            attempt_n: 1,
            attempts_before_n: 0,
            lane: None,
            is_previous_unsettled: false,
            is_previous_unknown: false,
            previous_ended_at_ms: None,
            created_at_ms: 0,
            first_sent_at_ms: 0,
            key_valid_until_ms: 0,
            lease_until_ms: 0,
        };
        assert_eq!(
            query(None).url_of(&message),
            "http://far/effects?key=k_1.~&e=a%20b%26c%3D%7Bmessage_id%7D%2F%C3%A9&m=7"
        );
    }

    #[test]
    fn only_a_clear_answer_settles_anything() {
        #[track_caller]
        fn check(equals: Option<&str>, code: u16, body: &str, want: &str) {
            let word = match query(equals).judge(code, body.as_bytes()) {
                Asked::Happened => "yes",
                Asked::DidNotHappen => "no",
                Asked::Unclear { .. } => "unclear",
            };
            assert_eq!(word, want, "{code} {body}");
        }
        check(Some("paid"), 200, r#"{"data":{"state":"paid"}}"#, "yes");
        check(Some("paid"), 200, r#"{"data":{"state":"open"}}"#, "unclear");
        check(Some("paid"), 200, r#"{"data":{"state":"failed"}}"#, "unclear");
        check(Some("paid"), 200, r#"{"data":{"state":""}}"#, "unclear");
        check(None, 200, r#"{"data":{"state":"open"}}"#, "unclear");
        check(None, 200, r#"{"data":{"state":8}}"#, "unclear");
        check(Some("paid"), 200, r#"{"data":{}}"#, "no");
        check(Some("paid"), 200, r#"{"data":{"state":null}}"#, "no");
        check(None, 200, r#"{"data":{"state":"any"}}"#, "yes");
        check(None, 200, r#"{"data":{"state":false}}"#, "yes");
        check(None, 200, "[]", "no");
        check(Some("7"), 200, r#"{"data":{"state":7}}"#, "yes");
        check(Some("true"), 200, r#"{"data":{"state":true}}"#, "yes");
        check(Some("paid"), 404, "", "no");
        check(Some("paid"), 404, "<html>", "no");
        for code in [204, 301, 400, 401, 403, 410, 429, 500, 503] {
            check(Some("paid"), code, "", "unclear");
        }
        check(Some("paid"), 200, "<html>please log in</html>", "unclear");
        check(Some("paid"), 200, r#"{"data":{"state":"pa"#, "unclear");
    }
}
