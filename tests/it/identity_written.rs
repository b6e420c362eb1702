//! Identity of an event in every form of its body: parts that the signature does not cover make no second event.

use hooklatch_core::types::{IncomingEvent, OnConflict};
use hooklatch_receive::pairs::Pair;
use hooklatch_receive::provider::{ActiveProvider, Kind, Provider};
use hooklatch_receive::providers::builtin;
use hooklatch_verify::RawRequest;
use serde_json::{Value, json};

use crate::providers::dev;

fn kind(name: &str) -> Provider {
    builtin().into_iter().find(|kind| kind.kind() == name).unwrap()
}

/// Whose signature covers no event, so that it distinguishes none: a token for a URL, which is valid for three minutes,
/// and a text that is equal each time a subscription is suspended. Their pages say that they are weak.
const OF_NO_EVENT: [(&str, &str); 2] = [("atlassian_connect", ""), ("paymob", "suspended")];

/// A sample as its sender signs it, and its events.
fn sent(kind: &Provider, provider: &ActiveProvider, event_type: &str) -> (RawRequest, Vec<IncomingEvent>) {
    let pair: Pair = serde_json::from_value(json!({
        "what": "a sample", "source": "rule", "expect": "copy", "first": { "sample": event_type },
    }))
    .unwrap();
    let request = pair.requests(kind, provider).unwrap().first;
    let events = provider.read(&provider.verify(request.clone()).unwrap());
    (request, events)
}

/// The events of the same request with another body, where that is believed.
fn with(provider: &ActiveProvider, first: &RawRequest, body: Vec<u8>) -> Option<Vec<IncomingEvent>> {
    let verified = provider.verify(RawRequest { body: body.into(), ..first.clone() }).ok()?;
    Some(provider.read(&verified))
}

/// True when admission takes it for an event besides these.
fn is_new(known: &[IncomingEvent], event: &IncomingEvent) -> bool {
    let is_text = |one: &IncomingEvent| event.replay_key.is_some() && one.replay_key == event.replay_key;
    !known.iter().any(|one| one.key == event.key || is_text(one))
}

/// The same JSON written in other ways.
fn rewritten(body: &[u8]) -> Vec<Vec<u8>> {
    let text = std::str::from_utf8(body).unwrap();
    let Ok(json) = serde_json::from_str::<Value>(text) else { return Vec::new() };
    let mut made =
        vec![format!("{text} "), format!("\n{text}"), serde_json::to_string_pretty(&json).unwrap()];
    if let Value::Object(members) = &json {
        let members: Vec<String> =
            members.iter().rev().map(|(name, value)| format!("{}:{value}", json!(name))).collect();
        made.push(format!("{{{}}}", members.join(",")));
    }
    // The first letter of each text as an escape, and a decimal behind each number.
    let (mut escaped, mut numbers, mut before) = (String::new(), String::new(), ' ');
    for c in text.chars() {
        let is_first = before == '"' && c.is_ascii_alphabetic();
        if is_first {
            escaped.extend(["\\u00", &hex::encode([u8::try_from(c).unwrap()])]);
        } else {
            escaped.push(c);
        }
        let is_end = matches!(c, ',' | '}') && before.is_ascii_digit();
        numbers.push_str(if is_end { ".0" } else { "" });
        numbers.push(c);
        before = c;
    }
    made.extend([escaped, numbers]);
    made.into_iter().map(String::into_bytes).filter(|one| one != body).collect()
}

#[test]
fn a_signed_body_that_is_written_another_way_is_no_second_event() {
    let (mut wrong, mut authenticated_n) = (Vec::new(), 0);
    for kind in builtin() {
        // With a token, any content can be written.
        let weak = kind.spec().unwrap().signature.weak.map(|weak| format!("{weak:?}"));
        if weak.is_some_and(|weak| weak != "Body") {
            continue;
        }
        let provider = dev(&kind);
        let is_of_event = |event_type: &str| {
            !OF_NO_EVENT.iter().any(|(name, start)| *name == kind.kind() && event_type.starts_with(start))
        };
        for (event_type, _) in
            kind.sample_list().into_iter().filter(|(event_type, _)| is_of_event(event_type))
        {
            let (request, known) = sent(&kind, &provider, event_type);
            let bodies = rewritten(&request.body).into_iter();
            for events in bodies.filter_map(|body| with(&provider, &request, body)) {
                authenticated_n += 1;
                let news = events.iter().filter(|event| is_new(&known, event));
                wrong.extend(news.map(|one| format!("{}: {event_type}: {}", kind.kind(), one.key.event_id)));
            }
        }
    }
    assert!(wrong.is_empty(), "{} bodies:\n{}", wrong.len(), wrong.join("\n"));
    assert!(authenticated_n > 50, "{authenticated_n}");
}

#[test]
fn what_is_signed_in_the_order_of_its_names_is_a_copy_in_any_other() {
    for (name, event_type) in [("nowpayments", "finished"), ("midtrans", "00"), ("midtrans", "settlement")] {
        let kind = kind(name);
        let provider = dev(&kind);
        let (request, known) = sent(&kind, &provider, event_type);
        let blank = with(&provider, &request, [b"  ", &request.body[..], b"\n"].concat()).unwrap();
        assert_eq!((&blank[0].key, blank[0].digest), (&known[0].key, known[0].digest), "{name}");
        assert_eq!(blank[0].body.len(), request.body.len() + 3, "{name}: stored as received");
    }
}

#[test]
fn invented_states_of_a_midtrans_order_are_one_notice_together() {
    let kind = kind("midtrans");
    let provider = dev(&kind);
    let (request, mut known) = sent(&kind, &provider, "settlement");
    let mut news_n = 0;
    for n in 0..40 {
        let mut body: Value = serde_json::from_slice(&request.body).unwrap();
        body["transaction_status"] = json!(format!("settlement{n}"));
        let event = with(&provider, &request, body.to_string().into_bytes()).unwrap().remove(0);
        news_n += usize::from(is_new(&known, &event));
        known.push(event);
    }
    assert_eq!(
        news_n, 1,
        "a state that Midtrans does not know yet is accepted, and others wait as conflicts"
    );
}

#[test]
fn a_notification_of_another_workspace_is_refused_although_fireblocks_signed_it() {
    let kind = kind("fireblocks");
    let provider = dev(&kind);
    let pair = |set: Value| -> Pair {
        serde_json::from_value(json!({
            "what": "a sample", "source": "rule", "expect": "copy",
            "first": { "sample": "transaction.status.updated", "set": set },
        }))
        .unwrap()
    };
    let verified = |set: Value| provider.verify(pair(set).requests(&kind, &provider).unwrap().first);
    assert!(verified(json!({ "/data/status": "COMPLETED" })).is_ok());
    for set in
        [json!({ "/workspaceId": "11111111-2f3a-4a8b-9d0f-0d6a7f1f5f11" }), json!({ "/workspaceId": null })]
    {
        let why = verified(set).unwrap_err().to_string();
        assert!(why.contains("`settings.workspace_ids`"), "{why}");
    }
}

#[test]
fn a_second_failure_of_one_order_at_iyzico_is_dispatched() {
    let kind = kind("iyzico");
    let provider = dev(&kind);
    let pair: Pair = serde_json::from_value(json!({
        "what": "two failures", "source": "rule", "expect": "conflict",
        "first": { "sample": "subscription.order.failure" },
        "second": { "set": { "/iyziReferenceCode": "0e7c2e2e-0f0f-4f56-94c8-3a3f1a2a8f14" } },
    }))
    .unwrap();
    let requests = pair.requests(&kind, &provider).unwrap();
    let [first, second] = [requests.first, requests.second]
        .map(|request| provider.read(&provider.verify(request).unwrap()).remove(0));
    assert!(first.replay_key.is_some() && first.replay_key == second.replay_key, "one signed text");
    assert_eq!(second.on_conflict, OnConflict::Dispatch);
}
