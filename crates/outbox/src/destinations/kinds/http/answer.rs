//! The body of an answer: it may have to confirm what the status says, and a bounded, redacted piece of it may be
//! stored for operators. And "did it happen?": how a destination with `unknown = "query"` is asked, and what its
//! answers mean.
//!
//! Only two answers settle anything: the value is there, or nothing is (or a value that the configuration calls
//! absent). Everything else, another value as well, means to ask again later; it never leads to a second send. The
//! policy decides when it may be asked at all.

use std::fmt::Display;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::sign::of_message;
use crate::destinations::Asked;
use crate::policy::CallAnswer;
use hooklatch_core::config::{
    AuthConfig, CaptureConfig, DestinationConfig, QueryConfig, Secret, SuccessConfig,
};
use hooklatch_core::json::exact_value;
use hooklatch_core::template::{self, Escape, Limits, Template};
use hooklatch_store::LeasedMessage;

/// Stands in place of what is not stored.
const REDACTED: &str = "[redacted]";
/// Shortest secret that is looked for in an answer; a shorter one would be found everywhere.
const SECRET_BYTES_MIN: usize = 4;

/// Shortest word of a header or piece of an address that is looked for: shorter ones are words of any text.
const WORD_BYTES_MIN: usize = 8;

/// What an answer may repeat of the credentials that its destination is called with, the longest first: as they are
/// configured, and the parts that destinations name alone, such as the token of `Bearer TOKEN`.
fn secrets_of(config: &DestinationConfig) -> Vec<Secret> {
    let (mut whole, mut words) = (Vec::new(), Vec::new());
    for value in config.headers.values().map(Secret::reveal) {
        whole.push(value.to_owned());
        // The first of several words is the name of a scheme.
        let skipped_n = usize::from(value.split_whitespace().nth(1).is_some());
        for word in value.split_whitespace().skip(skipped_n) {
            words.push(word.to_owned());
            words.extend(word.split(['=', ',', ';', '"']).map(str::to_owned));
            let decoded = STANDARD.decode(word).ok().and_then(|decoded| String::from_utf8(decoded).ok());
            words.extend(decoded.and_then(|pair| Some(pair.split_once(':')?.1.to_owned())));
        }
    }
    let http = &config.http;
    let signing = config.sign_secrets.iter().chain(http.hmac.as_ref().map(|hmac| &hmac.secret));
    for secret in signing.map(Secret::reveal) {
        whole.push(secret.to_owned());
        words.extend(secret.strip_prefix("whsec_").map(str::to_owned));
    }
    match &http.auth {
        Some(AuthConfig::Basic { user, password }) => {
            whole.push(password.reveal().to_owned());
            words.push(STANDARD.encode(format!("{user}:{}", password.reveal())));
        }
        Some(AuthConfig::Bearer(secret)) => whole.push(secret.reveal().to_owned()),
        None => {}
    }
    whole.retain(|secret| secret.len() >= SECRET_BYTES_MIN);
    words.retain(|word| word.len() >= WORD_BYTES_MIN);
    whole.extend(words);
    // As they stand in JSON.
    let escaped = |secret: &String| {
        let text = serde_json::to_string(secret).ok()?;
        Some(text.strip_prefix('"')?.strip_suffix('"')?.to_owned())
    };
    whole.extend(whole.iter().filter_map(escaped).collect::<Vec<_>>());
    whole.sort_unstable_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
    whole.dedup();
    whole.into_iter().map(Secret::new).collect()
}

/// Reads answers of one destination.
pub(crate) struct AnswerReader {
    success: Option<SuccessConfig>,
    capture: Option<CaptureConfig>,
    secrets: Vec<Secret>,
}

impl AnswerReader {
    pub(crate) fn new(config: &DestinationConfig) -> Self {
        let http = &config.http;
        Self { success: http.success.clone(), capture: http.capture.clone(), secrets: secrets_of(config) }
    }

    /// True when the body has a say, or a piece of it is stored.
    pub(crate) fn wants_body(&self) -> bool {
        self.success.is_some() || self.capture.is_some()
    }

    /// Says what a status means once the body was read; `None` stands for a body that was cut off, too long or slow.
    pub(crate) fn confirm(&self, code: u16, retry_after: Option<String>, body: Option<&[u8]>) -> CallAnswer {
        let status = CallAnswer::Status { code, retry_after };
        let Some(success) = self.success.as_ref().filter(|_| (200..=299).contains(&code)) else {
            return status;
        };
        let Some(json) = body.and_then(|body| exact_value(body).ok()) else {
            return CallAnswer::Unknown(format!("answered {code}, and its body could not be read as JSON"));
        };
        if is_success(success, json.pointer(&success.pointer)) {
            return status;
        }
        CallAnswer::Body {
            code,
            meaning: success.otherwise,
            why: format!("its body does not say success at `{}`", success.pointer),
        }
    }

    /// The piece of an answer that is stored, redacted.
    pub(crate) fn captured(&self, body: Option<&[u8]>) -> Option<String> {
        let capture = self.capture.as_ref()?;
        let Some(body) = body else { return Some("[cut off, too long or too slow]".to_owned()) };
        let mut text = match serde_json::from_slice::<Value>(body) {
            Ok(mut json) => {
                for pointer in &capture.redact {
                    if let Some(value) = json.pointer_mut(pointer) {
                        *value = Value::String(REDACTED.to_owned());
                    }
                }
                json.to_string()
            }
            // Pointers say nothing about what is not JSON, so none of it may be stored where there are any.
            Err(_) if !capture.redact.is_empty() => return Some("[not JSON]".to_owned()),
            Err(_) => String::from_utf8_lossy(body).into_owned(),
        };
        for secret in &self.secrets {
            text = text.replace(secret.reveal(), REDACTED);
        }
        // Neither database takes NUL in a text.
        text = text.replace('\0', "\u{fffd}");
        let mut end = (capture.bytes_max as usize).min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        Some(text)
    }
}

fn is_success(success: &SuccessConfig, found: Option<&Value>) -> bool {
    match (found, &success.equals) {
        (None | Some(Value::Null | Value::Bool(false)), None) | (None, Some(_)) => false,
        (Some(_), None) => true,
        (Some(Value::String(text)), Some(wanted)) => text == wanted,
        (Some(other), Some(wanted)) => *wanted == format!("{other}"),
    }
}

/// The question that one destination is asked.
pub(crate) struct Question {
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
        let values = template::values(&of_message(message));
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
            // Parts of an answer, and what a proxy made of one, deny nothing.
            200..=299 => match self.judge_body(body) {
                Asked::DidNotHappen if code != 200 => unclear(format!("answered {code}")),
                asked => asked,
            },
            _ => unclear(format!("answered {code}")),
        }
    }

    fn judge_body(&self, body: &[u8]) -> Asked {
        let json = match exact_value(body) {
            Ok(json) => json,
            Err(why) => return unclear(format!("the answer cannot be read as JSON: {why}")),
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
            return unclear("it is still under way");
        }
        match &self.config.equals {
            // Begun, refused, taken back: a value is an absence only where the configuration says so.
            Some(wanted) if *wanted != found => {
                unclear("the value is not in `equals`, `pending` or `absent`")
            }
            _ => Asked::Happened,
        }
    }
}

/// A question whose answer settles nothing.
pub(crate) fn unclear(why: impl Display) -> Asked {
    Asked::Unclear(format!("asked whether it happened: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destinations::tests::message;
    use crate::policy::tests::config;
    use hooklatch_core::config::{HttpConfig, StatusMeaning, UnknownPolicy};

    fn reader(equals: Option<&str>, redact: &[&str]) -> AnswerReader {
        let success = SuccessConfig {
            pointer: "/ok".to_owned(),
            equals: equals.map(str::to_owned),
            otherwise: StatusMeaning::Dead,
        };
        let capture =
            CaptureConfig { bytes_max: 40, redact: redact.iter().map(ToString::to_string).collect() };
        AnswerReader { success: Some(success), capture: Some(capture), secrets: vec![Secret::new("canary")] }
    }

    #[test]
    fn a_success_status_counts_only_with_a_matching_body() {
        #[track_caller]
        fn check(equals: Option<&str>, code: u16, body: Option<&str>, want: &str) {
            let word = match reader(equals, &[]).confirm(code, None, body.map(str::as_bytes)) {
                CallAnswer::Status { .. } => "status",
                CallAnswer::Body { .. } => "refused",
                CallAnswer::Unknown(_) => "unknown",
                _ => "another",
            };
            assert_eq!(word, want, "{code} {body:?}");
        }
        check(None, 200, Some(r#"{"ok":true}"#), "status");
        check(None, 200, Some(r#"{"ok":"yes"}"#), "status");
        check(None, 200, Some(r#"{"ok":false}"#), "refused");
        check(None, 201, Some("{}"), "refused");
        check(Some("0"), 200, Some(r#"{"ok":0}"#), "status");
        check(Some("0"), 200, Some(r#"{"ok":1}"#), "refused");
        check(Some("false"), 200, Some(r#"{"ok":false}"#), "status");
        check(None, 200, Some("<html>"), "unknown");
        check(None, 200, None, "unknown");
        check(None, 500, Some(r#"{"ok":true}"#), "status");
        check(None, 302, None, "status");
    }

    #[test]
    fn what_is_kept_of_an_answer_is_bounded_and_redacted() {
        #[track_caller]
        fn check(redact: &[&str], body: &str, want: &str) {
            assert_eq!(reader(None, redact).captured(Some(body.as_bytes())).as_deref(), Some(want));
        }
        check(&["/t"], r#"{"t":"tok_1","id":7}"#, r#"{"id":7,"t":"[redacted]"}"#);
        check(&["/t"], "tok_1", "[not JSON]");
        check(&[], "you sent canary", "you sent [redacted]");
        check(&[], "\0", "\u{fffd}");
        check(&[], &"é".repeat(30), &"é".repeat(20));
        assert_eq!(reader(None, &[]).captured(None).as_deref(), Some("[cut off, too long or too slow]"));
    }

    /// A destination names what it was called with as it likes.
    #[test]
    fn an_answer_that_repeats_a_credential_is_redacted_however_it_names_it() {
        let secret = |text: &str| Secret::new(text);
        let headers = [
            ("authorization", "Bearer tok_0123456789"),
            ("x-signed", "Token token=\"abc_0123456789\", v=1"),
            ("x-basic", "Basic YW5uOnBhc3N3b3JkXzEyMw=="),
            ("x-odd", "a\"b_0123456789"),
        ];
        let config = DestinationConfig {
            headers: headers.iter().map(|(name, value)| ((*name).to_owned(), secret(value))).collect(),
            sign_secrets: vec![secret("whsec_c2VjcmV0c2VjcmV0")],
            http: HttpConfig {
                auth: Some(AuthConfig::Basic { user: "bob".to_owned(), password: secret("letmein_99") }),
                capture: Some(CaptureConfig { bytes_max: 4_096, redact: Vec::new() }),
                ..HttpConfig::default()
            },
            ..config(UnknownPolicy::Retry)
        };
        let reader = AnswerReader::new(&config);
        for (body, shown) in [
            ("unknown token tok_0123456789", "unknown token [redacted]"),
            ("got Bearer tok_0123456789", "got [redacted]"),
            ("abc_0123456789 is no token", "[redacted] is no token"),
            ("wrong password: password_123", "wrong password: [redacted]"),
            ("Basic YW5uOnBhc3N3b3JkXzEyMw==", "[redacted]"),
            (r#"{"header":"a\"b_0123456789"}"#, r#"{"header":"[redacted]"}"#),
            ("key c2VjcmV0c2VjcmV0", "key [redacted]"),
            ("Basic Ym9iOmxldG1laW5fOTk=", "Basic [redacted]"),
            ("letmein_99", "[redacted]"),
            ("Bearer tokens are wanted", "Bearer tokens are wanted"),
        ] {
            assert_eq!(reader.captured(Some(body.as_bytes())).as_deref(), Some(shown));
        }
    }

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
                Asked::Unclear(_) => "unclear",
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
        // One reader takes the first of two members, another the last: neither is an answer.
        check(None, 200, r#"{"data":{"state":"booked","state":null}}"#, "unclear");
        for code in [201, 202, 203, 206] {
            check(None, code, "{}", "unclear");
            check(None, code, r#"{"data":{"state":"any"}}"#, "yes");
        }
        check(Some("paid"), 404, "", "no");
        check(Some("paid"), 404, "<html>", "no");
        for code in [204, 301, 400, 401, 403, 410, 429, 500, 503] {
            check(Some("paid"), code, "", "unclear");
        }
        check(Some("paid"), 200, "<html>please log in</html>", "unclear");
        check(Some("paid"), 200, r#"{"data":{"state":"pa"#, "unclear");
    }
}
