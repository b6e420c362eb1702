//! Plaid: a JWT by a key that the request names, whose claims hold the digest of the body.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        (
            "TRANSACTIONS.SYNC_UPDATES_AVAILABLE",
            include_str!("samples/TRANSACTIONS.SYNC_UPDATES_AVAILABLE.json"),
        ),
        ("TRANSACTIONS.DEFAULT_UPDATE", include_str!("samples/TRANSACTIONS.DEFAULT_UPDATE.json")),
        ("ITEM.ERROR", include_str!("samples/ITEM.ERROR.json")),
        (
            "PAYMENT_INITIATION.PAYMENT_STATUS_UPDATE",
            include_str!("samples/PAYMENT_INITIATION.PAYMENT_STATUS_UPDATE.json"),
        ),
        ("TRANSFER.TRANSFER_EVENTS_UPDATE", include_str!("samples/TRANSFER.TRANSFER_EVENTS_UPDATE.json")),
        ("AUTH.AUTOMATICALLY_VERIFIED", include_str!("samples/AUTH.AUTOMATICALLY_VERIFIED.json")),
        ("ASSETS.PRODUCT_READY", include_str!("samples/ASSETS.PRODUCT_READY.json")),
        (
            "IDENTITY_VERIFICATION.STATUS_UPDATED",
            include_str!("samples/IDENTITY_VERIFICATION.STATUS_UPDATED.json"),
        ),
    ])
}

const NAME: &str = "plaid-verification";

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let jws = Jws::parse(deciding_header(&request.headers, NAME)?);
    let jws = jws.ok_or_else(|| VerifyError::malformed(NAME, "it is no compact JWS"))?;
    if jws.header("/alg").as_deref() != Some("ES256") {
        return Err(VerifyError::malformed(NAME, "its algorithm is not ES256"));
    }
    let kid = jws.header("/kid").ok_or_else(|| VerifyError::malformed(NAME, "it names no key"))?;
    let key = keys.key_text("jwks", &kid)?;
    let expired_at = json_text(key.as_bytes(), "/expired_at").ok().and_then(|text| text.parse::<i64>().ok());
    if expired_at.is_some_and(|at_s| at_s <= request.received_at_ms.div_euclid(1_000)) {
        return Err(VerifyError::NoKey("the key that it names has expired".to_owned()));
    }
    let key =
        PublicKey::parse(&key).ok_or_else(|| VerifyError::NoKey("its key cannot be read".to_owned()))?;
    let claims = jws.verified(&key).ok_or_else(|| VerifyError::mismatch(keys))?;
    let iat = json_text(claims, "/iat").map_err(|_| VerifyError::malformed("claims", "iat is missing"))?;
    check_timestamp(keys, TimeUnit::S, "iat", &iat, request.received_at_ms)?;
    let hash =
        json_text(claims, "/request_body_sha256").ok().as_deref().and_then(decode_hex).unwrap_or_default();
    if same(&digest(Hash::Sha256, &[&request.body]), &hash) {
        Ok(Authenticated::of(0, &[iat.as_bytes(), b".", &request.body]).at(iat))
    } else {
        Err(VerifyError::malformed("claims", "they are of another body"))
    }
}

fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let hash = hex_text(&digest(Hash::Sha256, &[body]));
    let claims = json!({ "iat": at.now_s, "request_body_sha256": hash }).to_string();
    let token = jws_signed(keys, "ES256", keys.id_of("jwks")?, &claims)?;
    Ok(Signed::json(body.to_vec()).with(NAME, token))
}
