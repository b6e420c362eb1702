//! What stands in for a sender: its published secret, its sample events.

use std::sync::Arc;

use crate::spec::{Scheme, SecretFormat, Spec};

/// Sample events: type and JSON text; built in, or read when the program starts.
#[derive(Debug, Clone)]
pub(super) enum Samples {
    BuiltIn(&'static [(&'static str, &'static str)]),
    Read(Arc<[(String, String)]>),
}

impl Samples {
    pub(super) fn list(&self) -> Vec<(&str, &str)> {
        match self {
            Self::BuiltIn(list) => list.to_vec(),
            Self::Read(list) => list.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect(),
        }
    }
}

/// The secret that `serve --dev` and `sign` use for a kind: fixed, public, in the kind's own format.
pub fn dev_secret(spec: &Spec) -> String {
    use base64::Engine;
    let plain = format!("hooklatch-dev-secret-{:-<16}", spec.kind);
    let base64 = base64::engine::general_purpose::STANDARD.encode(&plain);
    match spec.signature.secret {
        SecretFormat::Hex => hex::encode(plain),
        SecretFormat::Base64 => base64,
        SecretFormat::Whsec | SecretFormat::WhsecOrText => format!("whsec_{base64}"),
        SecretFormat::Text if spec.kind == "stripe" && spec.signature.scheme != Scheme::Code => {
            format!("whsec_{plain}")
        }
        SecretFormat::Text => plain,
    }
}

/// A sample event on one line with its placeholders filled: `__ID__` by `id`, `__NUM__` by the digits of
/// `id`, `__NOW__` by unix seconds, `__TIME__` by RFC 3339.
pub fn filled_sample(sample: &str, id: &str, now_s: i64) -> String {
    let digits: String = id.chars().filter(char::is_ascii_digit).take(15).collect();
    let number = digits.trim_start_matches('0');
    let number = if number.is_empty() { "1" } else { number };
    let now = jiff::Timestamp::from_second(now_s).map(|at| at.to_string()).unwrap_or_default();
    let filled = one_line(sample).replace("__ID__", id).replace("__NUM__", number);
    filled.replace("__NOW__", &now_s.to_string()).replace("__TIME__", &now)
}

/// JSON without the white space between its parts, everything else in its order; other texts (a form, XML) as they
/// are, but for the end of the line.
fn one_line(json: &str) -> String {
    if !json.trim_start().starts_with(['{', '[']) {
        return json.trim().to_owned();
    }
    let mut is_text = false;
    let mut is_escaped = false;
    let keep = |c: &char| {
        let is_kept = is_text || !c.is_ascii_whitespace();
        is_text ^= *c == '"' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        is_kept
    };
    json.chars().filter(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_fits_one_line_and_keeps_its_texts() {
        let pretty = "{\n  \"a b\": \"it is \\\"so\\\" \",\n  \"n\": __NOW__\n}\n";
        assert_eq!(filled_sample(pretty, "x", 7), r#"{"a b":"it is \"so\" ","n":7}"#);
        assert_eq!(filled_sample("__ID__ __NUM__\n", "a1b2", 0), "a1b2 12");
        assert_eq!(filled_sample("<a b=\"c\">d e</a>\n", "x", 7), "<a b=\"c\">d e</a>");
    }
}
