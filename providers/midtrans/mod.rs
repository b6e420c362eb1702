//! Midtrans: a digest of four fields and the server key inside the body; SNAP BI signs with RSA in a header.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    let kind = Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign);
    kind.open_with(open).samples(&[
        ("settlement", include_str!("samples/settlement.json")),
        ("capture", include_str!("samples/capture.json")),
        ("pending", include_str!("samples/pending.json")),
        ("expire", include_str!("samples/expire.json")),
        ("refund", include_str!("samples/refund.json")),
        ("partial_refund", include_str!("samples/partial_refund.json")),
        ("00", include_str!("samples/snap-00.json")),
    ])
}

const SNAP: &str = "x-signature";
const PLACE: &str = "/signature_key";
const STATUS: &str = "/transaction_status";
/// What a status may be, <https://docs.midtrans.com/docs/transaction-status-cycle>. One signed text is of several notices by
/// design, one for each of these; any other words are one notice together, or who holds one would invent events without end.
const STATUSES: [&str; 12] = [
    "authorize",
    "cancel",
    "capture",
    "chargeback",
    "deny",
    "expire",
    "failure",
    "partial_chargeback",
    "partial_refund",
    "pending",
    "refund",
    "settlement",
];

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    if request.headers.contains_key(SNAP) { snap(request, keys) } else { classic(request, keys) }
}

fn classic(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let malformed = |why| VerifyError::malformed(PLACE, why);
    let body = Json::parse(&request.body).ok_or_else(|| VerifyError::malformed("body", "it is not JSON"))?;
    let signature = body.text(PLACE).ok().as_deref().and_then(decode_hex);
    let signature = signature.ok_or_else(|| malformed("it is missing or not hexadecimal"))?;
    let text = content(&body).map_err(malformed)?;
    let is_signed =
        |secret: &str| same(&digest(Hash::Sha512, &[text.as_bytes(), secret.as_bytes()]), &signature);
    let secret_n = keys.secrets().position(is_signed).ok_or_else(|| VerifyError::mismatch(keys))?;
    let status = body.text_or_empty(STATUS).unwrap_or_default();
    let step = if STATUSES.contains(&status.as_str()) { status.as_str() } else { "" };
    Ok(Authenticated::of(secret_n, &[text.as_bytes(), b"|", step.as_bytes()]))
}

/// What is signed: order, code and amount, with nothing between them. Code and amount are held to their forms, or a
/// signature would fit the orders that the same text makes when it is cut elsewhere.
fn content(body: &Json<'_>) -> Result<String, &'static str> {
    let field = |pointer| body.text(pointer).map_err(|_| "a signed field is missing, or there twice");
    let (order, code, amount) = (field("/order_id")?, field("/status_code")?, field("/gross_amount")?);
    if code.len() != 3 || !is_digits(&code) {
        return Err("status_code is not of three digits");
    }
    let (whole, cents) = amount.split_once('.').unwrap_or((&amount, "00"));
    if !is_digits(whole) || !is_digits(cents) || cents.len() > 2 {
        return Err("gross_amount is no amount");
    }
    let status = body.text_or_empty(STATUS).ok_or("transaction_status is there twice")?;
    if !agree(&code, &status) {
        return Err("status_code, which is signed, and transaction_status, which is not, do not agree");
    }
    Ok([order, code, amount].concat())
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit())
}

/// <https://docs.midtrans.com/reference/status-code>: 200 is success, 201 pending or challenged, 202 denied. A received
/// payment has no other code than that of success; and a pending one is nothing else.
fn agree(code: &str, status: &str) -> bool {
    match code {
        "200" => status != "pending",
        "201" => matches!(status, "pending" | "capture" | "authorize"),
        _ => !matches!(status, "settlement" | "capture" | "authorize" | "pending"),
    }
}

/// The body without its white space is what is hashed.
fn snap(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let signature = decode_base64(deciding_header(&request.headers, SNAP)?);
    let signature = signature.ok_or_else(|| VerifyError::malformed(SNAP, "it is not base64"))?;
    let time = deciding_header(&request.headers, "x-timestamp")?;
    let body = compact_json(&request.body).ok_or_else(|| VerifyError::malformed("body", "it is not JSON"))?;
    let hash = hex_text(&digest(Hash::Sha256, &[&body]));
    let message = format!("{}:{}:{hash}:{time}", request.method, path_and_query(&request.url).0);
    let key = PublicKey::parse(keys.setting("public_key_pem")?);
    let key =
        key.ok_or_else(|| VerifyError::NoKey("setting `public_key_pem` is no public key".to_owned()))?;
    if key.verifies(PublicScheme::RsaSha256, message.as_bytes(), &signature) {
        Ok(Authenticated::of(0, &[message.as_bytes()]).at(time))
    } else {
        Err(VerifyError::mismatch(keys))
    }
}

/// What SNAP BI signs, which is what counts: the body may be written in many ways that are signed alike.
fn open(_: &Keys, body: &[u8]) -> Result<Vec<u8>, String> {
    compact_json(body).ok_or_else(|| "the body is not JSON".to_owned())
}

/// A body of SNAP BI as that does, any other as the rest of Midtrans.
fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    if !json_is_missing(body, "/originalPartnerReferenceNo") {
        return sign_snap(keys, body, at);
    }
    let wrong = |why: &str| SignError::Body(why.to_owned());
    let secret = keys.secrets().next().ok_or(SignError::NoSigningKey)?;
    let text = Json::parse(body).ok_or("it is not JSON").and_then(|body| content(&body)).map_err(wrong)?;
    let hash = digest(Hash::Sha512, &[text.as_bytes(), secret.as_bytes()]);
    let mut value: serde_json::Value = serde_json::from_slice(body).map_err(|_| wrong("it is not JSON"))?;
    let place = value.pointer_mut(PLACE).ok_or_else(|| wrong("it has no signature_key"))?;
    *place = hex_text(&hash).into();
    Ok(Signed::json(value.to_string().into_bytes()))
}

fn sign_snap(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let compact = compact_json(body).ok_or_else(|| SignError::Body("it is not JSON".to_owned()))?;
    let (hash, time) = (hex_text(&digest(Hash::Sha256, &[&compact])), rfc3339_text(at.now_s));
    let message = format!("POST:{}:{hash}:{time}", path_and_query(&at.url).0);
    let signature = keys.sign_public(PublicScheme::RsaSha256, message.as_bytes())?;
    Ok(Signed::json(body.to_vec()).with("x-timestamp", time).with(SNAP, base64_text(&signature)))
}
