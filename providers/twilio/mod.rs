//! Twilio: an HMAC over the URL and the sorted form fields; a JSON body is bound by its digest in the URL.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("MessageStatus.delivered", include_str!("samples/MessageStatus.delivered.json")),
        ("SmsStatus.received", include_str!("samples/SmsStatus.received.json")),
        ("CallStatus.completed", include_str!("samples/CallStatus.completed.json")),
        ("MessageStatus.sent", include_str!("samples/MessageStatus.sent.json")),
    ])
}

const NAME: &str = "x-twilio-signature";
/// Which shared key signed, and how.
const CHOICE: &str = "x-twilio-webhooks-signature-settings";
const BODY_HASH: &str = "bodySHA256";

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let signature = decode_base64(deciding_header(&request.headers, NAME)?);
    let signature = signature.ok_or_else(|| VerifyError::malformed(NAME, "it is not base64"))?;
    let (hash, key_id) = if request.headers.contains_key(CHOICE) {
        choice(deciding_header(&request.headers, CHOICE)?)?
    } else {
        (Hash::Sha1, None)
    };
    let fields = signed_fields(request)?;
    let named = key_id.and_then(|id| keys.settings().of_id("shared_keys", id));
    let urls = urls(&request.url);
    let is_signed = |secret: &str| {
        let mac = |url: &String| hmac(hash, secret.as_bytes(), &[url.as_bytes(), &fields]);
        urls.iter().any(|url| same(&mac(url), &signature))
    };
    let secret_n = match named {
        Some(secret) => is_signed(secret).then_some(0),
        None => keys.secrets().position(is_signed),
    };
    let secret_n = secret_n.ok_or_else(|| VerifyError::mismatch(keys))?;
    Ok(Authenticated::of(secret_n, &[request.url.as_bytes(), &fields]))
}

/// What is signed behind the URL: the fields of a form; nothing of JSON, whose digest the URL has.
fn signed_fields(request: &RawRequest) -> Result<Vec<u8>, VerifyError> {
    let digest_given = query_value(&request.url, BODY_HASH);
    let given = digest_given.as_deref().map(|given| decode_hex(given).unwrap_or_default());
    if given.as_ref().is_some_and(|given| same(&digest(Hash::Sha256, &[&request.body]), given)) {
        return Ok(Vec::new());
    }
    if given.is_none() && request.body.is_empty() {
        return Ok(Vec::new());
    }
    // A form is signed field by field, whatever the URL says; of one without fields nothing would be.
    let is_json = matches!(request.body.trim_ascii_start().first(), Some(b'{' | b'['));
    let form = Form::parse(&request.body).ok_or_else(|| VerifyError::malformed("body", Form::TOO_MANY))?;
    let has_fields = !form.pairs().is_empty() && form.pairs().iter().all(|(name, _)| !name.is_empty());
    match (is_json || !has_fields, given) {
        (false, _) => Ok(fields(form)),
        (true, Some(_)) => Err(VerifyError::malformed(BODY_HASH, "it is of another body")),
        (true, None) => Err(VerifyError::malformed("body", "it is no form, and the URL holds no bodySHA256")),
    }
}

/// `key=ID,algorithm=HMAC_SHA256`; without an algorithm it is SHA-1.
fn choice(value: &str) -> Result<(Hash, Option<&str>), VerifyError> {
    let part =
        |label: &str| value.split(',').find_map(|item| item.trim().strip_prefix(label)?.strip_prefix('='));
    match part("algorithm") {
        None | Some("HMAC_SHA1") => Ok((Hash::Sha1, part("key"))),
        Some("HMAC_SHA256") => Ok((Hash::Sha256, part("key"))),
        Some(_) => Err(VerifyError::malformed(CHOICE, "its algorithm is none that we know")),
    }
}

/// Names and values, sorted by bytes; what is there twice counts once.
fn fields(form: Form) -> Vec<u8> {
    let mut pairs = form.into_pairs();
    pairs.sort();
    pairs.dedup();
    pairs.into_iter().flat_map(|(name, value)| [name, value]).collect::<Vec<_>>().concat()
}

/// The received URL, and with its default port written or left out: Twilio has done either.
fn urls(url: &str) -> Vec<String> {
    let url = url.split_once('#').map_or(url, |(url, _)| url);
    let mut urls = vec![url.to_owned()];
    let Some((scheme, rest)) = url.split_once("://") else { return urls };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let (user, host) = authority.rsplit_once('@').map_or(("", authority), |(user, host)| (user, host));
    let at = if user.is_empty() { "" } else { "@" };
    let other = match host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit())) {
        Some((name, _)) => name.to_owned(),
        None => format!("{host}:{}", if scheme == "https" { "443" } else { "80" }),
    };
    urls.push(format!("{scheme}://{user}{at}{other}{tail}"));
    urls
}

fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let secret = keys.secrets().next().ok_or(SignError::NoSigningKey)?;
    let (fields, signed) = if query_value(&at.url, BODY_HASH).is_some() {
        (Vec::new(), Signed::json(body.to_vec()))
    } else {
        let form = Form::parse(body).ok_or_else(|| SignError::Body(Form::TOO_MANY.to_owned()))?;
        (fields(form), Signed::form(body.to_vec()))
    };
    let mac = hmac(Hash::Sha1, secret.as_bytes(), &[at.url.as_bytes(), &fields]);
    let signed = signed.with("i-twilio-idempotency-token", at.id.clone());
    Ok(signed.with(NAME, base64_text(&mac)))
}

#[cfg(test)]
mod tests {
    use super::urls;

    #[test]
    fn a_url_is_tried_with_and_without_its_port() {
        #[track_caller]
        fn check(url: &str, other: &str) {
            assert_eq!(urls(url).last().map(String::as_str), Some(other));
        }
        check("https://a.example/x?y", "https://a.example:443/x?y");
        check("https://a.example:8443/x", "https://a.example/x");
        check("http://u:p@a.example?x", "http://u:p@a.example:80?x");
        check("https://a.example/x#rc=2", "https://a.example:443/x");
        check("nothing", "nothing");
    }
}
