//! The request's headers as they are kept: one JSON object, secrets and signatures blanked, bounded.

use http::HeaderMap;

use crate::spec::{Scheme, Spec};

/// Most bytes of header text that are kept of one request.
const KEPT_BYTES_MAX: usize = 16 * 1024;
/// What stands for a value that must not be kept.
pub(super) const BLANK: &str = "[redacted]";

/// All headers as a JSON object, in the order of the request until [`KEPT_BYTES_MAX`]; of a repeated one,
/// the first.
pub(crate) fn kept_headers(spec: &Spec, headers: &HeaderMap) -> String {
    let mut kept = serde_json::Map::new();
    let mut bytes_n = 0;
    for (name, value) in headers {
        let text = if is_secret(spec, name.as_str()) {
            BLANK.into()
        } else {
            String::from_utf8_lossy(value.as_bytes())
        };
        bytes_n += name.as_str().len() + text.len();
        if bytes_n > KEPT_BYTES_MAX {
            break;
        }
        if !kept.contains_key(name.as_str()) {
            kept.insert(name.to_string(), text.into_owned().into());
        }
    }
    // PostgreSQL takes no NUL in text; HTTP allows none in header values either.
    serde_json::Value::Object(kept).to_string()
}

/// One kept header, by its lower-case name.
pub(crate) fn value(kept: &str, name: &str) -> Option<String> {
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(kept).ok()?;
    object.get(&name.to_ascii_lowercase())?.as_str().map(str::to_owned)
}

fn is_secret(spec: &Spec, name: &str) -> bool {
    const WORDS: [&str; 7] = ["auth", "cookie", "token", "secret", "signature", "hmac", "api-key"];
    let is_known = |known: &String| match known.strip_suffix(['*', '-']) {
        Some(stem) => name.starts_with(&stem.to_ascii_lowercase()),
        None => known.eq_ignore_ascii_case(name),
    };
    let mut signatures = std::iter::once(&spec.signature).chain(&spec.alternative);
    WORDS.iter().any(|word| name.contains(word))
        || signatures.any(|signature| match signature.scheme {
            // These name a family of headers, of which the signature alone is secret; its name says so.
            Scheme::StandardWebhooks => false,
            _ => signature.headers.iter().any(is_known),
        })
}
