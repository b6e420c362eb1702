//! `PhonePe`: the token of the webhook; or, of the older API, a digest of the notice and a salt that it names.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    let kind = Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign);
    kind.open_with(open).samples(&[
        ("checkout.order.completed", include_str!("samples/checkout.order.completed.json")),
        ("checkout.order.failed", include_str!("samples/checkout.order.failed.json")),
        ("pg.refund.completed", include_str!("samples/pg.refund.completed.json")),
        (
            "checkout.transaction.attempt.failed",
            include_str!("samples/checkout.transaction.attempt.failed.json"),
        ),
        ("pg.order.completed", include_str!("samples/pg.order.completed.json")),
        ("pg.refund.accepted", include_str!("samples/pg.refund.accepted.json")),
        ("subscription.cancelled", include_str!("samples/subscription.cancelled.json")),
        (
            "subscription.notification.completed",
            include_str!("samples/subscription.notification.completed.json"),
        ),
        (
            "subscription.setup.order.completed",
            include_str!("samples/subscription.setup.order.completed.json"),
        ),
    ])
}

const TOKEN: &str = "authorization";
const CHECKSUM: &str = "x-verify";
const SALTS: &str = "salts";
/// Member of the body with the notice of the older API, as base64 of JSON.
const NOTICE: &str = "/response";

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    if request.headers.contains_key(CHECKSUM) {
        return checksum_matched(request, keys);
    }
    // Only what a salt is for is in there, and it would be read as the older API's.
    if json_text(&request.body, NOTICE).is_ok() {
        return Err(VerifyError::malformed(CHECKSUM, "a notice in base64 comes with this header"));
    }
    let token = deciding_header(&request.headers, TOKEN)?;
    let secret_n = keys.token_matches(token.as_bytes()).ok_or_else(|| VerifyError::mismatch(keys))?;
    Ok(Authenticated::plain(secret_n))
}

/// `SHA256(base64 + salt)###index`, of the base64 text as it is in the body.
fn checksum_matched(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let header = deciding_header(&request.headers, CHECKSUM)?;
    let (given, index) = header.split_once("###").unwrap_or_default();
    let given =
        decode_hex(given).ok_or_else(|| VerifyError::malformed(CHECKSUM, "it is not a digest and ###"))?;
    let notice = json_text(&request.body, NOTICE)
        .map_err(|_| VerifyError::malformed("body", "/response is missing, or there twice"))?;
    let salt = keys.key_text(SALTS, index)?;
    if !same(&digest(Hash::Sha256, &[notice.as_bytes(), salt.as_bytes()]), &given) {
        return Err(VerifyError::mismatch(keys));
    }
    Ok(Authenticated::of(0, &[notice.as_bytes()]))
}

/// The notice of the older API, out of its base64.
fn open(_: &Keys, body: &[u8]) -> Result<Vec<u8>, String> {
    match json_text(body, NOTICE) {
        Ok(notice) => decode_base64_long(&notice).ok_or_else(|| "/response is not base64".to_owned()),
        Err(_) => Ok(body.to_vec()),
    }
}

fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let token = keys.secrets().next().ok_or(SignError::NoSigningKey)?;
    Ok(Signed::json(body.to_vec()).with(TOKEN, token))
}
