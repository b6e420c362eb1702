//! Google Cloud Pub/Sub push: a token that says which service account sent the request. The body is not covered.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("OBJECT_FINALIZE", include_str!("samples/OBJECT_FINALIZE.json")),
        ("OBJECT_DELETE", include_str!("samples/OBJECT_DELETE.json")),
        ("projects/p/subscriptions/s", include_str!("samples/projects-p-subscriptions-s.json")),
    ])
}

const NAME: &str = "authorization";
/// How far clocks may be apart. Seconds.
const SKEW_S: i64 = 10;
const ISSUERS: [&str; 2] = ["https://accounts.google.com", "accounts.google.com"];

/// The audience alone would not do: anybody with a Google account can have a token for any audience. The token covers
/// nothing of the message, and one serves for an hour of them.
fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let (word, token) = deciding_header(&request.headers, NAME)?.split_once(' ').unwrap_or_default();
    let jws = Jws::parse(token).filter(|_| word.eq_ignore_ascii_case("bearer"));
    let jws = jws.ok_or_else(|| VerifyError::malformed(NAME, "it is not `Bearer` and a compact JWS"))?;
    if jws.header("/alg").as_deref() != Some("RS256") {
        return Err(VerifyError::malformed(NAME, "its algorithm is not RS256"));
    }
    let kid = jws.header("/kid").ok_or_else(|| VerifyError::malformed(NAME, "it names no key"))?;
    let key = keys.public_key("public_keys", &kid)?;
    let claims = jws.verified(&key).ok_or_else(|| VerifyError::mismatch(keys))?;
    let text = |pointer| json_text(claims, pointer).unwrap_or_default();
    let wrong = |why| VerifyError::malformed("claims", why);
    if !ISSUERS.contains(&text("/iss").as_str()) {
        return Err(wrong("another issuer signed it"));
    }
    if text("/aud") != keys.setting("audience")? {
        return Err(wrong("it is for another audience"));
    }
    if text("/email") != keys.setting("service_account")? || text("/email_verified") != "true" {
        return Err(wrong("it is of another service account"));
    }
    check_times(claims, request.received_at_ms.div_euclid(1_000))?;
    Ok(Authenticated::plain(0))
}

fn check_times(claims: &[u8], now_s: i64) -> Result<(), VerifyError> {
    let number = |pointer| json_text(claims, pointer).ok().and_then(|text| text.parse::<i64>().ok());
    let missing = || VerifyError::malformed("claims", "iat or exp is missing");
    let (iat, exp) = (number("/iat").ok_or_else(missing)?, number("/exp").ok_or_else(missing)?);
    if now_s > exp.saturating_add(SKEW_S) {
        return Err(VerifyError::Stale { age_s: now_s.saturating_sub(iat), tolerance_s: 10 });
    }
    if iat > now_s.saturating_add(SKEW_S) {
        return Err(VerifyError::Future { ahead_s: iat.saturating_sub(now_s), tolerance_s: 10 });
    }
    Ok(())
}

fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let setting = |name| keys.setting(name).map_err(|_| SignError::NoSigningKey);
    let claims = json!({
        "iss": ISSUERS.first(),
        "aud": setting("audience")?,
        "email": setting("service_account")?,
        "email_verified": true,
        "iat": at.now_s,
        "exp": at.now_s.saturating_add(3_600),
    });
    let token = jws_signed(keys, "RS256", keys.id_of("public_keys")?, &claims.to_string())?;
    Ok(Signed::json(body.to_vec()).with(NAME, format!("Bearer {token}")))
}
