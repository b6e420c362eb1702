//! Reading verified requests beyond a pointer: batches, encrypted and encoded bodies; and which parts are not stored.

use hooklatch_core::config::{KindSettings, Secret};
use hooklatch_core::types::IncomingEvent;
use hooklatch_receive::provider::{ActiveProvider, Kind, Provider, filled_sample};
use hooklatch_receive::providers::builtin;
use hooklatch_receive::vectors::Vector;
use hooklatch_verify::Signed;

use crate::providers::{NOW_S, dev, request, sign_at, vectors_of};

fn kind(name: &str) -> Provider {
    builtin().into_iter().find(|kind| kind.kind() == name).unwrap()
}

/// The events of `body` as its sender would sign it.
fn events(provider: &ActiveProvider, body: &str) -> Vec<IncomingEvent> {
    let at = sign_at(provider, "");
    let Signed { headers, body } = provider.sign(body.as_bytes(), &at).unwrap();
    provider.read(&provider.verify(request(&headers, &body, &at.url, NOW_S)).unwrap())
}

/// The events of a vector, under its own secrets and settings, with one setting changed.
fn events_of(
    name: &str,
    vector: &str,
    setting: Option<(&str, &str)>,
) -> (ActiveProvider, Vec<IncomingEvent>) {
    let vectors: Vec<Vector> = serde_json::from_str(&vectors_of(name)).unwrap();
    let mut vector = vectors.into_iter().find(|one| one.id == vector).unwrap();
    if let Some((setting, value)) = setting {
        vector.settings.insert(setting.to_owned(), value.into());
    }
    let provider = vector.provider(&kind(name)).unwrap();
    let events = provider.read(&provider.verify(vector.request().unwrap()).unwrap());
    (provider, events)
}

#[test]
fn the_time_at_the_sender_is_in_milliseconds_whatever_it_counts() {
    let stripe = dev(&kind("stripe"));
    for (sent, want) in [
        ("1795300000", Some(1_795_300_000_000)),
        ("1795300000123", Some(1_795_300_000_123)),
        ("1795300000123456", Some(1_795_300_000_123)),
        ("1795300000123456789", Some(1_795_300_000_123)),
        ("\"2026-11-22T00:26:40.5+01:00\"", Some(1_795_303_600_500)),
        ("\"yesterday\"", None),
        ("0", Some(0)),
        ("-1", Some(-1_000)),
        ("9223372036854775807", Some(9_223_372_036_854)),
        ("-9223372036854775808", Some(-9_223_372_036_854)),
    ] {
        let body = format!(r#"{{"id":"evt_1","type":"x","created":{sent},"data":{{"object":{{}}}}}}"#);
        assert_eq!(events(&stripe, &body)[0].created_at_ms, want, "{sent}");
    }
}

/// One reader takes the first of two members, another the last: a handler or template would act on what the sender did
/// not mean.
#[test]
fn an_event_with_two_payloads_is_unreadable_and_one_without_is_its_own() {
    let stripe = dev(&kind("stripe"));
    for (body, want) in [
        (r#"{"id":"evt_1","type":"x","data":{"object":{"id":"a"}}}"#, Ok(r#"{"id":"a"}"#)),
        (
            r#"{"id":"evt_1","type":"x","data":{"object":{"id":"a"}},"data":{}}"#,
            Err("`/data/object`) is there twice"),
        ),
        (r#"{"id":"evt_1","type":"x","data":{"object":{},"object":{"id":"a"}}}"#, Err("is there twice")),
        (r#"{"id":"evt_1","type":"x"}"#, Ok(r#"{"id":"evt_1","type":"x"}"#)),
    ] {
        let event = &events(&stripe, body)[0];
        match want {
            Ok(payload) => assert_eq!((&event.payload[..], &event.unreadable), (payload.as_bytes(), &None)),
            Err(why) => assert!(event.unreadable.as_ref().is_some_and(|said| said.contains(why)), "{body}"),
        }
    }
}

#[test]
fn a_resource_of_wechat_pay_is_decrypted_for_handlers_and_kept_as_it_was_signed() {
    // Signed and encrypted by the sender's own SDK.
    let (provider, events) = events_of("wechat_pay", "wechat_pay-032", None);
    let event = &events[0];
    let plain = r#"{"mchid":"1234567890","appid":"054aa7d7a2a54ab5898df65bd96f001c","create_time":"2020-06-30T12:12:00+08:00","out_contract_code":"21640bdbd08e473e828f3206a2741c6e"}"#;
    assert_eq!((event.unreadable.as_ref(), &event.payload[..]), (None, plain.as_bytes()));
    assert_eq!(event.key.event_id, "3119dfba-e649-5eec-ab1e-3412bc4d2e17");
    assert!(!String::from_utf8_lossy(&event.body).contains("mchid"));
    assert_eq!(provider.stored_content(&event.headers, &event.body).unwrap().payload, event.payload);
}

#[test]
fn a_resource_that_another_key_encrypted_is_kept_as_unreadable_with_the_reason() {
    let other = Some(("api_v3_key", "another-key-of-32-characters-000"));
    let (provider, events) = events_of("wechat_pay", "wechat_pay-032", other);
    let event = &events[0];
    assert!(event.unreadable.as_ref().unwrap().contains("api_v3_key"), "{:?}", event.unreadable);
    assert_eq!(event.event_type, "PAYSCORE.USER_OPEN_SERVICE");
    assert!(event.key.event_id.starts_with("unreadable:"), "{}", event.key.event_id);
    assert!(provider.stored_content(&event.headers, &event.body).is_err());
    let (_, short) = events_of("wechat_pay", "wechat_pay-032", Some(("api_v3_key", "short")));
    assert!(short[0].unreadable.is_some());
}

#[test]
fn a_notification_of_braintree_is_read_out_of_its_form() {
    let (provider, events) = events_of("braintree", "braintree-065", None);
    let event = &events[0];
    assert_eq!(event.event_type, "subscription_went_past_due");
    let id = "content:26:subscription_went_past_due,5:my_id,20:2026-11-21T04:06:46Z,";
    assert!(event.key.event_id.starts_with(id), "{}", event.key.event_id);
    let payload: serde_json::Value = serde_json::from_slice(&event.payload).unwrap();
    assert_eq!(payload["subject"]["subscription"]["add_ons"], serde_json::json!([]));
    assert_eq!(payload["subject_type"], "subscription");
    assert!(event.body.starts_with(b"bt_signature="));
    assert_eq!(provider.stored_content(&event.headers, &event.body).unwrap().payload, event.payload);
    let provider = dev(&kind("braintree"));
    let bad = &self::events(&provider, "<other/>")[0];
    assert!(bad.unreadable.as_ref().unwrap().contains("notification"), "{:?}", bad.unreadable);
    let nameless = &self::events(
        &provider,
        "<notification><kind>check</kind><timestamp>t</timestamp><subject><check type=\"boolean\">true</check></subject></notification>",
    )[0];
    assert!(nameless.unreadable.is_none() && nameless.key.event_id.starts_with("content:5:check,"));
}

#[test]
fn every_event_of_a_batch_is_one_of_its_own() {
    #[track_caller]
    fn check(provider: &ActiveProvider, body: &str, want: &[(&str, &str)]) {
        let events = events(provider, body);
        let got: Vec<_> = events.iter().map(|e| (e.event_type.as_str(), &e.payload[..])).collect();
        let want: Vec<_> = want.iter().map(|(name, payload)| (*name, payload.as_bytes())).collect();
        assert_eq!(got, want);
        for event in &events {
            assert_eq!(event.unreadable, None);
            assert_eq!(provider.stored_content(&event.headers, &event.body).unwrap().payload, event.payload);
        }
        let mut ids: Vec<_> = events.iter().map(|event| &event.key.event_id).collect();
        ids.dedup();
        assert_eq!(ids.len(), want.len());
    }
    let cloudevents = dev(&kind("cloudevents"));
    let (one, two) = (
        r#"{"id":"1","source":"/s","type":"a","data":{"n":1}}"#,
        r#"{"id":"2","source":"/s","type":"b","data":{"n":2}}"#,
    );
    check(&cloudevents, &format!("[{one},{two}]"), &[("a", r#"{"n":1}"#), ("b", r#"{"n":2}"#)]);
    check(&cloudevents, one, &[("a", r#"{"n":1}"#)]);
    let (sale, card) = (r#"{"token":"1","type":"authorization"}"#, r#"{"token":"1","state":"ACTIVE"}"#);
    let marqeta = dev(&kind("marqeta"));
    check(
        &marqeta,
        &format!(r#"{{"transactions":[{sale}],"cards":[{card}]}}"#),
        &[("transactions.authorization", sale), ("cards", card)],
    );
    let x = dev(&kind("x_twitter"));
    check(
        &x,
        r#"{"for_user_id":"7","follow_events":[{"id":1},{"id":2}]}"#,
        &[("follow_events", r#"{"id":1}"#), ("follow_events", r#"{"id":2}"#)],
    );
    let revoked = r#"{"user_event":{"revoke":{}}}"#;
    check(&x, revoked, &[("user_event", revoked)]);
    let (first, second) = (r#"{"log_id":"1","type":"s"}"#, r#"{"log_id":"2","type":"f"}"#);
    let auth0 = dev(&kind("auth0"));
    for body in [format!("{first}\n{second}\n"), format!("[{first},{second}]")] {
        check(&auth0, &body, &[("s", first), ("f", second)]);
    }
}

#[test]
fn a_batch_of_segment_is_read_where_the_operator_accepts_what_is_not_signed() {
    let body = r#"[{"type":"track","messageId":"1"},{"type":"page","messageId":"2"}]"#;
    let refused = events(&dev(&kind("segment")), body);
    assert_eq!(refused.len(), 1);
    assert!(refused[0].unreadable.as_ref().unwrap().contains("batches"), "{:?}", refused[0].unreadable);
    let mut settings = KindSettings::default();
    settings.push("batches", None, "accept");
    let accepting = kind("segment").judge_with(&[Secret::new("secret")], &settings).unwrap();
    let ids: Vec<_> = events(&accepting, body).into_iter().map(|event| event.key.event_id).collect();
    assert_eq!(ids, ["1", "2"]);
}

#[test]
fn a_marqeta_webhook_with_a_secret_must_be_signed_and_one_without_need_not() {
    let mut settings = KindSettings::default();
    settings.push("username", None, "user");
    settings.push("password", None, "password");
    let with = |secrets: &[Secret]| kind("marqeta").judge_with(secrets, &settings).unwrap();
    let (plain, signing) = (with(&[]), with(&[Secret::new("secret")]));
    let at = sign_at(&plain, "");
    let authenticated = |provider: &ActiveProvider, signed: &Signed, body: &[u8]| {
        provider.verify(request(&signed.headers, body, &at.url, NOW_S)).is_ok()
    };
    let (unsigned, signed) = (plain.sign(b"{}", &at).unwrap(), signing.sign(b"{}", &at).unwrap());
    assert!(authenticated(&plain, &unsigned, b"{}") && !authenticated(&signing, &unsigned, b"{}"));
    assert!(authenticated(&signing, &signed, b"{}") && !authenticated(&signing, &signed, b"[]"));
    // HMAC-SHA-1 of `{}` under `secret`, by openssl, in base64.
    let sha1 = Signed { headers: unsigned.headers.clone(), body: Vec::new() }
        .with("x-marqeta-signature", "XWFgXD/uqXmSEN3LcTB9S6JkIl8=");
    assert!(authenticated(&signing, &sha1, b"{}"));
}

#[test]
fn a_token_in_a_body_is_blanked_before_anything_is_kept() {
    for name in ["moyasar", "microsoft_graph"] {
        let kind = kind(name);
        let provider = dev(&kind);
        let token = hooklatch_receive::provider::dev_secret(provider.spec());
        let sample = filled_sample(kind.sample_list()[0].1, "1", NOW_S);
        for event in events(&provider, &sample) {
            let kept = [&event.body[..], &event.payload[..]].map(String::from_utf8_lossy);
            assert!(kept.iter().all(|text| !text.contains(&token)), "{name}: {kept:?}");
            assert!(kept[0].contains("[redacted]"), "{name}: {kept:?}");
            assert_eq!(provider.stored_content(&event.headers, &event.body).unwrap().payload, event.payload);
        }
    }
}

#[test]
fn a_rotated_token_makes_no_other_event_of_the_same_one() {
    let with = |secret: &str| {
        let provider = kind("moyasar").judge_with(&[Secret::new(secret)], &KindSettings::default()).unwrap();
        let event = &events(&provider, r#"{"id":"1","type":"payment_paid","secret_token":""}"#)[0];
        (event.key.event_id.clone(), event.digest)
    };
    assert_eq!(with("old"), with("new"));
}

#[test]
fn no_kind_stores_its_signature_headers() {
    for kind in builtin() {
        let provider = dev(&kind);
        let (event_type, sample) = kind.sample_list()[0];
        let at = sign_at(&provider, event_type);
        let signed = provider.sign(filled_sample(sample, "1", NOW_S).as_bytes(), &at).unwrap();
        let spec = provider.spec();
        let mut headers = signed.headers.clone();
        headers.push(("cookie".to_owned(), "session".to_owned()));
        let events =
            provider.read(&provider.verify(request(&headers, &signed.body, &at.url, NOW_S)).unwrap());
        let kept: serde_json::Value = serde_json::from_str(&events[0].headers).unwrap();
        let is_blank = |name: &str| kept[name].is_null() || kept[name] == "[redacted]";
        assert_eq!(kept["cookie"], "[redacted]", "{}", spec.kind);
        let secrets: Vec<String> = [hooklatch_receive::provider::dev_secret(spec)].into();
        for (name, value) in &signed.headers {
            let is_known = spec.signature.headers.iter().any(|known| known.eq_ignore_ascii_case(name));
            let is_token = secrets.iter().any(|secret| value.contains(secret)) || name == "authorization";
            assert!(is_blank(name) || !(is_known || is_token), "{}: {name} is kept", spec.kind);
        }
    }
}

#[test]
fn a_signature_cannot_be_left_out_where_the_operator_requires_it() {
    for (name, header) in [("revenuecat", "authorization"), ("flutterwave", "verif-hash")] {
        let verified = |signing: Option<&str>| {
            let mut settings = KindSettings::default();
            if let Some(value) = signing {
                settings.push("signing", None, value);
            }
            let provider = kind(name).judge_with(&[Secret::new("token")], &settings).unwrap();
            provider.verify(request(&[(header.to_owned(), "token".to_owned())], b"{}", "", NOW_S)).is_ok()
        };
        assert!(verified(None) && !verified(Some("required")), "{name}");
    }
}

#[test]
fn each_alipay_api_gets_its_own_answer() {
    let provider = dev(&kind("alipay"));
    let answer = |body: &str| {
        let at = sign_at(&provider, "");
        let Signed { headers, body } = provider.sign(body.as_bytes(), &at).unwrap();
        let verified = provider.verify(request(&headers, &body, &at.url, NOW_S)).unwrap();
        provider.answer(&verified).unwrap().body.clone()
    };
    assert_eq!(answer("notify_id=1&trade_status=TRADE_SUCCESS"), "success");
    assert!(answer(r#"{"notifyType":"PAYMENT_RESULT","paymentId":"1"}"#).contains("\"resultStatus\":\"S\""));
}

#[test]
fn a_copy_that_was_sent_at_another_time_is_the_same_event() {
    #[track_caller]
    fn check(provider: &ActiveProvider, one: &str, other: &str) {
        let read = |body: &str| (events(provider, body)[0].key.clone(), events(provider, body)[0].digest);
        assert_eq!(read(one), read(other));
    }
    let alipay = |time: &str, amount: &str| {
        format!("notify_id=1&trade_status=A&notify_time={time}&total_amount={amount}")
    };
    let provider = dev(&kind("alipay"));
    check(&provider, &alipay("08:00", "1"), &alipay("09:00", "1"));
    assert_ne!(
        events(&provider, &alipay("08:00", "1"))[0].digest,
        events(&provider, &alipay("08:00", "2"))[0].digest
    );
    let bitpay = |time: u32| {
        format!(r#"{{"event":{{"name":"invoice_confirmed"}},"data":{{"id":"1","currentTime":{time}}}}}"#)
    };
    check(&dev(&kind("bitpay")), &bitpay(1), &bitpay(2));
}

#[test]
fn a_refund_of_payu_is_another_event_than_its_order() {
    let provider = dev(&kind("payu"));
    let read = |body: &str| {
        let event = &events(&provider, body)[0];
        assert_eq!(event.unreadable, None);
        (event.key.event_id.clone(), event.event_type.clone())
    };
    let order = read(r#"{"order":{"orderId":"O","status":"COMPLETED"}}"#);
    let refund = read(r#"{"orderId":"O","refund":{"refundId":"R","status":"FINALIZED"}}"#);
    assert!(order.0.starts_with("content:1:O,0:,"), "{}", order.0);
    assert!(refund.0.starts_with("content:1:O,1:R,"), "{}", refund.0);
    assert_eq!((order.1.as_str(), refund.1.as_str()), ("COMPLETED", "FINALIZED"));
}
