//! Tap: an HMAC over fields of the body with their names, in a header. Amounts have the decimals of their currency.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    let kind = Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign);
    kind.open_with(open).samples(&[
        ("CHARGE.CAPTURED", include_str!("samples/CHARGE.CAPTURED.json")),
        ("CHARGE.DECLINED", include_str!("samples/CHARGE.DECLINED.json")),
        ("REFUND.REFUNDED", include_str!("samples/REFUND.REFUNDED.json")),
    ])
}

const NAME: &str = "hashstring";
/// The names between the signed values. A value that holds one could be cut there, into values of other fields.
const MARKS: [&str; 8] = [
    "x_id",
    "x_amount",
    "x_currency",
    "x_gateway_reference",
    "x_payment_reference",
    "x_updated",
    "x_status",
    "x_created",
];
/// The signed values that are texts; the amount is a number.
const TEXTS: [&str; 8] = [
    "/id",
    "/currency",
    "/status",
    "/reference/gateway",
    "/reference/payment",
    "/transaction/created",
    "/updated",
    "/created",
];
/// Currencies with three decimals.
const THREE: [&str; 7] = ["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"];
/// What ids start with, and of which objects they are.
const OBJECTS: [(&str, &str); 4] =
    [("chg_", "charge"), ("auth_", "authorize"), ("re_", "refund"), ("inv_", "invoice")];

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let signature = decode_hex(deciding_header(&request.headers, NAME)?);
    let signature = signature.ok_or_else(|| VerifyError::malformed(NAME, "it is not hexadecimal"))?;
    let content = content(&request.body);
    let content =
        content.ok_or_else(|| VerifyError::malformed("body", "a signed field is missing or malformed"))?;
    if !is_of_its_id(&request.body) {
        return Err(VerifyError::malformed("object", "its id is of another one"));
    }
    let secret_n = keys.mac_matches(&[&content], &signature).ok_or_else(|| VerifyError::mismatch(keys))?;
    Ok(Authenticated::of(secret_n, &[content.as_bytes()]))
}

/// Whether the object, which is not signed, is of the sort that the id names, which is: a charge is not a refund.
fn is_of_its_id(body: &[u8]) -> bool {
    let Some(body) = Json::parse(body) else { return false };
    let (id, object) = (body.text("/id").unwrap_or_default(), body.text("/object").unwrap_or_default());
    let known = OBJECTS.iter().find(|(prefix, _)| id.starts_with(prefix));
    known.is_none_or(|(_, name)| object.eq_ignore_ascii_case(name))
}

fn content(body: &[u8]) -> Option<String> {
    let body = Json::parse(body)?;
    let field = |pointer| body.text_or_empty(pointer);
    let currency = body.text("/currency").ok()?;
    let amount = amount(body.raw("/amount")?, if THREE.contains(&currency.as_str()) { 3 } else { 2 })?;
    let head = format!("x_id{}x_amount{amount}x_currency{currency}", body.text("/id").ok()?);
    let status = body.text("/status").ok()?;
    if field("/object")?.eq_ignore_ascii_case("invoice") {
        let (updated, created) = (field("/updated")?, field("/created")?);
        return Some(format!("{head}x_updated{updated}x_status{status}x_created{created}"));
    }
    let (gateway, payment) = (field("/reference/gateway")?, field("/reference/payment")?);
    let created = field("/transaction/created")?;
    Some(format!(
        "{head}x_gateway_reference{gateway}x_payment_reference{payment}x_status{status}x_created{created}"
    ))
}

/// The body as it is, where the signed text can be cut in one way only. Otherwise its fields may be anything: it is kept
/// as no payment, with all of it in one member.
fn open(_: &Keys, body: &[u8]) -> Result<Vec<u8>, String> {
    let json = Json::parse(body).ok_or("the body is not JSON")?;
    let is_cut_elsewhere = |pointer: &&str| {
        let text = json.text_or_empty(pointer).unwrap_or_default();
        MARKS.iter().any(|mark| text.contains(mark))
    };
    if !TEXTS.iter().any(is_cut_elsewhere) {
        return Ok(body.to_vec());
    }
    let head: &[u8] = br#"{"object":"payment","status":"unconfirmed","unconfirmed":"#;
    Ok([head, body.trim_ascii(), b"}"].concat())
}

/// The number with exactly `n` decimals; `None` for one that has more, or an exponent.
fn amount(raw: &[u8], n: usize) -> Option<String> {
    let text = std::str::from_utf8(raw).ok()?.trim_matches('"');
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    // `1.` is `1`, and no way in which a number is written.
    let is_dotted = text.ends_with('.');
    let fraction = fraction.trim_end_matches('0');
    let is_number =
        !is_dotted && !whole.is_empty() && whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit());
    (is_number && fraction.len() <= n).then(|| format!("{whole}.{fraction:0<n$}"))
}

fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let content = content(body).ok_or_else(|| SignError::Body("a signed field is missing".to_owned()))?;
    let mac = keys.mac(&[content]).ok_or(SignError::NoSigningKey)?;
    Ok(Signed::json(body.to_vec()).with(NAME, hex_text(&mac)))
}

#[cfg(test)]
mod tests {
    use super::amount;

    #[test]
    fn amounts_have_the_decimals_of_their_currency() {
        assert_eq!(amount(b"1.5", 3).as_deref(), Some("1.500"));
        assert_eq!(amount(b"10", 2).as_deref(), Some("10.00"));
        assert_eq!(amount(b"1.230", 2).as_deref(), Some("1.23"));
        for bad in ["1.234", "1e3", "-1", "", "null", "1.2.3", "1."] {
            assert_eq!(amount(bad.as_bytes(), 2), None, "{bad}");
        }
    }
}
