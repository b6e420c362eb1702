//! PayU: a digest of body and second key in a header (EMEA), or of fields and salt in the body (India).

use crate::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("COMPLETED", include_str!("samples/COMPLETED.json")),
        ("PENDING", include_str!("samples/PENDING.json")),
        ("CANCELED", include_str!("samples/CANCELED.json")),
    ])
}

const HEADERS: [&str; 2] = ["openpayu-signature", "x-openpayu-signature"];

fn verify(request: &RawRequest, keys: &Keys) -> Result<Believed, VerifyError> {
    secret_of(request, keys).map(|secret_n| Believed::of(secret_n, &[&request.body]))
}

fn secret_of(request: &RawRequest, keys: &Keys) -> Result<usize, VerifyError> {
    match HEADERS.into_iter().find(|name| request.headers.contains_key(*name)) {
        Some(name) => emea(request, keys, name),
        None => india(request, keys),
    }
}

/// `sender=…;signature=…;algorithm=…;content=DOCUMENT`. A digest with the key behind the body, so MD5 is as good
/// as the key; nothing but these names is taken.
fn emea(request: &RawRequest, keys: &Keys, name: &str) -> Result<usize, VerifyError> {
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
    keys.secrets().position(is_signed).ok_or_else(|| VerifyError::mismatch(keys))
}

/// SHA-512 of the salt, the fields backwards and the merchant key.
fn india(request: &RawRequest, keys: &Keys) -> Result<usize, VerifyError> {
    let fields = Fields::of(&request.body)?;
    let field = |name: &str| fields.text(name);
    let signature = field("hash").as_deref().and_then(decode_hex);
    let signature =
        signature.ok_or_else(|| VerifyError::malformed("hash", "it is missing or not hexadecimal"))?;
    let (salt, key) = (keys.setting("salt")?, keys.setting("merchant_key")?);
    if field("key").is_some_and(|given| given != key) {
        return Err(VerifyError::malformed("key", "it is of another merchant"));
    }
    let names =
        ["udf5", "udf4", "udf3", "udf2", "udf1", "email", "firstname", "productinfo", "amount", "txnid"];
    let value = |name: &str| field(name).unwrap_or_default();
    let charges = field("additionalCharges").or_else(|| field("additional_charges")).map(|text| text + "|");
    let split = field("splitInfo").map(|text| text + "|");
    let fields: Vec<String> = names.into_iter().map(value).collect();
    let content = format!(
        "{}{salt}|{}|{}|||||{}|{key}",
        charges.unwrap_or_default(),
        value("status"),
        split.unwrap_or_default(),
        fields.join("|")
    );
    if same(&digest(Hash::Sha512, &[content.as_bytes()]), &signature) {
        Ok(0)
    } else {
        Err(VerifyError::mismatch(keys))
    }
}

/// The fields of a form, or of a JSON object.
enum Fields<'a> {
    Json(Json<'a>),
    Form(Form),
}

impl<'a> Fields<'a> {
    fn of(body: &'a [u8]) -> Result<Self, VerifyError> {
        let malformed = |why| VerifyError::malformed("body", why);
        if body.trim_ascii_start().starts_with(b"{") {
            return Json::parse(body).map(Self::Json).ok_or_else(|| malformed("it is not JSON"));
        }
        Form::parse(body).map(Self::Form).ok_or_else(|| malformed(Form::TOO_MANY))
    }

    fn text(&self, name: &str) -> Option<String> {
        match self {
            Self::Json(json) => json.text(&format!("/{name}")).ok(),
            Self::Form(form) => form.text(name).map(str::to_owned),
        }
    }
}

fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let secret = keys.secrets().next().ok_or(SignError::NoSigningKey)?;
    let hash = hex_text(&digest(Hash::Sha256, &[body, secret.as_bytes()]));
    let value = format!("sender=checkout;signature={hash};algorithm=SHA-256;content=DOCUMENT");
    Ok(Signed::json(body.to_vec()).with(HEADERS[0], value))
}
