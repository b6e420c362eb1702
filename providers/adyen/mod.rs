//! Adyen: an HMAC over eight fields of every item, inside the item. How the rest is read: `provider.toml`.

use crate::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("AUTHORISATION", include_str!("samples/AUTHORISATION.json")),
        ("CAPTURE", include_str!("samples/CAPTURE.json")),
        ("REFUND", include_str!("samples/REFUND.json")),
    ])
}

/// The signed fields, in Adyen's order. Values are joined by `:` and not escaped (adyen-java-api-library,
/// `HMACValidatorTest`); a missing field is empty.
const FIELDS: [&str; 8] = [
    "/pspReference",
    "/originalReference",
    "/merchantAccountCode",
    "/merchantReference",
    "/amount/value",
    "/amount/currency",
    "/eventCode",
    "/success",
];
const PLACE: &str = "additionalData.hmacSignature";

fn verify(request: &RawRequest, keys: &Keys) -> Result<Believed, VerifyError> {
    secret_of(request, keys).map(|secret_n| Believed::of(secret_n, &[&request.body]))
}

/// Newer notifications sign the whole body in a header; standard ones every item. One bad item refuses all.
fn secret_of(request: &RawRequest, keys: &Keys) -> Result<usize, VerifyError> {
    if request.headers.contains_key("hmacsignature") {
        let signature = base64_text("hmacsignature", deciding_header(&request.headers, "hmacsignature")?)?;
        return keys
            .mac_matches(&[&request.body], &signature)
            .ok_or(VerifyError::Mismatch { keys_n: keys.len() });
    }
    let items =
        items(&request.body).ok_or_else(|| malformed("the body is not a list of notification items"))?;
    let mut oldest = None;
    for item in items {
        let item = Json::parse(item).ok_or_else(|| malformed("an item is not JSON"))?;
        let text =
            item.text("/additionalData/hmacSignature").map_err(|_| malformed("an item has no signature"))?;
        let signature = base64_text(PLACE, &text)?;
        let content =
            content(&item).ok_or_else(|| malformed("a signed field is there twice or is no text"))?;
        let matched = keys.mac_matches(&[content.as_bytes()], &signature);
        oldest = oldest.max(Some(matched.ok_or(VerifyError::Mismatch { keys_n: keys.len() })?));
    }
    oldest.ok_or_else(|| malformed("the body has no item"))
}

/// Writes each item's signature into it.
fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let wrong = |why: &str| SignError::Body(why.to_owned());
    let mut value: serde_json::Value = serde_json::from_slice(body).map_err(|_| wrong("it is not JSON"))?;
    let list = value.pointer_mut("/notificationItems").and_then(serde_json::Value::as_array_mut);
    for item in list.ok_or_else(|| wrong("it has no notificationItems"))? {
        let item =
            item.get_mut("NotificationRequestItem").ok_or_else(|| wrong("an item has another shape"))?;
        let content = Json::parse(item.to_string().as_bytes()).as_ref().and_then(content);
        let content = content.ok_or_else(|| wrong("a signed field is no text"))?;
        let signature = keys.sign_base64(content.as_bytes()).ok_or(SignError::NoSigningKey)?;
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
fn content(item: &Json<'_>) -> Option<String> {
    let values: Option<Vec<String>> = FIELDS.iter().map(|pointer| item.text_or_empty(pointer)).collect();
    Some(values?.join(":"))
}

fn base64_text(place: &str, text: &str) -> Result<Vec<u8>, VerifyError> {
    decode_base64(text)
        .ok_or_else(|| VerifyError::Malformed { place: place.to_owned(), why: "it is not base64" })
}

fn malformed(why: &'static str) -> VerifyError {
    VerifyError::Malformed { place: PLACE.to_owned(), why }
}
