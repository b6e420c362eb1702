//! Rapyd: an HMAC over the URL, salt, time, both keys and body, written as base64 of hexadecimal.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("PAYMENT_COMPLETED", include_str!("samples/PAYMENT_COMPLETED.json")),
        ("PAYMENT_FAILED", include_str!("samples/PAYMENT_FAILED.json")),
        ("REFUND_COMPLETED", include_str!("samples/REFUND_COMPLETED.json")),
    ])
}

const NAME: &str = "signature";

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let header = |name| deciding_header(&request.headers, name);
    let given = decode_base64(header(NAME)?);
    let given = given.ok_or_else(|| VerifyError::malformed(NAME, "it is not base64"))?;
    let (salt, time) = (header("salt")?, header("timestamp")?);
    check_timestamp(keys, TimeUnit::S, "timestamp", time, request.received_at_ms)?;
    if header("access_key")? != keys.setting("access_key")? {
        return Err(VerifyError::malformed("access_key", "it is of another account"));
    }
    let mac =
        mac(keys, &request.url, (salt, time), &request.body).ok_or_else(|| VerifyError::mismatch(keys))?;
    // The samples encode the hexadecimal text, the words of the documentation the bytes.
    if same(hex_text(&mac).as_bytes(), &given) || same(&mac, &given) {
        Ok(Authenticated::of(0, &[request.url.as_bytes(), salt.as_bytes(), time.as_bytes(), &request.body])
            .at(time))
    } else {
        Err(VerifyError::mismatch(keys))
    }
}

fn mac(keys: &Keys, url: &str, (salt, time): (&str, &str), body: &[u8]) -> Option<Vec<u8>> {
    let (access, secret) = (keys.setting("access_key").ok()?, keys.setting("secret_key").ok()?);
    let head = [url, salt, time, access, secret].concat();
    Some(hmac(Hash::Sha256, secret.as_bytes(), &[head.as_bytes(), body]))
}

fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let time = at.now_s.to_string();
    let mac = mac(keys, &at.url, (&at.id, &time), body).ok_or(SignError::NoSigningKey)?;
    let access = keys.setting("access_key").map_err(|_| SignError::NoSigningKey)?;
    let signed = Signed::json(body.to_vec()).with("salt", at.id.clone()).with("timestamp", time);
    Ok(signed.with("access_key", access).with(NAME, base64_text(hex_text(&mac).as_bytes())))
}
