//! Adyen: an HMAC over eight fields of every item, inside the item; or one over the whole body, in a header. How the
//! rest is read: `provider.toml`.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("AUTHORISATION", include_str!("samples/AUTHORISATION.json")),
        ("CAPTURE", include_str!("samples/CAPTURE.json")),
        ("REFUND", include_str!("samples/REFUND.json")),
        ("CHARGEBACK", include_str!("samples/CHARGEBACK.json")),
        (
            "balancePlatform.accountHolder.created",
            include_str!("samples/balancePlatform.accountHolder.created.json"),
        ),
        (
            "balancePlatform.balanceAccount.created",
            include_str!("samples/balancePlatform.balanceAccount.created.json"),
        ),
        (
            "balancePlatform.balanceAccount.balance.updated",
            include_str!("samples/balancePlatform.balanceAccount.balance.updated.json"),
        ),
        ("balancePlatform.transfer.updated", include_str!("samples/balancePlatform.transfer.updated.json")),
        ("balancePlatform.dispute.created", include_str!("samples/balancePlatform.dispute.created.json")),
        ("balancePlatform.report.created", include_str!("samples/balancePlatform.report.created.json")),
        ("recurring.token.created", include_str!("samples/recurring.token.created.json")),
        ("paymentMethod.created", include_str!("samples/paymentMethod.created.json")),
        ("CANCELLATION", include_str!("samples/CANCELLATION.json")),
        ("CAPTURE_FAILED", include_str!("samples/CAPTURE_FAILED.json")),
        ("REFUND_FAILED", include_str!("samples/REFUND_FAILED.json")),
        ("CANCEL_OR_REFUND", include_str!("samples/CANCEL_OR_REFUND.json")),
        ("CHARGEBACK_REVERSED", include_str!("samples/CHARGEBACK_REVERSED.json")),
        ("AUTHORISATION", include_str!("samples/AUTHORISATION-refused.json")),
        ("EXPIRE", include_str!("samples/EXPIRE.json")),
        ("NOTIFICATION_OF_CHARGEBACK", include_str!("samples/NOTIFICATION_OF_CHARGEBACK.json")),
        ("REPORT_AVAILABLE", include_str!("samples/REPORT_AVAILABLE.json")),
        ("SECOND_CHARGEBACK", include_str!("samples/SECOND_CHARGEBACK.json")),
        ("TECHNICAL_CANCEL", include_str!("samples/TECHNICAL_CANCEL.json")),
    ])
}

/// What a signed field may hold.
#[derive(Clone, Copy)]
enum Form {
    /// Anything but the colon that joins the fields.
    Part,
    /// The merchant's own reference: anything.
    Free,
    /// A whole number, or nothing.
    Number,
    /// Three capitals, or nothing.
    Currency,
    /// Capitals, digits and `_`.
    Code,
    /// `true` or `false`.
    Truth,
}

/// The signed fields, in Adyen's order. Values are joined by `:` and not escaped (adyen-java-api-library,
/// `HMACValidatorTest`); a missing field is empty. Were a colon allowed in more than one of them, one signature would
/// fit a text that is cut in two ways, and so two events.
const FIELDS: [(&str, Form); 8] = [
    ("/pspReference", Form::Part),
    ("/originalReference", Form::Part),
    ("/merchantAccountCode", Form::Part),
    ("/merchantReference", Form::Free),
    ("/amount/value", Form::Number),
    ("/amount/currency", Form::Currency),
    ("/eventCode", Form::Code),
    ("/success", Form::Truth),
];
const HEADER: &str = "hmacsignature";
const PLACE: &str = "additionalData.hmacSignature";

/// Newer notifications sign the whole body in a header; standard ones every item. One bad item refuses all.
fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    if request.headers.contains_key(HEADER) {
        return whole(request, keys);
    }
    let items =
        items(&request.body).ok_or_else(|| malformed("the body is not a list of notification items"))?;
    let (mut oldest, mut texts) = (None, Vec::with_capacity(items.len()));
    for item in items {
        let item = Json::parse(item).ok_or_else(|| malformed("an item is not JSON"))?;
        let text =
            item.text("/additionalData/hmacSignature").map_err(|_| malformed("an item has no signature"))?;
        let signature = decoded(PLACE, &text)?;
        let content = content(&item).map_err(malformed)?;
        let matched = keys.mac_matches(&[content.as_bytes()], &signature);
        oldest = oldest.max(Some(matched.ok_or(VerifyError::Mismatch { keys_n: keys.len() })?));
        texts.push(content);
    }
    let secret_n = oldest.ok_or_else(|| malformed("the body has no item"))?;
    Ok(Authenticated::each(secret_n, &texts))
}

/// A body that is no object would be the text of an item's eight fields, with their signature in the header.
fn whole(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let is_object = request.body.trim_ascii_start().starts_with(b"{") && Json::parse(&request.body).is_some();
    if !is_object {
        return Err(VerifyError::malformed("body", "it is no JSON object"));
    }
    let signature = decoded(HEADER, deciding_header(&request.headers, HEADER)?)?;
    let matched = keys.mac_matches(&[&request.body], &signature);
    let secret_n = matched.ok_or(VerifyError::Mismatch { keys_n: keys.len() })?;
    Ok(Authenticated::of(secret_n, &[&request.body]))
}

/// Writes each item's signature into it; a body without items is signed in the header.
fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let wrong = |why: &str| SignError::Body(why.to_owned());
    let mut value: serde_json::Value = serde_json::from_slice(body).map_err(|_| wrong("it is not JSON"))?;
    let Some(list) = value.pointer_mut("/notificationItems").and_then(serde_json::Value::as_array_mut) else {
        let signature = keys.mac(&[body]).map(|mac| base64_text(&mac)).ok_or(SignError::NoSigningKey)?;
        return Ok(Signed::json(body.to_vec()).with(HEADER, signature).with("protocol", "HmacSHA256"));
    };
    for item in list {
        let item =
            item.get_mut("NotificationRequestItem").ok_or_else(|| wrong("an item has another shape"))?;
        let text = item.to_string();
        let item_read = Json::parse(text.as_bytes()).ok_or_else(|| wrong("an item is not JSON"))?;
        let content = content(&item_read).map_err(wrong)?;
        let signature =
            keys.mac(&[content.as_bytes()]).map(|mac| base64_text(&mac)).ok_or(SignError::NoSigningKey)?;
        let extra = item.get_mut("additionalData").and_then(serde_json::Value::as_object_mut);
        let extra = extra.ok_or_else(|| wrong("an item has no additionalData"))?;
        extra.insert("hmacSignature".to_owned(), signature.into());
    }
    Ok(Signed::json(value.to_string().into_bytes()))
}

/// The raw text of every item; `None` when the body has another shape.
fn items(body: &[u8]) -> Option<Vec<&[u8]>> {
    let list = json_elements(body, "/notificationItems")?;
    list.into_iter().map(|one| json_raw(one, "/NotificationRequestItem")).collect()
}

/// What is signed of one item. A field that is there twice has no one value; `null` is as good as missing.
fn content(item: &Json<'_>) -> Result<String, &'static str> {
    let mut values = Vec::with_capacity(FIELDS.len());
    for (pointer, form) in FIELDS {
        let value = item.text_or_empty(pointer).ok_or("a signed field is there twice or is no text")?;
        if !form.fits(&value) {
            return Err("a signed field has another form than Adyen's");
        }
        values.push(value);
    }
    if values.first().is_none_or(String::is_empty) {
        return Err("an item has no pspReference");
    }
    Ok(values.join(":"))
}

impl Form {
    fn fits(self, value: &str) -> bool {
        match self {
            Self::Free => true,
            Self::Part => !value.contains(':'),
            Self::Number => value.strip_prefix('-').unwrap_or(value).bytes().all(|c| c.is_ascii_digit()),
            Self::Currency => {
                value.is_empty() || value.len() == 3 && value.bytes().all(|c| c.is_ascii_uppercase())
            }
            Self::Code => {
                let is_fit = |c: u8| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_';
                !value.is_empty() && value.bytes().all(is_fit)
            }
            Self::Truth => matches!(value, "true" | "false"),
        }
    }
}

fn decoded(place: &str, text: &str) -> Result<Vec<u8>, VerifyError> {
    decode_base64(text)
        .ok_or_else(|| VerifyError::Malformed { place: place.to_owned(), why: "it is not base64" })
}

fn malformed(why: &'static str) -> VerifyError {
    VerifyError::Malformed { place: PLACE.to_owned(), why }
}
