//! Paymob: an HMAC over chosen fields, joined without anything between them; in the query, or in the body.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("TRANSACTION", include_str!("samples/TRANSACTION.json")),
        ("TOKEN", include_str!("samples/TOKEN.json")),
        ("suspended", include_str!("samples/suspended.json")),
    ])
}

/// The query's value; a header of this name serves where a proxy, or `hooklatch send`, sets no query.
const NAME: &str = "hmac";
/// Where a subscription has it.
const IN_BODY: &str = "/hmac";

/// What a field may look like. The text that is signed has no separators: only their shapes say where one field ends
/// and the next begins, and which of the three texts it is.
#[derive(Clone, Copy)]
enum Shape {
    /// `100000`.
    Number,
    /// `true`, `false`.
    Flag,
    /// `2024-06-13T11:33:44.592345`: four digits and a `-`, so that no digit of an amount belongs to it.
    Time,
    /// `EGP`.
    Currency,
    /// `MasterCard`: no digits.
    Word,
    /// Anything.
    Text,
}

/// The signed fields of a transaction, in Paymob's order. Two numbers stand together twice, `id` before
/// `integration_id` and `order.id` before `owner`: no shape tells these apart, the signed text as replay key does.
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
    ("/obj/source_data/pan", Shape::Text),
    ("/obj/source_data/sub_type", Shape::Text),
    ("/obj/source_data/type", Shape::Word),
    ("/obj/success", Shape::Flag),
];

/// Those of a saved card.
const CARD: [(&str, Shape); 8] = [
    ("/obj/card_subtype", Shape::Word),
    ("/obj/created_at", Shape::Time),
    ("/obj/email", Shape::Text),
    ("/obj/id", Shape::Number),
    ("/obj/masked_pan", Shape::Text),
    ("/obj/merchant_id", Shape::Number),
    ("/obj/order_id", Shape::Number),
    ("/obj/token", Shape::Text),
];

impl Shape {
    fn fits(self, text: &str) -> bool {
        let all = |is: fn(u8) -> bool| text.bytes().all(is);
        match self {
            Self::Number => !text.is_empty() && all(|b| b.is_ascii_digit()),
            Self::Flag => text == "true" || text == "false",
            Self::Time => {
                let (year, rest) = text.split_once('-').unwrap_or_default();
                let is_year = year.len() == 4 && year.bytes().all(|b| b.is_ascii_digit());
                is_year && rest.bytes().all(|b| b.is_ascii_digit() || b"-T:.+Z".contains(&b))
            }
            Self::Currency => text.len() == 3 && all(|b| b.is_ascii_uppercase()),
            Self::Word => all(|b| !b.is_ascii_digit()),
            Self::Text => true,
        }
    }
}

fn verify(request: &RawRequest, keys: &Keys) -> Result<Believed, VerifyError> {
    let malformed = |why| VerifyError::malformed(NAME, why);
    let body = Json::parse(&request.body).ok_or_else(|| VerifyError::malformed("body", "it is not JSON"))?;
    let given = match (body.text(IN_BODY), query_value(&request.url, NAME)) {
        (Ok(given), _) if !body.is_missing("/subscription_data") => given,
        (_, Some(given)) => given,
        _ => deciding_header(&request.headers, NAME)?.to_owned(),
    };
    let given = decode_hex(&given).filter(|_| !given.bytes().any(|b| b.is_ascii_uppercase()));
    let given = given.ok_or_else(|| malformed("it is not lower-case hexadecimal"))?;
    let signed =
        signed_text(&body).ok_or_else(|| malformed("a signed field is missing or of another shape"))?;
    let is_match = |secret: &str| same(&hmac(Hash::Sha512, secret.as_bytes(), &[signed.as_bytes()]), &given);
    let secret_n = keys.secrets().position(is_match).ok_or_else(|| VerifyError::mismatch(keys))?;
    let mut known = keys.settings().all("integration_ids").peekable();
    let (is_any, integration) = (known.peek().is_some(), body.text("/obj/integration_id"));
    let is_known = |id: String| known.any(|one| same(one.value.reveal().as_bytes(), id.as_bytes()));
    if is_any && !integration.map_or(true, is_known) {
        return Err(VerifyError::malformed("integration_id", "it is none of the configured ones"));
    }
    Ok(Believed::of(secret_n, &[signed.as_bytes()]))
}

/// Which of the three it is, and what is signed of it.
fn signed_text(body: &Json<'_>) -> Option<String> {
    if !body.is_missing("/subscription_data") {
        let trigger = field(body, "/trigger_type")?;
        let is_plain = trigger.bytes().all(|b| b.is_ascii_alphabetic() || b" _".contains(&b));
        let id = field(body, "/subscription_data/id").filter(|id| Shape::Number.fits(id))?;
        return (is_plain && !trigger.is_empty()).then(|| format!("{trigger}for{id}"));
    }
    let fields: &[(&str, Shape)] = match body.text("/type").as_deref() {
        Ok("TOKEN") => &CARD,
        Ok("TRANSACTION") => &TRANSACTION,
        // As Paymob wrote them once.
        Err(_) if body.is_missing("/type") => &TRANSACTION,
        _ => return None,
    };
    let texts = fields.iter().map(|(pointer, shape)| field(body, pointer).filter(|text| shape.fits(text)));
    texts.collect()
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
