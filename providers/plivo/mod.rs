//! Plivo: an HMAC over the URL, the sorted form fields and a nonce.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("sms.delivered", include_str!("samples/sms.delivered.json")),
        ("sms", include_str!("samples/sms.json")),
        ("Hangup.completed", include_str!("samples/Hangup.completed.json")),
    ])
}

const NAME: &str = "x-plivo-signature-v3";
const NONCE: &str = "x-plivo-signature-v3-nonce";
/// Most signatures that are tried: Plivo sends one for each auth token of an account.
const SIGNATURES_N_MAX: usize = 8;

fn verify(request: &RawRequest, keys: &Keys) -> Result<Believed, VerifyError> {
    let nonce = deciding_header(&request.headers, NONCE)?;
    // The nonce is what stands behind the last dot, or an end of the last field could be taken for its beginning.
    if nonce.is_empty() || nonce.contains('.') {
        return Err(VerifyError::malformed(NONCE, "it is empty, or has a dot"));
    }
    let given = deciding_header(&request.headers, NAME)?.split(',').take(SIGNATURES_N_MAX);
    let given: Vec<Vec<u8>> = given.filter_map(|text| decode_base64(text.trim())).collect();
    if given.is_empty() {
        return Err(VerifyError::malformed(NAME, "it is not base64"));
    }
    let form = Form::parse(&request.body).ok_or_else(|| VerifyError::malformed("body", Form::TOO_MANY))?;
    let signed = signed_text(&request.url, form, nonce)
        .ok_or_else(|| VerifyError::malformed("query", Form::TOO_MANY))?;
    let is_match = |secret: &str| {
        let mac = hmac(Hash::Sha256, secret.as_bytes(), &[&signed]);
        given.iter().any(|given| same(&mac, given))
    };
    let secret_n = keys.secrets().position(is_match).ok_or_else(|| VerifyError::mismatch(keys))?;
    Ok(Believed::of(secret_n, &[&signed]))
}

/// `https://host/path?a=1&b=2.Name1Value1Name2Value2.nonce`: the query and the fields sorted and decoded. Without a query
/// the question mark stays and the dot behind it goes.
fn signed_text(url: &str, form: Form, nonce: &str) -> Option<Vec<u8>> {
    let url = url.split_once('#').map_or(url, |(url, _)| url);
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let query = sorted(Form::parse(query.as_bytes())?);
    let query: Vec<Vec<u8>> = query.into_iter().map(|(name, value)| [name, value].join(&b'=')).collect();
    let fields = sorted(form);
    let mut text = base.as_bytes().to_vec();
    if !query.is_empty() || !fields.is_empty() {
        text.push(b'?');
        text.extend(query.join(&b'&'));
    }
    if !query.is_empty() && !fields.is_empty() {
        text.push(b'.');
    }
    text.extend(fields.into_iter().flat_map(|(name, value)| [name, value].concat()));
    text.push(b'.');
    text.extend(nonce.as_bytes());
    Some(text)
}

fn sorted(form: Form) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs = form.into_pairs();
    pairs.sort();
    pairs
}

fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let secret = keys.secrets().next().ok_or(SignError::NoSigningKey)?;
    let too_many = || SignError::Body(Form::TOO_MANY.to_owned());
    let form = Form::parse(body).ok_or_else(too_many)?;
    let nonce = hex_text(&digest(Hash::Md5, &[at.id.as_bytes(), at.now_s.to_string().as_bytes()]));
    let signed = signed_text(&at.url, form, &nonce).ok_or_else(too_many)?;
    let mac = base64_text(&hmac(Hash::Sha256, secret.as_bytes(), &[&signed]));
    Ok(Signed::form(body.to_vec()).with(NONCE, nonce).with(NAME, mac))
}
