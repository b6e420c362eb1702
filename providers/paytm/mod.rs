//! Paytm: a checksum in the body, which is a digest with a salt behind it, encrypted. Of a form the values are digested,
//! of JSON the text of one member.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    let kind = Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign);
    kind.open_with(open).samples(&[
        ("payment.TXN_SUCCESS", include_str!("samples/payment.TXN_SUCCESS.json")),
        ("payment.TXN_FAILURE", include_str!("samples/payment.TXN_FAILURE.json")),
        ("refund.accepted.SUCCESS", include_str!("samples/refund.accepted.SUCCESS.json")),
        ("refund.sent", include_str!("samples/refund.sent.json")),
        ("refund.arn", include_str!("samples/refund.arn.json")),
        ("prenotify.SUCCESS", include_str!("samples/prenotify.SUCCESS.json")),
    ])
}

const CHECKSUM: &str = "CHECKSUMHASH";
const SIGNATURE: &str = "/head/signature";
const CONTENT: &str = "/body";
/// Of every checksum.
const IV: &[u8] = b"@@@@&&&&####$$$$";
/// Characters of the digest, in hexadecimal, and of the salt behind it.
const DIGEST_CHARS: usize = 64;
const SALT_CHARS: usize = 4;
/// The names that Paytm documents. They are unsigned: under another one a payer's own words could be taken for Paytm's.
const NAMES: [&str; 36] = [
    "ARN",
    "BANKNAME",
    "BANKTXNID",
    "CHECKSUMHASH",
    "CHILDTXNLIST",
    "CURRENCY",
    "CUSTID",
    "ENC_DATA",
    "GATEWAYNAME",
    "LINKDESCRIPTION",
    "LINKNOTES",
    "MERC_UNQ_REF",
    "MID",
    "NOTIFICATIONDATE",
    "NOTIFICATIONSTATUS",
    "NOTIFICATIONSTATUSCODE",
    "NOTIFICATIONSTATUSMESSAGE",
    "ORDERID",
    "PAYMENTEMAILID",
    "PAYMENTFORM",
    "PAYMENTMOBILENUMBER",
    "PAYMENTMODE",
    "REFERENCEID",
    "REFID",
    "REFUNDAMOUNT",
    "REFUNDDATETIME",
    "REFUNDID",
    "RESPCODE",
    "RESPMSG",
    "RRN",
    "STATUS",
    "SUBS_ID",
    "TXNAMOUNT",
    "TXNDATE",
    "TXNDATETIME",
    "TXNID",
];
/// Besides those, of notices before a debit alone: they have no transaction.
const TXNMESSAGE: &str = "TXNMESSAGE";

fn verify(request: &RawRequest, keys: &Keys) -> Result<Believed, VerifyError> {
    let key = keys.setting("merchant_key")?.as_bytes();
    let body = &request.body;
    let believed = |checksum: &str, content: &[u8]| {
        if is_of(key, checksum, content) {
            Ok(Believed::of(0, &[content]))
        } else {
            Err(VerifyError::mismatch(keys))
        }
    };
    if is_json(body) {
        let checksum = json_text(body, SIGNATURE)
            .map_err(|_| VerifyError::malformed(SIGNATURE, "the body has no signature there"))?;
        let content = json_raw(body, CONTENT)
            .ok_or_else(|| VerifyError::malformed(CONTENT, "the body has no such member, or two"))?;
        return believed(&checksum, content);
    }
    let form = Form::parse(body).ok_or_else(|| VerifyError::malformed("body", Form::TOO_MANY))?;
    check_names(&form, keys).map_err(|why| VerifyError::malformed("body", why))?;
    let checksum = form.text(CHECKSUM);
    let checksum =
        checksum.ok_or_else(|| VerifyError::malformed(CHECKSUM, "it is missing, or there twice"))?;
    // One of Paytm's libraries takes the word for the value.
    believed(checksum, &joined(&form, false)).or_else(|_| believed(checksum, &joined(&form, true)))
}

/// Whether it is JSON, by its bytes alone.
fn is_json(body: &[u8]) -> bool {
    body.trim_ascii_start().first().is_some_and(|byte| b"{[".contains(byte))
}

/// Documented names, each once, and our merchant id where it belongs.
fn check_names(form: &Form, keys: &Keys) -> Result<(), &'static str> {
    let of =
        |setting| keys.settings().all(setting).flat_map(|one| one.value.reveal().split(',')).map(str::trim);
    let has_transaction = form.one("TXNID").is_some();
    let is_known = |name: &str| {
        NAMES.contains(&name)
            || (name == TXNMESSAGE && !has_transaction)
            || of("more_fields").any(|known| known == name)
    };
    for (name, _) in form.pairs() {
        let name = std::str::from_utf8(name).unwrap_or_default();
        if !is_known(name) {
            return Err("it has a field that is not documented: setting `more_fields` allows it");
        }
        if form.one(name).is_none() {
            return Err("a field is there twice");
        }
    }
    let has_shape = |name: &str, is_right: fn(u8) -> bool| {
        form.one(name).is_none_or(|value| value.iter().all(|byte| is_right(*byte)))
    };
    let is_amount = |b: u8| b.is_ascii_digit() || b == b'.';
    if !has_shape("TXNAMOUNT", is_amount) || !has_shape("REFUNDAMOUNT", is_amount) {
        return Err("an amount is no number");
    }
    // Notices before a debit have none.
    let is_ours = |mid: &str| of("merchant_id").any(|known| known == mid);
    match form.text("MID") {
        Some(mid) if is_ours(mid) => Ok(()),
        None if form.one("REFERENCEID").is_some() && !has_transaction => Ok(()),
        _ => Err("its merchant id is not in the settings"),
    }
}

/// The values in the order of their names, with bars between them.
fn joined(form: &Form, is_null_empty: bool) -> Vec<u8> {
    let mut pairs: Vec<_> = form.pairs().iter().filter(|(name, _)| name != CHECKSUM.as_bytes()).collect();
    pairs.sort();
    let is_dropped = |value: &[u8]| is_null_empty && value.eq_ignore_ascii_case(b"null");
    let value = |value: &[u8]| if is_dropped(value) { Vec::new() } else { value.to_vec() };
    pairs.into_iter().map(|(_, text)| value(text)).collect::<Vec<_>>().join(&b'|')
}

/// Whether the checksum is of this content: what is wrong with one that is not is told to nobody.
fn is_of(key: &[u8], checksum: &str, content: &[u8]) -> bool {
    let plain = decode_base64(checksum).and_then(|sealed| open_aes_128_cbc(key, IV, &sealed));
    let plain = plain.unwrap_or_default();
    let Some((hash, salt)) = plain.split_at_checked(DIGEST_CHARS) else { return false };
    let is_long = salt.len() == SALT_CHARS;
    is_long & same(hex_text(&digest(Hash::Sha256, &[content, b"|", salt])).as_bytes(), hash)
}

fn checksum(key: &[u8], content: &[u8], salt: &[u8]) -> Option<String> {
    let hash = hex_text(&digest(Hash::Sha256, &[content, b"|", salt]));
    Some(base64_text(&seal_aes_128_cbc(key, IV, &[hash.as_bytes(), salt].concat())?))
}

/// The body with its type, which Paytm says nowhere.
fn open(_: &Keys, body: &[u8]) -> Result<Vec<u8>, String> {
    let json = Json::parse(body).ok_or("the body is not JSON")?;
    if !json.is_missing("/type") {
        return Err("it has a type of its own".to_owned());
    }
    let of = |family: &str, pointer: &str| match json.text(pointer) {
        Ok(status) => format!("{family}.{status}"),
        Err(_) => family.to_owned(),
    };
    let event_type = if json.text("/body/userCreditInitiateTimestamp").is_ok() {
        of("refund.sent", "/body/status")
    } else if json.text("/body/refundId").is_ok() {
        of("refund.accepted", "/body/status")
    } else if json.text("/ARN").is_ok() {
        "refund.arn".to_owned()
    } else if json.text("/TXNID").is_ok() || json.text("/ORDERID").is_ok() {
        of("payment", "/STATUS")
    } else {
        of("prenotify", "/NOTIFICATIONSTATUS")
    };
    let rest = body.trim_ascii().strip_prefix(b"{").ok_or("the body is no JSON object")?;
    let comma: &[u8] = if rest.trim_ascii_start().starts_with(b"}") { b"" } else { b"," };
    Ok([format!("{{\"type\":{}", json!(event_type)).as_bytes(), comma, rest].concat())
}

fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let key = keys.setting("merchant_key").map_err(|_| SignError::NoSigningKey)?.as_bytes();
    let wrong = |why: &str| SignError::Body(why.to_owned());
    // Another one at another time, as Paytm has it.
    let digest = hex_text(&digest(Hash::Sha256, &[at.now_s.to_string().as_bytes()]));
    let salt = digest.as_bytes().get(..SALT_CHARS).unwrap_or_default();
    if is_json(body) {
        let content = json_raw(body, CONTENT).ok_or_else(|| wrong("it has no body"))?;
        let text = checksum(key, content, salt).ok_or(SignError::NoSigningKey)?;
        let body = json_with(body, SIGNATURE, json!(text).to_string().as_bytes());
        return Ok(Signed::json(body.ok_or_else(|| wrong("it has no place for the signature"))?));
    }
    let form = Form::parse(body).ok_or_else(|| wrong(Form::TOO_MANY))?;
    let text = checksum(key, &joined(&form, false), salt).ok_or(SignError::NoSigningKey)?;
    Ok(Signed::form(form_with(body, CHECKSUM, &text)))
}
