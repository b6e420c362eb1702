//! The request's headers as they are stored: one JSON object, secrets and signatures blanked, bounded.

use http::HeaderMap;

use crate::spec::{Scheme, Spec};
use hooklatch_core::json::push_text;
use hooklatch_core::types::media_type;

/// Most bytes of header text that are kept of one request.
const KEPT_BYTES_MAX: usize = 16 * 1024;
/// Size of the headers of most requests as they are kept. Bytes.
const USUAL_BYTES: usize = 512;
/// Text in the place of a value that must not be kept.
pub(super) const BLANK: &str = "[redacted]";

/// Parts of the names of headers that carry credentials, by their first letter. Rather one too many: the value of a
/// header with such a name is not needed.
fn credential_words(first: u8) -> &'static [&'static [u8]] {
    match first {
        b'a' => &[b"assertion", b"auth"],
        b'b' => &[b"bearer"],
        b'c' => &[b"cookie", b"cred", b"csrf"],
        b'h' => &[b"hmac"],
        b'j' => &[b"jws", b"jwt"],
        b'k' => &[b"key"],
        b'o' => &[b"otp"],
        b'p' => &[b"pass", b"private", b"pwd"],
        b's' => &[b"saml", b"secret", b"sess", b"sign", b"sso"],
        b't' => &[b"ticket", b"token"],
        b'v' => &[b"verif"],
        b'x' => &[b"xsrf"],
        _ => &[],
    }
}
/// The same, as whole words between hyphens.
const WHOLE_WORDS: [&str; 5] = ["access", "login", "mac", "pin", "sid"];
/// Names that nearly every request has, and no such word: these are not searched.
const PLAIN: [&str; 7] =
    ["accept", "accept-encoding", "connection", "content-length", "content-type", "host", "user-agent"];
/// Names with such a word whose values are public: they name the key or the event.
const PUBLIC: [&str; 2] = ["idempotency-key", "x-event-key"];
/// Prefixes of values that are credentials, whatever their header is called.
const OPENERS: [&str; 5] = ["aws4-hmac-sha256 ", "basic ", "bearer ", "digest ", "eyj"];

/// All headers as a JSON object, until [`KEPT_BYTES_MAX`]: first those that a stored event is read by, then the others
/// in the order of the request; of a repeated one, the first.
pub fn kept_headers(spec: &Spec, headers: &HeaderMap) -> String {
    let needed = headers.iter().filter(|(name, _)| is_needed(spec, name.as_str()));
    let others = headers.iter().filter(|(name, _)| !is_needed(spec, name.as_str()));
    let mut kept = String::with_capacity(USUAL_BYTES);
    let (mut bytes_n, mut before) = (0, None);
    for (name, value) in needed.chain(others) {
        let text = String::from_utf8_lossy(value.as_bytes());
        let text = match name.as_str() {
            "content-type" => content_type(&text),
            other if is_secret(spec, other) || is_opener(&text) => BLANK,
            _ => &text,
        };
        bytes_n += name.as_str().len() + text.len();
        if bytes_n > KEPT_BYTES_MAX {
            break;
        }
        // The values of one name come one after the other.
        if before.replace(name) == Some(name) {
            continue;
        }
        kept.push(if kept.is_empty() { '{' } else { ',' });
        push_text(&mut kept, name.as_str());
        kept.push(':');
        // PostgreSQL takes no NUL in text; HTTP allows none in header values either.
        push_text(&mut kept, text);
    }
    kept.push_str(if kept.is_empty() { "{}" } else { "}" });
    kept
}

/// One kept header, by its lower-case name.
pub(crate) fn value(kept: &str, name: &str) -> Option<String> {
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(kept).ok()?;
    object.get(&name.to_ascii_lowercase())?.as_str().map(str::to_owned)
}

/// One kept header that the kind lists for handlers; `None` also when its value is blanked.
pub fn covered_header(kept: &str, name: &str) -> Option<String> {
    value(kept, name).filter(|text| text != BLANK)
}

/// Kept headers without any of `secrets`, for those of a request that was not believed: a sender that puts a secret
/// into the wrong place gives it away all the same.
pub fn without<'a>(kept: &str, secrets: impl Iterator<Item = &'a str>) -> String {
    /// Shorter ones would blank texts that are no secrets.
    const SECRET_BYTES_MIN: usize = 6;
    let secrets: Vec<&str> = secrets.filter(|secret| secret.len() >= SECRET_BYTES_MIN).collect();
    let Ok(mut object) = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(kept) else {
        return kept.to_owned();
    };
    for value in object.values_mut() {
        let is_given = |text: &str| secrets.iter().any(|secret| text.contains(secret));
        if value.as_str().is_some_and(is_given) {
            *value = BLANK.into();
        }
    }
    serde_json::Value::Object(object).to_string()
}

/// The value of a header of a call as it may be shown.
pub fn shown_value<'a>(name: &str, value: &'a str) -> &'a str {
    if is_secret_name(name) || is_opener(value) { BLANK } else { value }
}

/// True when a stored event is read again by it.
fn is_needed(spec: &Spec, name: &str) -> bool {
    let is_this = |other: &String| other.eq_ignore_ascii_case(name);
    name == "content-type"
        || spec.headers.iter().any(is_this)
        || spec.event.iter().any(|event| event.when_header.as_ref().is_some_and(is_this))
}

/// A content type that can be relied on; a form stays one, because it is read as one again.
fn content_type(text: &str) -> &str {
    const FORM: &str = "application/x-www-form-urlencoded";
    let is_form = text.get(..FORM.len()).is_some_and(|start| start.eq_ignore_ascii_case(FORM));
    match media_type(text) {
        changed if changed != text && is_form => FORM,
        kept => kept,
    }
}

fn is_secret(spec: &Spec, name: &str) -> bool {
    let is_known = |known: &String| match known.strip_suffix(['*', '-']) {
        Some(stem) => name.get(..stem.len()).is_some_and(|start| start.eq_ignore_ascii_case(stem)),
        None => known.eq_ignore_ascii_case(name),
    };
    let mut signatures = std::iter::once(&spec.signature).chain(&spec.alternative);
    is_secret_name(name)
        || signatures.any(|signature| match signature.scheme {
            // These name a family of headers, of which the signature alone is secret; its name says so.
            Scheme::StandardWebhooks => false,
            _ => signature.headers.iter().any(is_known),
        })
}

fn is_secret_name(name: &str) -> bool {
    if PLAIN.contains(&name) {
        return false;
    }
    let is_public = PUBLIC.contains(&name) || name.ends_with("-key-id");
    let has_word = || {
        let mut rests = (0..name.len()).filter_map(|from| name.as_bytes().get(from..));
        rests.any(|rest| {
            rest.first()
                .is_some_and(|first| credential_words(*first).iter().any(|word| rest.starts_with(word)))
        }) || name.split(['-', '_']).any(|word| WHOLE_WORDS.contains(&word))
    };
    !is_public && has_word()
}

fn is_opener(text: &str) -> bool {
    let is_start = |opener: &&str| {
        text.as_bytes().get(..opener.len()).is_some_and(|start| start.eq_ignore_ascii_case(opener.as_bytes()))
    };
    // A URL with a password in it opens one too.
    let has_password = || {
        let behind = text.contains(':').then(|| text.split_once("://")).flatten();
        let rest = behind.map(|(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default());
        rest.is_some_and(|authority| authority.contains('@'))
    };
    OPENERS.iter().any(is_start) || has_password()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_of_credentials_are_recognized() {
        for name in [
            "authorization",
            "proxy-authorization",
            "x-auth",
            "cookie",
            "x-api-credential",
            "x-hook-password",
            "x-passphrase",
            "x-pwd",
            "x-api-key",
            "apikey",
            "x_session",
            "x-sessionid",
            "x-sid",
            "x-jwt",
            "x-amz-security-token",
            "x-csrf",
            "x-xsrf-token",
            "x-signature",
            "x-signed",
            "signature-input",
            "x-hub-signature-256",
            "x-hmac",
            "x-mac",
            "x-otp",
            "x-pin",
            "x-access",
            "x-saml-assertion",
            "x-private",
            "x-bearer",
            "x-goog-iap-jwt-assertion",
            "x-verification",
            "x-secret",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "content-type",
            "host",
            "x-github-delivery",
            "x-github-event",
            "webhook-id",
            "x-event-key",
            "idempotency-key",
            "x-circle-key-id",
            "x-shopify-topic",
            "x-forwarded-for",
            "date",
            "x-machine",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
        for value in
            ["Basic dTpw", "BEARER x", "eyJhbGciOi.x.y", "https://u:p@h/x", "AWS4-HMAC-SHA256 Credential=x"]
        {
            assert!(is_opener(value), "{value}");
        }
        for value in ["Basically", "https://h/a@b", "application/json", ""] {
            assert!(!is_opener(value), "{value}");
        }
    }

    #[test]
    fn headers_are_kept_in_their_order_and_what_they_say_is_text() {
        let mut headers = HeaderMap::new();
        let given: [(&str, &[u8]); 8] = [
            ("host", b"a"),
            ("x-b", b"1"),
            ("x-quote", b"a \"b\" \\ c\td"),
            ("x-a", "caf\u{e9}".as_bytes()),
            ("x-b", b"2"),
            ("content-type", b"text/plain"),
            ("x-odd", b"\xff"),
            ("cookie", b"c"),
        ];
        for (name, value) in given {
            let value = http::HeaderValue::from_bytes(value).expect("a value");
            headers.append(http::HeaderName::from_static(name), value);
        }
        let spec = crate::spec::Spec::parse(include_str!("../../../../providers/stripe/provider.toml"))
            .expect("a spec");
        let kept = kept_headers(&spec, &headers);
        let want = concat!(
            r#"{"content-type":"text/plain","host":"a","x-b":"1","x-quote":"a \"b\" \\ c\td","#,
            r#""x-a":"café","x-odd":"�","cookie":"[redacted]"}"#
        );
        assert_eq!(kept, want);
        assert_eq!(value(&kept, "X-Quote").as_deref(), Some("a \"b\" \\ c\td"));
        assert_eq!(kept_headers(&spec, &HeaderMap::new()), "{}");
        headers.insert("x-long", http::HeaderValue::from_bytes(&[b'x'; KEPT_BYTES_MAX]).expect("a value"));
        assert!(kept_headers(&spec, &headers).ends_with("\"cookie\":\"[redacted]\"}"), "bounded");
    }

    #[test]
    fn a_header_that_the_kind_lists_is_kept_first_and_what_is_blanked_is_not_there() {
        let mut spec = crate::spec::Spec::parse(include_str!("../../../../providers/stripe/provider.toml"))
            .expect("a spec");
        spec.headers = vec!["X-Note".to_owned()];
        let mut headers = HeaderMap::new();
        headers.insert("x-long", http::HeaderValue::from_bytes(&[b'x'; KEPT_BYTES_MAX]).expect("a value"));
        headers.insert("x-note", http::HeaderValue::from_static("n"));
        let kept = kept_headers(&spec, &headers);
        assert_eq!(covered_header(&kept, "x-note").as_deref(), Some("n"));
        assert_eq!(covered_header(r#"{"cookie":"[redacted]"}"#, "cookie"), None);
    }

    #[test]
    fn a_secret_in_the_wrong_header_is_blanked_and_a_content_type_is_one() {
        let kept = without(r#"{"x-note":"it is whsec_1!","x-other":"1"}"#, ["whsec_1", "1"].into_iter());
        assert_eq!(kept, r#"{"x-note":"[redacted]","x-other":"1"}"#);
        assert_eq!(content_type("Application/X-www-form-urlencoded; x"), "application/x-www-form-urlencoded");
        assert_eq!(content_type("text/html\u{7}"), "application/octet-stream");
        assert_eq!(content_type("application/json"), "application/json");
    }
}
