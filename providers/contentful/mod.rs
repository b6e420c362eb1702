//! Contentful: an HMAC over method, path, the headers it names, and body.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("ContentManagement.Entry.publish", include_str!("samples/ContentManagement.Entry.publish.json")),
        ("ContentManagement.Entry.save", include_str!("samples/ContentManagement.Entry.save.json")),
        ("ContentManagement.Asset.publish", include_str!("samples/ContentManagement.Asset.publish.json")),
    ])
}

const SIGNATURE: &str = "x-contentful-signature";
const NAMES: &str = "x-contentful-signed-headers";
/// Most headers that are signed along: each is copied before anybody is believed.
const NAMES_N_MAX: usize = 64;
const TIME: &str = "x-contentful-timestamp";

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let headers = &request.headers;
    let signature = decode_hex(deciding_header(headers, SIGNATURE)?);
    let signature = signature.ok_or_else(|| VerifyError::malformed(SIGNATURE, "it is not hexadecimal"))?;
    let names: Vec<String> =
        deciding_header(headers, NAMES)?.split(',').map(|name| name.trim().to_ascii_lowercase()).collect();
    let is_again = |(n, name): (usize, &String)| names.iter().take(n).any(|other| other == name);
    if names.len() > NAMES_N_MAX || names.iter().enumerate().any(is_again) {
        return Err(VerifyError::malformed(NAMES, "it names more headers than are sent, or one twice"));
    }
    if [NAMES, TIME].iter().any(|needed| names.iter().all(|name| name != needed)) {
        return Err(VerifyError::malformed(NAMES, "the timestamp and this header itself must be signed"));
    }
    let time = deciding_header(headers, TIME)?;
    // To the SDK thirty seconds are too old already.
    check_timestamp(keys, TimeUnit::Ms, TIME, time, request.received_at_ms.saturating_add(1))?;
    let mut pairs = Vec::new();
    for name in &names {
        pairs.push(format!("{name}:{}", deciding_header(headers, name)?.trim()));
    }
    let head = head(request.method.as_str(), &request.url, pairs);
    let parts: [&[u8]; 2] = [head.as_bytes(), &request.body];
    let secret_n = keys.mac_matches(&parts, &signature).ok_or_else(|| VerifyError::mismatch(keys))?;
    Ok(Authenticated::of(secret_n, &parts).at(time))
}

fn head(method: &str, url: &str, mut pairs: Vec<String>) -> String {
    pairs.sort();
    let (path, query) = path_and_query(url);
    let query = query.filter(|query| !query.is_empty());
    let query = query.map(|query| format!("?{}", escaped(query, b"-._~!'()*"))).unwrap_or_default();
    let uri = escaped(&format!("{path}{query}"), b";,/?:@&=+$-_.!~*'()#");
    format!("{method}\n{uri}\n{}\n", pairs.join(";"))
}

/// Percent-encoded, but for letters, digits and `kept`: the query as one text, and then all of it once more, as
/// the SDK does with `querystring.escape` and `encodeURI`.
fn escaped(text: &str, kept: &[u8]) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ if kept.contains(&byte) => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let topic = "x-contentful-topic";
    let signed = Signed::json(body.to_vec())
        .with(topic, at.event_type.clone())
        .with(NAMES, format!("{NAMES},{TIME},{topic}"))
        .with(TIME, at.now_s.saturating_mul(1_000).to_string());
    let pairs = signed.headers.iter().skip(1).map(|(name, value)| format!("{name}:{value}")).collect();
    let head = head("POST", &at.url, pairs);
    let mac = keys.mac(&[head.as_bytes(), body]).ok_or(SignError::NoSigningKey)?;
    Ok(signed.with(SIGNATURE, hex_text(&mac)))
}
