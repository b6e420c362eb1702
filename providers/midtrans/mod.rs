//! Midtrans: a digest of four fields and the server key inside the body; SNAP BI signs with RSA in a header.

use crate::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("settlement", include_str!("samples/settlement.json")),
        ("pending", include_str!("samples/pending.json")),
        ("expire", include_str!("samples/expire.json")),
        ("00", include_str!("samples/snap-00.json")),
    ])
}

const SNAP: &str = "x-signature";
const PLACE: &str = "/signature_key";

fn verify(request: &RawRequest, keys: &Keys) -> Result<Believed, VerifyError> {
    secret_of(request, keys).map(|secret_n| Believed::of(secret_n, &[&request.body]))
}

fn secret_of(request: &RawRequest, keys: &Keys) -> Result<usize, VerifyError> {
    if request.headers.contains_key(SNAP) { snap(request, keys) } else { classic(request, keys) }
}

fn classic(request: &RawRequest, keys: &Keys) -> Result<usize, VerifyError> {
    let malformed = |why| VerifyError::malformed(PLACE, why);
    let signature = json_text(&request.body, PLACE).ok().as_deref().and_then(decode_hex);
    let signature = signature.ok_or_else(|| malformed("it is missing or not hexadecimal"))?;
    let signed =
        content(&request.body).ok_or_else(|| malformed("a signed field is missing, or there twice"))?;
    let is_signed =
        |secret: &str| same(&digest(Hash::Sha512, &[signed.as_bytes(), secret.as_bytes()]), &signature);
    keys.secrets().position(is_signed).ok_or_else(|| VerifyError::mismatch(keys))
}

fn content(body: &[u8]) -> Option<String> {
    let body = Json::parse(body)?;
    let field = |pointer| body.text(pointer).ok();
    Some([field("/order_id")?, field("/status_code")?, field("/gross_amount")?].concat())
}

/// The body without its white space is what is hashed.
fn snap(request: &RawRequest, keys: &Keys) -> Result<usize, VerifyError> {
    let signature = decode_base64(deciding_header(&request.headers, SNAP)?);
    let signature = signature.ok_or_else(|| VerifyError::malformed(SNAP, "it is not base64"))?;
    let time = deciding_header(&request.headers, "x-timestamp")?;
    let body = compact_json(&request.body).ok_or_else(|| VerifyError::malformed("body", "it is not JSON"))?;
    let hash = hex_text(&digest(Hash::Sha256, &[&body]));
    let message = format!("{}:{}:{hash}:{time}", request.method, path_and_query(&request.url).0);
    let key = PublicKey::parse(keys.setting("public_key_pem")?);
    let key =
        key.ok_or_else(|| VerifyError::NoKey("setting `public_key_pem` is no public key".to_owned()))?;
    if key.verifies(PublicScheme::RsaSha256, message.as_bytes(), &signature) {
        Ok(0)
    } else {
        Err(VerifyError::mismatch(keys))
    }
}

/// A body of SNAP BI as that does, any other as the rest of Midtrans.
fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    if !json_is_missing(body, "/originalPartnerReferenceNo") {
        return sign_snap(keys, body, at);
    }
    let wrong = |why: &str| SignError::Body(why.to_owned());
    let secret = keys.secrets().next().ok_or(SignError::NoSigningKey)?;
    let signed = content(body).ok_or_else(|| wrong("a signed field is missing"))?;
    let hash = digest(Hash::Sha512, &[signed.as_bytes(), secret.as_bytes()]);
    let mut value: serde_json::Value = serde_json::from_slice(body).map_err(|_| wrong("it is not JSON"))?;
    let place = value.pointer_mut(PLACE).ok_or_else(|| wrong("it has no signature_key"))?;
    *place = hex_text(&hash).into();
    Ok(Signed::json(value.to_string().into_bytes()))
}

fn sign_snap(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let compact = compact_json(body).ok_or_else(|| SignError::Body("it is not JSON".to_owned()))?;
    let (hash, time) = (hex_text(&digest(Hash::Sha256, &[&compact])), rfc3339_text(at.now_s));
    let message = format!("POST:{}:{hash}:{time}", path_and_query(&at.url).0);
    let signature = keys.sign_public(PublicScheme::RsaSha256, message.as_bytes())?;
    Ok(Signed::json(body.to_vec()).with("x-timestamp", time).with(SNAP, base64_text(&signature)))
}
