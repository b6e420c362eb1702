//! Wompi: a SHA-256 over fields of the body that the body itself names, a time and the events secret, run together.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    let kind = Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign);
    kind.open_with(open).samples(&[
        ("transaction.updated.APPROVED", include_str!("samples/transaction.updated.APPROVED.json")),
        ("transaction.updated.DECLINED", include_str!("samples/transaction.updated.DECLINED.json")),
        ("transaction.updated.VOIDED", include_str!("samples/transaction.updated.VOIDED.json")),
        ("nequi_token.updated.unconfirmed", include_str!("samples/nequi_token.updated.unconfirmed.json")),
    ])
}

const CHECKSUM: &str = "/signature/checksum";
const PROPERTIES: &str = "/signature/properties";
const TIME: &str = "/timestamp";
const TRANSACTION: &str = "transaction.updated";
/// What is signed of a transaction, in this order. Of any other list nothing says where a value ends and the next one begins,
/// as the list is no part of what is signed: what it names decides nothing.
const LIST: [&str; 3] = ["transaction.id", "transaction.status", "transaction.amount_in_cents"];
/// What a status may be.
const STATES: [&str; 5] = ["APPROVED", "DECLINED", "ERROR", "PENDING", "VOIDED"];
/// Most properties that a list has: each is looked for before anybody is believed.
const PROPERTIES_N_MAX: usize = 32;
/// Digits of the time: it stands behind an amount, and with another number of digits it would make that larger or smaller.
const TIME_DIGITS: usize = 10;

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let json = Json::parse(&request.body).ok_or_else(|| VerifyError::malformed("body", "it is not JSON"))?;
    let checksum = json.text(CHECKSUM).ok().as_deref().and_then(decode_hex);
    let checksum =
        checksum.ok_or_else(|| VerifyError::malformed(CHECKSUM, "it is missing or not hexadecimal"))?;
    let notice = Notice::of(&request.body).map_err(|why| VerifyError::malformed(PROPERTIES, why))?;
    let is_signed = |secret: &str| same(&notice.hash(secret), &checksum);
    let secret_n = keys.secrets().position(is_signed).ok_or_else(|| VerifyError::mismatch(keys))?;
    // What is cut otherwise, under a list of its sender's choice, is no notice of the transaction.
    let mark: &[u8] = if notice.state.is_some() { b"" } else { b"unconfirmed|" };
    Ok(Authenticated::of(secret_n, &[mark, notice.text.as_bytes()]))
}

/// What is signed before the secret, and the state of the transaction that it is of.
struct Notice {
    text: String,
    /// `None` for what can be read in several ways, and for events that are not of a transaction.
    state: Option<String>,
}

impl Notice {
    fn of(body: &[u8]) -> Result<Self, &'static str> {
        let json = Json::parse(body).ok_or("the body is not JSON")?;
        let list = json_elements(body, PROPERTIES).ok_or("there is no list, or there are two")?;
        if list.len() > PROPERTIES_N_MAX {
            return Err("it names more properties than are signed");
        }
        let mut names = Vec::with_capacity(list.len());
        for name in list {
            let name: String = serde_json::from_slice(name).map_err(|_| "a property is no text")?;
            if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(&byte)) {
                return Err("a property is no name");
            }
            names.push(name);
        }
        let event = json.text("/event").unwrap_or_default();
        if event == TRANSACTION && !LIST.iter().all(|needed| names.iter().any(|name| name == needed)) {
            return Err("of a transaction, id, status and amount have to be signed");
        }
        let time = json.text(TIME).map_err(|_| "the time is missing, or there twice")?;
        let is_time = time.len() == TIME_DIGITS && is_number(&time);
        let mut values = Vec::with_capacity(names.len());
        for name in &names {
            let value = json.text_or_empty(&format!("/data/{}", name.replace('.', "/")));
            values.push(value.ok_or("a signed value is there twice, or is no text or whole number")?);
        }
        let state = match values.as_slice() {
            [id, state, amount] if is_time && event == TRANSACTION && names == LIST => {
                let is_right = is_id(id) && STATES.contains(&state.as_str()) && is_number(amount);
                is_right.then(|| state.clone())
            }
            _ => None,
        };
        Ok(Self { text: values.concat() + &time, state })
    }

    fn hash(&self, secret: &str) -> Vec<u8> {
        digest(Hash::Sha256, &[self.text.as_bytes(), secret.as_bytes()])
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// As in `1234-1610641025-49201`: no other object of Wompi's has such an id.
fn is_id(text: &str) -> bool {
    let mut parts = text.split('-');
    let are_numbers = parts.by_ref().take(3).filter(|part| is_number(part)).count() == 3;
    are_numbers && parts.next().is_none()
}

/// The body with its type: the event, which is not signed, and the state of the transaction, which is.
fn open(_: &Keys, body: &[u8]) -> Result<Vec<u8>, String> {
    let json = Json::parse(body).ok_or("the body is not JSON")?;
    if !json.is_missing("/type") {
        return Err("it has a type of its own".to_owned());
    }
    let event = json.text("/event").unwrap_or_default();
    let is_name = |byte: u8| byte.is_ascii_lowercase() || b"_.".contains(&byte);
    let is_named = !event.is_empty() && event.bytes().all(is_name);
    let event = if is_named { event.as_str() } else { "event" };
    let state = Notice::of(body).ok().and_then(|notice| notice.state);
    let event_type = json!(format!("{event}.{}", state.as_deref().unwrap_or("unconfirmed")));
    let rest = body.trim_ascii().strip_prefix(b"{").ok_or("the body is no JSON object")?;
    let comma: &[u8] = if rest.trim_ascii_start().starts_with(b"}") { b"" } else { b"," };
    Ok([format!("{{\"type\":{event_type}").as_bytes(), comma, rest].concat())
}

fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let wrong = |why: &str| SignError::Body(why.to_owned());
    let notice = Notice::of(body).map_err(wrong)?;
    let secret = keys.secrets().next().ok_or(SignError::NoSigningKey)?;
    let checksum = hex_text(&notice.hash(secret));
    let body = json_with(body, CHECKSUM, json!(checksum).to_string().as_bytes());
    Ok(Signed::json(body.ok_or_else(|| wrong("it has no place for the checksum"))?))
}
