//! iyzico: an HMAC over the secret and some fields, run together. Which fields they are depends on the form of the
//! notification.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml"))
        .verify_with(verify)
        .sign_with(sign)
        .open_with(open)
        .samples(&[
            ("API_AUTH.SUCCESS", include_str!("samples/API_AUTH.SUCCESS.json")),
            ("CHECKOUT_FORM_AUTH.SUCCESS", include_str!("samples/CHECKOUT_FORM_AUTH.SUCCESS.json")),
            ("subscription.order.success", include_str!("samples/subscription.order.success.json")),
            ("subscription.order.failure", include_str!("samples/subscription.order.failure.json")),
        ])
}

const SIGNATURE: &str = "x-iyz-signature-v3";
/// What a status may be, <https://docs.iyzico.com/en/advanced/webhook>. None ends as another one does, so the end of the
/// signed text has one of them, whatever the merchant's reference before it is.
const STATUSES: [&str; 10] = [
    "BKM_POS_SELECTED",
    "CALLBACK_THREEDS",
    "FAILURE",
    "INIT_APM",
    "INIT_BANK_TRANSFER",
    "INIT_CONTACTLESS",
    "INIT_CREDIT",
    "INIT_THREEDS",
    "PENDING_CREDIT",
    "SUCCESS",
];

/// A status that is not among them may be the end of the merchant's reference with the status behind it: it decides nothing.
fn open(_: &Keys, body: &[u8]) -> Result<Vec<u8>, String> {
    match json_text(body, "/status") {
        Ok(status) if !STATUSES.contains(&status.as_str()) => {
            json_with(body, "/status", b"\"unconfirmed\"").ok_or_else(|| "it has no status".to_owned())
        }
        _ => Ok(body.to_vec()),
    }
}

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let signature = deciding_header(&request.headers, SIGNATURE)?;
    let signature =
        decode_hex(signature).ok_or_else(|| VerifyError::malformed(SIGNATURE, "it is not hexadecimal"))?;
    let fields = Fields::of(&request.body).map_err(|why| VerifyError::malformed("body", why))?;
    let mut matches = None;
    for (secret_n, secret) in keys.secrets().enumerate() {
        let parts = fields.parts(keys, secret)?;
        let is_ours = same(&hmac(Hash::Sha256, secret.as_bytes(), &parts), &signature);
        matches = matches.or(is_ours.then_some(secret_n));
    }
    let secret_n = matches.ok_or_else(|| VerifyError::mismatch(keys))?;
    let signed: Vec<&[u8]> = fields.signed.iter().map(String::as_bytes).collect();
    Ok(Authenticated::of(secret_n, &signed))
}

/// The signed fields of a notification, in their order.
struct Fields {
    is_subscription: bool,
    signed: Vec<String>,
}

impl Fields {
    /// Words, numbers and codes, so that little can be cut elsewhere and be of another payment; what still can has the
    /// same signed text, and is a conflict.
    fn of(body: &[u8]) -> Result<Self, &'static str> {
        let json = Json::parse(body).ok_or("it is not JSON")?;
        let field = |name: &str, is_right: fn(u8) -> bool| {
            let text = json.text(&format!("/{name}")).ok().filter(|text| text.bytes().all(is_right));
            text.ok_or("a signed field is missing, doubled, or of another shape")
        };
        let event_type = field("iyziEventType", |b| b.is_ascii_alphabetic() || b"_.".contains(&b))?;
        let wrong = "a signed field is missing, doubled, or of another shape";
        let code = |name: &str| {
            let text = json.text(&format!("/{name}")).ok().filter(|text| is_uuid(text));
            text.ok_or(wrong)
        };
        if !json.is_missing("/subscriptionReferenceCode") {
            let codes =
                ["subscriptionReferenceCode", "orderReferenceCode", "customerReferenceCode"].map(code);
            let signed: Result<Vec<String>, _> = std::iter::once(Ok(event_type)).chain(codes).collect();
            return Ok(Self { is_subscription: true, signed: signed? });
        }
        let number = |name| field(name, |b| b.is_ascii_digit());
        let mut signed = vec![event_type];
        if json.is_missing("/token") {
            signed.push(number("paymentId")?);
        } else {
            signed.extend([number("iyziPaymentId")?, code("token")?]);
        }
        // The merchant's own reference, which may be none.
        let reference = json.text_or_empty("/paymentConversationId");
        signed.push(reference.ok_or("paymentConversationId is there twice, or no text")?);
        signed.push(field("status", |b| b.is_ascii_uppercase() || b == b'_')?);
        Ok(Self { is_subscription: false, signed })
    }

    fn parts<'a>(&'a self, keys: &'a Keys, secret: &'a str) -> Result<Vec<&'a [u8]>, VerifyError> {
        let merchant = if self.is_subscription { keys.setting("merchant_id")? } else { "" };
        let fields = self.signed.iter().map(String::as_bytes);
        Ok([merchant.as_bytes(), secret.as_bytes()].into_iter().chain(fields).collect())
    }
}

/// As in `22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324`: what is moved to or from a code beside it has its lines elsewhere.
fn is_uuid(text: &str) -> bool {
    let parts = text.split('-').map(str::len);
    parts.eq([8, 4, 4, 4, 12]) && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let fields = Fields::of(body).map_err(|why| SignError::Body(why.to_owned()))?;
    let secret = keys.secrets().next().ok_or(SignError::NoSigningKey)?;
    let parts = fields.parts(keys, secret).map_err(|why| SignError::Body(why.to_string()))?;
    let mac = hmac(Hash::Sha256, secret.as_bytes(), &parts);
    Ok(Signed::json(body.to_vec()).with(SIGNATURE, hex_text(&mac)))
}
