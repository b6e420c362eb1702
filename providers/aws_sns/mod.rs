//! Amazon SNS: RSA over the message's own fields, by a certificate whose URL is in the message. Anybody with an
//! account can have messages signed, so the topic is checked as well.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        (
            "Notification.arn:aws:sns:us-west-2:123456789012:MyTopic",
            include_str!("samples/Notification.json"),
        ),
        (
            "SubscriptionConfirmation.arn:aws:sns:us-west-2:123456789012:MyTopic",
            include_str!("samples/SubscriptionConfirmation.json"),
        ),
        (
            "UnsubscribeConfirmation.arn:aws:sns:us-west-2:123456789012:MyTopic",
            include_str!("samples/UnsubscribeConfirmation.json"),
        ),
    ])
}

/// Signed fields of a notification, in their order; one that is missing is skipped with its name.
const NOTIFICATION: [&str; 6] = ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"];
/// Signed fields of confirmations.
const CONFIRMATION: [&str; 7] =
    ["Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"];

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let malformed = |place: &str, why| VerifyError::malformed(place, why);
    let body = Json::parse(&request.body).ok_or_else(|| malformed("body", "it is not JSON"))?;
    let field = |name: &str| body.text(&format!("/{name}"));
    let scheme = match field("SignatureVersion").as_deref() {
        Ok("1") => PublicScheme::RsaSha1,
        Ok("2") => PublicScheme::RsaSha256,
        _ => return Err(malformed("SignatureVersion", "it is neither 1 nor 2")),
    };
    let names: &[&str] = match field("Type").as_deref() {
        Ok("Notification") => &NOTIFICATION,
        Ok("SubscriptionConfirmation" | "UnsubscribeConfirmation") => &CONFIRMATION,
        _ => return Err(malformed("Type", "it is no type of SNS")),
    };
    let url = field("SigningCertURL").or_else(|_| field("SigningCertUrl"));
    let url = url.map_err(|_| malformed("SigningCertURL", "it is missing"))?;
    if !is_of_sns(&url) {
        return Err(malformed("SigningCertURL", "it is not on a host of SNS"));
    }
    let topic = field("TopicArn").map_err(|_| malformed("TopicArn", "it is missing"))?;
    let mut topics = keys.settings().all("topic_arns").flat_map(|setting| setting.value.reveal().split(','));
    if !topics.any(|known| known.trim() == "*" || known.trim() == topic) {
        return Err(malformed("TopicArn", "it is none of the topics in the settings"));
    }
    let content = content(&body, names)
        .ok_or_else(|| malformed("body", "a signed field is missing, or not of its form"))?;
    let signature = field("Signature").ok().as_deref().and_then(decode_base64);
    let signature = signature.ok_or_else(|| malformed("Signature", "it is not base64"))?;
    let key = keys.public_key("public_keys", &url)?;
    if key.verifies(scheme, content.as_bytes(), &signature) {
        Ok(Authenticated::of(0, &[content.as_bytes()]))
    } else {
        Err(VerifyError::mismatch(keys))
    }
}

/// Whether the content can be taken apart in one way alone. Names and values are lines of it, and a publisher of a
/// text may write lines into it: only the first value, the message, may have more than one.
fn is_plain(name: &str, value: &str) -> bool {
    match name {
        "Message" => true,
        "MessageId" => is_uuid(value),
        _ => !value.contains(['\n', '\r']),
    }
}

/// As in `22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324`.
fn is_uuid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts.iter().all(|part| part.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Name and value of every field that is there, each on a line. Only a subject may be missing. `None` for one that
/// could be taken apart in another way as well.
fn content(body: &Json<'_>, names: &[&str]) -> Option<String> {
    let mut content = String::new();
    for name in names {
        let pointer = format!("/{name}");
        let is_missing = body.is_missing(&pointer) || body.raw(&pointer) == Some(b"null");
        if *name == "Subject" && is_missing {
            continue;
        }
        let raw = body.raw(&pointer)?;
        let value: String =
            serde_json::from_slice(raw).ok().filter(|value: &String| is_plain(name, value))?;
        content.extend([name, "\n", &value, "\n"]);
    }
    Some(content)
}

/// `https://sns.REGION.amazonaws.com/….pem`, or in China; the host as a whole, without user, port or suffix.
fn is_of_sns(url: &str) -> bool {
    let Some((host, path)) = url.strip_prefix("https://").and_then(|rest| rest.split_once('/')) else {
        return false;
    };
    let stem = host.strip_suffix(".cn").unwrap_or(host);
    let region = stem.strip_prefix("sns.").and_then(|rest| rest.strip_suffix(".amazonaws.com"));
    region.is_some_and(is_region) && path.strip_suffix(".pem").is_some() && !path.contains(['?', '#'])
}

/// Two letters, words and a digit, as in `us-gov-west-1`. `s3-us-west-2` is a host of S3, where anybody can have a
/// bucket that is called `sns`.
fn is_region(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let is_word = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase());
    let [area, words @ .., digit] = parts.as_slice() else { return false };
    area.len() == 2
        && is_word(area)
        && !words.is_empty()
        && words.iter().all(is_word)
        && matches!(digit.as_bytes(), [b'0'..=b'9'])
}

/// A UUID for the id of a sample: the same for the same.
fn uuid_of(id: &str) -> String {
    let hex = hex_text(&digest(Hash::Sha256, &[id.as_bytes()]));
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

/// Its own kind of signature, whatever the body says of it.
fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let wrong = |why: &str| SignError::Body(why.to_owned());
    let mut message: serde_json::Value = serde_json::from_slice(body).map_err(|_| wrong("it is not JSON"))?;
    let fields = message.as_object_mut().ok_or_else(|| wrong("it is no object"))?;
    if let Some(id) = fields.get("MessageId").and_then(|id| id.as_str()).filter(|id| !is_uuid(id)) {
        let id = uuid_of(id);
        fields.insert("MessageId".to_owned(), id.into());
    }
    let body = &message.to_string().into_bytes();
    let names: &[&str] =
        if json_text(body, "/Type").as_deref() == Ok("Notification") { &NOTIFICATION } else { &CONFIRMATION };
    let parsed = Json::parse(body).ok_or_else(|| wrong("it is not JSON"))?;
    let content = content(&parsed, names).ok_or_else(|| wrong("a signed field is missing"))?;
    let signature = keys.sign_public(PublicScheme::RsaSha256, content.as_bytes())?;
    let fields = message.as_object_mut().ok_or_else(|| wrong("it is no object"))?;
    fields.insert("SignatureVersion".to_owned(), "2".into());
    fields.insert("Signature".to_owned(), base64_text(&signature).into());
    fields.insert("SigningCertURL".to_owned(), keys.id_of("public_keys")?.into());
    Ok(Signed { headers: Vec::new(), body: message.to_string().into_bytes() }
        .with("content-type", "text/plain; charset=UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::is_of_sns;

    #[test]
    fn certificates_are_taken_from_sns_alone() {
        for good in
            ["https://sns.us-west-2.amazonaws.com/a.pem", "https://sns.cn-north-1.amazonaws.com.cn/a.pem"]
        {
            assert!(is_of_sns(good), "{good}");
        }
        for bad in [
            "http://sns.us-west-2.amazonaws.com/a.pem",
            "https://sns.us-west-2.amazonaws.com@evil.example/a.pem",
            "https://sns.us-west-2.amazonaws.com.evil.example/a.pem",
            "https://sns.us-west-2.amazonaws.com:8443/a.pem",
            "https://evil.sns.us-west-2.amazonaws.com/a.pem",
            "https://sns.amazonaws.com/a.pem",
            "https://sns.s3-us-west-2.amazonaws.com/a.pem",
            "https://sns.s3-website-us-west-2.amazonaws.com/a.pem",
            "https://sns.elb.amazonaws.com/a.pem",
            "https://sns.us-west-2x.amazonaws.com/a.pem",
            "https://sns.us-west-2.amazonaws.com/a.pem?x",
            "https://sns.us-west-2.amazonaws.com/a",
            "https://evil.example/?sns.us-west-2.amazonaws.com/a.pem",
            "",
        ] {
            assert!(!is_of_sns(bad), "{bad}");
        }
    }
}
