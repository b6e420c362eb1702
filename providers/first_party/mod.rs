//! A team's own services: callers of an asynchronous command API, which choose the key of each command themselves.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("order.placed", include_str!("samples/order.placed.json")),
        ("refund.requested", include_str!("samples/refund.requested.json")),
        ("report.wanted", include_str!("samples/report.wanted.json")),
    ])
}

const KEY: &str = "idempotency-key";
/// What the receiver writes about a certificate that TLS has verified; a caller's own header of this name is taken out.
const CERTIFICATE: &str = "hooklatch-client-certificate";

/// The id of what is believed is the key. Where there is none that can be used, there is no id: the receiver says why.
fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let authenticated = match keys.setting("auth")? {
        "hmac" => {
            let authenticated = standard_webhooks(request, keys, "webhook-")?;
            let id = deciding_header(&request.headers, "webhook-id")?;
            let key = IdempotencyKey::of_header(id.as_bytes());
            let key = key.map_err(|_| VerifyError::malformed("webhook-id", "it is no key"))?;
            return Ok(authenticated.id(key.as_str()));
        }
        "mtls" => {
            let shown = decode_hex(deciding_header(&request.headers, CERTIFICATE)?).unwrap_or_default();
            let known = keys.settings().all("client_certificates");
            let is_shown = |text: &str| decode_hex(text).is_some_and(|known| same(&known, &shown));
            // Whichever it is, all are compared.
            let matched = known.map(|one| is_shown(one.value.reveal())).fold(false, |any, one| any | one);
            if !matched || shown.len() != 32 {
                return Err(VerifyError::mismatch(keys));
            }
            Authenticated::plain(0)
        }
        _ => {
            let token = deciding_header(&request.headers, "authorization")?;
            let token = token.strip_prefix("Bearer ").or(token.strip_prefix("bearer "));
            let token =
                token.ok_or_else(|| VerifyError::malformed("authorization", "it is no bearer token"))?;
            Authenticated::plain(
                keys.token_matches(token.as_bytes()).ok_or_else(|| VerifyError::mismatch(keys))?,
            )
        }
    };
    Ok(match IdempotencyKey::of_headers(&request.headers) {
        Ok(key) => authenticated.id(key.as_str()),
        Err(_) => authenticated,
    })
}

fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let no_key = || SignError::NoSigningKey;
    let signed = Signed::json(body.to_vec()).with(KEY, at.id.clone());
    match keys.setting("auth").map_err(|_| no_key())? {
        "hmac" => {
            let time = at.now_s.to_string();
            let parts: [&[u8]; 5] = [at.id.as_bytes(), b".", time.as_bytes(), b".", body];
            let mac = keys.mac(&parts).ok_or_else(no_key)?;
            let signed = signed.with("webhook-id", at.id.clone()).with("webhook-timestamp", time);
            Ok(signed.with("webhook-signature", format!("v1,{}", base64_text(&mac))))
        }
        // Only a TLS connection can show a certificate.
        "mtls" => Err(no_key()),
        _ => {
            let token = keys.secrets().next().ok_or_else(no_key)?;
            Ok(signed.with("authorization", format!("Bearer {token}")))
        }
    }
}
