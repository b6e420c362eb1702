//! The headers of a call: what the message says, then the destination's, then ours; the later wins.

use std::borrow::Cow;

use base64::Engine;
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, Entry, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};

use hooklatch_core::config::{AuthConfig, DestinationConfig, Secret};
use hooklatch_core::net::AGENT;
use hooklatch_store::LeasedMessage;

// As names and not as texts: a text is parsed, and copied, for every call.
static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
static PROVIDER: HeaderName = HeaderName::from_static("hooklatch-provider");
static EVENT_ID: HeaderName = HeaderName::from_static("hooklatch-event-id");
static EVENT_TYPE: HeaderName = HeaderName::from_static("hooklatch-event-type");
static MESSAGE_ID: HeaderName = HeaderName::from_static("hooklatch-message-id");
static ATTEMPT: HeaderName = HeaderName::from_static("hooklatch-attempt");
static SYNTHETIC: HeaderName = HeaderName::from_static("hooklatch-synthetic");
const TRACEPARENT: &str = "traceparent";

/// Headers of most calls, with `Host`.
const HEADERS_N: usize = 12;

/// The headers that every call of one destination carries.
pub(crate) struct Headers(HeaderMap);

impl Headers {
    /// The error is the name of what cannot be a header.
    pub(crate) fn new(config: &DestinationConfig) -> Result<Self, String> {
        secret_headers(config).map(Self)
    }

    /// Headers of a question, which has no headers of a message. Those of the destination are there only when
    /// `at_home`: its credentials are for its own host.
    pub(crate) fn of_question(&self, at_home: bool) -> HeaderMap {
        let mut headers = if at_home { self.0.clone() } else { HeaderMap::new() };
        insert_default_headers(&mut headers);
        headers
    }

    /// Headers of a call for `message`. `Err(why)` for what a header cannot carry.
    pub(crate) fn of(&self, message: &LeasedMessage) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::with_capacity(HEADERS_N + self.0.len() + message.headers.len());
        headers.extend(self.0.clone());
        let mut add = |name: HeaderName, value: HeaderValue| {
            if !self.0.contains_key(&name) {
                headers.insert(name, value);
            }
        };
        if let Some(content_type) = &message.event_content_type {
            add(CONTENT_TYPE, value("content-type", content_type)?);
        }
        for (name, text) in &message.headers {
            let parsed = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| format!("`{name}` is not a header name"))?;
            add(parsed, value(name, text)?);
        }
        let ours = [
            (&IDEMPOTENCY_KEY, message.idempotency_key.as_str()),
            (&PROVIDER, message.key.provider.as_str()),
            (&EVENT_ID, &ascii(&message.key.event_id)),
            (&EVENT_TYPE, &ascii(&message.event_type)),
        ];
        for (name, text) in ours {
            headers.insert(name, value(name.as_str(), text)?);
        }
        headers.insert(&MESSAGE_ID, HeaderValue::from(message.message_id.number()));
        headers.insert(&ATTEMPT, HeaderValue::from(message.attempt_n));
        // Alone where it is so, whatever the message itself says.
        headers.remove(&SYNTHETIC);
        if message.key.is_synthetic() {
            headers.insert(&SYNTHETIC, HeaderValue::from_static("true"));
        }
        insert_default_headers(&mut headers);
        Ok(headers)
    }
}

/// Adds the span that the call is of, unless the message or the destination sets a header of that name.
pub(crate) fn insert_traceparent(message: &LeasedMessage, headers: &mut HeaderMap) {
    if let (Some(span), Entry::Vacant(entry)) = (message.traceparent, headers.entry(TRACEPARENT)) {
        // Digits and hyphens are always a value.
        entry.insert(HeaderValue::try_from(span.to_string()).unwrap_or(HeaderValue::from_static("")));
    }
}

/// Sets `User-Agent` and `Accept`, unless the message has its own.
fn insert_default_headers(headers: &mut HeaderMap) {
    for (name, value) in [(USER_AGENT, AGENT), (ACCEPT, "*/*")] {
        if let Entry::Vacant(entry) = headers.entry(name) {
            entry.insert(HeaderValue::from_static(value));
        }
    }
}

/// Percent-encoded where a header could not carry it.
fn ascii(text: &str) -> Cow<'_, str> {
    percent_encoding::utf8_percent_encode(text, percent_encoding::CONTROLS).into()
}

pub(crate) fn value(name: &str, text: &str) -> Result<HeaderValue, String> {
    HeaderValue::from_bytes(text.as_bytes())
        .map_err(|_| format!("value of header `{name}` has characters a header cannot carry"))
}

fn secret_headers(config: &DestinationConfig) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let mut insert = |name: &str, secret: &Secret| {
        let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| name.to_owned())?;
        let mut value = HeaderValue::from_str(secret.reveal()).map_err(|_| name.to_owned())?;
        value.set_sensitive(true);
        headers.insert(parsed, value);
        Ok::<_, String>(())
    };
    for (name, secret) in &config.headers {
        insert(name, secret)?;
    }
    match &config.http.auth {
        Some(AuthConfig::Basic { user, password }) => {
            let both = format!("{user}:{}", password.reveal());
            let encoded = base64::engine::general_purpose::STANDARD.encode(both);
            insert(AUTHORIZATION.as_str(), &Secret::new(format!("Basic {encoded}")))?;
        }
        Some(AuthConfig::Bearer(token)) => {
            insert(AUTHORIZATION.as_str(), &Secret::new(format!("Bearer {}", token.reveal())))?;
        }
        None => {}
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destinations::tests::message;
    use crate::policy::tests::config;
    use hooklatch_core::config::UnknownPolicy;

    #[test]
    fn secrets_are_not_shown() {
        let mut config = config(UnknownPolicy::Retry);
        config.headers.insert("x-key".to_owned(), Secret::new("canary"));
        for auth in [
            AuthConfig::Bearer(Secret::new("canary")),
            AuthConfig::Basic { user: "u".to_owned(), password: Secret::new("canary") },
        ] {
            config.http.auth = Some(auth);
            let shown = format!("{config:?} {:?}", secret_headers(&config).unwrap());
            // dTpjYW5hcnk= is u:canary.
            assert!(!shown.contains("canary") && !shown.contains("dTpj"), "{shown}");
        }
        config.headers.insert("x".to_owned(), Secret::new("canary\n"));
        assert_eq!(secret_headers(&config).unwrap_err(), "x");
    }

    #[test]
    fn ids_become_values_that_a_header_can_carry() {
        assert_eq!(ascii("évt 1"), "%C3%A9vt 1");
        assert!(value("x", &ascii("é\u{7f}")).is_ok());
        assert!(value("x", "a\nb").is_err());
    }

    #[test]
    fn a_messages_own_header_gives_way_to_the_destinations_and_to_ours() {
        let mut config = config(UnknownPolicy::Retry);
        for (name, text) in
            [("x-both", "destination"), ("content-type", "destination"), ("accept", "text/plain")]
        {
            config.headers.insert(name.to_owned(), Secret::new(text));
        }
        let mut message = message();
        message.event_content_type = Some("event".to_owned());
        for name in ["X-Both", "x-own", "Idempotency-Key", "User-Agent", "Hooklatch-Attempt"] {
            message.headers.insert(name.to_owned(), "message".to_owned());
        }
        let headers = Headers::new(&config).unwrap().of(&message).unwrap();
        for (name, want) in [
            ("x-both", "destination"),
            ("content-type", "destination"),
            ("accept", "text/plain"),
            ("x-own", "message"),
            ("user-agent", "message"),
            ("idempotency-key", "key-1"),
            ("hooklatch-attempt", "1"),
            ("hooklatch-event-id", "evt_1"),
        ] {
            assert_eq!(headers.get_all(name).iter().collect::<Vec<_>>(), [want], "{name}");
        }
        let home = Headers::new(&config).unwrap();
        assert_eq!(home.of_question(true)["x-both"], "destination");
        assert_eq!(home.of_question(false).keys().collect::<Vec<_>>(), [USER_AGENT, ACCEPT]);
    }
}
