//! PayU: a digest of body and second key in a header (EMEA), or of fields and salt in the body (India).

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    let kind = Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign);
    kind.open_with(open).samples(&[
        ("COMPLETED", include_str!("samples/COMPLETED.json")),
        ("PENDING", include_str!("samples/PENDING.json")),
        ("CANCELED", include_str!("samples/CANCELED.json")),
        ("success", include_str!("samples/success.json")),
        ("failure", include_str!("samples/failure.json")),
    ])
}

const HEADERS: [&str; 2] = ["openpayu-signature", "x-openpayu-signature"];
/// The setting that takes what India does not sign.
const UNSIGNED: &str = "unsigned_notices";

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    match HEADERS.into_iter().find(|name| request.headers.contains_key(*name)) {
        Some(name) => emea(request, keys, name),
        None if is_json(&request.body) => notice(request, keys),
        None => india(request, keys),
    }
}

/// The first byte decides, here as where the events are read: nothing signs the content type.
fn is_json(body: &[u8]) -> bool {
    matches!(body.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// `sender=…;signature=…;algorithm=…;content=DOCUMENT`. A digest with the key behind the body, so MD5 is as good
/// as the key; nothing but these names is taken.
fn emea(request: &RawRequest, keys: &Keys, name: &str) -> Result<Authenticated, VerifyError> {
    let value = deciding_header(&request.headers, name)?;
    let part =
        |label: &str| value.split(';').find_map(|item| item.trim().strip_prefix(label)?.strip_prefix('='));
    let hash = match part("algorithm") {
        Some("MD5") => Hash::Md5,
        Some("SHA" | "SHA1" | "SHA-1") => Hash::Sha1,
        Some("SHA256" | "SHA-256" | "SHA_256") => Hash::Sha256,
        Some("SHA384" | "SHA-384") => Hash::Sha384,
        Some("SHA512" | "SHA-512") => Hash::Sha512,
        _ => return Err(VerifyError::malformed(name, "its algorithm is none that we know")),
    };
    let signature = part("signature").and_then(decode_hex);
    let signature =
        signature.ok_or_else(|| VerifyError::malformed(name, "its signature is not hexadecimal"))?;
    let is_signed = |secret: &str| same(&digest(hash, &[&request.body, secret.as_bytes()]), &signature);
    let secret_n = keys.secrets().position(is_signed).ok_or_else(|| VerifyError::mismatch(keys))?;
    Ok(Authenticated::of(secret_n, &[&request.body]))
}

/// SHA-512 of the salt, the fields backwards and the merchant key.
fn india(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let form = Form::parse(&request.body).ok_or_else(|| VerifyError::malformed("body", Form::TOO_MANY))?;
    let key = keys.setting("merchant_key")?;
    if field(&form, "key")?.is_some_and(|given| given != key) {
        return Err(VerifyError::malformed("key", "it is of another merchant"));
    }
    let signature = field(&form, "hash")?.and_then(decode_hex);
    let signature =
        signature.ok_or_else(|| VerifyError::malformed("hash", "it is missing or not hexadecimal"))?;
    let content = content(&form)?;
    if same(&content.hash(keys)?, &signature) {
        Ok(Authenticated::of(0, &[content.text("", "").as_bytes()]))
    } else {
        Err(VerifyError::mismatch(keys))
    }
}

/// What India signs, joined by bars that are not escaped.
struct Content {
    charges: String,
    status: String,
    split: String,
    fields: String,
}

impl Content {
    fn text(&self, salt: &str, key: &str) -> String {
        let Self { charges, status, split, fields } = self;
        format!("{charges}{salt}|{status}|{split}|||||{fields}|{key}")
    }

    fn hash(&self, keys: &Keys) -> Result<Vec<u8>, VerifyError> {
        let text = self.text(keys.setting("salt")?, keys.setting("merchant_key")?);
        Ok(digest(Hash::Sha512, &[text.as_bytes()]))
    }
}

/// The fields that say what happened to how much hold no bar: so the others cannot be cut elsewhere to change them.
fn content(form: &Form) -> Result<Content, VerifyError> {
    let value = |name: &'static str| field(form, name).map(Option::unwrap_or_default);
    let without_bar = |name: &'static str| match value(name)? {
        text if text.contains('|') => {
            Err(VerifyError::malformed(name, "it holds the `|` that joins the fields"))
        }
        text => Ok(text),
    };
    let barred = |name: &'static str| Ok(field(form, name)?.map(|text| format!("{text}|")));
    let mut fields = Vec::with_capacity(10);
    for name in ["udf5", "udf4", "udf3", "udf2", "udf1", "email", "firstname", "productinfo"] {
        fields.push(value(name)?);
    }
    fields.extend([without_bar("amount")?, without_bar("txnid")?]);
    let charges = match barred("additionalCharges")? {
        Some(charges) => Some(charges),
        None => barred("additional_charges")?,
    };
    Ok(Content {
        charges: charges.unwrap_or_default(),
        status: without_bar("status")?.to_owned(),
        split: barred("splitInfo")?.unwrap_or_default(),
        fields: fields.join("|"),
    })
}

/// A field of the form; one that is there twice has no one value, and one that is no text is none that PayU signs.
fn field<'a>(form: &'a Form, name: &str) -> Result<Option<&'a str>, VerifyError> {
    let mut values = form.pairs().iter().filter(|(known, _)| known == name.as_bytes());
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some((_, value)), None) => {
            std::str::from_utf8(value).map(Some).map_err(|_| VerifyError::malformed(name, "it is not UTF-8"))
        }
        _ => Err(VerifyError::malformed(name, "it is there twice")),
    }
}

/// India's notices of refunds and chargebacks carry no hash: they are taken as they come, or not at all.
fn notice(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    if keys.settings().text(UNSIGNED) != Some("accept") {
        return Err(VerifyError::malformed(
            "body",
            "India signs no JSON: `unsigned_notices = \"accept\"` takes its notices of refunds and chargebacks",
        ));
    }
    if !is_notice(&request.body) {
        return Err(VerifyError::malformed("body", "it is no notice of a refund or a chargeback"));
    }
    let key = json_text(&request.body, "/key");
    if key.is_ok_and(|given| Ok(given.as_str()) != keys.setting("merchant_key")) {
        return Err(VerifyError::malformed("key", "it is of another merchant"));
    }
    Ok(Authenticated::plain(0))
}

/// By its own name, and with nothing that a payment of India or an order of EMEA has: so none is read as one.
fn is_notice(body: &[u8]) -> bool {
    let is = |pointer: &str, name: &str| json_text(body, pointer).is_ok_and(|text| text == name);
    let is_other = ["/hash", "/order"].into_iter().any(|pointer| !json_is_missing(body, pointer));
    !is_other && (is("/action", "refund") || is("/event", "dispute"))
}

/// A notice that nothing signs is put where the fields of a payment, which have a hash, cannot be.
#[expect(clippy::unnecessary_wraps, reason = "others may find a body that they cannot open")]
fn open(_: &Keys, body: &[u8]) -> Result<Vec<u8>, String> {
    if is_notice(body) {
        return Ok([b"{\"notice\":", body, b"}"].concat());
    }
    Ok(body.to_vec())
}

/// A form as India does, JSON as EMEA.
fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    if !is_json(body) {
        let wrong = |why: VerifyError| SignError::Body(why.to_string());
        let body = form_with(body, "key", keys.setting("merchant_key").map_err(wrong)?);
        let form = Form::parse(&body).ok_or_else(|| SignError::Body(Form::TOO_MANY.to_owned()))?;
        let hash = content(&form).and_then(|content| content.hash(keys)).map_err(wrong)?;
        return Ok(Signed::form(form_with(&body, "hash", &hex_text(&hash))));
    }
    let secret = keys.secrets().next().ok_or(SignError::NoSigningKey)?;
    let hash = hex_text(&digest(Hash::Sha256, &[body, secret.as_bytes()]));
    let value = format!("sender=checkout;signature={hash};algorithm=SHA-256;content=DOCUMENT");
    Ok(Signed::json(body.to_vec()).with(HEADERS[0], value))
}
