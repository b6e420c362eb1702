//! `unknown = "query"`: ask the far side whether the effect happened, before anything is sent again.

use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::Destination;
use crate::config::QueryConfig;
use crate::store::LeasedMessage;

/// Most bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// What the far side says about an earlier call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::outbox) enum Happened {
    /// The effect is there.
    Yes,
    /// It is not.
    No,
    /// Cannot be told now; ask again.
    Unclear(String),
}

/// GETs the query's URL and looks at what its pointer names.
pub(super) async fn ask(destination: &Destination, query: &QueryConfig, message: &LeasedMessage) -> Happened {
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let url = query
        .url
        .replace("{idempotency_key}", &encoded(&message.idempotency_key))
        .replace("{event_id}", &encoded(&message.key.event_id))
        .replace("{message_id}", &encoded(&message.message_id));
    let request = destination
        .client
        .get(url)
        .timeout(Duration::from_millis(destination.config.timeout_ms))
        .headers(destination.headers.clone());
    let Ok(mut response) = request.send().await else {
        return Happened::Unclear("the query got no answer".to_owned());
    };
    match response.status().as_u16() {
        404 => return Happened::No,
        200..=299 => {}
        code => return Happened::Unclear(format!("the query was answered {code}")),
    }
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() <= ANSWER_BYTES_MAX => body.extend_from_slice(&chunk),
            Ok(Some(_)) => return Happened::Unclear("the query's answer is too large".to_owned()),
            Ok(None) => break,
            Err(_) => return Happened::Unclear("the query's answer broke off".to_owned()),
        }
    }
    judged(query, &body)
}

/// Whether `body` says that it happened.
fn judged(query: &QueryConfig, body: &[u8]) -> Happened {
    let Ok(json) = serde_json::from_slice::<serde_json::Value>(body) else {
        return Happened::Unclear("the query's answer is not JSON".to_owned());
    };
    let found = json.pointer(&query.pointer).filter(|value| !value.is_null());
    let is_it = match (found, &query.equals) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(serde_json::Value::String(text)), Some(want)) => text == want,
        (Some(other), Some(want)) => {
            serde_json::from_str(want).is_ok_and(|want: serde_json::Value| *other == want)
        }
    };
    if is_it { Happened::Yes } else { Happened::No }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_yes_only_with_the_wanted_value() {
        #[track_caller]
        fn check(body: &str, equals: Option<&str>, want: &Happened) {
            let query = QueryConfig {
                url: String::new(),
                pointer: "/data/0/state".to_owned(),
                equals: equals.map(str::to_owned),
            };
            assert_eq!(judged(&query, body.as_bytes()), *want, "{body}");
        }
        check(r#"{"data":[{"state":"paid"}]}"#, Some("paid"), &Happened::Yes);
        check(r#"{"data":[{"state":"open"}]}"#, Some("paid"), &Happened::No);
        check(r#"{"data":[{"state":true}]}"#, Some("true"), &Happened::Yes);
        check(r#"{"data":[{"state":"anything"}]}"#, None, &Happened::Yes);
        check(r#"{"data":[{"state":null}]}"#, None, &Happened::No);
        check(r#"{"data":[]}"#, None, &Happened::No);
        check("<html>", None, &Happened::Unclear("the query's answer is not JSON".to_owned()));
    }
}
