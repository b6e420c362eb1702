//! Marqeta: HTTP Basic, and an HMAC over the body where the webhook has a secret.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("transactions.authorization", include_str!("samples/transactions.json")),
        ("cards", include_str!("samples/cards.json")),
        ("cardtransitions", include_str!("samples/cardtransitions.json")),
    ])
}

const BASIC: &str = "authorization";
const SIGNATURE: &str = "x-marqeta-signature";

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let given = deciding_header(&request.headers, BASIC)?;
    let (word, given) = given.split_once(' ').unwrap_or_default();
    if !word.eq_ignore_ascii_case("basic") {
        return Err(VerifyError::malformed(BASIC, "it is not Basic"));
    }
    if !same(credentials(keys)?.as_bytes(), given.as_bytes()) {
        return Err(VerifyError::mismatch(keys));
    }
    if keys.secrets().next().is_none() {
        return Ok(Authenticated::plain(0));
    }
    let text = deciding_header(&request.headers, SIGNATURE)?;
    let signature = decode_hex(text).or_else(|| decode_base64(text));
    let signature =
        signature.ok_or_else(|| VerifyError::malformed(SIGNATURE, "it is neither hexadecimal nor base64"))?;
    // The webhook's `signature_algorithm` is one of the two; the length decides which.
    let hash = if signature.len() == 20 { Hash::Sha1 } else { Hash::Sha256 };
    let is_signed = |secret: &str| same(&hmac(hash, secret.as_bytes(), &[&request.body]), &signature);
    let secret_n = keys.secrets().position(is_signed).ok_or_else(|| VerifyError::mismatch(keys))?;
    Ok(Authenticated::of(secret_n, &[&request.body]))
}

fn credentials(keys: &Keys) -> Result<String, VerifyError> {
    Ok(base64_text(format!("{}:{}", keys.setting("username")?, keys.setting("password")?).as_bytes()))
}

fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let credentials = credentials(keys).map_err(|_| SignError::NoSigningKey)?;
    let signed = Signed::json(body.to_vec()).with(BASIC, format!("Basic {credentials}"));
    Ok(match keys.secrets().next() {
        Some(secret) => signed.with(SIGNATURE, hex_text(&hmac(Hash::Sha256, secret.as_bytes(), &[body]))),
        None => signed,
    })
}
