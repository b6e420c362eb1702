//! WeChat Pay v3: RSA over time, nonce and body, by a certificate or public key that the request names.

use crate::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("TRANSACTION.SUCCESS", include_str!("samples/TRANSACTION.SUCCESS.json")),
        ("REFUND.SUCCESS", include_str!("samples/REFUND.SUCCESS.json")),
        ("PAYSCORE.USER_OPEN_SERVICE", include_str!("samples/PAYSCORE.USER_OPEN_SERVICE.json")),
    ])
}

const SIGNATURE: &str = "wechatpay-signature";
const TIME: &str = "wechatpay-timestamp";
/// Sent now and then to see whether a wrong signature is refused.
const PROBE: &str = "WECHATPAY/SIGNTEST/";
const TOLERANCE_S: (u32, u32) = (300, 300);

fn verify(request: &RawRequest, keys: &Keys) -> Result<usize, VerifyError> {
    let header = |name| deciding_header(&request.headers, name);
    let text = header(SIGNATURE)?;
    let signature = decode_base64(text).filter(|_| !text.starts_with(PROBE));
    let signature =
        signature.ok_or_else(|| VerifyError::malformed(SIGNATURE, "it is a probe, or not base64"))?;
    let (time, nonce, serial) = (header(TIME)?, header("wechatpay-nonce")?, header("wechatpay-serial")?);
    check_timestamp((TimeUnit::S, TIME, time), request.received_at_ms, TOLERANCE_S)?;
    // Ids of public keys have a prefix; serial numbers of certificates have not.
    let setting = if serial.starts_with("PUB_KEY_ID_") { "public_keys" } else { "platform_certificates" };
    let key = keys.key_text(setting, serial).and_then(|text| PublicKey::parse(&text));
    let key = key.ok_or_else(|| VerifyError::NoKey("the key that it names is not at hand".to_owned()))?;
    let head = format!("{time}\n{nonce}\n");
    let message = [head.as_bytes(), &request.body, b"\n"].concat();
    if key.verifies(PublicScheme::RsaSha256, &message, &signature) {
        Ok(0)
    } else {
        Err(VerifyError::mismatch(keys))
    }
}

fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let nonce = hex_text(&digest(Hash::Md5, &[at.id.as_bytes()]));
    let head = format!("{}\n{nonce}\n", at.now_s);
    let signature = keys.sign_public(PublicScheme::RsaSha256, &[head.as_bytes(), body, b"\n"].concat())?;
    Ok(Signed::json(body.to_vec())
        .with(TIME, at.now_s.to_string())
        .with("wechatpay-nonce", nonce)
        .with("wechatpay-serial", keys.id_of("public_keys")?)
        .with(SIGNATURE, base64_text(&signature)))
}
