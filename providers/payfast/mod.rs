//! Payfast: an MD5 over the fields of a form in their order, as a URL has them, and the merchant's passphrase.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    let kind = Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign);
    kind.open_with(open).samples(&[
        ("payment.COMPLETE", include_str!("samples/payment.COMPLETE.json")),
        ("payment.CANCELLED", include_str!("samples/payment.CANCELLED.json")),
        ("payment.COMPLETE", include_str!("samples/payment.COMPLETE-subscription.json")),
    ])
}

const SIGNATURE: &str = "signature";
const STATUS: &str = "payment_status";
/// What every notice has, and has before its signature. A merchant signs its own requests with the same passphrase, and each
/// payer has one in the browser: it has no id of Payfast's and no status.
const NEEDED: [&str; 4] = ["pf_payment_id", STATUS, "amount_gross", "merchant_id"];
/// What a status may be.
const STATES: [&str; 4] = ["CANCELLED", "COMPLETE", "FAILED", "PENDING"];
/// The setting that lists the merchant's own ids.
const MERCHANTS: &str = "merchant_ids";

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    if matches!(request.body.trim_ascii_start().first(), Some(b'{' | b'[')) {
        return Err(VerifyError::malformed("body", "it is JSON, and would be read as such"));
    }
    let form = Form::parse(&request.body).ok_or_else(|| VerifyError::malformed("body", Form::TOO_MANY))?;
    let signature = form.text(SIGNATURE).and_then(decode_hex);
    let signature =
        signature.ok_or_else(|| VerifyError::malformed(SIGNATURE, "it is missing or not hexadecimal"))?;
    let signed = signed_fields(&form).map_err(|why| VerifyError::malformed("body", why))?;
    let text = signed_text(signed);
    let is_signed = |secret: &str| same(&hash(&text, secret), &signature);
    let secret_n = keys.secrets().position(is_signed).ok_or_else(|| VerifyError::mismatch(keys))?;
    if keys.settings().has(MERCHANTS) {
        keys.check_account(MERCHANTS, form.text("merchant_id"))?;
    }
    Ok(Authenticated::of(secret_n, &[&text]))
}

/// A name and its value.
type Field = (Vec<u8>, Vec<u8>);

/// The fields before the signature. Their names are signed as they are, so a name that holds what joins fields would be
/// two fields under the same signature.
fn signed_fields(form: &Form) -> Result<&[Field], &'static str> {
    let at = form.pairs().iter().position(|(name, _)| name == SIGNATURE.as_bytes());
    let signed = form.pairs().get(..at.unwrap_or(form.pairs().len())).unwrap_or_default();
    let is_plain = |name: &[u8]| {
        !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
    };
    if !signed.iter().all(|(name, _)| is_plain(name)) {
        return Err("a field has a name that Payfast does not write");
    }
    let mut names: Vec<&[u8]> = signed.iter().map(|(name, _)| name.as_slice()).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| matches!(pair, [one, other] if one == other)) {
        return Err("a signed field is there twice");
    }
    if !NEEDED.iter().all(|needed| names.contains(&needed.as_bytes())) {
        return Err("a field that every notice has is missing, or not before the signature");
    }
    Ok(signed)
}

/// The fields as a URL has them, those without a value as well.
fn signed_text(fields: &[Field]) -> Vec<u8> {
    let pairs = fields.iter().map(|(name, value)| [name, b"=".as_slice(), &in_url(value)].concat());
    pairs.collect::<Vec<_>>().join(&b'&')
}

/// What PHP's `urlencode` makes of a text.
fn in_url(text: &[u8]) -> Vec<u8> {
    let byte = |byte: &u8| match byte {
        b' ' => "+".to_owned(),
        _ if byte.is_ascii_alphanumeric() || b"-_.".contains(byte) => char::from(*byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.iter().map(byte).collect::<String>().into_bytes()
}

fn hash(text: &[u8], secret: &str) -> Vec<u8> {
    digest(Hash::Md5, &[text, b"&passphrase=", &in_url(secret.as_bytes())])
}

/// The fields before the signature, which alone are signed, with their type.
fn open(_: &Keys, body: &[u8]) -> Result<Vec<u8>, String> {
    // In a text each quotation mark has a backslash before it, so this is the name of a member.
    let name = format!(",\"{SIGNATURE}\":");
    let at = body.windows(name.len()).position(|part| part == name.as_bytes());
    let signed = at.and_then(|at| body.get(..at));
    let signed = signed.map_or_else(|| body.to_vec(), |signed| [signed, b"}"].concat());
    let json = Json::parse(&signed).ok_or("the body is not JSON")?;
    if !json.is_missing("/type") {
        return Err("it has a type of its own".to_owned());
    }
    let status = json.text(&format!("/{STATUS}"))?;
    let state = if STATES.contains(&status.as_str()) { status.as_str() } else { "unconfirmed" };
    let event_type = json!(format!("payment.{state}"));
    let rest = signed.trim_ascii_start().strip_prefix(b"{").ok_or("the body is no JSON object")?;
    Ok([format!("{{\"type\":{event_type},").as_bytes(), rest].concat())
}

fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let wrong = |why: &str| SignError::Body(why.to_owned());
    let form = Form::parse(body).ok_or_else(|| wrong(Form::TOO_MANY))?;
    // Payfast's own comes last.
    let mut pairs = form.into_pairs();
    pairs.retain(|(name, _)| name != SIGNATURE.as_bytes());
    let text = signed_text(&pairs);
    let form = Form::parse(&text).ok_or_else(|| wrong(Form::TOO_MANY))?;
    signed_fields(&form).map_err(wrong)?;
    let secret = keys.secrets().next().ok_or(SignError::NoSigningKey)?;
    Ok(Signed::form(form_with(&text, SIGNATURE, &hex_text(&hash(&text, secret)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// github Payfast/payfast-php-sdk, `NotificationTest`: of an account without a passphrase,
    /// which this kind refuses.
    const PUBLISHED: &[u8] = b"m_payment_id=000000020&pf_payment_id=1579137&payment_status=COMPLETE&item_name=Order+%23000000020&item_description=&amount_gross=15.00&amount_fee=-2.30&amount_net=12.70&custom_str1=&custom_str2=&custom_str3=&custom_str4=&custom_str5=&custom_int1=&custom_int2=&custom_int3=&custom_int4=&custom_int5=&name_first=Tom&name_last=Tom&email_address=lindley%2Buser1%40appinlet.com&merchant_id=10027938&signature=4078bca2c8987e0e0c4e7230f2f46323";

    #[test]
    fn fields_are_signed_in_their_order_as_php_writes_them() {
        let form = Form::parse(PUBLISHED).expect("a form");
        let text = signed_text(signed_fields(&form).expect("signed fields"));
        assert_eq!(hex_text(&digest(Hash::Md5, &[&text])), "4078bca2c8987e0e0c4e7230f2f46323");
        assert_eq!(in_url(b"a *~-_.'\xff"), b"a+%2A%7E-_.%27%FF");
    }
}
