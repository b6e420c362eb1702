//! Bridge: RSA over the digest of time and body. How the rest is read: `provider.toml`.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("virtual_account.activity.created", include_str!("samples/virtual_account.activity.created.json")),
        (
            "transfer.updated.status_transitioned",
            include_str!("samples/transfer.updated.status_transitioned.json"),
        ),
        ("customer.created", include_str!("samples/customer.created.json")),
    ])
}

const NAME: &str = "x-webhook-signature";
const KEYS: &str = "public_keys";

/// `t=<ms>,v0=<base64>`. RSA-SHA256 signs the SHA-256 of `t.body`, and so hashes twice.
fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let malformed = |why| VerifyError::malformed(NAME, why);
    let value = deciding_header(&request.headers, NAME)?;
    let (time, signature) = value
        .split_once(',')
        .and_then(|(time, rest)| Some((time.strip_prefix("t=")?, rest.trim_start().strip_prefix("v0=")?)))
        .ok_or_else(|| malformed("it is not `t=…,v0=…`"))?;
    check_timestamp(keys, TimeUnit::Ms, NAME, time, request.received_at_ms)?;
    let signature = decode_base64(signature).ok_or_else(|| malformed("v0 is not base64"))?;
    let parts: [&[u8]; 3] = [time.as_bytes(), b".", &request.body];
    let message = digest(Hash::Sha256, &parts);
    let is_signed = keys.settings().all(KEYS).any(|setting| {
        let key = PublicKey::parse(setting.value.reveal());
        key.is_some_and(|key| key.verifies(PublicScheme::RsaSha256, &message, &signature))
    });
    if is_signed { Ok(Authenticated::of(0, &parts).at(time)) } else { Err(VerifyError::mismatch(keys)) }
}

fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let time = at.now_s.saturating_mul(1_000).to_string();
    let message = digest(Hash::Sha256, &[time.as_bytes(), b".", body]);
    let signature = keys.sign_public(PublicScheme::RsaSha256, &message)?;
    Ok(Signed::json(body.to_vec()).with(NAME, format!("t={time},v0={}", base64_text(&signature))))
}
