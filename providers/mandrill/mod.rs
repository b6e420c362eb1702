//! Mandrill (Mailchimp Transactional): HMAC-SHA-1 over the URL and the one field of a form, which holds a batch of events.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("send", include_str!("samples/send.json")),
        ("hard_bounce", include_str!("samples/hard_bounce.json")),
        ("blacklist", include_str!("samples/blacklist.json")),
    ])
}

const HEADER: &str = "x-mandrill-signature";
const EVENTS: &str = "mandrill_events";

/// The URL, the name and the value, with nothing between them. A form with another field is refused: its names and values
/// would be joined as well, and could be cut otherwise.
fn signed_text(url: &str, body: &[u8]) -> Option<Vec<u8>> {
    let form = Form::parse(body)?;
    match form.pairs() {
        [(name, events)] if name == EVENTS.as_bytes() => {
            Some([url.as_bytes(), EVENTS.as_bytes(), events].concat())
        }
        _ => None,
    }
}

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let given = deciding_header(&request.headers, HEADER)?;
    let given = decode_base64(given).ok_or_else(|| VerifyError::malformed(HEADER, "it is not base64"))?;
    let text = signed_text(&request.url, &request.body)
        .ok_or_else(|| VerifyError::malformed("body", "it is no form of the one field `mandrill_events`"))?;
    let is_of = |secret: &str| same(&hmac(Hash::Sha1, secret.as_bytes(), &[&text]), &given);
    let secret_n = keys.secrets().position(is_of).ok_or_else(|| VerifyError::mismatch(keys))?;
    Ok(Authenticated::of(secret_n, &[&text]))
}

fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let wrong = || SignError::Body("it is no form of the one field `mandrill_events`".to_owned());
    let text = signed_text(&at.url, body).ok_or_else(wrong)?;
    let secret = keys.secrets().next().ok_or(SignError::NoSigningKey)?;
    let mac = hmac(Hash::Sha1, secret.as_bytes(), &[&text]);
    Ok(Signed::form(body.to_vec()).with(HEADER, base64_text(&mac)))
}
