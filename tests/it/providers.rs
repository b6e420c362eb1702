//! Every kind against its vectors, both ways: the sender's signatures verify, Hooklatch's signatures verify, and
//! nothing else does.

use std::path::Path;
use std::sync::OnceLock;

use bytes::Bytes;
use hooklatch_core::config::KindSettings;
use hooklatch_core::types::IncomingEvent;
use hooklatch_receive::provider::{ActiveProvider, Kind, Provider};
use hooklatch_receive::providers::builtin;
use hooklatch_receive::vectors::{Vector, judge};
use hooklatch_verify::spec::Scheme;
use hooklatch_verify::{DevKeys, KeySource, RawRequest, SignAt, VerifyError};
use http::{HeaderMap, HeaderName, HeaderValue};

pub const NOW_S: i64 = 1_767_225_600;

fn folder(kind: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("providers").join(kind)
}

pub fn vectors_of(kind: &str) -> String {
    std::fs::read_to_string(folder(kind).join("vectors.json")).unwrap()
}

/// A kind with its published secret and settings, and with generated keys, as `serve --dev` has it.
pub fn dev(kind: &Provider) -> ActiveProvider {
    static KEYS: OnceLock<DevKeys> = OnceLock::new();
    let made = || DevKeys::parse(&DevKeys::generate().unwrap()).unwrap();
    kind.dev(KEYS.get_or_init(made)).unwrap()
}

pub fn request(headers: &[(String, String)], body: &[u8], url: &str, now_s: i64) -> RawRequest {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    RawRequest {
        method: http::Method::POST,
        url: url.to_owned(),
        headers: map,
        body: Bytes::copy_from_slice(body),
        received_at_ms: now_s * 1_000,
    }
}

pub fn sign_at(provider: &ActiveProvider, event_type: &str) -> SignAt {
    SignAt {
        now_s: NOW_S,
        url: provider.url().to_owned(),
        id: "id_1".to_owned(),
        event_type: event_type.to_owned(),
    }
}

#[test]
fn every_vector_of_every_kind_has_its_expected_result() {
    let kinds = builtin();
    let mut wrong = Vec::new();
    for kind in &kinds {
        let judged = judge(&vectors_of(kind.kind()), &kinds).unwrap();
        wrong.extend(judged.into_iter().filter(|one| one.is_wrong));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_kind_owns_the_vectors_that_matter() {
    for kind in builtin() {
        let spec = kind.spec().unwrap_or_else(|error| panic!("{error}"));
        let vectors: Vec<Vector> = serde_json::from_str(&vectors_of(kind.kind())).unwrap();
        let has = |suffix: &str| vectors.iter().any(|v| v.id == format!("{}-own-{suffix}", kind.kind()));
        let is_unsigned = spec.signature.scheme == Scheme::Unsigned;
        let suffixes: &[&str] = if is_unsigned { &["unsigned"] } else { &["ok", "tampered", "wrong-secret"] };
        for suffix in suffixes {
            assert!(
                has(suffix),
                "{}: add a vector `{}-own-{suffix}` to vectors.json; `hooklatch sign {} --vectors` makes one",
                kind.kind(),
                kind.kind(),
                kind.kind()
            );
        }
        assert!(
            !spec.has_signed_time() || has("stale"),
            "{} signs a time: add a vector for a stale one",
            kind.kind()
        );
        assert!(kind.sample_list().len() >= 3, "{}: add three sample events", kind.kind());
    }
}

#[test]
fn every_folder_is_a_listed_kind_of_its_name() {
    let listed: Vec<String> = builtin().iter().map(|kind| kind.kind().to_owned()).collect();
    for entry in std::fs::read_dir(folder("")).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            let name = entry.file_name().into_string().unwrap();
            assert!(listed.contains(&name), "providers/{name} is not listed in providers/mod.rs");
        }
    }
}

#[test]
fn no_kind_is_left_half_filled_in() {
    let mut left = Vec::new();
    for kind in builtin() {
        let name = kind.kind();
        let text = std::fs::read_to_string(folder(name).join("provider.toml")).unwrap();
        left.extend(text.lines().filter(|line| line.contains("TODO")).map(|line| format!("{name}: {line}")));
        let spec = kind.spec().unwrap();
        if spec.docs.len() <= "https://".len() {
            left.push(format!("{name}: write in `docs` where the facts were read"));
        }
        if spec.replaces_builtin {
            left.push(format!(
                "{name}: leave out replaces_builtin, which is for kinds in a folder of the config"
            ));
        }
        let listed: Vec<&str> = kind.sample_list().iter().map(|(_, text)| *text).collect();
        for entry in std::fs::read_dir(folder(name).join("samples")).into_iter().flatten() {
            let path = entry.unwrap().path();
            let is_sample = !path.ends_with("sources.toml");
            if is_sample && !listed.contains(&std::fs::read_to_string(&path).unwrap().as_str()) {
                left.push(format!(
                    "{name}: list samples/{} in mod.rs",
                    path.file_name().unwrap().to_string_lossy()
                ));
            }
        }
    }
    assert!(left.is_empty(), "fill these in:\n  {}", left.join("\n  "));
}

#[test]
fn every_signed_sample_verifies_and_is_read() {
    for kind in builtin() {
        let provider = dev(&kind);
        for (event_type, sample) in kind.sample_list() {
            let body = hooklatch_receive::provider::filled_sample(sample, "4711", NOW_S);
            let at = sign_at(&provider, event_type);
            let signed =
                provider.sign(body.as_bytes(), &at).unwrap_or_else(|why| panic!("{}: {why}", kind.kind()));
            let request = request(&signed.headers, &signed.body, &at.url, NOW_S);
            let verified =
                provider.verify(request).unwrap_or_else(|why| panic!("{} {event_type}: {why}", kind.kind()));
            let events = provider.read(&verified);
            assert!(events[0].event_type.starts_with(event_type), "{} {event_type}", kind.kind());
            for event in events {
                assert_eq!(event.unreadable, None, "{} {event_type}", kind.kind());
            }
        }
    }
}

#[test]
fn ids_and_types_are_read_where_each_sender_puts_them() {
    #[track_caller]
    fn check(kind: &str, vector: &str, want: &[(&str, &str)]) {
        let kinds = builtin();
        let vectors: Vec<Vector> = serde_json::from_str(&vectors_of(kind)).unwrap();
        let vector = vectors.iter().find(|v| v.id == vector).unwrap();
        let provider = vector.provider(kinds.iter().find(|k| k.kind() == kind).unwrap()).unwrap();
        let verified = provider.verify(vector.request().unwrap()).unwrap();
        let events = provider.read(&verified);
        let got: Vec<_> = events.iter().map(|e| (e.key.event_id.as_str(), e.event_type.as_str())).collect();
        assert_eq!(got, want);
    }
    check("stripe", "stripe-043", &[("evt_1Pgc76G7bFhVfS0a", "payment_intent.succeeded")]);
    check("github", "github-own-ok", &[("d-1", "ping")]);
    let order = "content:3:e-1,pvvBGg1jgwSDz4kiHp1SlA";
    check("shopify", "shopify-own-ok", &[(order, "orders/paid")]);
    check("paystack", "paystack-149", &[("content:6:302961,xWLQMXuugE0ehv61HqUCtQ", "charge.success")]);
    let gocardless = [("EV00BD05S5VM2T", "subscriptions.created"), ("EV00BD05TB8K63", "mandates.created")];
    check("gocardless", "gocardless-020", &gocardless);
    check("adyen", "adyen-own-ok", &[("4:psp1,13:AUTHORISATION,4:true", "AUTHORISATION")]);
    check("slack", "slack-01", &[("Ev123ABC456", "message")]);
    check("standard_webhooks", "standard-webhooks-01", &[("msg_0cd6383212f782b8c082", "invoice.paid")]);
    let contact = "content:5:12345,1:1,3:123,c6M4UtDP_9uw-kTtx8fncg";
    check("hubspot", "hubspot-01", &[(contact, "contact.creation")]);
    check("alipay", "alipay-105", &[("2026010100222080000", "TRADE_SUCCESS")]);
    check(
        "coinbase_commerce",
        "coinbase_commerce-084",
        &[("24934862-d980-46cb-9402-43c81b0cdba6", "charge:confirmed")],
    );
    let issue = "content:8:2174add1,nukU0CK5PQ4hcp1xoqlw8A";
    check("linear", "linear-02", &[(issue, "Issue.create")]);
    check("mollie", "mollie-127", &[("tr_12345", "payment-link.paid")]);
}

#[test]
fn a_copy_with_other_volatile_fields_has_the_same_digest() {
    let kinds = builtin();
    let vectors: Vec<Vector> = serde_json::from_str(&vectors_of("stripe")).unwrap();
    let digest = |id: &str| {
        let vector = vectors.iter().find(|v| v.id == id).unwrap();
        let provider = vector.provider(kinds.iter().find(|k| k.kind() == "stripe").unwrap()).unwrap();
        let events = provider.read(&provider.verify(vector.request().unwrap()).unwrap());
        (events[0].key.clone(), events[0].digest)
    };
    assert_eq!(digest("stripe-112"), digest("stripe-113"));
}

#[test]
fn a_slack_challenge_is_answered_and_nothing_else_is_one() {
    let kind = builtin().into_iter().find(|k| k.kind() == "slack").unwrap();
    let provider = dev(&kind);
    let answer = |body: &str| {
        let at = sign_at(&provider, "");
        let signed = provider.sign(body.as_bytes(), &at).unwrap();
        provider.challenge(&provider.verify(request(&signed.headers, &signed.body, &at.url, NOW_S)).unwrap())
    };
    let reply = answer(r#"{"type":"url_verification","challenge":"3eZbrw1aB"}"#).unwrap();
    assert_eq!((reply.status, reply.body.as_str()), (200, "3eZbrw1aB"));
    assert_eq!(answer(r#"{"type":"event_callback","challenge":"3eZbrw1aB"}"#), None);
}

#[test]
fn an_event_without_an_id_that_can_be_kept_goes_by_its_content_and_says_why() {
    let kind = builtin().into_iter().find(|k| k.kind() == "stripe").unwrap();
    let provider = dev(&kind);
    #[track_caller]
    fn check(provider: &ActiveProvider, body: &str, want: &str) {
        let event = &read(provider, body)[0];
        let why = event.unidentified().unwrap_or_else(|| panic!("{body} has an id: {}", event.key.event_id));
        assert!(why.contains(want), "{why}");
        assert!(event.key.event_id.starts_with("content:") && event.unreadable.is_none(), "{body}");
    }
    check(&provider, r#"{"type":"x"}"#, "/id is missing");
    check(&provider, r#"{"id":""}"#, "/id is empty");
    check(&provider, &format!(r#"{{"id":"{}"}}"#, "x".repeat(300)), "300 bytes");
    check(&provider, "{\"id\":\"a\\u0000b\"}", "U+0000");
    check(&provider, "{\"id\":\"a\\nb\"}", "U+000A");
    for ours in ["unreadable:00", "conflict:00", "content:00", "signal:00"] {
        check(&provider, &format!(r#"{{"id":"{ours}"}}"#), "as only ours do");
    }
    let ids: Vec<String> = ["invoice.paid", "invoice.void"]
        .map(|event_type| read(&provider, &format!(r#"{{"type":"{event_type}"}}"#))[0].key.event_id.clone())
        .to_vec();
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn an_unreadable_body_is_an_event_of_its_own() {
    let kind = builtin().into_iter().find(|k| k.kind() == "stripe").unwrap();
    let provider = dev(&kind);
    for (body, want) in [("not json", "not JSON"), (r#"{"id":"a","id":"b"}"#, "twice")] {
        let event = &read(&provider, body)[0];
        let why = event.unreadable.as_deref().unwrap_or_else(|| panic!("{body} was readable"));
        assert!(why.contains(want), "{why}");
        assert!(event.key.event_id.starts_with("unreadable:"));
    }
}

fn read(provider: &ActiveProvider, body: &str) -> Vec<IncomingEvent> {
    let signed = provider.sign(body.as_bytes(), &sign_at(provider, "")).unwrap();
    provider.read(&provider.verify(request(&signed.headers, &signed.body, "", NOW_S)).unwrap())
}

#[test]
fn unsigned_senders_are_accepted_only_when_the_operator_configures_it() {
    let kind = builtin().into_iter().find(|k| k.kind() == "bitpay").unwrap();
    let raw = || request(&[], br#"{"data":{"id":"1"},"event":{"name":"x"}}"#, "", NOW_S);
    // As `serve --dev` has it, with `unverified = "accept"`.
    assert!(kind.dev(&DevKeys::default()).unwrap().verify(raw()).is_ok());
    let refused = kind.judge_with(&[], &KindSettings::default()).unwrap().verify(raw());
    assert_eq!(refused.unwrap_err(), VerifyError::Unsigned);
}

/// Holds one key, as if it had been fetched.
struct Fetched(String);

impl KeySource for Fetched {
    fn key(&self, setting: &str, id: &str) -> Option<String> {
        (setting == "jwks" && id == "bfbd5111-8e33-4643-8ced-b2e642a72f3c").then(|| self.0.clone())
    }
}

#[test]
fn a_key_outside_the_settings_is_fetched_by_its_id() {
    let kind = builtin().into_iter().find(|k| k.kind() == "plaid").unwrap();
    let vectors: Vec<Vector> = serde_json::from_str(&vectors_of("plaid")).unwrap();
    let vector = vectors.iter().find(|v| v.id == "plaid-own-ok").unwrap();
    let jwk = vector.settings["jwks"][0].to_string();
    let mut settings = KindSettings::default();
    settings.push("jwks", Some("other"), jwk.clone());
    let provider = kind.judge_with(&[], &settings).unwrap();
    let refused = provider.verify(vector.request().unwrap()).unwrap_err();
    assert_eq!(hooklatch_verify::failed_at(&refused).step, "secret", "{refused}");
    let provider = provider.with_key_source(std::sync::Arc::new(Fetched(jwk)));
    assert!(provider.verify(vector.request().unwrap()).is_ok());
}

#[test]
fn what_apple_signs_inside_a_notification_is_opened_and_has_to_be_of_the_same_app() {
    let kind = builtin().into_iter().find(|k| k.kind() == "apple_app_store").unwrap();
    let provider = dev(&kind);
    let read = |transaction: serde_json::Value| {
        let body = serde_json::json!({
            "notificationType": "DID_RENEW", "notificationUUID": "1", "signedDate": NOW_S * 1_000,
            "data": { "bundleId": "com.example", "environment": "Production", "signedTransactionInfo": transaction },
        });
        let at = sign_at(&provider, "DID_RENEW");
        let signed = provider.sign(body.to_string().as_bytes(), &at).unwrap();
        let verified = provider.verify(request(&signed.headers, &signed.body, &at.url, NOW_S)).unwrap();
        provider.read(&verified).remove(0)
    };
    let of = |bundle: &str, signed_s: i64| serde_json::json!({ "transactionId": "23456", "bundleId": bundle, "signedDate": signed_s * 1_000 });
    let event = read(of("com.example", NOW_S));
    assert_eq!((event.event_type.as_str(), event.unreadable), ("DID_RENEW", None));
    let payload: serde_json::Value = serde_json::from_slice(&event.payload).unwrap();
    assert_eq!(payload.pointer("/data/signedTransactionInfo/transactionId").unwrap(), "23456");
    for (transaction, why) in [
        (of("com.example.other", NOW_S), "another app"),
        (of("com.example", 1_600_000_000), "not valid when it was signed"),
        (serde_json::json!("e30.e30.e30"), "no"),
        (serde_json::json!(7), "no text"),
    ] {
        let reason = read(transaction).unreadable.unwrap_or_default();
        assert!(reason.contains("/data/signedTransactionInfo") && reason.contains(why), "{why}: {reason}");
    }
}
