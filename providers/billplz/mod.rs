//! Billplz: an HMAC over all form fields, sorted and joined.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("paid", include_str!("samples/paid.json")),
        ("due", include_str!("samples/due.json")),
        ("overdue", include_str!("samples/overdue.json")),
    ])
}

const NAME: &str = "x_signature";
/// Fields that some accounts get and that are signed for some of them only.
const EXTRA: [&[u8]; 2] = [b"transaction_id", b"transaction_status"];
/// A field and what it is made of.
type Shape = (&'static str, fn(&[u8]) -> bool);
/// What every bill has. Names and values are signed without anything between them, and a bar stands between fields: a
/// text that holds one, or a name cut short, would be another bill under the same signature.
const SHAPES: [Shape; 6] = [
    ("id", is_word),
    ("collection_id", is_word),
    ("paid", |text| text == b"true" || text == b"false"),
    ("state", |text| !text.is_empty() && text.iter().all(u8::is_ascii_lowercase)),
    ("amount", is_number),
    ("paid_amount", is_number),
];

fn is_word(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte))
}

fn is_number(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let form = Form::parse(&request.body).ok_or_else(|| VerifyError::malformed("body", Form::TOO_MANY))?;
    let signature = form.text(NAME).and_then(decode_hex);
    let signature =
        signature.ok_or_else(|| VerifyError::malformed(NAME, "it is missing or not hexadecimal"))?;
    if let Some((name, _)) = SHAPES.iter().find(|(name, is_fit)| !form.one(name).is_some_and(is_fit)) {
        return Err(VerifyError::malformed(name, "it is missing, there twice, or not as Billplz writes it"));
    }
    let matched = |with_extra| {
        let content = content(&form, with_extra);
        let secret_n = keys.mac_matches(&[&content], &signature)?;
        Some(Authenticated::of(secret_n, &[&content]))
    };
    matched(true).or_else(|| matched(false)).ok_or_else(|| VerifyError::mismatch(keys))
}

fn content(form: &Form, with_extra: bool) -> Vec<u8> {
    let pairs = form.pairs().iter();
    let is_signed =
        |name: &[u8]| name != NAME.as_bytes() && (with_extra || EXTRA.iter().all(|extra| *extra != name));
    let mut texts: Vec<Vec<u8>> = pairs
        .filter(|(name, _)| is_signed(name))
        .map(|(name, value)| [name.as_slice(), value].concat())
        .collect();
    texts.sort_by_cached_key(|text| text.to_ascii_lowercase());
    texts.join(&b'|')
}

fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let form = Form::parse(body).ok_or_else(|| SignError::Body(Form::TOO_MANY.to_owned()))?;
    let mac = keys.mac(&[content(&form, true)]).ok_or(SignError::NoSigningKey)?;
    Ok(Signed::form([body, format!("&{NAME}={}", hex_text(&mac)).as_bytes()].concat()))
}
