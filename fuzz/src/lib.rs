//! What is fuzzed: plain functions of bytes that panic when something is wrong. Shared by `fuzz_targets/` and by
//! `tests/it/fuzz.rs`, which runs them on stable, with seeds and mutations of real requests, for a bounded time.

use std::sync::OnceLock;

use bytes::Bytes;
use hooklatch::kind::prelude::*;
use hooklatch_receive::provider::{ActiveProvider, Kind, filled_sample};
use hooklatch_receive::vectors::judge;
use hooklatch_verify::DevKeys;
use hooklatch_verify::spec::{Spec, Weakness};
use http::{HeaderMap, HeaderName, HeaderValue};

/// When requests are signed and judged. Unix seconds.
const NOW_S: i64 = 1_767_225_600;
/// Kinds whose signature covers the fields of the body, not its bytes.
const SIGN_FIELDS: [&str; 11] = [
    "adyen",
    "alipay",
    "apple_app_store",
    "aws_sns",
    "billplz",
    "braintree",
    "nowpayments",
    "paddle_classic",
    "payfast",
    "redsys",
    "twilio",
];

/// A kind that we can sign for, and what it signed.
struct Signing {
    provider: ActiveProvider,
    url: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    ids: Vec<String>,
}

fn request(headers: &[(String, Vec<u8>)], body: &[u8], url: &str) -> RawRequest {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        // What is no header never reaches us.
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value))
        {
            map.append(name, value);
        }
    }
    RawRequest {
        method: http::Method::POST,
        url: url.to_owned(),
        headers: map,
        body: Bytes::copy_from_slice(body),
        received_at_ms: NOW_S * 1_000,
    }
}

fn kinds() -> &'static [Provider] {
    static KINDS: OnceLock<Vec<Provider>> = OnceLock::new();
    KINDS.get_or_init(hooklatch_receive::providers::builtin)
}

fn dev_kinds() -> &'static [ActiveProvider] {
    static KINDS: OnceLock<Vec<ActiveProvider>> = OnceLock::new();
    KINDS.get_or_init(|| kinds().iter().filter_map(|kind| kind.dev(&DevKeys::default()).ok()).collect())
}

fn ids(provider: &ActiveProvider, verified: &hooklatch_verify::Verified) -> Vec<String> {
    provider.read(verified).iter().map(|event| event.key.event_id.clone()).collect()
}

fn signing_kinds() -> &'static [Signing] {
    static KINDS: OnceLock<Vec<Signing>> = OnceLock::new();
    let signing = |kind: &Provider| {
        let provider = kind.dev(&DevKeys::default()).ok()?;
        let samples = kind.sample_list();
        let (event_type, sample) = samples.first()?;
        let url = provider.url().to_owned();
        let at = SignAt {
            now_s: NOW_S,
            url: url.clone(),
            id: "id_1".to_owned(),
            event_type: (*event_type).to_owned(),
        };
        let signed = provider.sign(filled_sample(sample, "1", NOW_S).as_bytes(), &at).ok()?;
        let raw: Vec<_> =
            signed.headers.iter().map(|(name, value)| (name.clone(), value.clone().into_bytes())).collect();
        let verified = provider.verify(request(&raw, &signed.body, &url)).ok()?;
        let ids = ids(&provider, &verified);
        Some(Signing { provider, url, headers: signed.headers, body: signed.body, ids })
    };
    KINDS.get_or_init(|| kinds().iter().filter_map(signing).collect())
}

/// How many of the first bytes of an input only choose.
const CHOICE_BYTES: usize = 4;

/// Takes the bytes off that choose; the rest is content.
fn choice(data: &[u8]) -> ([usize; CHOICE_BYTES], &[u8]) {
    let (first, rest) = data.split_at(data.len().min(CHOICE_BYTES));
    let mut choice = [0; CHOICE_BYTES];
    for (to, from) in choice.iter_mut().zip(first) {
        *to = usize::from(*from);
    }
    (choice, rest)
}

/// Any text in the headers that decide, for any kind: never a panic, and believed only where nothing is signed.
pub fn headers(data: &[u8]) {
    let ([kind, at, ..], rest) = choice(data);
    let Some(provider) = dev_kinds().get(kind % dev_kinds().len()) else { return };
    let spec = provider.spec();
    let (value, body) = rest.split_at(rest.len().min(at));
    let stems = ["", "id", "timestamp", "signature", "1"];
    let names = spec.signature.headers.iter().flat_map(|name| {
        stems.map(|stem| format!("{}{stem}", name.trim_end_matches('*'))).into_iter().chain([name.clone()])
    });
    let more =
        [&spec.signature.timestamp_header, &spec.signature.key_id_header].into_iter().flatten().cloned();
    let headers: Vec<_> = names.chain(more).map(|name| (name, value.to_vec())).collect();
    let url = format!("https://a.example/x?{}", String::from_utf8_lossy(value));
    let raw = request(&headers, body, &url);
    drop(provider.handshake(&raw));
    let verified = provider.verify(raw);
    assert!(
        verified.is_err() || spec.signature.weak == Some(Weakness::Unsigned),
        "{} believed what was not signed",
        spec.kind
    );
    if let Ok(verified) = verified {
        drop(ids(provider, &verified));
    }
    drop(provider.stored_content("{}", &Bytes::copy_from_slice(body)));
}

/// Any text in every place where a handshake looks for one: what is answered is the signature of no body.
pub fn handshakes(data: &[u8]) {
    let ([kind, how, at, _], rest) = choice(data);
    let Some(provider) = dev_kinds().get(kind % dev_kinds().len()) else { return };
    let spec = provider.spec();
    if spec.signature.weak == Some(Weakness::Unsigned) {
        return;
    }
    let escaped: String = rest
        .iter()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() { char::from(*byte).to_string() } else { format!("%{byte:02X}") }
        })
        .collect();
    let names = ["crc_token", "bt_challenge", "challenge", "hub.challenge", "validationToken", "jwt"];
    let query: Vec<String> = names.iter().map(|name| format!("{name}={escaped}")).collect();
    let headers: Vec<_> =
        spec.handshake.iter().filter_map(|one| Some((one.header.clone()?, rest.to_vec()))).collect();
    let mut raw = request(&headers, rest, &format!("{}?{}", provider.url(), query.join("&")));
    raw.method = [http::Method::GET, http::Method::HEAD, http::Method::OPTIONS, http::Method::POST]
        .get(how % 4)
        .cloned()
        .unwrap_or_default();
    let Some(reply) = provider.handshake(&raw) else { return };
    let answer: serde_json::Value = serde_json::from_str(&reply.body).unwrap_or_default();
    let said = answer.get("response_token").and_then(serde_json::Value::as_str).unwrap_or(&reply.body);
    let signature: Vec<_> =
        spec.signature.headers.iter().map(|name| (name.clone(), said.as_bytes().to_vec())).collect();
    let mut body = rest.to_vec();
    if at % 2 == 1 {
        body = format!("bt_signature={}&bt_payload={escaped}", said.replace('|', "%7C")).into_bytes();
    }
    let is_authenticated = provider.verify(request(&signature, &body, provider.url())).is_ok();
    assert!(!is_authenticated, "{} believed what it signed for a stranger: {}", spec.kind, reply.body);
}

/// A signed request, changed: believed only while what is signed is as it was.
pub fn requests(data: &[u8]) {
    let ([kind, how, at, further], rest) = choice(data);
    let Some(signed) = signing_kinds().get(kind % signing_kinds().len()) else { return };
    let mut headers: Vec<(String, Vec<u8>)> =
        signed.headers.iter().map(|(name, value)| (name.clone(), value.clone().into_bytes())).collect();
    let mut body = signed.body.clone();
    let header_n = further % headers.len().max(1);
    match how % 6 {
        0 => splice(&mut body, at * 256 + further, rest),
        1 => headers.get_mut(header_n).into_iter().for_each(|(_, value)| splice(value, at, rest)),
        2 => {
            headers.get_mut(header_n).into_iter().for_each(|(_, value)| *value = rest.to_vec());
            splice(&mut body, at, rest);
        }
        3 => body = rest.to_vec(),
        4 => headers.extend(headers.get(header_n).cloned().map(|(name, _)| (name, rest.to_vec()))),
        _ => {
            splice(&mut body, at * 256, rest);
            headers.rotate_left(header_n);
        }
    }
    let raw = request(&headers, &body, &signed.url);
    drop(signed.provider.handshake(&raw));
    let Ok(verified) = signed.provider.verify(raw) else { return };
    let spec = signed.provider.spec();
    let found = ids(&signed.provider, &verified);
    drop(signed.provider.challenge(&verified));
    if spec.signature.weak.is_some() {
        return;
    }
    let is_same_body = body == signed.body || SIGN_FIELDS.contains(&spec.kind.as_str());
    assert!(is_same_body, "{} believed another body: {}", spec.kind, String::from_utf8_lossy(&body));
    let is_signed = spec.event.iter().flat_map(|event| &event.identity).all(|identity| identity.signed)
        && !SIGN_FIELDS.contains(&spec.kind.as_str());
    let is_readable = found.iter().all(|id| !id.starts_with("unreadable:"));
    assert!(
        !is_signed || !is_readable || found == signed.ids,
        "{} believed another id: {found:?}",
        spec.kind
    );
}

/// Lays `with` over `text` from `at` on.
fn splice(text: &mut Vec<u8>, at: usize, with: &[u8]) {
    let from = at % (text.len() + 1);
    let to = (from + with.len()).min(text.len());
    text.splice(from..to, with.iter().copied());
}

/// Any text as a `provider.toml`: refused with reasons, or a kind that stands any request.
pub fn specs(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(mistakes) = Spec::parse_all(text) {
        assert!(!mistakes.is_empty(), "refused without a reason: {text}");
        return;
    }
    let Ok(provider) = Provider::from_spec(text).dev(&DevKeys::default()) else { return };
    let at = SignAt {
        now_s: NOW_S,
        url: provider.url().to_owned(),
        id: "1".to_owned(),
        event_type: "t".to_owned(),
    };
    let Ok(signed) = provider.sign(b"{\"id\":\"1\",\"type\":\"t\"}", &at) else { return };
    let headers: Vec<_> =
        signed.headers.into_iter().map(|(name, value)| (name, value.into_bytes())).collect();
    let raw = request(&headers, &signed.body, &at.url);
    drop(provider.handshake(&raw));
    if let Ok(verified) = provider.verify(raw) {
        drop(ids(&provider, &verified));
        drop(provider.challenge(&verified));
    }
}

/// Forms, queries and PHP's `serialize`.
pub fn forms(data: &[u8]) {
    let Some(form) = Form::parse(data) else { return };
    for (name, value) in form.pairs() {
        let Ok(name) = std::str::from_utf8(name) else { continue };
        let one = form.one(name);
        assert!(one.is_none() || one == Some(value.as_slice()), "another value of {name}");
    }
    let written = php_serialized(form.pairs());
    assert!(
        written.starts_with(format!("a:{}:{{", form.pairs().len()).as_bytes()) && written.ends_with(b"}")
    );
    if let Ok(url) = std::str::from_utf8(data) {
        let (path, query) = path_and_query(url);
        assert!(url.contains(query.unwrap_or_default()) && (path == "/" || url.contains(path)));
        drop(query_value(url, "a"));
    }
}

/// JSON by raw text, and written again.
pub fn json(data: &[u8]) {
    let plain: Option<serde_json::Value> = serde_json::from_slice(data).ok();
    for rewrite in [compact_json, sorted_json] {
        let Some(written) = rewrite(data) else { continue };
        assert_eq!(rewrite(&written).as_ref(), Some(&written), "written again it is another text");
        if let Some(plain) = &plain {
            let again: serde_json::Value = serde_json::from_slice(&written).expect("JSON");
            assert!(plain.is_object() == again.is_object() && plain.is_array() == again.is_array());
        }
    }
    for pointer in ["", "/id", "/a/0", "/0/b", "/data/object/id", "/~0~1"] {
        if let (Some(raw), true) = (json_raw(data, pointer), plain.is_some()) {
            assert!(serde_json::from_slice::<serde_json::Value>(raw).is_ok(), "{pointer} is no JSON");
        }
        drop(json_text(data, pointer));
        json_is_missing(data, pointer);
        for element in json_elements(data, pointer).unwrap_or_default() {
            drop(json_text(element, "/id"));
        }
    }
}

/// Compact JWS: taken apart, and never believed by a key that did not sign it.
pub fn jws(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let secret = b"a secret that signed nothing of this";
    if let Some(jws) = Jws::parse(text) {
        for pointer in ["/alg", "/kid", "/typ", "/x5c/0"] {
            drop(jws.header(pointer));
        }
        assert_eq!(jws.verified_hs256(secret), None, "{text}");
        let key = PublicKey::Ed25519(vec![7; 32]);
        assert_eq!(jws.verified(&key), None, "{text}");
    }
    let ours = jws_hs256(secret, text);
    let claims = Jws::parse(&ours).and_then(|jws| jws.verified_hs256(secret).map(<[u8]>::to_vec));
    assert!(
        text.is_empty() || ours.len() > 4_096 || claims.as_deref() == Some(text.as_bytes()),
        "what we sign is believed"
    );
}

/// Public keys and certificates in PEM, DER, JWK and hexadecimal.
pub fn keys(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for text in [
        text.to_string(),
        base64_text(data),
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----", base64_text(data)),
    ] {
        if let Some(key) = PublicKey::parse(&text) {
            for scheme in [
                PublicScheme::Ed25519,
                PublicScheme::P256Der,
                PublicScheme::P256Fixed,
                PublicScheme::RsaSha256,
            ] {
                assert!(!key.verifies(scheme, b"no one signed this", data), "a forged signature");
            }
        }
        if let Some(certificate) = Certificate::parse(&text) {
            certificate.is_valid_at(NOW_S);
        }
    }
}

/// Files of vectors.
pub fn vectors(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        drop(judge(text, kinds()));
    }
}
