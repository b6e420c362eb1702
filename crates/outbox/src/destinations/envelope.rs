//! The envelope of a body on its way: `CloudEvents`, or the body as it is; and the facts of a message, for the
//! headers of destinations that have some.
//!
//! Everything here follows from the stored message alone, so every attempt sends the same bytes.

use std::borrow::Cow;

use base64::Engine;
use serde::Serialize;
use serde_json::value::RawValue;

use hooklatch_core::config::Format;
use hooklatch_store::LeasedMessage;

/// The content type of a structured `CloudEvents` document.
const CLOUD_EVENT: &str = "application/cloudevents+json; charset=UTF-8";

/// `CloudEvents` 1.0 in JSON. `eventid`, `effect` and `synthetic` are extension attributes.
#[derive(Serialize)]
struct CloudEvent<'a> {
    specversion: &'static str,
    id: &'a str,
    source: String,
    #[serde(rename = "type")]
    event_type: &'a str,
    time: String,
    datacontenttype: &'a str,
    eventid: &'a str,
    effect: &'a str,
    /// There for test events alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    synthetic: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_base64: Option<String>,
}

/// The message in its destination's format.
pub(crate) fn shaped(format: Format, message: &LeasedMessage) -> Result<Cow<'_, LeasedMessage>, String> {
    if format == Format::Raw {
        return Ok(Cow::Borrowed(message));
    }
    let body = cloud_event(message)?;
    let mut message = message.clone();
    message.headers.retain(|name, _| !name.eq_ignore_ascii_case("content-type"));
    message.event_content_type = Some(CLOUD_EVENT.to_owned());
    message.body = body.into();
    Ok(Cow::Owned(message))
}

fn cloud_event(message: &LeasedMessage) -> Result<Vec<u8>, String> {
    let content_type = content_type(message);
    // It goes out as it is, byte for byte: a number beyond 2^53 and a doubled key stay what they are.
    let data: Option<&RawValue> = serde_json::from_slice(&message.body).ok();
    let data = data.filter(|_| content_type.is_none_or(is_json));
    let base64 = || base64::engine::general_purpose::STANDARD.encode(&message.body);
    let usual_type = if data.is_some() { "application/json" } else { "application/octet-stream" };
    let time = jiff::Timestamp::from_millisecond(message.created_at_ms)
        .map_err(|_| "time of the message is out of range".to_owned())?;
    let event = CloudEvent {
        specversion: "1.0",
        id: &message.idempotency_key,
        source: format!("/webhooks/{}", message.key.provider),
        // The specification does not allow an empty one.
        event_type: if message.event_type.is_empty() { "webhook" } else { &message.event_type },
        time: time.to_string(),
        datacontenttype: content_type.unwrap_or(usual_type),
        eventid: &message.key.event_id,
        effect: &message.effect_name,
        synthetic: message.key.is_synthetic().then_some(true),
        data,
        data_base64: data.is_none().then(base64),
    };
    serde_json::to_vec(&event).map_err(|error| format!("could not be written as a CloudEvent: {error}"))
}

/// True for a media type that says JSON: `application/json`, or anything that ends in `+json`.
fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

/// The content type of the message, else that of the event whose bytes are sent.
pub(crate) fn content_type(message: &LeasedMessage) -> Option<&str> {
    let own = message.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    own.map(|(_, value)| value.as_str()).or(message.event_content_type.as_deref())
}

/// The metadata beside the body: ours first, then the content type, then the message's own headers, in lower case, then
/// the span that the call is of.
#[cfg(feature = "brokers")]
pub(crate) fn metadata(message: &LeasedMessage) -> Vec<(String, String)> {
    let message_id = message.message_id.to_string();
    let ours = [
        ("idempotency-key", message.idempotency_key.as_str()),
        ("hooklatch-message-id", &message_id),
        ("hooklatch-provider", message.key.provider.as_str()),
        ("hooklatch-event-id", &message.key.event_id),
        ("hooklatch-event-type", &message.event_type),
        ("hooklatch-effect", &message.effect_name),
    ];
    let synthetic = message.key.is_synthetic().then_some(("hooklatch-synthetic", "true"));
    let ours =
        ours.into_iter().chain(synthetic).chain(content_type(message).map(|value| ("content-type", value)));
    let mut all: Vec<(String, String)> =
        ours.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    for (name, value) in &message.headers {
        let name = name.to_ascii_lowercase();
        // No handler says so of an event that a sender sent.
        if name != "hooklatch-synthetic" && !all.iter().any(|(taken, _)| *taken == name) {
            all.push((name, value.clone()));
        }
    }
    let span = message.traceparent.filter(|_| !all.iter().any(|(taken, _)| taken == "traceparent"));
    all.extend(span.map(|span| ("traceparent".to_owned(), span.to_string())));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destinations::tests::message;

    /// Memory that this process had at its peak since the last call. Bytes.
    #[cfg(target_os = "linux")]
    fn peak_bytes() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").expect("a status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
        let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
        std::fs::write("/proc/self/clear_refs", "5").expect("the peak can be reset");
        kib * 1024
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_cloud_event_of_bytes_takes_at_most_twelve_times_its_body() {
        let mut message = message();
        message.body = vec![0; 1 << 20].into();
        peak_bytes();
        let before = peak_bytes();
        shaped(Format::CloudEvents, &message).expect("it can be written");
        let made = peak_bytes().saturating_sub(before);
        assert!(made <= 13 << 20, "{made} bytes");
    }

    fn event_of(body: &'static [u8], content_type: Option<&str>) -> serde_json::Value {
        let mut message = message();
        message.body = bytes::Bytes::from_static(body);
        message.event_content_type = content_type.map(str::to_owned);
        let shaped = shaped(Format::CloudEvents, &message).unwrap();
        assert_eq!(super::content_type(&shaped), Some(CLOUD_EVENT));
        serde_json::from_slice(&shaped.body).unwrap()
    }

    #[test]
    fn a_cloud_event_has_the_known_attributes_and_is_the_same_each_time() {
        let event = event_of(b"{\"a\":1}", None);
        let want = serde_json::json!({
            "specversion": "1.0", "id": "key-1", "source": "/webhooks/stripe", "type": "invoice.paid",
            "time": "1970-01-01T00:00:01Z", "datacontenttype": "application/json",
            "eventid": "evt_1", "effect": "billing", "data": { "a": 1 },
        });
        assert_eq!(event, want);
        assert_eq!(event, event_of(b"{\"a\":1}", None));
    }

    #[test]
    fn only_json_is_data_and_everything_else_is_base64() {
        #[track_caller]
        fn check(body: &'static [u8], content_type: Option<&str>, data: Option<&str>, said: &str) {
            let event = event_of(body, content_type);
            assert_eq!(event.get("data").map(ToString::to_string).as_deref(), data, "{event}");
            assert_eq!(event.get("data_base64").is_some(), data.is_none(), "{event}");
            assert_eq!(event["datacontenttype"], said);
        }
        let json = "application/json";
        check(
            b"[1]",
            Some("Application/JSON; charset=utf-8"),
            Some("[1]"),
            "Application/JSON; charset=utf-8",
        );
        check(b"[1]", Some("application/x+json"), Some("[1]"), "application/x+json");
        check(b"17", Some("text/plain"), None, "text/plain");
        check(b"a=b", Some(json), None, json);
        check(b"\xff", None, None, "application/octet-stream");
    }

    #[test]
    fn large_numbers_and_doubled_keys_stay_what_they_are() {
        let mut message = message();
        message.body = bytes::Bytes::from_static(b"{\"a\":12345678901234567890123,\"a\":2}");
        let shaped = shaped(Format::CloudEvents, &message).unwrap();
        let text = std::str::from_utf8(&shaped.body).unwrap();
        assert!(text.contains("\"data\":{\"a\":12345678901234567890123,\"a\":2}"), "{text}");
    }

    #[test]
    fn raw_is_the_body_as_it_is() {
        let message = message();
        assert!(matches!(shaped(Format::Raw, &message), Ok(Cow::Borrowed(_))));
    }
}
