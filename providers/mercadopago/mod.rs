//! Mercado Pago: an HMAC over a manifest of the URL's `data.id`, the request id and the time. Not the body.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("payment", include_str!("samples/payment.json")),
        ("topic_merchant_order_wh", include_str!("samples/topic_merchant_order_wh.json")),
        ("subscription_preapproval", include_str!("samples/subscription_preapproval.json")),
        ("automatic-payments", include_str!("samples/automatic-payments.json")),
        ("order", include_str!("samples/order.json")),
    ])
}

const NAME: &str = "x-signature";
const REQUEST: &str = "x-request-id";
/// Of the URL: what the notice is about.
const ID: &str = "data.id";

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let value = deciding_header(&request.headers, NAME)?;
    let part = |label: &str| {
        let mut parts =
            value.split(',').filter_map(|item| item.trim().strip_prefix(label)?.strip_prefix('='));
        let first = parts.next();
        first.filter(|_| parts.next().is_none())
    };
    let malformed = |why| VerifyError::malformed(NAME, why);
    let time = part("ts").ok_or_else(|| malformed("it holds no ts, or two"))?;
    let signature =
        part("v1").and_then(decode_hex).ok_or_else(|| malformed("it holds no v1 in hexadecimal"))?;
    let id = query_value(&request.url, ID);
    let request_id = if request.headers.contains_key(REQUEST) {
        Some(deciding_header(&request.headers, REQUEST)?)
    } else {
        None
    };
    // The documentation wants the id in lower case, the SDK takes it as it comes.
    let lower = id.as_ref().map(|id| id.to_lowercase());
    let matched = |id: Option<&str>| {
        let manifest = manifest(id, request_id, time);
        let secret_n = keys.mac_matches(&[&manifest], &signature)?;
        Some(Authenticated::of(secret_n, &[manifest.as_bytes()]).at(time))
    };
    let authenticated = matched(lower.as_deref()).or_else(|| matched(id.as_deref()));
    let authenticated = authenticated.ok_or_else(|| VerifyError::mismatch(keys))?;
    // The URL's id is signed and the body is not.
    let body_id = json_text(&request.body, "/data/id").ok();
    match (lower, body_id) {
        (Some(signed), Some(body_id)) if body_id.to_lowercase() != signed => {
            Err(VerifyError::malformed(ID, "the body is about another one than the URL"))
        }
        _ => Ok(authenticated),
    }
}

/// What is missing is left out with its name.
fn manifest(id: Option<&str>, request_id: Option<&str>, time: &str) -> String {
    let part =
        |name: &str, value: Option<&str>| value.map(|value| format!("{name}:{value};")).unwrap_or_default();
    [part("id", id), part("request-id", request_id), part("ts", Some(time))].concat()
}

fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let id = query_value(&at.url, ID).map(|id| id.to_lowercase());
    let time = at.now_s.to_string();
    let mac = keys.mac(&[manifest(id.as_deref(), Some(&at.id), &time)]).ok_or(SignError::NoSigningKey)?;
    let signed = Signed::json(body.to_vec()).with(REQUEST, at.id.clone());
    Ok(signed.with(NAME, format!("ts={time},v1={}", hex_text(&mac))))
}
