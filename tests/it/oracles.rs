//! Signing oracles: a handshake answers without authentication, so no answer may be the valid signature of a body.

use hooklatch_receive::provider::{ActiveProvider, Kind, filled_sample};
use hooklatch_receive::providers::builtin;
use hooklatch_verify::spec::{LayoutSlot, Piece};

use crate::database::{Database, on_sqlite};
use crate::process::{Server, client};
use crate::providers::{NOW_S, dev, request, sign_at};

on_sqlite!(a_text_signed_by_a_handshake_is_no_event);

/// Kinds that answer handshakes with code: a new one also says below how its answer would be sent as a signature.
const BY_CODE: [&str; 1] = ["braintree"];

/// Bodies of all shapes, and texts that are none.
fn bodies(provider: &ActiveProvider, samples: &[(&str, &str)]) -> Vec<String> {
    let mut bodies: Vec<String> = samples.iter().map(|(_, text)| filled_sample(text, "1", NOW_S)).collect();
    let more = [
        "{}",
        r#"{"id":"1","type":"t","kind":"t"}"#,
        "[]",
        "1",
        "\"text\"",
        "null",
        "a",
        "id=1&type=t",
        "-_09azAZ",
        "00000000000000000000",
        "20f9f8ed05f77439fe955c977e4c8a53",
        "PD94bWwgdmVyc2lvbj0iMS4wIj8+",
        "<notification/>",
    ];
    bodies.extend(more.map(str::to_owned));
    bodies.push("a".repeat(128));
    // The signed parts besides the body, as an attacker would fill them in.
    let spec = &provider.spec().signature;
    let signed = |body: &String| -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Literal(text) => text.clone(),
            Piece::Timestamp => NOW_S.to_string(),
            Piece::Body => body.clone(),
            Piece::Url => provider.url().to_owned(),
            Piece::Method => "POST".to_owned(),
            _ => String::new(),
        };
        spec.signed.pieces().iter().map(piece).collect()
    };
    let texts: Vec<String> = bodies.iter().map(signed).collect();
    bodies.extend(texts);
    bodies
}

/// Where the kind's handshakes look for a text.
fn places(provider: &ActiveProvider) -> (Vec<String>, Vec<String>) {
    let (mut queries, mut headers) = (vec!["bt_challenge".to_owned()], Vec::new());
    for handshake in &provider.spec().handshake {
        queries.extend(handshake.query.clone());
        headers.extend(handshake.header.clone());
        let templates = handshake.json.values().chain(handshake.headers.values()).chain([&handshake.body]);
        for piece in templates
            .chain(handshake.mac.iter().map(|mac| &mac.of))
            .flat_map(hooklatch_verify::spec::Pattern::pieces)
        {
            match piece {
                Piece::Query(name) => queries.push(name.clone()),
                Piece::Header(name) => headers.push(name.clone()),
                _ => {}
            }
        }
    }
    queries.sort();
    queries.dedup();
    headers.sort();
    headers.dedup();
    (queries, headers)
}

/// What the kind answers to `text` wherever it may be said, by any method: words that were not in the question.
fn answers(provider: &ActiveProvider, text: &str) -> Vec<String> {
    let (queries, headers) = places(provider);
    let escaped: String = form_urlencoded::byte_serialize(text.as_bytes()).collect();
    let mut query: Vec<String> = queries.iter().map(|name| format!("{name}={escaped}")).collect();
    query.push("hub.verify_token=hooklatch-dev-verify-token".to_owned());
    let url = format!("{}?{}", provider.url(), query.join("&"));
    let is_header = http::HeaderValue::from_str(text).is_ok();
    let headers: Vec<_> = headers.into_iter().filter(|_| is_header).map(|n| (n, text.to_owned())).collect();
    let mut words = Vec::new();
    for method in ["GET", "HEAD", "OPTIONS", "POST"] {
        let mut raw = request(&headers, text.as_bytes(), &url, NOW_S);
        raw.method = method.parse().unwrap();
        let Some(reply) = provider.handshake(&raw) else { continue };
        let json: serde_json::Value = serde_json::from_str(&reply.body).unwrap_or_default();
        let texts = json.as_object().into_iter().flatten();
        let texts: Vec<&str> = texts.filter_map(|(_, value)| value.as_str()).collect();
        let body = if texts.is_empty() { vec![reply.body.as_str()] } else { texts };
        let values = reply.headers.iter().map(|(_, value)| value.as_str()).chain(body);
        let is_word = |c: char| c.is_ascii_alphanumeric() || "+/=_-".contains(c);
        for value in values {
            let split = value.split(|c| !is_word(c)).chain([value]);
            let stems = split.flat_map(|word| [word, word.split_once('=').map_or(word, |(_, rest)| rest)]);
            words.extend(stems.filter(|word| word.len() >= 16 && !text.contains(word)).map(str::to_owned));
        }
    }
    words
}

/// True when `body` verifies with `word` as its signature, wherever the kind carries one.
fn is_authenticated(provider: &ActiveProvider, word: &str, body: &str) -> bool {
    let spec = &provider.spec().signature;
    let value = spec.layout.written(|slot| match slot {
        LayoutSlot::Signature => word.to_owned(),
        LayoutSlot::Timestamp => NOW_S.to_string(),
        _ => "dev".to_owned(),
    });
    let now = NOW_S.to_string();
    let mut headers: Vec<(String, String)> =
        spec.timestamp_header.iter().map(|name| (name.clone(), now.clone())).collect();
    for name in &spec.headers {
        let name = name.trim_end_matches('*');
        for (stem, value) in [("", value.as_str()), ("id", "1"), ("timestamp", &now), ("1", word)] {
            headers.push((format!("{name}{stem}"), value.to_owned()));
        }
        headers.push((format!("{name}signature"), format!("v1,{word}")));
    }
    let braintree = format!("bt_signature=hooklatch_dev%7C{word}&bt_payload={body}");
    [body, &braintree]
        .into_iter()
        .any(|body| provider.verify(request(&headers, body.as_bytes(), provider.url(), NOW_S)).is_ok())
}

#[test]
fn no_handshake_answer_verifies_as_the_signature_of_a_body() {
    let mut signing = Vec::new();
    for kind in builtin() {
        let provider = dev(&kind);
        let spec = provider.spec();
        let is_by_code =
            provider.has_handshake("GET") && spec.handshake.iter().all(|one| one.method != "GET");
        assert!(!is_by_code || BY_CODE.contains(&spec.kind.as_str()), "{} is not in this test", spec.kind);
        if spec.signature.may_be_unsigned {
            continue;
        }
        let bodies = bodies(&provider, &kind.sample_list());
        for text in &bodies {
            for word in answers(&provider, text) {
                assert!(!text.starts_with(['{', '[', '<']), "{} signs {text}", spec.kind);
                signing.push(spec.kind.clone());
                for body in [text.clone(), format!("{text}\n"), format!(" {text}")] {
                    let url = form_urlencoded::byte_serialize(body.as_bytes()).collect::<String>();
                    for body in [body, url] {
                        assert!(
                            !is_authenticated(&provider, &word, &body),
                            "{}: {text} by {word}",
                            spec.kind
                        );
                    }
                }
            }
        }
    }
    signing.dedup();
    assert_eq!(signing, ["braintree", "x_twitter"], "those that answer with a signature, and no other");
}

#[test]
fn no_handshake_answers_with_what_signs_a_genuine_body() {
    for kind in builtin() {
        let provider = dev(&kind);
        for (event_type, sample) in kind.sample_list() {
            let at = sign_at(&provider, event_type);
            let Ok(signed) = provider.sign(filled_sample(sample, "1", NOW_S).as_bytes(), &at) else {
                continue;
            };
            let body = String::from_utf8_lossy(&signed.body).into_owned();
            let payload =
                body.rsplit_once("bt_payload=").map_or(body.clone(), |(_, payload)| payload.to_owned());
            for text in [body, payload] {
                let is_signature =
                    |word: &String| signed.headers.iter().any(|(_, value)| value.contains(word.as_str()));
                assert!(!answers(&provider, &text).iter().any(is_signature), "{}", kind.kind());
            }
        }
    }
}

async fn a_text_signed_by_a_handshake_is_no_event(database: &Database) {
    const PROVIDERS: &str = r#"
[providers.x_twitter]
secrets = ["consumer-secret-0123456789"]
[providers.braintree]
settings = { public_key = "my_public_key_01", private_key = "my_private_key_0123456789" }
"#;
    let server = Server::start(&database.url, PROVIDERS).await;
    let client = client();
    let get = async |path: String| {
        let response = client.get(server.url(&path)).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let post = async |path: &str, signature: &str, body: String| {
        let request = client.post(server.url(path)).header("x-twitter-webhooks-signature", signature);
        request.body(body).send().await.unwrap().status().as_u16()
    };
    let event = r#"{"for_user_id":"1","tweet_create_events":[{"id_str":"1"}]}"#;
    let escaped: String = form_urlencoded::byte_serialize(event.as_bytes()).collect();
    for text in [escaped.as_str(), "%7B%7D", "%5B%5D", "", "a%20b", &"a".repeat(129), "%C3%A9", "a%7B"] {
        let (status, said) = get(format!("/webhooks/x_twitter?crc_token={text}")).await;
        assert_eq!(status, 405, "{text}: {said}");
    }
    let (status, said) = get("/webhooks/x_twitter?crc_token=1234".to_owned()).await;
    assert_eq!(status, 200);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let signature = said["response_token"].as_str().unwrap();
    assert_eq!(post("/webhooks/x_twitter", signature, "1234".to_owned()).await, 401);
    assert_eq!(post("/webhooks/x_twitter", signature, event.to_owned()).await, 401);

    let challenge = "0".repeat(32);
    let (status, said) = get(format!("/webhooks/braintree?bt_challenge={challenge}")).await;
    assert_eq!(status, 200);
    let signed = format!("bt_signature={said}&bt_payload={challenge}");
    for form in [signed.clone(), format!("{signed}&junk={}", "A".repeat(1_000)), format!("{signed}%0A")] {
        assert_eq!(post("/webhooks/braintree", "", form).await, 401);
    }
    assert_eq!(database.count("SELECT COUNT(*) FROM processed_webhook_events").await, 0);
}
