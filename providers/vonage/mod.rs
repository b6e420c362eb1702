//! Vonage: a JWT whose claims hold the digest of the body.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("sms.text", include_str!("samples/sms.text.json")),
        ("sms.delivered", include_str!("samples/sms.delivered.json")),
        ("answered", include_str!("samples/answered.json")),
    ])
}

const NAME: &str = "authorization";
const ISSUER: &str = "Vonage";

/// HS256 alone, whatever the token says; a token without the body's digest would fit any body.
fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let value = deciding_header(&request.headers, NAME)?;
    let token = value.split_once(' ').filter(|(word, _)| word.eq_ignore_ascii_case("bearer"));
    let jws = token.and_then(|(_, token)| Jws::parse(token.trim()));
    let jws = jws.ok_or_else(|| VerifyError::malformed(NAME, "it is not `Bearer` and a JWT"))?;
    let mut secrets = keys.secrets().enumerate();
    let found = secrets.find_map(|(n, secret)| Some((n, jws.verified_hs256(secret.as_bytes())?)));
    let (secret_n, claims) = found.ok_or_else(|| VerifyError::mismatch(keys))?;
    let text = |pointer| json_text(claims, pointer).unwrap_or_default();
    let hash = decode_hex(&text("/payload_hash")).unwrap_or_default();
    if text("/iss") != ISSUER || !same(&digest(Hash::Sha256, &[&request.body]), &hash) {
        return Err(VerifyError::malformed("claims", "they are of another issuer or body"));
    }
    let issued =
        json_text(claims, "/iat").map_err(|_| VerifyError::malformed("claims", "they have no iat"))?;
    // Vonage sends none; where there is one, it counts.
    if let Ok(exp) = json_text(claims, "/exp") {
        let at_s = exp.split('.').next().and_then(|whole| whole.parse::<i64>().ok());
        if at_s.is_none_or(|at_s| at_s <= request.received_at_ms.div_euclid(1_000)) {
            return Err(VerifyError::malformed("claims", "they have expired (exp)"));
        }
    }
    // Vonage bounds the age nowhere; an operator may.
    if keys.is_age_bounded() {
        check_timestamp(keys, TimeUnit::S, "iat", &issued, request.received_at_ms)?;
    }
    Ok(Authenticated::of(secret_n, &[claims]).at(issued))
}

fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let secret = keys.secrets().next().ok_or(SignError::NoSigningKey)?;
    let claims = json!({
        "iat": at.now_s, "jti": at.id, "iss": ISSUER, "api_key": "a1b2c3d",
        "payload_hash": hex_text(&digest(Hash::Sha256, &[body])),
    });
    let token = jws_hs256(secret.as_bytes(), &claims.to_string());
    Ok(Signed::json(body.to_vec()).with(NAME, format!("Bearer {token}")))
}
