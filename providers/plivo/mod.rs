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

/// The headers of one version: by the token of the account or subaccount that the number belongs to, and by that of the
/// main account.
struct Version {
    signatures: [&'static str; 2],
    nonce: &'static str,
}

const NAME: &str = "x-plivo-signature-v3";
const NONCE: &str = "x-plivo-signature-v3-nonce";
const V3: Version = Version { signatures: [NAME, "x-plivo-signature-ma-v3"], nonce: NONCE };
const V2: Version = Version {
    signatures: ["x-plivo-signature-v2", "x-plivo-signature-ma-v2"],
    nonce: "x-plivo-signature-v2-nonce",
};
/// Most signatures of a header that are tried: Plivo sends one for each auth token of an account.
const SIGNATURES_N_MAX: usize = 8;

impl Version {
    fn is_there(&self, request: &RawRequest) -> bool {
        self.signatures.iter().any(|name| request.headers.contains_key(*name))
    }

    /// The signatures of both headers, as far as they are there.
    fn given(&self, request: &RawRequest) -> Result<Vec<Vec<u8>>, VerifyError> {
        let mut given = Vec::new();
        for name in self.signatures.into_iter().filter(|name| request.headers.contains_key(*name)) {
            let texts = deciding_header(&request.headers, name)?.split(',').take(SIGNATURES_N_MAX);
            given.extend(texts.filter_map(|text| decode_base64(text.trim())));
        }
        if given.is_empty() {
            return Err(VerifyError::malformed(self.signatures[0], "it is not base64"));
        }
        Ok(given)
    }
}

/// Version 3 decides where it is there: version 2 covers no field, and its signature of one request would fit any
/// other.
fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    if !V3.is_there(request) && V2.is_there(request) {
        return match keys.setting("v2") {
            Ok("accept") => matched(&V2.given(request)?, &url_and_nonce(request)?, keys),
            _ => Err(VerifyError::malformed(
                NAME,
                "only version 2 is there: settings.v2 = \"accept\" believes it",
            )),
        };
    }
    let nonce = deciding_header(&request.headers, NONCE)?;
    // The nonce is what stands behind the last dot, or an end of the last field could be taken for its beginning.
    if nonce.is_empty() || nonce.contains('.') {
        return Err(VerifyError::malformed(NONCE, "it is empty, or has a dot"));
    }
    if !V3.is_there(request) {
        deciding_header(&request.headers, NAME)?;
    }
    let given = V3.given(request)?;
    let form = Form::parse(&request.body).ok_or_else(|| VerifyError::malformed("body", Form::TOO_MANY))?;
    let signed = signed_text(&request.url, form, nonce)
        .ok_or_else(|| VerifyError::malformed("query", Form::TOO_MANY))?;
    matched(&given, &signed, keys)
}

/// `https://host/path` and the nonce, which is of letters and digits: what version 3 signs has a dot or a question mark
/// behind the path, and must not be taken for this.
fn url_and_nonce(request: &RawRequest) -> Result<Vec<u8>, VerifyError> {
    let nonce = deciding_header(&request.headers, V2.nonce)?;
    if nonce.is_empty() || !nonce.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(VerifyError::malformed(V2.nonce, "it is not of letters and digits"));
    }
    let base = request.url.split(['?', '#']).next().unwrap_or_default();
    Ok([base.as_bytes(), nonce.as_bytes()].concat())
}

fn matched(given: &[Vec<u8>], signed: &[u8], keys: &Keys) -> Result<Authenticated, VerifyError> {
    let is_match = |secret: &str| {
        let mac = hmac(Hash::Sha256, secret.as_bytes(), &[signed]);
        given.iter().any(|given| same(&mac, given))
    };
    let secret_n = keys.secrets().position(is_match).ok_or_else(|| VerifyError::mismatch(keys))?;
    Ok(Authenticated::of(secret_n, &[signed]))
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
