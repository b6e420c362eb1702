//! `TrueLayer`: a JWS with ES512 whose content is not in it: method, path, the headers that it names, and the body.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("payment_executed", include_str!("samples/payment_executed.json")),
        ("payment_authorized", include_str!("samples/payment_authorized.json")),
        ("payout_executed", include_str!("samples/payout_executed.json")),
        (
            "single_immediate_payment_status_changed",
            include_str!("samples/single_immediate_payment_status_changed.json"),
        ),
    ])
}

/// Signed among the headers that a signature names.
const TIME: &str = "x-tl-webhook-timestamp";
const SIGNATURE: &str = "tl-signature";
/// Most headers that a signature may name.
const NAMES_N_MAX: usize = 32;

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let malformed = |why| VerifyError::malformed(SIGNATURE, why);
    let text = deciding_header(&request.headers, SIGNATURE)?;
    // What it says of itself decides which content it is of; nothing of that is believed yet.
    let head = Jws::parse_detached(text, b"").ok_or_else(|| malformed("it is no detached JWS"))?;
    if head.header("/alg").as_deref() != Some("ES512") || head.header("/tl_version").as_deref() != Some("2") {
        return Err(malformed("it is not of version 2, with ES512"));
    }
    let kid = head.header("/kid").ok_or_else(|| malformed("it names no key"))?;
    let key = keys.public_key("jwks", &kid)?;
    let names = head.header("/tl_headers").unwrap_or_default();
    if keys.is_age_bounded() {
        if !names.split(',').any(|name| name.eq_ignore_ascii_case(TIME)) {
            return Err(malformed("it does not cover the time"));
        }
        let time = deciding_header(&request.headers, TIME)?;
        check_timestamp(keys, TimeUnit::Rfc3339, TIME, time, request.received_at_ms)?;
    }
    let headers = signed_headers(request, &names)?;
    let (path, query) = path_and_query(&request.url);
    let other = path.strip_suffix('/').map_or_else(|| format!("{path}/"), str::to_owned);
    // Whether a query is a part of the path is not documented.
    let whole = query.map(|query| format!("{path}?{query}"));
    let paths = [Some(path), Some(other.as_str()), whole.as_deref()];
    for path in paths.into_iter().flatten() {
        let start = format!("{} {path}\n{headers}", request.method);
        let jws = Jws::parse_detached(text, &[start.as_bytes(), &request.body].concat());
        if jws.is_some_and(|jws| jws.verified(&key).is_some()) {
            return Ok(Authenticated::of(0, &[&request.body]));
        }
    }
    Err(VerifyError::mismatch(keys))
}

/// The lines of the headers that a signature names, in its order and its spelling; one that is missing is empty.
fn signed_headers(request: &RawRequest, names: &str) -> Result<String, VerifyError> {
    let names = || names.split(',').filter(|name| !name.is_empty());
    let is_name = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    if names().count() > NAMES_N_MAX || !names().all(is_name) {
        return Err(VerifyError::malformed(SIGNATURE, "it names headers that are none, or too many"));
    }
    let lines = names().map(|name| match deciding_header(&request.headers, name) {
        Ok(value) => Ok(format!("{name}: {value}\n")),
        Err(VerifyError::HeaderMissing(_)) => Ok(format!("{name}: \n")),
        Err(why) => Err(why),
    });
    lines.collect()
}

fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let time = rfc3339_text(at.now_s);
    let head = json!({
        "alg": "ES512",
        "kid": keys.id_of("jwks")?,
        "tl_version": "2",
        "tl_headers": "X-TL-Webhook-Timestamp",
        "jku": "https://webhooks.truelayer.com/.well-known/jwks",
    });
    let start = format!("POST {}\nX-TL-Webhook-Timestamp: {time}\n", path_and_query(&at.url).0);
    let text = jws_detached(keys, PublicScheme::P521Fixed, &head, &[start.as_bytes(), body].concat())?;
    Ok(Signed::json(body.to_vec()).with(TIME, time).with(SIGNATURE, text))
}
