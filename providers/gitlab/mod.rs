//! GitLab: Standard Webhooks where a signing token is configured, else the secret token itself.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("Push Hook", include_str!("samples/Push-Hook.json")),
        ("Tag Push Hook", include_str!("samples/Tag-Push-Hook.json")),
        ("Issue Hook", include_str!("samples/Issue-Hook.json")),
        ("Note Hook", include_str!("samples/Note-Hook.json")),
        ("Merge Request Hook", include_str!("samples/Merge-Request-Hook.json")),
        ("Pipeline Hook", include_str!("samples/Pipeline-Hook.json")),
    ])
}

const TOKEN: &str = "x-gitlab-token";
/// What a signing token starts with.
const SIGNING: &str = "whsec_";

/// A request without a signature is refused once a signing token is configured: otherwise the holder of
/// a token could leave the signature out.
fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    if keys.secrets().any(|secret| secret.starts_with(SIGNING)) {
        return standard_webhooks(request, keys, "webhook-");
    }
    let token = deciding_header(&request.headers, TOKEN)?;
    let matched = keys.token_matches(token.as_bytes());
    matched.map(Authenticated::plain).ok_or_else(|| VerifyError::mismatch(keys))
}

fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let secret = keys.secrets().next().ok_or(SignError::NoSigningKey)?;
    let signed = Signed::json(body.to_vec()).with("x-gitlab-event", at.event_type.clone());
    if !secret.starts_with(SIGNING) {
        return Ok(signed.with(TOKEN, secret).with("idempotency-key", at.id.clone()));
    }
    let time = at.now_s.to_string();
    let parts: [&[u8]; 5] = [at.id.as_bytes(), b".", time.as_bytes(), b".", body];
    let mac = keys.mac(&parts).ok_or(SignError::NoSigningKey)?;
    let signed = signed.with("idempotency-key", at.id.clone());
    let signed = signed.with("webhook-id", at.id.clone()).with("webhook-timestamp", time);
    Ok(signed.with("webhook-signature", format!("v1,{}", base64_text(&mac))))
}
