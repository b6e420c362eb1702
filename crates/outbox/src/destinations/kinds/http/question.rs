//! "Did it happen?": how a destination with `unknown = "query"` is asked, and what its answers mean.
//!
//! Only two answers settle anything: the value is there, or nothing is (or a value that the configuration calls absent). Everything else, another value as well, means
//! to ask again later; it never leads to a second send. The policy (`crates/outbox/src/policy/rules.rs`) decides when it may be
//! asked at all.

use serde_json::Value;

use super::values;
use crate::destinations::outcome::Asked;
use hooklatch_core::config::QueryConfig;
use hooklatch_core::template::{self, Escape, Limits, Template};
use hooklatch_store::LeasedMessage;

/// The question that one destination is asked.
pub(super) struct Question {
    url: Template,
    config: QueryConfig,
}

impl Question {
    /// The error says what is wrong with the template of the url.
    pub(crate) fn new(config: QueryConfig) -> Result<Self, String> {
        Ok(Self { url: Template::parse(&config.url, Escape::Url)?, config })
    }

    /// The address that is asked about `message`.
    pub(crate) fn url_of(&self, message: &LeasedMessage) -> Result<String, String> {
        let values = template::values(&values::of_message(message));
        let url = self.url.render(&values, Limits::head()).map_err(|why| format!("query.url: {why}"))?;
        if template::climbs(&url) {
            return Err("query.url: a value is `.` or `..`, which would climb out of its path".to_owned());
        }
        Ok(url)
    }

    /// Judges an answer: its status and its body.
    pub(crate) fn judge(&self, code: u16, body: &[u8]) -> Asked {
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
        let found = match json.pointer(&self.config.pointer) {
            None | Some(Value::Null) => return Asked::DidNotHappen,
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        if self.config.absent.contains(&found) {
            return Asked::DidNotHappen;
        }
        if self.config.pending.contains(&found) {
            return Asked::Unclear { why: "asked whether it happened: it is still under way".to_owned() };
        }
        match &self.config.equals {
            // Begun, refused, taken back: a value is an absence only where the configuration says so.
            Some(wanted) if *wanted != found => Asked::Unclear {
                why: "asked whether it happened: the value is not in `equals`, `pending` or `absent`"
                    .to_owned(),
            },
            _ => Asked::Happened,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destinations::tests::message;

    fn question(equals: Option<&str>) -> Question {
        let url = "http://far/effects?key={{ idempotency_key }}&e={{ event.id }}&m={{ message.id }}";
        Question::new(QueryConfig {
            pending: vec!["open".to_owned(), "8".to_owned()],
            absent: vec!["none".to_owned(), "false".to_owned()],
            after_ms: 30_000,
            url: url.to_owned(),
            pointer: "/data/state".to_owned(),
            equals: equals.map(str::to_owned),
        })
        .unwrap()
    }

    #[test]
    fn values_in_the_address_are_escaped() {
        let mut message = message();
        message.key.event_id = "a b&c={{ message.id }}/é".to_owned();
        message.idempotency_key = "k_1.~".to_owned();
        let want = format!(
            "http://far/effects?key=k_1.~&e=a%20b%26c%3D%7B%7B%20message.id%20%7D%7D%2F%C3%A9&m={}",
            message.message_id
        );
        assert_eq!(question(None).url_of(&message), Ok(want));
    }

    #[test]
    fn a_value_does_not_climb_out_of_the_address() {
        let mut message = message();
        message.key.event_id = "..".to_owned();
        let url = "http://far/effects/{{ event.id }}/state".to_owned();
        let config = QueryConfig { url, ..question(None).config };
        let why = Question::new(config).unwrap().url_of(&message).unwrap_err();
        assert!(why.contains("would climb"), "{why}");
    }

    #[test]
    fn only_a_clear_answer_settles_anything() {
        #[track_caller]
        fn check(equals: Option<&str>, code: u16, body: &str, want: &str) {
            let word = match question(equals).judge(code, body.as_bytes()) {
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
        check(None, 200, r#"{"data":{"state":true}}"#, "yes");
        check(None, 200, r#"{"data":{"state":false}}"#, "no");
        check(Some("paid"), 200, r#"{"data":{"state":"none"}}"#, "no");
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
