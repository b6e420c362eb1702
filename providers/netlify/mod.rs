//! Netlify: a JWS whose claims hold the digest of the body.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("deploy_created", include_str!("samples/deploy_created.json")),
        ("deploy_building", include_str!("samples/deploy_building.json")),
        ("deploy_failed", include_str!("samples/deploy_failed.json")),
        ("deploy_locked", include_str!("samples/deploy_locked.json")),
    ])
}

const NAME: &str = "x-webhook-signature";

/// The claims hold nothing but the body's digest, so the body is what was signed.
fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let jws = Jws::parse(deciding_header(&request.headers, NAME)?);
    let jws = jws.ok_or_else(|| VerifyError::malformed(NAME, "it is no compact JWS"))?;
    let mut secrets = keys.secrets().enumerate();
    let found = secrets.find_map(|(n, secret)| Some((n, jws.verified_hs256(secret.as_bytes())?)));
    let (secret_n, claims) = found.ok_or_else(|| VerifyError::mismatch(keys))?;
    let text = |pointer| json_text(claims, pointer).unwrap_or_default();
    let hash = decode_hex(&text("/sha256")).unwrap_or_default();
    if text("/iss") == "netlify" && same(&digest(Hash::Sha256, &[&request.body]), &hash) {
        Ok(Authenticated::of(secret_n, &[&request.body]))
    } else {
        Err(VerifyError::malformed("claims", "they are of another issuer or body"))
    }
}

fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let secret = keys.secrets().next().ok_or(SignError::NoSigningKey)?;
    let claims = json!({ "iss": "netlify", "sha256": hex_text(&digest(Hash::Sha256, &[body])) });
    let signed = Signed::json(body.to_vec()).with("x-netlify-event", at.event_type.clone());
    Ok(signed.with(NAME, jws_hs256(secret.as_bytes(), &claims.to_string())))
}
