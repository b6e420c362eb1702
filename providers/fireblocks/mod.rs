//! Fireblocks: a JWS with RS512 whose content is the body, by a key that it names; or RSA-SHA512 by a key that does not
//! change.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("transaction.created", include_str!("samples/transaction.created.json")),
        ("transaction.status.updated", include_str!("samples/transaction.status.updated.json")),
        ("vault_account.asset.added", include_str!("samples/vault_account.asset.added.json")),
    ])
}

const JWS: &str = "fireblocks-webhook-signature";
const OLDER: &str = "fireblocks-signature";

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let authenticated = || Authenticated::of(0, &[&request.body]);
    if request.headers.contains_key(JWS) || !request.headers.contains_key(OLDER) {
        return by_jws(request, keys).map(|()| authenticated());
    }
    let signature = decode_base64(deciding_header(&request.headers, OLDER)?);
    let signature = signature.ok_or_else(|| VerifyError::malformed(OLDER, "it is not base64"))?;
    let key = PublicKey::parse(keys.setting("public_key")?);
    let key = key.ok_or_else(|| VerifyError::NoKey("setting `public_key` cannot be read".to_owned()))?;
    if key.verifies(PublicScheme::RsaSha512, &request.body, &signature) {
        Ok(authenticated())
    } else {
        Err(VerifyError::mismatch(keys))
    }
}

fn by_jws(request: &RawRequest, keys: &Keys) -> Result<(), VerifyError> {
    let jws = Jws::parse_detached(deciding_header(&request.headers, JWS)?, &request.body);
    let jws = jws.ok_or_else(|| VerifyError::malformed(JWS, "it is no detached JWS"))?;
    if jws.header("/alg").as_deref() != Some("RS512") {
        return Err(VerifyError::malformed(JWS, "its algorithm is not RS512"));
    }
    let kid = jws.header("/kid").ok_or_else(|| VerifyError::malformed(JWS, "it names no key"))?;
    let key = keys.public_key("jwks", &kid)?;
    jws.verified(&key).map(|_| ()).ok_or_else(|| VerifyError::mismatch(keys))
}

fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let head = json!({ "alg": "RS512", "kid": keys.id_of("jwks")? });
    let text = jws_detached(keys, PublicScheme::RsaSha512, &head, body)?;
    Ok(Signed::json(body.to_vec()).with(JWS, text))
}
