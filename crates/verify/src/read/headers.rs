//! What is kept of a request without its secrets: the headers as one JSON object, secrets and signatures blanked,
//! bounded; and bodies without tokens.
//!
//! Anyone who reads a token inside a body can send as the sender does. It is blanked only where the token is the whole
//! verification: such a body is not signed, so nothing that could be verified is lost.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use http::HeaderMap;

use crate::form_without;
use crate::spec::{Scheme, Spec};
use hooklatch_core::json::{self, PointerTarget, find, push_text};
use hooklatch_core::types::media_type;

/// Most bytes of header text that are kept of one request.
const KEPT_BYTES_MAX: usize = 16 * 1024;
/// Size of the headers of most requests as they are kept. Bytes.
const USUAL_BYTES: usize = 512;
/// Text in the place of a value that must not be kept.
const BLANK: &str = "[redacted]";

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
/// Parts of such names that are whole words between hyphens.
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
        // Most are text, which is found out faster than it is made of what is not.
        let lossy = |_| String::from_utf8_lossy(value.as_bytes());
        let text = std::str::from_utf8(value.as_bytes()).map_or_else(lossy, Cow::Borrowed);
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
pub(super) fn value(kept: &str, name: &str) -> Option<String> {
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

/// The body without the token that its kind carries in it.
pub(super) fn without_token(spec: &Spec, body: &Bytes) -> Bytes {
    if let Some(name) = &spec.signature.query {
        return Bytes::from(form_without(body, name));
    }
    let Some(pointer) = spec.signature.json.as_ref().filter(|_| spec.signature.scheme == Scheme::Token)
    else {
        return body.clone();
    };
    let whole: &[u8] = body;
    let mut tokens = Vec::new();
    match &spec.signature.each {
        None => tokens.extend(place(whole, whole, pointer)),
        Some(each) => {
            let PointerTarget::One(list) = find(whole, each) else { return body.clone() };
            let elements = json::elements(list).unwrap_or_default().into_iter();
            let elements = elements.filter_map(|range| list.get(range));
            tokens.extend(elements.filter_map(|element| place(whole, element, pointer)));
        }
    }
    let blank = format!("\"{BLANK}\"");
    let pieces: Vec<_> = tokens.into_iter().map(|range| (range, blank.as_bytes())).collect();
    Bytes::from(spliced(whole, &pieces))
}

/// The range in `whole` of the value that `pointer` names in `part`, which is a part of it.
pub(super) fn place(whole: &[u8], part: &[u8], pointer: &str) -> Option<Range<usize>> {
    let PointerTarget::One(raw) = find(part, pointer) else { return None };
    let start = raw.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    Some(start..start + raw.len())
}

/// `whole` with other texts in these places, which are in order.
pub(super) fn spliced(whole: &[u8], pieces: &[(Range<usize>, &[u8])]) -> Vec<u8> {
    let mut made = Vec::with_capacity(whole.len());
    let mut from = 0;
    for (range, text) in pieces {
        made.extend_from_slice(whole.get(from..range.start).unwrap_or_default());
        made.extend_from_slice(text);
        from = range.end;
    }
    made.extend_from_slice(whole.get(from..).unwrap_or_default());
    made
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

    #[test]
    fn the_token_of_a_query_is_left_out_and_the_rest_stays_as_it_was_written() {
        let text = include_str!("../../../../providers/mangopay/provider.toml");
        let spec = Spec::parse(text).expect("a spec");
        for (query, want) in [
            ("token=t&EventType=A+b&Date=%31", "EventType=A+b&Date=%31"),
            ("EventType=A&%74oken=t&token=u&x", "EventType=A&x"),
            ("tokens=1&token", "tokens=1"),
        ] {
            assert_eq!(without_token(&spec, &Bytes::from_static(query.as_bytes())), want, "{query}");
        }
    }

    #[test]
    fn tokens_are_blanked_where_they_stand_and_nothing_else_changes() {
        let spec = |more: &str| {
            let text = include_str!("../../../../providers/stripe/provider.toml");
            let mut spec = Spec::parse(text).expect("a spec");
            spec.signature.scheme = Scheme::Token;
            spec.signature.json = Some("/token".to_owned());
            spec.signature.each = Some(more.to_owned()).filter(|each| !each.is_empty());
            spec
        };
        let blanked =
            |spec: &Spec, body: &'static str| without_token(spec, &Bytes::from_static(body.as_bytes()));
        let one = spec("");
        assert_eq!(
            blanked(&one, r#"{ "a":1.0, "token" : "se\"c" , "b":[]}"#),
            r#"{ "a":1.0, "token" : "[redacted]" , "b":[]}"#
        );
        assert_eq!(blanked(&one, r#"{"a":"token"}"#), r#"{"a":"token"}"#);
        let each = spec("/list");
        assert_eq!(
            blanked(&each, r#"{"list":[{"token":"x","n":1},{"n":2},{"token":"yy"}]}"#),
            r#"{"list":[{"token":"[redacted]","n":1},{"n":2},{"token":"[redacted]"}]}"#
        );
        let signed = Spec {
            signature: crate::spec::SignatureSpec { scheme: Scheme::HmacSha256, ..one.signature.clone() },
            ..one
        };
        assert_eq!(
            blanked(&signed, r#"{"token":"x"}"#),
            r#"{"token":"x"}"#,
            "what is signed stays as it was signed"
        );
    }
}
