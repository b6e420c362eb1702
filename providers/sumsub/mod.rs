//! Sumsub: an HMAC over the body, by the digest that a header names.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("applicantCreated", include_str!("samples/applicantCreated.json")),
        ("applicantReviewed", include_str!("samples/applicantReviewed.json")),
        ("applicantReset", include_str!("samples/applicantReset.json")),
    ])
}

const NAME: &str = "x-payload-digest";
const ALGORITHM: &str = "x-payload-digest-alg";

/// The algorithms that Sumsub's dashboard offers. Each needs the secret to sign, so that a
/// stranger gains nothing by the choice.
fn hash_of(algorithm: &str) -> Option<Hash> {
    match algorithm {
        "HMAC_SHA1_HEX" => Some(Hash::Sha1),
        "HMAC_SHA256_HEX" => Some(Hash::Sha256),
        "HMAC_SHA512_HEX" => Some(Hash::Sha512),
        _ => None,
    }
}

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let hash = hash_of(deciding_header(&request.headers, ALGORITHM)?)
        .ok_or_else(|| VerifyError::malformed(ALGORITHM, "it is no algorithm of Sumsub's"))?;
    let given = decode_hex(deciding_header(&request.headers, NAME)?)
        .ok_or_else(|| VerifyError::malformed(NAME, "it is not hexadecimal"))?;
    let is_match = |secret: &str| same(&hmac(hash, secret.as_bytes(), &[&request.body]), &given);
    let secret_n = keys.secrets().position(is_match).ok_or_else(|| VerifyError::mismatch(keys))?;
    Ok(Authenticated::of(secret_n, &[&request.body]))
}

fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let secret = keys.secrets().next().ok_or(SignError::NoSigningKey)?;
    let mac = hmac(Hash::Sha256, secret.as_bytes(), &[body]);
    Ok(Signed::json(body.to_vec()).with(ALGORITHM, "HMAC_SHA256_HEX").with(NAME, hex_text(&mac)))
}
