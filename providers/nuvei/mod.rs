//! Nuvei: a SHA-256 over the secret and six fields of a form, run together.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    let kind = Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign);
    kind.open_with(open).samples(&[
        ("transaction.APPROVED", include_str!("samples/transaction.APPROVED.json")),
        ("transaction.DECLINED", include_str!("samples/transaction.DECLINED.json")),
        ("transaction.PENDING", include_str!("samples/transaction.PENDING.json")),
    ])
}

const CHECKSUM: &str = "advanceResponseChecksum";
const STATUS: &str = "Status";
/// What a status may be. None begins as another one does, so what stands behind the number of the payment is one of them in
/// one way alone.
const STATES: [&str; 5] = ["APPROVED", "CANCELED", "DECLINED", "ERROR", "PENDING"];
/// `2020-03-14.16:22:34`, with a digit for each `0`.
const TIME: &[u8] = b"0000-00-00.00:00:00";

/// A signed field and what it is made of.
type Field = (&'static str, fn(&str) -> bool);

/// The signed fields in their order, and what each is made of: the text that is signed has nothing between them, so their
/// shapes say where one ends. The SHA-256 of a secret and a text gives that of the same with zero bytes and more behind
/// it, without the secret: no field holds such bytes.
const FIELDS: [Field; 6] = [
    ("totalAmount", is_amount),
    ("currency", is_currency),
    ("responseTimeStamp", is_time),
    ("PPP_TransactionID", is_number),
    (STATUS, is_status),
    ("productId", is_text),
];

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_amount(text: &str) -> bool {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    is_number(whole) && is_number(part)
}

fn is_currency(text: &str) -> bool {
    text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_uppercase())
}

fn is_time(text: &str) -> bool {
    let is_right = |(byte, want): (u8, &u8)| byte == *want || (*want == b'0' && byte.is_ascii_digit());
    text.len() == TIME.len() && text.bytes().zip(TIME).all(is_right)
}

fn is_status(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

fn is_text(text: &str) -> bool {
    !text.contains('\0')
}

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    if matches!(request.body.trim_ascii_start().first(), Some(b'{' | b'[')) {
        return Err(VerifyError::malformed("body", "it is JSON, and would be read as such"));
    }
    let form = Form::parse(&request.body).ok_or_else(|| VerifyError::malformed("body", Form::TOO_MANY))?;
    let checksum = form.text(CHECKSUM).and_then(decode_hex);
    let checksum =
        checksum.ok_or_else(|| VerifyError::malformed(CHECKSUM, "it is missing or not hexadecimal"))?;
    let text = signed_text(&form).map_err(|name| {
        VerifyError::malformed(name, "it is missing, there twice, or not as Nuvei writes it")
    })?;
    let is_signed = |secret: &str| same(&hash(secret, &text), &checksum);
    let secret_n = keys.secrets().position(is_signed).ok_or_else(|| VerifyError::mismatch(keys))?;
    // A status that is not known may be the beginning of the product behind it, or end with it: what is cut so is no notice
    // of the other one.
    let is_known = form.text(STATUS).is_some_and(|status| STATES.contains(&status));
    let mark: &[u8] = if is_known { b"" } else { b"unconfirmed|" };
    Ok(Authenticated::of(secret_n, &[mark, text.as_bytes()]))
}

/// What is signed behind the secret, or the name of the field that is wrong.
fn signed_text(form: &Form) -> Result<String, &'static str> {
    let field = |(name, is_right): &Field| form.text(name).filter(|text| is_right(text)).ok_or(*name);
    FIELDS.iter().map(field).collect()
}

fn hash(secret: &str, text: &str) -> Vec<u8> {
    digest(Hash::Sha256, &[secret.as_bytes(), text.as_bytes()])
}

/// A status that is not known decides nothing.
fn open(_: &Keys, body: &[u8]) -> Result<Vec<u8>, String> {
    let pointer = format!("/{STATUS}");
    match json_text(body, &pointer) {
        Ok(status) if STATES.contains(&status.as_str()) => Ok(body.to_vec()),
        _ => json_with(body, &pointer, b"\"unconfirmed\"").ok_or_else(|| "it has no one status".to_owned()),
    }
}

fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let form = Form::parse(body).ok_or_else(|| SignError::Body(Form::TOO_MANY.to_owned()))?;
    let text =
        signed_text(&form).map_err(|name| SignError::Body(format!("its {name} is none of Nuvei's")))?;
    let secret = keys.secrets().next().ok_or(SignError::NoSigningKey)?;
    Ok(Signed::form(form_with(body, CHECKSUM, &hex_text(&hash(secret, &text)))))
}
