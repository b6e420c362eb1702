//! NOWPayments: an HMAC over the body written again with the names of every object sorted.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    let kind = Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign);
    kind.open_with(open).samples(&[
        ("finished", include_str!("samples/finished.json")),
        ("confirming", include_str!("samples/confirming.json")),
        ("partially_paid", include_str!("samples/partially_paid.json")),
        ("failed", include_str!("samples/failed.json")),
    ])
}

const NAME: &str = "x-nowpayments-sig";

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let signature = decode_hex(deciding_header(&request.headers, NAME)?);
    let signature = signature.ok_or_else(|| VerifyError::malformed(NAME, "it is not hexadecimal"))?;
    let sorted =
        sorted_json(&request.body).ok_or_else(|| VerifyError::malformed("body", "it is not JSON"))?;
    let is_signed = |secret: &str| same(&hmac(Hash::Sha512, secret.as_bytes(), &[&sorted]), &signature);
    let secret_n = keys.secrets().position(is_signed).ok_or_else(|| VerifyError::mismatch(keys))?;
    Ok(Authenticated::of(secret_n, &[&sorted]))
}

/// What is signed, which is what counts: the body may be written in many ways that are signed alike.
fn open(_: &Keys, body: &[u8]) -> Result<Vec<u8>, String> {
    sorted_json(body).ok_or_else(|| "the body is not JSON".to_owned())
}

fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let secret = keys.secrets().next().ok_or(SignError::NoSigningKey)?;
    let sorted = sorted_json(body).ok_or_else(|| SignError::Body("it is not JSON".to_owned()))?;
    Ok(Signed::json(body.to_vec()).with(NAME, hex_text(&hmac(Hash::Sha512, secret.as_bytes(), &[&sorted]))))
}
