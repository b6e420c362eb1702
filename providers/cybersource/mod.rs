//! Cybersource: an HMAC over a time, a dot, and the notification or the payload in it. The time, the key's id and the
//! signature are in one header.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("tms.networktoken.provisioned", include_str!("samples/tms.networktoken.provisioned.json")),
        ("payByLink.merchant.payment", include_str!("samples/payByLink.merchant.payment.json")),
        ("payments.capture.status.updated", include_str!("samples/payments.capture.status.updated.json")),
    ])
}

const SIGNATURE: &str = "v-c-signature";
/// The setting with the ids of the keys.
const KEY_ID: &str = "key_id";
/// The setting that says what is signed: `payload` or `body`.
const SIGNED: &str = "signed";
/// The member that is signed alone, or with all around it.
const PAYLOAD: &str = "/payload";

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let text = deciding_header(&request.headers, SIGNATURE)?.trim_matches('"');
    let mut parts = text.split(';').map(str::trim);
    let labels = ["t=", "keyId=", "sig="].map(|label| parts.next()?.strip_prefix(label));
    let ([Some(time), Some(key_id), Some(signature)], None) = (labels, parts.next()) else {
        return Err(VerifyError::malformed(SIGNATURE, "it is not `t=…;keyId=…;sig=…`"));
    };
    if time.is_empty() || !time.bytes().all(|b| b.is_ascii_digit()) {
        return Err(VerifyError::malformed(SIGNATURE, "its time is no number"));
    }
    if keys.tolerance_s().0 > 0 {
        check_timestamp(keys, TimeUnit::Ms, SIGNATURE, time, request.received_at_ms)?;
    }
    let mut key_ids = keys.settings().all(KEY_ID).flat_map(|one| one.value.reveal().split(','));
    if keys.settings().has(KEY_ID) && !key_ids.any(|known| known.trim() == key_id) {
        return Err(VerifyError::NoKey("the key that it names is not in the settings".to_owned()));
    }
    let signature = decode_base64(signature)
        .ok_or_else(|| VerifyError::malformed(SIGNATURE, "its signature is not base64"))?;
    let signed = signed_of(keys, &request.body)
        .ok_or_else(|| VerifyError::malformed(PAYLOAD, "the body has no payload, or two"))?;
    let parts: [&[u8]; 3] = [time.as_bytes(), b".", signed];
    if let Some(secret_n) = keys.mac_matches(&parts, &signature) {
        return Ok(Authenticated::of(secret_n, &parts).at(time));
    }
    Err(VerifyError::mismatch(keys))
}

/// What is signed. It is one of the two, or a body inside of a body would be two events under one signature.
fn signed_of<'a>(keys: &Keys, body: &'a [u8]) -> Option<&'a [u8]> {
    let payload = json_raw(body, PAYLOAD)?;
    Some(if keys.settings().text(SIGNED) == Some("body") { body } else { payload })
}

fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let time = at.now_s.saturating_mul(1_000).to_string();
    let signed = signed_of(keys, body).ok_or_else(|| SignError::Body("it has no payload".to_owned()))?;
    let mac = keys.mac(&[time.as_bytes(), b".", signed]).ok_or(SignError::NoSigningKey)?;
    let key_id = keys.setting(KEY_ID).unwrap_or("hooklatch-dev");
    let value = format!("t={time};keyId={key_id};sig={}", base64_text(&mac));
    Ok(Signed::json(body.to_vec()).with(SIGNATURE, value))
}
