//! Paymob: an HMAC over chosen fields, joined without anything between them; in the query, or in the body.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    let kind = Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign);
    kind.open_with(open).samples(&[
        ("TRANSACTION", include_str!("samples/TRANSACTION.json")),
        ("TOKEN", include_str!("samples/TOKEN.json")),
        ("suspended", include_str!("samples/suspended.json")),
    ])
}

/// The query's value; a header of this name serves where a proxy, or `hooklatch send`, sets no query.
const NAME: &str = "hmac";
/// Where a subscription has it.
const IN_BODY: &str = "/hmac";

/// What a subscription has, and nothing else.
const SUBSCRIBED: &str = "/subscription_data";
/// The setting that shows handlers what no HMAC covers.
const FIELDS: &str = "fields";
/// Longest fraction of a second, which is written with all of its digits or not at all.
const MICROS_CHARS: usize = 6;
/// Digits at the end of a card number that is shown.
const PAN_DIGITS: usize = 4;

/// What a field may look like. The text that is signed has no separators: only their shapes say where one field ends
/// and the next begins, and which of the three texts it is.
#[derive(Clone, Copy)]
enum Shape {
    /// `100000`.
    Number,
    /// A number that Paymob writes as a text.
    Digits,
    /// `true`, `false`.
    Flag,
    /// `2024-06-13T11:33:44.592345`, or without the fraction: of these lengths alone, so that nothing behind it belongs to
    /// it.
    Time,
    /// `EGP`.
    Currency,
    /// `MasterCard`: no digits.
    Word,
    /// `2346`, or nothing: it ends with a digit, where a word begins.
    Pan,
    /// `xxxx-xxxx-xxxx-2346`: four digits at its end, and before them nothing that a number or a token has.
    MaskedPan,
    /// `a@example.com`: it begins with a character of a name and ends with a letter, where a number begins.
    Email,
    /// What became of a subscription: no digits, which its number has alone.
    Trigger,
    /// `e98aceb9…`, in lower-case hexadecimal.
    Hex,
}

/// The signed fields of a transaction, in Paymob's order. Two numbers stand together twice, `id` before
/// `integration_id` and `order.id` before `owner`, and two words once: no shape distinguishes these, the signed text as
/// replay key does.
const TRANSACTION: [(&str, Shape); 20] = [
    ("/obj/amount_cents", Shape::Number),
    ("/obj/created_at", Shape::Time),
    ("/obj/currency", Shape::Currency),
    ("/obj/error_occured", Shape::Flag),
    ("/obj/has_parent_transaction", Shape::Flag),
    ("/obj/id", Shape::Number),
    ("/obj/integration_id", Shape::Number),
    ("/obj/is_3d_secure", Shape::Flag),
    ("/obj/is_auth", Shape::Flag),
    ("/obj/is_capture", Shape::Flag),
    ("/obj/is_refunded", Shape::Flag),
    ("/obj/is_standalone_payment", Shape::Flag),
    ("/obj/is_voided", Shape::Flag),
    ("/obj/order/id", Shape::Number),
    ("/obj/owner", Shape::Number),
    ("/obj/pending", Shape::Flag),
    ("/obj/source_data/pan", Shape::Pan),
    ("/obj/source_data/sub_type", Shape::Word),
    ("/obj/source_data/type", Shape::Word),
    ("/obj/success", Shape::Flag),
];

/// Those of a saved card. Of its numbers at the end, the merchant's and the order's, no shape says where one ends, nor
/// where the token begins.
const CARD: [(&str, Shape); 8] = [
    ("/obj/card_subtype", Shape::Word),
    ("/obj/created_at", Shape::Time),
    ("/obj/email", Shape::Email),
    ("/obj/id", Shape::Number),
    ("/obj/masked_pan", Shape::MaskedPan),
    ("/obj/merchant_id", Shape::Number),
    ("/obj/order_id", Shape::Digits),
    ("/obj/token", Shape::Hex),
];

/// Those of a subscription, with `for` between them.
const SUBSCRIPTION: [(&str, Shape); 2] =
    [("/trigger_type", Shape::Trigger), ("/subscription_data/id", Shape::Number)];

impl Shape {
    fn fits(self, text: &str) -> bool {
        let all = |text: &str, is: fn(u8) -> bool| text.bytes().all(is);
        let is_number = |text: &str| !text.is_empty() && all(text, |b| b.is_ascii_digit());
        match self {
            Self::Number | Self::Digits => is_number(text),
            Self::Flag => text == "true" || text == "false",
            Self::Time => is_time(text),
            Self::Currency => text.len() == 3 && all(text, |b| b.is_ascii_uppercase()),
            // `true` and `false` stand before and behind words.
            Self::Word => {
                all(text, |b| !b.is_ascii_digit()) && !text.contains("true") && !text.contains("false")
            }
            Self::Pan => text.is_empty() || text.ends_with(|c: char| c.is_ascii_digit()),
            Self::MaskedPan => {
                let digits = text.trim_start_matches(['x', 'X', '*', '-']);
                digits.len() == PAN_DIGITS && is_number(digits) && digits.len() < text.len()
            }
            Self::Email => {
                text.contains('@')
                    && text.starts_with(|c: char| c.is_ascii_alphanumeric())
                    && text.ends_with(|c: char| c.is_ascii_alphabetic())
            }
            Self::Trigger => !text.is_empty() && all(text, |b| b.is_ascii_alphabetic() || b" _".contains(&b)),
            Self::Hex => !text.is_empty() && all(text, |b| matches!(b, b'0'..=b'9' | b'a'..=b'f')),
        }
    }
}

impl Shape {
    /// The value as Paymob writes it, so that one signed text is one content, however a copy of it is written.
    fn value(self, text: &str) -> serde_json::Value {
        match (self, text) {
            (_, "") => serde_json::Value::Null,
            (Self::Flag, flag) => json!(flag == "true"),
            // A number that begins with a zero is none.
            (Self::Number, text) => match text.parse::<u64>() {
                Ok(number) if number.to_string() == text => json!(number),
                _ => json!(text),
            },
            (_, text) => json!(text),
        }
    }
}

/// A time as Python writes it, which leaves out a fraction of zero.
fn is_time(text: &str) -> bool {
    const FORM: &[u8] = b"0000-00-00T00:00:00";
    let is_in_place =
        |(byte, form): (u8, &u8)| if form.is_ascii_digit() { byte.is_ascii_digit() } else { byte == *form };
    let Some((whole, fraction)) = text.split_at_checked(FORM.len()) else { return false };
    let is_micros = |digits: &str| digits.len() == MICROS_CHARS && digits.bytes().all(|b| b.is_ascii_digit());
    whole.bytes().zip(FORM).all(is_in_place)
        && (fraction.is_empty() || fraction.strip_prefix('.').is_some_and(is_micros))
}

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let malformed = |why| VerifyError::malformed(NAME, why);
    let body = Json::parse(&request.body).ok_or_else(|| VerifyError::malformed("body", "it is not JSON"))?;
    let given = match (body.text(IN_BODY), query_value(&request.url, NAME)) {
        (Ok(given), _) if !body.is_missing(SUBSCRIBED) => given,
        (_, Some(given)) => given,
        _ => deciding_header(&request.headers, NAME)?.to_owned(),
    };
    let given = decode_hex(&given).filter(|_| !given.bytes().any(|b| b.is_ascii_uppercase()));
    let given = given.ok_or_else(|| malformed("it is not lower-case hexadecimal"))?;
    let signed = signed_text(&body).ok_or_else(|| malformed("a signed field is missing or there twice"))?;
    let is_match = |secret: &str| same(&hmac(Hash::Sha512, secret.as_bytes(), &[signed.as_bytes()]), &given);
    let secret_n = keys.secrets().position(is_match).ok_or_else(|| VerifyError::mismatch(keys))?;
    let mut known = keys.settings().all("integration_ids").peekable();
    let (is_any, integration) = (known.peek().is_some(), body.text("/obj/integration_id"));
    let is_known = |id: String| known.any(|one| same(one.value.reveal().as_bytes(), id.as_bytes()));
    if is_any && !integration.map_or(true, is_known) {
        return Err(VerifyError::malformed("integration_id", "it is none of the configured ones"));
    }
    Ok(Authenticated::of(secret_n, &[signed.as_bytes()]))
}

/// Which of the three it is: the fields that are signed of it, and what stands between two of them.
fn form(body: &Json<'_>) -> Option<(&'static [(&'static str, Shape)], &'static str)> {
    if !body.is_missing(SUBSCRIBED) {
        return Some((&SUBSCRIPTION, "for"));
    }
    match body.text("/type").as_deref() {
        Ok("TOKEN") => Some((&CARD, "")),
        Ok("TRANSACTION") => Some((&TRANSACTION, "")),
        // As Paymob wrote them once.
        Err(_) if body.is_missing("/type") => Some((&TRANSACTION, "")),
        _ => None,
    }
}

/// What is signed, of whatever shape.
fn signed_text(body: &Json<'_>) -> Option<String> {
    let (fields, joint) = form(body)?;
    let texts: Option<Vec<String>> = fields.iter().map(|(pointer, _)| field(body, pointer)).collect();
    Some(texts?.join(joint)).filter(|text| text != joint)
}

/// What handlers get: of a transaction and of a card what is signed. A payer has the HMAC of their own payment from the
/// browser, and could write any order of the merchant's beside it. What has another shape could be cut elsewhere: it is
/// kept as no payment, with all of it in one member.
fn open(keys: &Keys, body: &[u8]) -> Result<Vec<u8>, String> {
    let json = Json::parse(body).ok_or("the body is not JSON")?;
    let (fields, _) = form(&json).ok_or("it is neither a transaction, nor a card, nor a subscription")?;
    let fitting = |(pointer, shape): &(&'static str, Shape)| {
        field(&json, pointer).filter(|text| shape.fits(text)).map(|text| (*pointer, *shape, text))
    };
    let fitting: Option<Vec<_>> = fields.iter().map(fitting).collect();
    let is_subscription = !json.is_missing(SUBSCRIBED);
    let is_other_too = is_subscription && !(json.is_missing("/type") && json.is_missing("/obj"));
    let Some(signed) = fitting.filter(|_| !is_other_too) else {
        let head: &[u8] = br#"{"type":"payment.unconfirmed","unconfirmed":"#;
        return Ok([head, body.trim_ascii(), b"}"].concat());
    };
    // Dates distinguish the notices of a subscription; none is signed.
    if is_subscription {
        return Ok(body.to_vec());
    }
    let event_type = json.text("/type").unwrap_or_else(|_| "TRANSACTION".to_owned());
    if keys.settings().text(FIELDS) == Some("all") {
        let rest = body.trim_ascii().strip_prefix(b"{").filter(|_| json.is_missing("/type"));
        let with_type = |rest| [format!("{{\"type\":{},", json!(event_type)).as_bytes(), rest].concat();
        return Ok(rest.map_or_else(|| body.to_vec(), with_type));
    }
    let mut opened = json!({ "type": event_type });
    for (pointer, shape, text) in signed {
        set(&mut opened, pointer, shape.value(&text));
    }
    Ok(opened.to_string().into_bytes())
}

/// Writes what a pointer names, and the objects on the way to it where they are missing.
fn set(json: &mut serde_json::Value, pointer: &str, value: serde_json::Value) {
    let place = pointer.split('/').skip(1).try_fold(json, |at, name| {
        if !at.is_object() {
            *at = json!({});
        }
        Some(at.as_object_mut()?.entry(name.to_owned()).or_insert(serde_json::Value::Null))
    });
    if let Some(place) = place {
        *place = value;
    }
}

/// A text, number or flag as it is written; what is missing or `null` is empty.
fn field(body: &Json<'_>, pointer: &str) -> Option<String> {
    match body.raw(pointer) {
        Some(b"null") => Some(String::new()),
        Some(flag @ (b"true" | b"false")) => String::from_utf8(flag.to_vec()).ok(),
        Some(_) => body.text(pointer).ok(),
        None => body.is_missing(pointer).then(String::new),
    }
}

fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let signed = Json::parse(body).as_ref().and_then(signed_text);
    let signed = signed.ok_or_else(|| SignError::Body("a signed field is missing".to_owned()))?;
    let secret = keys.secrets().next().ok_or(SignError::NoSigningKey)?;
    let mac = hex_text(&hmac(Hash::Sha512, secret.as_bytes(), &[signed.as_bytes()]));
    match json_with(body, IN_BODY, json!(mac).to_string().as_bytes()) {
        Some(body) if json_is_missing(&body, "/obj") => Ok(Signed::json(body)),
        _ => Ok(Signed::json(body.to_vec()).with(NAME, mac)),
    }
}
