//! WeChat Pay v3: RSA over time, nonce and body, by a certificate or public key that the request names; what matters
//! is encrypted in the body.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    let kind = Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign);
    kind.open_with(open).samples(&[
        ("TRANSACTION.SUCCESS", include_str!("samples/TRANSACTION.SUCCESS.json")),
        ("REFUND.SUCCESS", include_str!("samples/REFUND.SUCCESS.json")),
        ("PAYSCORE.USER_OPEN_SERVICE", include_str!("samples/PAYSCORE.USER_OPEN_SERVICE.json")),
    ])
}

const SIGNATURE: &str = "wechatpay-signature";
const TIME: &str = "wechatpay-timestamp";
/// Sent now and then to see whether a wrong signature is refused.
const PROBE: &str = "WECHATPAY/SIGNTEST/";
/// The setting with the key that encrypts resources.
const KEY: &str = "api_v3_key";

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let header = |name| deciding_header(&request.headers, name);
    let text = header(SIGNATURE)?;
    let signature = decode_base64(text).filter(|_| !text.starts_with(PROBE));
    let signature =
        signature.ok_or_else(|| VerifyError::malformed(SIGNATURE, "it is a probe, or not base64"))?;
    let (time, nonce, serial) = (header(TIME)?, header("wechatpay-nonce")?, header("wechatpay-serial")?);
    check_timestamp(keys, TimeUnit::S, TIME, time, request.received_at_ms)?;
    // Ids of public keys have a prefix; serial numbers of certificates have not.
    let setting = if serial.starts_with("PUB_KEY_ID_") { "public_keys" } else { "platform_certificates" };
    let key = keys.public_key(setting, serial)?;
    let head = format!("{time}\n{nonce}\n");
    let message = [head.as_bytes(), &request.body, b"\n"].concat();
    if key.verifies(PublicScheme::RsaSha256, &message, &signature) {
        Ok(Authenticated::of(0, &[&message]).at(time))
    } else {
        Err(VerifyError::mismatch(keys))
    }
}

fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let body =
        sealed(keys, body, &at.id).ok_or_else(|| SignError::Body("it cannot be encrypted".to_owned()))?;
    let nonce = hex_text(&digest(Hash::Md5, &[at.id.as_bytes()]));
    let head = format!("{}\n{nonce}\n", at.now_s);
    let signature = keys.sign_public(PublicScheme::RsaSha256, &[head.as_bytes(), &body, b"\n"].concat())?;
    Ok(Signed::json(body)
        .with(TIME, at.now_s.to_string())
        .with("wechatpay-nonce", nonce)
        .with("wechatpay-serial", keys.id_of("public_keys")?)
        .with(SIGNATURE, base64_text(&signature)))
}

const CIPHERTEXT: &str = "/resource/ciphertext";
/// Where a sample has what is to be encrypted.
const PLAINTEXT: &str = "/resource/plaintext";

/// The body with its resource decrypted.
fn open(keys: &Keys, body: &[u8]) -> Result<Vec<u8>, String> {
    let text = |pointer| json_text(body, pointer);
    if text("/resource/algorithm")? != "AEAD_AES_256_GCM" {
        return Err("the resource is encrypted with an algorithm that we do not know".to_owned());
    }
    let key = keys.settings().text(KEY).ok_or_else(|| format!("setting `{KEY}` is missing"))?;
    let sealed = decode_base64_long(&text(CIPHERTEXT)?).ok_or("the resource is not base64")?;
    let associated = text("/resource/associated_data").unwrap_or_default();
    let nonce = text("/resource/nonce")?;
    let plain = open_aes_gcm(key.as_bytes(), nonce.as_bytes(), associated.as_bytes(), &sealed);
    let plain = plain.ok_or_else(|| format!("the resource was not encrypted with setting `{KEY}`"))?;
    json_with(body, "/resource", &plain).ok_or_else(|| "the decrypted resource is not JSON".to_owned())
}

/// The body with what a sample has as plain text encrypted; any other body as it is.
fn sealed(keys: &Keys, body: &[u8], id: &str) -> Option<Vec<u8>> {
    let Some(plain) = json_raw(body, PLAINTEXT) else { return Some(body.to_vec()) };
    let associated = json_text(body, "/resource/associated_data").unwrap_or_default();
    let nonce = hex_text(&digest(Hash::Sha256, &[id.as_bytes()])).get(..12)?.to_owned();
    let key = keys.settings().text(KEY)?;
    let sealed = seal_aes_gcm(key.as_bytes(), nonce.as_bytes(), associated.as_bytes(), plain)?;
    let resource = json!({
        "original_type": json_text(body, "/resource/original_type").ok()?,
        "algorithm": "AEAD_AES_256_GCM",
        "ciphertext": base64_text(&sealed),
        "associated_data": associated,
        "nonce": nonce,
    });
    json_with(body, "/resource", resource.to_string().as_bytes())
}
