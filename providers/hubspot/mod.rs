//! HubSpot: v3 is an HMAC over method, URL, body and time; v1 and v2 are plain digests of the secret and those.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("contact.creation", include_str!("samples/contact.creation.json")),
        ("deal.propertyChange", include_str!("samples/deal.propertyChange.json")),
        ("company.deletion", include_str!("samples/company.deletion.json")),
        ("contact.propertyChange", include_str!("samples/contact.propertyChange.json")),
    ])
}

const V3: &str = "x-hubspot-signature-v3";
const TIME: &str = "x-hubspot-request-timestamp";
const OLD: &str = "x-hubspot-signature";
const VERSION: &str = "x-hubspot-signature-version";
/// The setting that allows requests without a v3 signature, and its word for it.
const REQUIRE: &str = "require";
const ANY: &str = "any";
/// What HubSpot decodes in a URL before it signs it; other escapes stay.
const DECODED: [(&str, &str); 12] = [
    ("%3A", ":"),
    ("%2F", "/"),
    ("%3F", "?"),
    ("%40", "@"),
    ("%21", "!"),
    ("%24", "$"),
    ("%27", "'"),
    ("%28", "("),
    ("%29", ")"),
    ("%2A", "*"),
    ("%2C", ","),
    ("%3B", ";"),
];

/// All versions are sent together: with a v3 signature nothing else is looked at.
fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let headers = &request.headers;
    if !headers.contains_key(V3) {
        return verify_old(request, keys);
    }
    let signature = decode_base64(deciding_header(headers, V3)?);
    let signature = signature.ok_or_else(|| VerifyError::malformed(V3, "it is not base64"))?;
    let time = deciding_header(headers, TIME)?;
    check_timestamp(keys, TimeUnit::Ms, TIME, time, request.received_at_ms)?;
    let url = decoded(&request.url);
    let parts: [&[u8]; 4] =
        [request.method.as_str().as_bytes(), url.as_bytes(), &request.body, time.as_bytes()];
    let secret_n = keys.mac_matches(&parts, &signature).ok_or_else(|| VerifyError::mismatch(keys))?;
    Ok(Authenticated::of(secret_n, &parts).at(time))
}

/// v1 and v2 cover no time, and are digests open to length extension: an extended body is not JSON.
fn verify_old(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    if keys.settings().text(REQUIRE) != Some(ANY) {
        return Err(VerifyError::malformed(
            V3,
            "it is missing; the setting require = \"any\" allows older ones",
        ));
    }
    let signature = decode_hex(deciding_header(&request.headers, OLD)?);
    let signature = signature.ok_or_else(|| VerifyError::malformed(OLD, "it is not hexadecimal"))?;
    let (method, url) = match deciding_header(&request.headers, VERSION)? {
        "v1" => ("", ""),
        "v2" => (request.method.as_str(), request.url.as_str()),
        _ => return Err(VerifyError::malformed(VERSION, "it is neither v1 nor v2")),
    };
    let parts: [&[u8]; 3] = [method.as_bytes(), url.as_bytes(), &request.body];
    let is_signed = |secret: &str| {
        let digest = digest(Hash::Sha256, &[&[secret.as_bytes()], &parts[..]].concat());
        same(&digest, &signature)
    };
    let secret_n = keys.secrets().position(is_signed).ok_or_else(|| VerifyError::mismatch(keys))?;
    if !request.body.is_empty() && Json::parse(&request.body).is_none() {
        return Err(VerifyError::malformed(
            "body",
            "it is no JSON, and an old signature can be made to cover such",
        ));
    }
    Ok(Authenticated::of(secret_n, &parts))
}

fn decoded(url: &str) -> String {
    DECODED.iter().fold(url.to_owned(), |url, (escape, text)| {
        url.replace(escape, text).replace(&escape.to_ascii_lowercase(), text)
    })
}

fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let (time, url) = (at.now_s.saturating_mul(1_000).to_string(), decoded(&at.url));
    let parts: [&[u8]; 4] = [b"POST", url.as_bytes(), body, time.as_bytes()];
    let mac = keys.mac(&parts).ok_or(SignError::NoSigningKey)?;
    Ok(Signed::json(body.to_vec()).with(TIME, time).with(V3, base64_text(&mac)))
}
