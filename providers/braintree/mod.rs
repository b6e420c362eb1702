//! Braintree: an HMAC-SHA-1 over one form field, by the SHA-1 of the private key, beside the public key.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    let kind = Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign);
    kind.handshake_with(challenge).open_with(open).samples(&[
        ("subscription_charged_successfully", include_str!("samples/subscription_charged_successfully.json")),
        ("subscription_canceled", include_str!("samples/subscription_canceled.json")),
        ("dispute_opened", include_str!("samples/dispute_opened.json")),
        ("dispute_won", include_str!("samples/dispute_won.json")),
        ("transaction_reviewed", include_str!("samples/transaction_reviewed.json")),
    ])
}

const SIGNATURE: &str = "bt_signature";
const PAYLOAD: &str = "bt_payload";
const CHALLENGE: &str = "bt_challenge";

/// Most pairs of a key and a signature that are looked at; Braintree sends one for each key of an account.
const SIGNATURES_N_MAX: usize = 16;
/// How long a challenge is. Characters.
const CHALLENGE_LENGTHS: std::ops::RangeInclusive<usize> = 20..=32;

/// The form is these two fields and nothing else, so that no other body can be made of a signed one.
fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let form = Form::parse(&request.body).ok_or_else(|| VerifyError::malformed("body", Form::TOO_MANY))?;
    let field = |name| {
        let text = form.one(name).and_then(|bytes| std::str::from_utf8(bytes).ok());
        text.ok_or_else(|| VerifyError::malformed(name, "it is missing, or there twice"))
    };
    let (signature, payload) = (field(SIGNATURE)?, field(PAYLOAD)?);
    if form.pairs().len() != 2 {
        return Err(VerifyError::malformed("body", "it has another field than the two that are sent"));
    }
    let is_base64 = |b: u8| b.is_ascii_alphanumeric() || b"+/=\n".contains(&b);
    if payload.is_empty() || !payload.bytes().all(is_base64) {
        return Err(VerifyError::malformed(PAYLOAD, "it is not base64"));
    }
    // Anybody can have a challenge signed, by the same key.
    if is_challenge(payload.trim_end()) {
        return Err(VerifyError::malformed(PAYLOAD, "it is a challenge, and no notification"));
    }
    let public_key = keys.setting("public_key")?;
    let pairs = signature.split('&').take(SIGNATURES_N_MAX).filter_map(|pair| pair.split_once('|'));
    let given: Vec<Vec<u8>> =
        pairs.filter(|(key, _)| *key == public_key).filter_map(|(_, text)| decode_hex(text)).collect();
    if given.is_empty() {
        return Err(VerifyError::malformed(SIGNATURE, "it holds no signature of the public key"));
    }
    let key = mac_key(keys.setting("private_key")?);
    // A newline at the end is lost on some ways.
    let macs = [&[payload.as_bytes()][..], &[payload.as_bytes(), b"\n"]]
        .map(|content| hmac(Hash::Sha1, &key, content));
    let is_signed = given.iter().any(|given| macs.iter().any(|mac| same(mac, given)));
    if is_signed { Ok(Authenticated::of(0, &[payload.as_bytes()])) } else { Err(VerifyError::mismatch(keys)) }
}

fn is_challenge(text: &str) -> bool {
    CHALLENGE_LENGTHS.contains(&text.len()) && text.bytes().all(|b| b"0123456789abcdef".contains(&b))
}

fn mac_key(private_key: &str) -> Vec<u8> {
    digest(Hash::Sha1, &[private_key.as_bytes()])
}

/// `GET ?bt_challenge=…` proves that we hold the key. Only what looks like a challenge is signed.
fn challenge(request: &RawRequest, keys: &Keys) -> Option<Reply> {
    let text = query_value(&request.url, CHALLENGE).filter(|_| request.method == "GET")?;
    let text = Some(text).filter(|text| is_challenge(text))?;
    let (public, private) = (keys.setting("public_key").ok()?, keys.setting("private_key").ok()?);
    let mac = hmac(Hash::Sha1, &mac_key(private), &[text.as_bytes()]);
    Some(Reply::text(format!("{public}|{}", hex_text(&mac))))
}

fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let setting = |name| keys.setting(name).map_err(|_| SignError::NoSigningKey);
    let payload = base64_text(body);
    let mac = hmac(Hash::Sha1, &mac_key(setting("private_key")?), &[payload.as_bytes()]);
    let (public, mac) = (setting("public_key")?, hex_text(&mac));
    let payload = payload.replace('+', "%2B").replace('=', "%3D");
    Ok(Signed::form(format!("{SIGNATURE}={public}%7C{mac}&{PAYLOAD}={payload}").into_bytes()))
}

/// What names the subject of a notification, in the order in which it is looked for.
const IDS: [&str; 6] = ["id", "token", "payment_id", "payment-id", "merchant_public_id", "merchant_id"];

/// The notification inside, as JSON: its members, and what it is about as `subject_type` and `subject_id`. A subject
/// without an id goes by the digest of the payload.
fn open(_: &Keys, form: &[u8]) -> Result<Vec<u8>, String> {
    let raw = json_raw(form, &format!("/{PAYLOAD}")).ok_or("bt_payload is missing, or there twice")?;
    let payload: String = serde_json::from_slice(raw).map_err(|_| "bt_payload is no text")?;
    let xml = decode_base64_long(&payload).and_then(|bytes| String::from_utf8(bytes).ok());
    let xml = xml.ok_or("bt_payload is not base64 of UTF-8")?;
    let mut notification = xml_as_json(&xml, "notification").map_err(|why| format!("bt_payload: {why}"))?;
    let subject = notification.get("subject").and_then(serde_json::Value::as_object);
    let (subject_type, subject) = subject.and_then(|subject| subject.iter().next()).unzip();
    let id = IDS.iter().find_map(|name| subject?.get(name)?.as_str()).filter(|id| !id.is_empty());
    let id = id.map_or_else(|| hex_text(&digest(Hash::Sha256, &[xml.as_bytes()])), str::to_owned);
    let subject_type = subject_type.cloned().unwrap_or_default();
    let members = notification.as_object_mut().ok_or("bt_payload: the notification is empty")?;
    members.insert("subject_id".to_owned(), id.into());
    members.insert("subject_type".to_owned(), subject_type.into());
    Ok(notification.to_string().into_bytes())
}
