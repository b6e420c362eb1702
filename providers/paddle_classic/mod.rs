//! Paddle Classic: RSA over the form's other fields, sorted and serialised as PHP does.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("subscription_payment_succeeded", include_str!("samples/subscription_payment_succeeded.json")),
        ("subscription_created", include_str!("samples/subscription_created.json")),
        ("subscription_payment_refunded", include_str!("samples/subscription_payment_refunded.json")),
    ])
}

const NAME: &str = "p_signature";

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    if matches!(request.body.trim_ascii_start().first(), Some(b'{' | b'[')) {
        return Err(VerifyError::malformed("body", "it is JSON, and would be read as such"));
    }
    let form = Form::parse(&request.body).ok_or_else(|| VerifyError::malformed("body", Form::TOO_MANY))?;
    let signature = form.text(NAME).and_then(decode_base64);
    let signature = signature.ok_or_else(|| VerifyError::malformed(NAME, "it is missing or not base64"))?;
    let mut pairs = form.into_pairs();
    pairs.retain(|(name, _)| name != NAME.as_bytes());
    pairs.sort();
    if pairs.windows(2).any(|pair| matches!(pair, [(one, _), (other, _)] if one == other)) {
        return Err(VerifyError::malformed("body", "a field is there twice"));
    }
    let message = php_serialized(&pairs);
    let is_signed = |text: &str| {
        PublicKey::parse(text).is_some_and(|key| key.verifies(PublicScheme::RsaSha1, &message, &signature))
    };
    let mut known = keys.settings().all("public_key_pem");
    let key_n = known.position(|setting| is_signed(setting.value.reveal()));
    key_n.map(|key_n| Authenticated::of(key_n, &[&message])).ok_or_else(|| VerifyError::mismatch(keys))
}

fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let mut pairs = Form::parse(body).unwrap_or_default().into_pairs();
    pairs.retain(|(name, _)| name != NAME.as_bytes());
    pairs.sort();
    let signature = keys.sign_public(PublicScheme::RsaSha1, &php_serialized(&pairs))?;
    Ok(Signed::form(form_with(body, NAME, &base64_text(&signature))))
}
