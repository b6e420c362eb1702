//! Alipay: RSA over the sorted form (China), or over method, path, client and body (Alipay+, Antom).

use crate::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("TRADE_SUCCESS", include_str!("samples/TRADE_SUCCESS.json")),
        ("TRADE_CLOSED", include_str!("samples/TRADE_CLOSED.json")),
        ("TRADE_FINISHED", include_str!("samples/TRADE_FINISHED.json")),
    ])
}

/// Where the public keys are.
const KEYS: &str = "alipay_public_key_pem";

fn verify(request: &RawRequest, keys: &Keys) -> Result<Believed, VerifyError> {
    secret_of(request, keys).map(|secret_n| Believed::of(secret_n, &[&request.body]))
}

fn secret_of(request: &RawRequest, keys: &Keys) -> Result<usize, VerifyError> {
    if request.headers.contains_key("signature") { global(request, keys) } else { notify(request, keys) }
}

/// All fields but `sign`, sorted, decoded, without empty ones. Only RSA2 is taken, whatever `sign_type` says;
/// some products sign `sign_type` as well.
fn notify(request: &RawRequest, keys: &Keys) -> Result<usize, VerifyError> {
    let form = Form::parse(&request.body).ok_or_else(|| VerifyError::malformed("body", Form::TOO_MANY))?;
    let malformed = |why| VerifyError::malformed("sign", why);
    let sign = form.one("sign").ok_or_else(|| malformed("it is missing, or there twice"))?;
    let sign = std::str::from_utf8(sign).ok().and_then(decode_base64);
    let sign = sign.ok_or_else(|| malformed("it is not base64"))?;
    let mut pairs = form.into_pairs();
    pairs.retain(|(name, value)| name != b"sign" && !value.is_empty());
    pairs.sort();
    if pairs.windows(2).any(|pair| matches!(pair, [(one, _), (other, _)] if one == other)) {
        return Err(malformed("a field is there twice"));
    }
    let without: Vec<_> = pairs.iter().filter(|(name, _)| name != b"sign_type").cloned().collect();
    let is_signed = |pairs: &[_]| matches_any(keys, &joined(pairs), &sign);
    is_signed(&without).or_else(|| is_signed(&pairs)).ok_or_else(|| VerifyError::mismatch(keys))
}

fn joined(pairs: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let texts: Vec<Vec<u8>> =
        pairs.iter().map(|(name, value)| [name.as_slice(), b"=", value].concat()).collect();
    texts.join(&b'&')
}

fn global(request: &RawRequest, keys: &Keys) -> Result<usize, VerifyError> {
    const NAME: &str = "signature";
    let value = deciding_header(&request.headers, NAME)?;
    let part =
        |name: &str| value.split(',').find_map(|item| item.trim().strip_prefix(name)?.strip_prefix('='));
    if part("algorithm") != Some("RSA256") {
        return Err(VerifyError::malformed(NAME, "its algorithm is not RSA256"));
    }
    // Base64 that is percent-encoded; a `+` in it stays one.
    let text = part("signature").map(|text| text.replace('+', "%2B")).unwrap_or_default();
    let form = Form::parse(format!("s={text}").as_bytes());
    let signature = form.as_ref().and_then(|form| form.text("s")).and_then(decode_base64);
    let signature = signature.ok_or_else(|| VerifyError::malformed(NAME, "it holds no base64 signature"))?;
    let client = deciding_header(&request.headers, "client-id")?;
    let time = deciding_header(&request.headers, "request-time")?;
    let (path, query) = path_and_query(&request.url);
    let whole = query.map(|query| format!("{path}?{query}"));
    let is_signed = |path: &str| {
        let head = format!("{} {path}\n{client}.{time}.", request.method);
        matches_any(keys, &[head.as_bytes(), &request.body].concat(), &signature)
    };
    let matched = whole.as_deref().and_then(is_signed).or_else(|| is_signed(path));
    matched.ok_or_else(|| VerifyError::mismatch(keys))
}

fn matches_any(keys: &Keys, message: &[u8], signature: &[u8]) -> Option<usize> {
    keys.settings().all(KEYS).position(|setting| {
        PublicKey::parse(setting.value.reveal())
            .is_some_and(|key| key.verifies(PublicScheme::RsaSha256, message, signature))
    })
}

/// As China does; a body that is JSON as Alipay+ and Antom do.
fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    if body.trim_ascii_start().starts_with(b"{") {
        let signed = Signed::json(body.to_vec())
            .with("client-id", "hooklatch")
            .with("request-time", rfc3339_text(at.now_s));
        let head = format!("POST {}\nhooklatch.{}.", path_and_query(&at.url).0, rfc3339_text(at.now_s));
        let signature = keys.sign_public(PublicScheme::RsaSha256, &[head.as_bytes(), body].concat())?;
        let text = base64_text(&signature).replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        return Ok(signed.with("signature", format!("algorithm=RSA256,keyVersion=1,signature={text}")));
    }
    let mut pairs = Form::parse(body).unwrap_or_default().into_pairs();
    pairs.retain(|(name, value)| name != b"sign" && name != b"sign_type" && !value.is_empty());
    pairs.sort();
    let signature = keys.sign_public(PublicScheme::RsaSha256, &joined(&pairs))?;
    Ok(Signed::form(form_with(body, "sign", &base64_text(&signature))))
}
