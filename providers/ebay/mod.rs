//! eBay: ECDSA on P-256 with SHA-1 over the body, in a header that names its key. Its challenge wants a plain hash.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    let kind = Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign);
    kind.handshake_with(challenge).open_with(open).samples(&[
        ("MARKETPLACE_ACCOUNT_DELETION", include_str!("samples/MARKETPLACE_ACCOUNT_DELETION.json")),
        ("MARKETPLACE_ACCOUNT_DELETION", include_str!("samples/MARKETPLACE_ACCOUNT_DELETION-repeated.json")),
        ("PRIORITY_LISTING_REVISION", include_str!("samples/PRIORITY_LISTING_REVISION.json")),
    ])
}

const SIGNATURE: &str = "x-ebay-signature";
/// The setting with eBay's keys.
const KEYS: &str = "public_keys";
const TOKEN: &str = "verification_token";
const CHALLENGE: &str = "challenge_code";
/// Longest challenge that is answered. Bytes.
const CHALLENGE_BYTES_MAX: usize = 128;
/// The API writes a key in PEM without the line breaks that PEM has.
const PEM: [&str; 2] = ["-----BEGIN PUBLIC KEY-----", "-----END PUBLIC KEY-----"];

/// The header says how it signs: what it says is what eBay documents, or it is refused.
fn verify(request: &RawRequest, keys: &Keys) -> Result<Believed, VerifyError> {
    let malformed = |why| VerifyError::malformed(SIGNATURE, why);
    let head = decode_base64_long(deciding_header(&request.headers, SIGNATURE)?);
    let head = head.ok_or_else(|| malformed("it is not base64"))?;
    let head = Json::parse(&head).ok_or_else(|| malformed("it holds no JSON"))?;
    let field = |pointer| head.text(pointer).map_err(|_| malformed("a field is missing, or there twice"));
    if field("/alg")? != "ecdsa" || field("/digest")? != "SHA1" {
        return Err(malformed("its algorithm is not ecdsa with SHA1"));
    }
    let signature = decode_base64(&field("/signature")?);
    let signature = signature.ok_or_else(|| malformed("its signature is not base64"))?;
    let text = keys.key_text(KEYS, &field("/kid")?)?;
    let bare = PEM.iter().fold(text.into_owned(), |text, mark| text.replace(mark, ""));
    let bare: String = bare.split_ascii_whitespace().collect();
    let key = PublicKey::parse(&bare);
    let key = key.ok_or_else(|| VerifyError::NoKey("the key that it names cannot be read".to_owned()))?;
    let body = compact_json(&request.body).ok_or_else(|| VerifyError::malformed("body", "it is not JSON"))?;
    if key.verifies(PublicScheme::P256DerSha1, &body, &signature) {
        Ok(Believed::of(0, &[&body]))
    } else {
        Err(VerifyError::mismatch(keys))
    }
}

/// What is signed: the body may be written in many ways that are signed alike.
fn open(_: &Keys, body: &[u8]) -> Result<Vec<u8>, String> {
    compact_json(body).ok_or_else(|| "the body is not JSON".to_owned())
}

/// The hash of the challenge, the token and our URL. A body is signed by eBay's key alone, so it signs none.
fn challenge(request: &RawRequest, keys: &Keys) -> Option<Reply> {
    let code = query_value(&request.url, CHALLENGE).filter(|_| request.method == "GET")?;
    let is_plain = code.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if code.is_empty() || code.len() > CHALLENGE_BYTES_MAX || !is_plain {
        return None;
    }
    let url = request.url.split('?').next().unwrap_or_default();
    let parts = [code.as_bytes(), keys.setting(TOKEN).ok()?.as_bytes(), url.as_bytes()];
    let body = json!({ "challengeResponse": hex_text(&digest(Hash::Sha256, &parts)) });
    Some(Reply { content_type: "application/json".to_owned(), ..Reply::text(body.to_string()) })
}

fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let compact = compact_json(body).ok_or_else(|| SignError::Body("it is not JSON".to_owned()))?;
    let signature = base64_text(&keys.sign_public(PublicScheme::P256DerSha1, &compact)?);
    let head = json!({ "alg": "ecdsa", "kid": keys.id_of(KEYS)?, "signature": signature, "digest": "SHA1" });
    Ok(Signed::json(body.to_vec()).with(SIGNATURE, base64_text(head.to_string().as_bytes())))
}
