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
/// What a form that is not one of Paytm's documented ones is called, and any other text that the key signed: its names are
/// unsigned, so what it says is not known.
const UNCONFIRMED: &str = "payment.unconfirmed";
/// The merchant id, which is signed in its place in every form but a notice before a debit.
const MID: &str = "MID";
const STATES: [&str; 3] = ["TXN_SUCCESS", "TXN_FAILURE", "PENDING"];

/// What a value may be. State words, amounts, our merchant id and what joins values stand in no other field than theirs,
/// so a text that Paytm signed has one status, one amount and one order, whatever a payer wrote into it.
#[derive(Clone, Copy)]
enum Shape {
    State,
    Amount,
    Merchant,
    /// `INR`.
    Currency,
    Digits,
    /// An id of Paytm's or of a bank's.
    Code,
    /// As [`Shape::Code`], or nothing: a payment that failed has no number at its bank.
    CodeOrNone,
    Date,
    /// A payer's or the merchant's own words, or a name.
    Text,
}

/// The documented fields and what they hold, in the order in which they are signed.
const FIELDS: [(&str, Shape); 32] = [
    ("ARN", Shape::Code),
    ("BANKNAME", Shape::Text),
    ("BANKTXNID", Shape::CodeOrNone),
    ("CURRENCY", Shape::Currency),
    ("CUSTID", Shape::Text),
    ("GATEWAYNAME", Shape::Text),
    ("LINKNOTES", Shape::Text),
    ("MERC_UNQ_REF", Shape::Text),
    (MID, Shape::Merchant),
    ("NOTIFICATIONDATE", Shape::Date),
    ("NOTIFICATIONSTATUS", Shape::Code),
    ("NOTIFICATIONSTATUSCODE", Shape::Digits),
    ("NOTIFICATIONSTATUSMESSAGE", Shape::Text),
    ("ORDERID", Shape::Text),
    ("PAYMENTEMAILID", Shape::Text),
    ("PAYMENTMOBILENUMBER", Shape::Text),
    ("PAYMENTMODE", Shape::Text),
    ("REFERENCEID", Shape::Code),
    ("REFID", Shape::Text),
    ("REFUNDAMOUNT", Shape::Amount),
    ("REFUNDDATETIME", Shape::Date),
    ("REFUNDID", Shape::Code),
    ("RESPCODE", Shape::Digits),
    ("RESPMSG", Shape::Text),
    ("RRN", Shape::Code),
    ("STATUS", Shape::State),
    ("SUBS_ID", Shape::Digits),
    ("TXNAMOUNT", Shape::Amount),
    ("TXNDATE", Shape::Date),
    ("TXNDATETIME", Shape::Date),
    ("TXNID", Shape::Code),
    ("TXNMESSAGE", Shape::Text),
];

/// The forms of payments: what stands before the merchant id, behind the order, and behind the status. No two of them
/// have as many values of the same shapes in a row.
const BEFORE: [&[&str]; 3] = [
    &["BANKNAME", "BANKTXNID", "CURRENCY"],
    &["BANKNAME", "BANKTXNID", "CURRENCY", "GATEWAYNAME"],
    &["BANKNAME", "BANKTXNID", "CURRENCY", "CUSTID", "GATEWAYNAME", "MERC_UNQ_REF"],
];
const OF_LINK: &[&str] = &["BANKNAME", "BANKTXNID", "CUSTID", "GATEWAYNAME", "LINKNOTES", "MERC_UNQ_REF"];
const CONTACT: &[&str] = &["PAYMENTEMAILID", "PAYMENTMOBILENUMBER"];
const RESULT: &[&str] = &["PAYMENTMODE", "RESPCODE", "RESPMSG", "STATUS"];
const DATES: [&[&str]; 3] = [&[], &["TXNDATE"], &["TXNDATE", "TXNDATETIME"]];
const REFUND: [&str; 14] = [
    "ARN",
    "BANKNAME",
    "GATEWAYNAME",
    MID,
    "ORDERID",
    "PAYMENTMODE",
    "REFID",
    "REFUNDAMOUNT",
    "REFUNDDATETIME",
    "REFUNDID",
    "RRN",
    "TXNAMOUNT",
    "TXNDATETIME",
    "TXNID",
];
const BEFORE_DEBIT: [&str; 7] = [
    "NOTIFICATIONDATE",
    "NOTIFICATIONSTATUS",
    "NOTIFICATIONSTATUSCODE",
    "NOTIFICATIONSTATUSMESSAGE",
    "REFERENCEID",
    "TXNDATE",
    "TXNMESSAGE",
];

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let key = keys.setting("merchant_key")?.as_bytes();
    let body = &request.body;
    let authenticated = |checksum: &str, content: &[u8]| {
        if is_of(key, checksum, content) {
            Ok(Authenticated::of(0, &[content]))
        } else {
            Err(VerifyError::mismatch(keys))
        }
    };
    if is_json(body) {
        let checksum = json_text(body, SIGNATURE)
            .map_err(|_| VerifyError::malformed(SIGNATURE, "the body has no signature there"))?;
        let content = json_raw(body, CONTENT)
            .ok_or_else(|| VerifyError::malformed(CONTENT, "the body has no such member, or two"))?;
        return authenticated(&checksum, content);
    }
    let form = Form::parse(body).ok_or_else(|| VerifyError::malformed("body", Form::TOO_MANY))?;
    // Which form it is decides `open`: what the key signed is never refused for a field that is new.
    if form.text(MID).is_some_and(|mid| !is_in(keys, "merchant_id", mid)) {
        return Err(VerifyError::malformed("body", "its merchant id is not in the settings"));
    }
    let checksum = form.text(CHECKSUM);
    let checksum =
        checksum.ok_or_else(|| VerifyError::malformed(CHECKSUM, "it is missing, or there twice"))?;
    // One of Paytm's libraries takes the word for the value.
    authenticated(checksum, &joined(&form, false)).or_else(|_| authenticated(checksum, &joined(&form, true)))
}

/// Whether it is JSON, by its bytes alone.
fn is_json(body: &[u8]) -> bool {
    body.trim_ascii_start().first().is_some_and(|byte| b"{[".contains(byte))
}

fn is_in(keys: &Keys, setting: &str, text: &str) -> bool {
    let mut known = keys.settings().all(setting).flat_map(|one| one.value.reveal().split(','));
    known.any(|known| known.trim() == text)
}

/// The sets of names that Paytm documents, sorted, and each with the further fields of the settings.
fn documented(keys: &Keys) -> Vec<Vec<String>> {
    let mut sets: Vec<Vec<&str>> = vec![REFUND.to_vec(), BEFORE_DEBIT.to_vec()];
    for subscription in [&[][..], &["SUBS_ID"]] {
        for dates in DATES {
            let of = |before: &[&'static str], contact: &[&'static str]| {
                [before, &[MID, "ORDERID"], contact, RESULT, subscription, &["TXNAMOUNT"], dates, &["TXNID"]]
                    .concat()
            };
            sets.extend(BEFORE.map(|before| of(before, &[])));
            sets.push(of(OF_LINK, CONTACT));
        }
    }
    let mut sets: Vec<Vec<String>> =
        sets.into_iter().map(|set| set.into_iter().map(str::to_owned).collect()).collect();
    let more = keys.settings().all("more_fields").flat_map(|one| one.value.reveal().split(','));
    let more: Vec<String> = more.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    if !more.is_empty() {
        let mut with: Vec<Vec<String>> = sets.iter().map(|set| [set.as_slice(), &more].concat()).collect();
        for set in &mut with {
            set.sort();
        }
        sets.append(&mut with);
    }
    sets
}

/// Whether these fields, sorted by their names, are a documented form, and their values in this order no other one: the
/// values alone are signed.
fn is_confirmed(keys: &Keys, fields: &[(String, String)]) -> bool {
    let fits = |set: &&Vec<String>| {
        set.len() == fields.len()
            && set.iter().zip(fields).all(|(name, (_, value))| shape_of(name).fits(keys, value))
    };
    let sets = documented(keys);
    let mut fitting = sets.iter().filter(fits);
    let is_named = |set: &Vec<String>| set.iter().zip(fields).all(|(name, (given, _))| name == given);
    fitting.next().is_some_and(is_named) && fitting.next().is_none()
}

fn shape_of(name: &str) -> Shape {
    FIELDS.iter().find(|(known, _)| *known == name).map_or(Shape::Text, |(_, shape)| *shape)
}

impl Shape {
    fn fits(self, keys: &Keys, text: &str) -> bool {
        let all = |is: fn(u8) -> bool| text.bytes().all(is);
        let is_code = || all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)) && !is_taken(keys, text);
        match self {
            Self::State => STATES.contains(&text),
            Self::Amount => is_amount(text),
            Self::Merchant => is_in(keys, "merchant_id", text),
            Self::Currency => text == "INR",
            Self::Digits => !text.is_empty() && all(|b| b.is_ascii_digit()),
            Self::Code => !text.is_empty() && is_code(),
            Self::CodeOrNone => is_code(),
            Self::Date => text.contains(['-', '/']) && all(|b| b.is_ascii_digit() || b"-/: .".contains(&b)),
            Self::Text => !text.contains(['|', '{', '}', '"']) && !is_taken(keys, text),
        }
    }
}

/// What only one field may hold.
fn is_taken(keys: &Keys, text: &str) -> bool {
    let is_state = STATES.iter().any(|state| text.trim().eq_ignore_ascii_case(state));
    is_state || is_amount(text.trim()) || text == "INR" || is_in(keys, "merchant_id", text)
}

/// `1.00`.
fn is_amount(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.split_once('.').is_some_and(|(whole, part)| is_number(whole) && is_number(part) && part.len() <= 2)
}

/// The values in the order of their names, with bars between them.
fn joined(form: &Form, is_null_empty: bool) -> Vec<u8> {
    let mut pairs: Vec<_> = form.pairs().iter().filter(|(name, _)| name != CHECKSUM.as_bytes()).collect();
    pairs.sort();
    let is_dropped = |value: &[u8]| is_null_empty && value.eq_ignore_ascii_case(b"null");
    let value = |value: &[u8]| if is_dropped(value) { Vec::new() } else { value.to_vec() };
    pairs.into_iter().map(|(_, text)| value(text)).collect::<Vec<_>>().join(&b'|')
}

/// Whether the checksum is of this content. What is wrong with it is not reported, so that no padding oracle exists.
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

/// The body with its type, which Paytm says nowhere. Of JSON what is signed alone.
fn open(keys: &Keys, body: &[u8]) -> Result<Vec<u8>, String> {
    let json = Json::parse(body).ok_or("the body is not JSON")?;
    if !json.is_missing("/type") {
        return Err("it has a type of its own".to_owned());
    }
    let with_status = |family: &str, pointer: &str| match json.text(pointer) {
        Ok(status) => format!("{family}.{status}"),
        Err(_) => family.to_owned(),
    };
    if let Some(content) = json.raw(CONTENT).filter(|_| json.text(SIGNATURE).is_ok()) {
        let event_type = if json.text("/body/refundId").is_err() {
            UNCONFIRMED.to_owned()
        } else if json.text("/body/userCreditInitiateTimestamp").is_ok() {
            with_status("refund.sent", "/body/status")
        } else {
            with_status("refund.accepted", "/body/status")
        };
        return Ok([format!("{{\"type\":{},\"body\":", json!(event_type)).as_bytes(), content, b"}"].concat());
    }
    let fields: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(body).map_err(|_| "the body is no JSON object")?;
    // A field that is there twice has no one value.
    let value = |name: &String| serde_json::from_slice::<String>(json.raw(&format!("/{name}"))?).ok();
    let signed = fields.keys().filter(|name| *name != CHECKSUM);
    let signed: Option<Vec<(String, String)>> =
        signed.map(|name| Some((name.clone(), without_null(value(name)?)))).collect();
    let mut signed = signed.unwrap_or_default();
    signed.sort();
    let event_type = if !is_confirmed(keys, &signed) {
        let rest = body.trim_ascii().strip_prefix(b"{").ok_or("the body is no JSON object")?;
        let comma: &[u8] = if rest.trim_ascii_start().starts_with(b"}") { b"" } else { b"," };
        return Ok([format!("{{\"type\":{}", json!(UNCONFIRMED)).as_bytes(), comma, rest].concat());
    } else if json.text("/ARN").is_ok() {
        "refund.arn".to_owned()
    } else if json.text("/STATUS").is_ok() {
        with_status("payment", "/STATUS")
    } else {
        with_status("prenotify", "/NOTIFICATIONSTATUS")
    };
    let fields = signed.into_iter().map(|(name, value)| (name, serde_json::Value::from(value)));
    let opened: serde_json::Map<_, _> =
        [("type".to_owned(), event_type.into())].into_iter().chain(fields).collect();
    Ok(serde_json::Value::Object(opened).to_string().into_bytes())
}

/// One of Paytm's libraries signs nothing in place of the word.
fn without_null(text: String) -> String {
    if text.eq_ignore_ascii_case("null") { String::new() } else { text }
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
