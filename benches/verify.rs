//! What verification costs beside the bare digest: each kind's `verify` on a 2 KiB body against one HMAC
//! over the same bytes. `cargo bench --bench verify`.
#![expect(clippy::unwrap_used, reason = "a bench")]

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use hmac::{Hmac, KeyInit, Mac};
use hooklatch_receive::provider::Kind;
use hooklatch_verify::{DevKeys, RawRequest, SignAt};
use http::{HeaderMap, HeaderName, HeaderValue};
use sha2::Sha256;

const NOW_S: i64 = 1_767_225_600;

fn verify(c: &mut Criterion) {
    let body = format!(
        r#"{{"id":"evt_1","type":"x","webhookTimestamp":1767225600000,"data":{{"object":{{"text":"{}"}}}}}}"#,
        "x".repeat(2_000)
    );
    let mac = Hmac::<Sha256>::new_from_slice(b"key").unwrap();
    c.bench_function("bare HMAC-SHA-256", |b| {
        b.iter(|| {
            let mut mac = mac.clone();
            mac.update(body.as_bytes());
            mac.finalize()
        });
    });
    for kind in hooklatch_receive::providers::builtin() {
        let name = kind.kind().to_owned();
        if !["stripe", "github", "shopify", "slack", "square", "standard_webhooks", "linear", "twitch"]
            .contains(&name.as_str())
        {
            // One of each shape; the others have another digest, or sign fields.
            continue;
        }
        let provider = kind.dev(&DevKeys::default()).unwrap();
        let at = SignAt {
            now_s: NOW_S,
            url: provider.url().to_owned(),
            id: "id_1".to_owned(),
            event_type: "x".to_owned(),
        };
        let signed = provider.sign(body.as_bytes(), &at).unwrap();
        let mut headers = HeaderMap::new();
        for (key, value) in &signed.headers {
            headers.append(
                HeaderName::from_bytes(key.as_bytes()).unwrap(),
                HeaderValue::from_str(value).unwrap(),
            );
        }
        let request = RawRequest {
            method: http::Method::POST,
            url: at.url.clone(),
            headers,
            body: Bytes::from(signed.body),
            received_at_ms: NOW_S * 1_000,
        };
        c.bench_function(&format!("verify {name}"), |b| {
            b.iter_batched(
                || request.clone(),
                |request| provider.verify(request).unwrap(),
                criterion::BatchSize::SmallInput,
            );
        });
    }
}

criterion_group!(benches, verify);
criterion_main!(benches);
