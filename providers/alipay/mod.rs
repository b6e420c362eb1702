//! Alipay: RSA over the sorted form (China), or over method, path, client and body (Alipay+, Antom).

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    let kind = Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign);
    kind.open_with(open).samples(&[
        ("TRADE_SUCCESS", include_str!("samples/TRADE_SUCCESS.json")),
        ("TRADE_CLOSED", include_str!("samples/TRADE_CLOSED.json")),
        ("TRADE_FINISHED", include_str!("samples/TRADE_FINISHED.json")),
        ("CAPTURE_RESULT", include_str!("samples/CAPTURE_RESULT.json")),
        ("TOKEN_CANCELED", include_str!("samples/TOKEN_CANCELED.json")),
        ("CREATE", include_str!("samples/CREATE.json")),
    ])
}

/// The setting with the operator's apps; of Alipay+ and Antom, with their client ids.
const APPS: &str = "app_ids";
/// Where the public keys are.
const KEYS: &str = "alipay_public_key_pem";
/// The fields that identify the event. The signed text does not escape the `&` that joins its fields, so none of these
/// may hold one, nor may another field hold one of these behind it.
const NAMING: [&str; 4] = ["notify_id", "notify_type", "trade_status", "msg_method"];
/// The fields that decide what it is worth.
const DECIDING: [&str; 5] = ["app_id", "seller_id", "out_trade_no", "trade_no", "total_amount"];

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    if request.headers.contains_key("signature") { global(request, keys) } else { notify(request, keys) }
}

/// All fields but `sign`, sorted, decoded, without empty ones. Only RSA2 is taken, whatever `sign_type` says;
/// some products sign `sign_type` as well.
fn notify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    // A form whose first name and last one make JSON of it would be signed as the one and read as the other.
    if matches!(request.body.trim_ascii_start().first(), Some(b'{' | b'[')) {
        return Err(VerifyError::malformed("body", "it is no form, and JSON is signed in a header"));
    }
    let form = Form::parse(&request.body).ok_or_else(|| VerifyError::malformed("body", Form::TOO_MANY))?;
    let malformed = |why| VerifyError::malformed("sign", why);
    let sign = form.one("sign").ok_or_else(|| malformed("it is missing, or there twice"))?;
    let sign = std::str::from_utf8(sign).ok().and_then(decode_base64);
    let sign = sign.ok_or_else(|| malformed("it is not base64"))?;
    let mut pairs = form.into_pairs();
    pairs.sort();
    // Empty ones as well: they are not signed, and a reader of the form would have to choose.
    if pairs.windows(2).any(|pair| matches!(pair, [(one, _), (other, _)] if one == other)) {
        return Err(malformed("a field is there twice"));
    }
    pairs.retain(|(name, value)| name != b"sign" && !value.is_empty());
    let without: Vec<_> = pairs.iter().filter(|(name, _)| name != b"sign_type").cloned().collect();
    let signed = |pairs: &[_]| {
        let text = joined(pairs);
        matches_any(keys, &text, &sign).map(|key_n| Authenticated::of(key_n, &[&text]))
    };
    let authenticated =
        signed(&without).or_else(|| signed(&pairs)).ok_or_else(|| VerifyError::mismatch(keys))?;
    let app = pairs.iter().find(|(name, _)| name == b"app_id");
    keys.check_account(APPS, app.and_then(|(_, value)| std::str::from_utf8(value).ok()))?;
    Ok(authenticated)
}

/// The body as it is, where its fields can be cut in one way only. A form that could be another one is kept as no payment,
/// with all of it in one member.
fn open(_: &Keys, body: &[u8]) -> Result<Vec<u8>, String> {
    let json = Json::parse(body).ok_or("the body is not JSON")?;
    // Of JSON every byte is signed, and none of it has a signature in its body.
    if json.text("/sign").is_err() {
        return Ok(body.to_vec());
    }
    let fields: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let pair = |(name, value): (String, serde_json::Value)| {
        (name.into_bytes(), value.as_str().unwrap_or_default().as_bytes().to_vec())
    };
    let pairs: Vec<_> = fields.into_iter().map(pair).collect();
    if !has_two_cuts(&pairs) {
        return Ok(body.to_vec());
    }
    let head: &[u8] = br#"{"trade_status":"payment.unconfirmed","unconfirmed":"#;
    Ok([head, body.trim_ascii(), b"}"].concat())
}

/// Whether the signed text of these fields could be that of others with another identity.
fn has_two_cuts(pairs: &[(Vec<u8>, Vec<u8>)]) -> bool {
    let is_there = |name: &str| pairs.iter().any(|(one, value)| one == name.as_bytes() && !value.is_empty());
    let names = NAMING.into_iter().chain(DECIDING);
    let missing: Vec<Vec<u8>> =
        names.filter(|name| !is_there(name)).map(|name| format!("&{name}=").into_bytes()).collect();
    pairs.iter().any(|(name, value)| {
        let decides = NAMING.iter().chain(&DECIDING).any(|one| one.as_bytes() == name);
        let hides = |hidden: &Vec<u8>| value.windows(hidden.len()).any(|part| part == hidden);
        name.iter().any(|c| b"&=".contains(c))
            || decides && value.contains(&b'&')
            || missing.iter().any(hides)
    })
}

fn joined(pairs: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let texts: Vec<Vec<u8>> =
        pairs.iter().map(|(name, value)| [name.as_slice(), b"=", value].concat()).collect();
    texts.join(&b'&')
}

fn global(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    const NAME: &str = "signature";
    let value = deciding_header(&request.headers, NAME)?;
    let part =
        |name: &str| value.split(',').find_map(|item| item.trim().strip_prefix(name)?.strip_prefix('='));
    if part("algorithm") != Some("RSA256") {
        return Err(VerifyError::malformed(NAME, "its algorithm is not RSA256"));
    }
    // Base64 that is percent-encoded; a `+` in it stays one.
    let text = part("signature").map(|text| text.replace('+', "%2B")).unwrap_or_default();
    let form = Form::parse(format!("s={text}").as_bytes());
    let signature = form.as_ref().and_then(|form| form.text("s")).and_then(decode_base64);
    let signature = signature.ok_or_else(|| VerifyError::malformed(NAME, "it holds no base64 signature"))?;
    let client = without_joints(request, "client-id", "_-")?;
    let time = without_joints(request, "request-time", ":+.-")?;
    if !request.body.trim_ascii_start().starts_with(b"{") {
        return Err(VerifyError::malformed("body", "it is no JSON object"));
    }
    let (path, query) = path_and_query(&request.url);
    let whole = query.map(|query| format!("{path}?{query}"));
    let signed = |path: &str| {
        let head = format!("{} {path}\n{client}.{time}.", request.method);
        let text = [head.as_bytes(), &request.body].concat();
        matches_any(keys, &text, &signature).map(|key_n| Authenticated::of(key_n, &[&text]).at(time))
    };
    let authenticated = whole.as_deref().and_then(signed).or_else(|| signed(path));
    let authenticated = authenticated.ok_or_else(|| VerifyError::mismatch(keys))?;
    keys.check_account(APPS, Some(client))?;
    Ok(authenticated)
}

/// A header of letters, digits and these: what joins it to the next part of the signed text, or begins the body, is
/// not among them.
fn without_joints<'a>(request: &'a RawRequest, name: &str, more: &str) -> Result<&'a str, VerifyError> {
    let value = deciding_header(&request.headers, name)?;
    if value.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c)) {
        return Ok(value);
    }
    Err(VerifyError::malformed(name, "it has another form than Alipay's"))
}

fn matches_any(keys: &Keys, message: &[u8], signature: &[u8]) -> Option<usize> {
    keys.settings().all(KEYS).position(|setting| {
        PublicKey::parse(setting.value.reveal())
            .is_some_and(|key| key.verifies(PublicScheme::RsaSha256, message, signature))
    })
}

/// As China does; a body that is JSON as Alipay+ and Antom do.
fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    if body.trim_ascii_start().starts_with(b"{") {
        let signed = Signed::json(body.to_vec())
            .with("client-id", "hooklatch")
            .with("request-time", rfc3339_text(at.now_s));
        let head = format!("POST {}\nhooklatch.{}.", path_and_query(&at.url).0, rfc3339_text(at.now_s));
        let signature = keys.sign_public(PublicScheme::RsaSha256, &[head.as_bytes(), body].concat())?;
        let text = base64_text(&signature).replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        return Ok(signed.with("signature", format!("algorithm=RSA256,keyVersion=1,signature={text}")));
    }
    let mut pairs = Form::parse(body).unwrap_or_default().into_pairs();
    pairs.retain(|(name, value)| name != b"sign" && name != b"sign_type" && !value.is_empty());
    pairs.sort();
    let signature = keys.sign_public(PublicScheme::RsaSha256, &joined(&pairs))?;
    Ok(Signed::form(form_with(body, "sign", &base64_text(&signature))))
}
