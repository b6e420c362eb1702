//! Redsys: a form with parameters in base64 and their HMAC. Its key is the order, which is among the parameters, encrypted
//! with the merchant's secret.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    let kind = Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign);
    kind.open_with(open).samples(&[
        ("payment.authorised", include_str!("samples/payment.authorised.json")),
        ("payment.denied", include_str!("samples/payment.denied.json")),
        ("preauthorisation.authorised", include_str!("samples/preauthorisation.authorised.json")),
        ("confirmation.authorised", include_str!("samples/confirmation.authorised.json")),
        ("refund.authorised", include_str!("samples/refund.authorised.json")),
    ])
}

const VERSION: &str = "Ds_SignatureVersion";
const PARAMETERS: &str = "Ds_MerchantParameters";
const SIGNATURE: &str = "Ds_Signature";
/// The setting that says which version counts. The version in the form is not signed: were both accepted, an attacker who
/// breaks the older one would choose it.
const SETTING: &str = "signature_version";
/// The order of a request to Redsys, under both spellings that merchants use.
const OF_REQUESTS: [&str; 2] = ["/DS_MERCHANT_ORDER", "/Ds_Merchant_Order"];
/// Characters of the secret that count in the second version.
const SECRET_CHARS: usize = 16;
/// The fields that distinguish two notices of one order.
const PARTS: [&str; 7] = [
    "Ds_Order",
    "Ds_TransactionType",
    "Ds_Response",
    "Ds_AuthorisationCode",
    "Ds_Amount",
    "Ds_Date",
    "Ds_Hour",
];

/// Which codes mean that an operation was authorised depends on what it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Success {
    /// 0000 to 0099: of payments and preauthorisations.
    Payment,
    /// 0900: of refunds and confirmations.
    Confirmation,
    /// 0400: of cancellations.
    Cancellation,
}

/// `Ds_TransactionType`, and what it is called here.
const OPERATIONS: [(&str, &str, Success); 12] = [
    ("0", "payment", Success::Payment),
    ("1", "preauthorisation", Success::Payment),
    ("2", "confirmation", Success::Confirmation),
    ("3", "refund", Success::Confirmation),
    ("5", "recurring_payment", Success::Payment),
    ("6", "successive_payment", Success::Payment),
    ("7", "preauthentication", Success::Payment),
    ("8", "preauthentication_confirmation", Success::Confirmation),
    ("9", "preauthorisation_cancellation", Success::Cancellation),
    ("O", "deferred_authorisation", Success::Payment),
    ("P", "deferred_confirmation", Success::Confirmation),
    ("Q", "deferred_cancellation", Success::Cancellation),
];
/// What any other operation is called.
const OTHER: &str = "transaction";
/// Codes of operations that are still under way.
const UNDER_WAY: [&str; 3] = ["9997", "9998", "9999"];

#[derive(Clone, Copy)]
enum Version {
    /// HMAC-SHA-256, and 3DES for the key.
    V1,
    /// HMAC-SHA-512, and AES-128 for the key.
    V2,
}

impl Version {
    fn of(keys: &Keys) -> Result<Self, VerifyError> {
        let name = keys.setting(SETTING)?;
        let known = [Self::V1, Self::V2].into_iter().find(|version| version.name() == name);
        known.ok_or_else(|| VerifyError::NoKey(format!("setting `{SETTING}` is no version of Redsys'")))
    }

    fn name(self) -> &'static str {
        match self {
            Self::V1 => "HMAC_SHA256_V1",
            Self::V2 => "HMAC_SHA512_V2",
        }
    }

    /// `None` where the secret has not the form that this version needs.
    fn mac(self, secret: &str, order: &str, parameters: &str) -> Option<Vec<u8>> {
        match self {
            Self::V1 => {
                let key = seal_3des_cbc_zeros(&decode_base64(secret.trim())?, order.as_bytes())?;
                Some(hmac(Hash::Sha256, &key, &[parameters.as_bytes()]))
            }
            Self::V2 => {
                let key = secret.as_bytes().get(..SECRET_CHARS)?;
                let key = base64_text(&seal_aes_128_cbc(key, &[0; SECRET_CHARS], order.as_bytes())?);
                Some(hmac(Hash::Sha512, key.as_bytes(), &[parameters.as_bytes()]))
            }
        }
    }
}

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    if matches!(request.body.trim_ascii_start().first(), Some(b'{' | b'[')) {
        return Err(VerifyError::malformed("body", "it is JSON, and Redsys sends a form"));
    }
    let form = Form::parse(&request.body).ok_or_else(|| VerifyError::malformed("body", Form::TOO_MANY))?;
    let field = |name| {
        form.text(name).ok_or_else(|| VerifyError::malformed(name, "it is missing, there twice, or no text"))
    };
    let version = Version::of(keys)?;
    if field(VERSION)? != version.name() {
        return Err(VerifyError::malformed(VERSION, "it is not the one of setting `signature_version`"));
    }
    let (parameters, signature) = (field(PARAMETERS)?, field(SIGNATURE)?);
    let signature = decode_base64(&standard(signature))
        .ok_or_else(|| VerifyError::malformed(SIGNATURE, "it is not base64"))?;
    let order = decode_base64_long(&standard(parameters)).ok_or("they are not base64");
    let order = order.and_then(|json| order_of(&json));
    let order = order.map_err(|why| VerifyError::malformed(PARAMETERS, why))?;
    let macs = keys.secrets().map(|secret| version.mac(secret, &order, parameters));
    let macs: Vec<Option<Vec<u8>>> = macs.collect();
    if macs.iter().all(Option::is_none) {
        let why = "no secret has the form of the version in `signature_version`: copy it from the bank's portal whole";
        return Err(VerifyError::NoKey(why.to_owned()));
    }
    let is_same = |mac: &Option<Vec<u8>>| mac.as_ref().is_some_and(|mac| same(mac, &signature));
    let secret_n = macs.iter().position(is_same).ok_or_else(|| VerifyError::mismatch(keys))?;
    Ok(Authenticated::of(secret_n, &[parameters.as_bytes()]))
}

/// Either alphabet of base64, with its padding or without, as the standard one.
fn standard(text: &str) -> String {
    let plain = text.trim_end_matches('=').replace('-', "+").replace('_', "/");
    let padding = "=".repeat(plain.len().next_multiple_of(4) - plain.len());
    plain + &padding
}

/// A field under either spelling; empty where it is missing.
fn field(json: &Json<'_>, name: &str) -> Result<String, &'static str> {
    let (plain, upper) = (format!("/{name}"), format!("/{}", name.to_ascii_uppercase()));
    let text = match (json.is_missing(&plain), json.is_missing(&upper)) {
        (_, true) => json.text_or_empty(&plain),
        (true, false) => json.text_or_empty(&upper),
        (false, false) => None,
    };
    text.ok_or("a field is there twice, or is no text")
}

/// The order of a notice. A merchant signs its own requests with the same key, and each payer has one in the browser: it
/// is no notice.
fn order_of(json: &[u8]) -> Result<String, &'static str> {
    let json = Json::parse(json).ok_or("they are not JSON")?;
    if !OF_REQUESTS.iter().all(|pointer| json.is_missing(pointer)) {
        return Err("it is a request to Redsys, which every payer has in the browser, and no notice");
    }
    let (order, response) = (field(&json, "Ds_Order")?, field(&json, "Ds_Response")?);
    if order.is_empty() || response.is_empty() {
        return Err("they have no Ds_Order or no Ds_Response");
    }
    Ok(order)
}

/// The operation and its result. A code that means success, but of another operation, decides nothing.
fn event_type(operation: &str, response: &str) -> String {
    let known = OPERATIONS.iter().find(|(code, ..)| *code == operation);
    let (name, wanted) = known.map_or((OTHER, None), |(_, name, success)| (*name, Some(*success)));
    let is_code = response.len() == 4 && response.bytes().all(|byte| byte.is_ascii_digit());
    let success = match response {
        "0400" => Some(Success::Cancellation),
        "0900" => Some(Success::Confirmation),
        _ if is_code && response.starts_with("00") => Some(Success::Payment),
        _ => None,
    };
    let result = match (wanted, success) {
        (Some(wanted), Some(success)) if wanted == success => "authorised",
        (Some(_), None) if is_code && !UNDER_WAY.contains(&response) => "denied",
        _ => "unconfirmed",
    };
    format!("{name}.{result}")
}

/// The parameters, which alone are signed, with their type and an id of the notice, which Redsys says nowhere.
fn open(_: &Keys, body: &[u8]) -> Result<Vec<u8>, String> {
    let parameters = json_text(body, &format!("/{PARAMETERS}"))?;
    let parameters = decode_base64_long(&standard(&parameters)).ok_or("the parameters are not base64")?;
    let json = Json::parse(&parameters).ok_or("the parameters are not JSON")?;
    if !json.is_missing("/type") || !json.is_missing("/id") {
        return Err("the parameters have a type or an id of their own".to_owned());
    }
    let mut parts = Vec::with_capacity(PARTS.len());
    for name in PARTS {
        parts.push(field(&json, name)?);
    }
    let [_, operation, response, ..] = parts.as_slice() else { return Err("it has no parts".to_owned()) };
    let (event_type, id) = (json!(event_type(operation, response)), json!(parts.join("|")));
    let rest = parameters.trim_ascii().strip_prefix(b"{").ok_or("the parameters are no JSON object")?;
    Ok([format!("{{\"type\":{event_type},\"id\":{id},").as_bytes(), rest].concat())
}

/// The parameters as the body has them, in a form as Redsys sends it.
fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let version = Version::of(keys).map_err(|why| SignError::Body(why.to_string()))?;
    let order = order_of(body).map_err(|why| SignError::Body(why.to_owned()))?;
    let in_urls = |bytes: &[u8]| base64_text(bytes).replace('+', "-").replace('/', "_");
    let parameters = match version {
        Version::V1 => base64_text(body),
        Version::V2 => in_urls(body).trim_end_matches('=').to_owned(),
    };
    let secret = keys.secrets().next().ok_or(SignError::NoSigningKey)?;
    let signature = version.mac(secret, &order, &parameters).ok_or(SignError::NoSigningKey)?;
    let signature = match version {
        Version::V1 => in_urls(&signature),
        Version::V2 => in_urls(&signature).trim_end_matches('=').to_owned(),
    };
    let form = form_with(b"", VERSION, version.name());
    Ok(Signed::form(form_with(&form_with(&form, PARAMETERS, &parameters), SIGNATURE, &signature)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the bank's portal shows for tests, and what Redsys signs with it in its documents.
    const SECRET: &str = "sq7HjrUOBfKmC576ILgskD5srU870gJ7";

    #[test]
    fn an_order_is_signed_as_redsys_does_it() {
        // https://pagosonline.redsys.es/desarrolladores-inicio/documentacion-operativa/firmar-una-operacion: a request,
        // which is signed as a notice is.
        let parameters = "eyJEU19NRVJDSEFOVF9BTU9VTlQiOiI5OTkiLCJEU19NRVJDSEFOVF9PUkRFUiI6IjEyMzQ1Njc4OTAiLCJEU19NRVJDSEFOVF9NRVJDSEFOVENPREUiOiI5OTkwMDg4ODEiLCJEU19NRVJDSEFOVF9DVVJSRU5DWSI6Ijk3OCIsIkRTX01FUkNIQU5UX1RSQU5TQUNUSU9OVFlQRSI6IjAiLCJEU19NRVJDSEFOVF9URVJNSU5BTCI6IjEiLCJEU19NRVJDSEFOVF9NRVJDSEFOVFVSTCI6Imh0dHA6XC9cL3d3dy5wcnVlYmEuY29tXC91cmxOb3RpZmljYWNpb24ucGhwIiwiRFNfTUVSQ0hBTlRfVVJMT0siOiJodHRwOlwvXC93d3cucHJ1ZWJhLmNvbVwvdXJsT0sucGhwIiwiRFNfTUVSQ0hBTlRfVVJMS08iOiJodHRwOlwvXC93d3cucHJ1ZWJhLmNvbVwvdXJsS08ucGhwIn0";
        let want = "Vjo02eSWq249IeZZp3R-ArFnGLhKY0OuzDDlx1BuVtZDC2yhczA7_11uZhsYzLZBCMFAz8u8uzGDX3AErHKmmw";
        assert_eq!(Version::V2.mac(SECRET, "1234567890", parameters), decode_base64(&standard(want)));
        assert_eq!(Version::V2.mac("fifteen letters", "1234567890", parameters), None);
        assert_eq!(Version::V1.mac("not base64", "1234567890", parameters), None);
        let request = decode_base64_long(&standard(parameters)).expect("base64");
        assert!(order_of(&request).is_err_and(|why| why.contains("every payer")));
    }

    #[test]
    fn a_code_means_success_of_its_own_operation_alone() {
        for (operation, response, want) in [
            ("0", "0000", "payment.authorised"),
            ("0", "0099", "payment.authorised"),
            ("0", "0100", "payment.denied"),
            ("0", "0190", "payment.denied"),
            ("0", "0900", "payment.unconfirmed"),
            ("0", "0400", "payment.unconfirmed"),
            ("0", "9915", "payment.denied"),
            ("0", "9998", "payment.unconfirmed"),
            ("0", "000", "payment.unconfirmed"),
            ("0", "00000", "payment.unconfirmed"),
            ("0", "", "payment.unconfirmed"),
            ("0", "00x0", "payment.unconfirmed"),
            ("1", "0000", "preauthorisation.authorised"),
            ("2", "0900", "confirmation.authorised"),
            ("3", "0900", "refund.authorised"),
            ("3", "0000", "refund.unconfirmed"),
            ("9", "0400", "preauthorisation_cancellation.authorised"),
            ("00", "0000", "transaction.unconfirmed"),
            ("34", "0190", "transaction.unconfirmed"),
            ("", "0000", "transaction.unconfirmed"),
        ] {
            assert_eq!(event_type(operation, response), want, "{operation} {response}");
        }
    }
}
