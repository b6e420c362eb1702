//! The stand-in for a sender during development: published secrets, development keys, samples with fresh ids, and a
//! signed request as one command to paste.

use super::active::CORRECT_IT;
use hooklatch_core::config::{KindSettings, ProviderConfig};
use hooklatch_core::mistakes::Mistake;
use hooklatch_core::plain;
use hooklatch_verify::spec::{EventMethod, Scheme, SecretFormat, SettingForm, Spec};
use hooklatch_verify::{self as verify, DevKeys, Signed};

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

/// The settings that `serve --dev` and `sign` use for a kind.
pub fn dev_settings(spec: &Spec, keys: &DevKeys) -> KindSettings {
    let mut settings = KindSettings::default();
    for setting in &spec.setting {
        let by_key = setting.dev_key.and_then(|sort| keys.setting(sort));
        if let Some(text) = setting.dev.clone().or(by_key) {
            let id = (setting.form == SettingForm::Named).then_some(setting.dev_id.as_str());
            settings.push(&setting.name, id, text);
        }
    }
    settings
}

/// Says, for each of a provider's secrets and settings that is published with Hooklatch, that only `serve --dev` may
/// have it: any stranger could sign with it.
pub fn published_mistakes(spec: &Spec, config: &ProviderConfig) -> Vec<Mistake> {
    const WHY: &str = "is published with Hooklatch, so anybody could sign: it is for `serve --dev` alone";
    let own = dev_secret(spec);
    let secrets = config.secrets.iter().map(|secret| ("secrets".to_owned(), secret.reveal()));
    let settings = config.settings.iter();
    let settings = settings.map(|one| (format!("settings.{}", one.name), one.value.reveal()));
    // Other published values, such as `*` for every topic, are an operator's to choose.
    let is_ours = |dev: &String| dev.contains("hooklatch-dev") || dev.contains("hooklatch_dev");
    let ours: Vec<&String> =
        spec.setting.iter().filter_map(|one| one.dev.as_ref()).filter(|dev| is_ours(dev)).collect();
    let is_dev =
        |text: &str| text == own || ours.iter().any(|dev| *dev == text) || verify::is_published(text);
    let published = secrets.chain(settings).filter(|(_, text)| is_dev(text.trim()));
    published.map(|(key, _)| Mistake::said(key, WHY, CORRECT_IT)).collect()
}

/// Changes the last digit or letter of a signed body, so that JSON stays JSON. The last one: of a kind that signs
/// fields, the first may belong to none of them.
pub fn tamper(body: &mut [u8]) {
    if let Some(byte) = body.iter_mut().rev().find(|byte| byte.is_ascii_alphanumeric()) {
        *byte = if *byte == b'e' { b'E' } else { *byte ^ 1 };
    }
}

/// A sample event on one line with its placeholders filled: `__ID__` by `id`, `__NUM__` by the digits of
/// `id`, `__NOW__` by unix seconds, `__TIME__` by RFC 3339.
pub fn filled_sample(sample: &str, id: &str, now_s: i64) -> String {
    let digits: String = id.chars().filter(char::is_ascii_digit).take(15).collect();
    let number = digits.trim_start_matches('0');
    let number = if number.is_empty() { "1" } else { number };
    let now = jiff::Timestamp::from_second(now_s).map(|at| at.to_string()).unwrap_or_default();
    let filled = sample_line(sample).replace("__ID__", id).replace("__NUM__", number);
    filled.replace("__NOW__", &now_s.to_string()).replace("__TIME__", &now)
}

/// A sample on one line, its placeholders left in.
pub fn sample_line(sample: &str) -> String {
    // Forms and XML are on one line already, and their blanks mean something.
    let is_json = sample.trim_start().starts_with(['{', '[']);
    if is_json { one_line(sample) } else { sample.trim().to_owned() }
}

/// JSON without the white space between its parts, everything else in its order.
fn one_line(json: &str) -> String {
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

/// Writes one command for a POSIX shell. The body is sent as it is, byte for byte.
pub fn curl(method: EventMethod, url: &str, signed: &Signed) -> String {
    if method == EventMethod::Get {
        let headers =
            signed.headers.iter().map(|(name, value)| format!("-H {}", quoted(&format!("{name}: {value}"))));
        return [format!("curl -sS -i {}", quoted(&signed.url_with_query(url)))]
            .into_iter()
            .chain(headers)
            .collect::<Vec<_>>()
            .join(" \\\n  ");
    }
    let text = std::str::from_utf8(&signed.body).ok().filter(|text| is_pasteable(text));
    let pipe =
        if text.is_some() { String::new() } else { format!("printf '%b' '{}' | ", octal(&signed.body)) };
    let mut words = vec![format!("{pipe}curl -sS -i {}", quoted(url))];
    words.extend(
        signed.headers.iter().map(|(name, value)| format!("-H {}", quoted(&format!("{name}: {value}")))),
    );
    words.push(format!("--data-binary {}", quoted(text.unwrap_or("@-"))));
    words.join(" \\\n  ")
}

/// True when a terminal and curl take it as it is: curl reads a file after a leading `@`, and control
/// characters, seen or not, do not survive being shown and pasted.
fn is_pasteable(text: &str) -> bool {
    !text.starts_with('@') && !text.chars().any(|c| plain::is_hidden(c) && c != '\n')
}

/// Every byte as `\0ooo`, which `printf '%b'` turns back.
fn octal(body: &[u8]) -> String {
    body.iter().map(|byte| format!("\\0{byte:03o}")).collect::<Vec<_>>().concat()
}

/// Puts `text` in single quotes, in which a shell changes nothing.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_fits_one_line_and_keeps_its_texts() {
        let pretty = "{\n  \"a b\": \"it is \\\"so\\\" \",\n  \"n\": __NOW__\n}\n";
        assert_eq!(filled_sample(pretty, "x", 7), r#"{"a b":"it is \"so\" ","n":7}"#);
        assert_eq!(filled_sample("<a b=\"__ID__\">__NUM__</a>\n", "a1b2", 0), "<a b=\"a1b2\">12</a>");
    }

    /// The body that curl would be given: `curl` is replaced by a function that shows it.
    fn shown_by_shell(body: &[u8]) -> Vec<u8> {
        let signed = Signed { headers: vec![("x".to_owned(), "it's".to_owned())], body: body.to_vec() };
        let function = "curl() { for last; do :; done; if [ \"$last\" = @- ]; then cat; else printf %s \"$last\"; fi; }\n";
        let script = format!("{function}{}", curl(EventMethod::Post, "http://127.0.0.1/", &signed));
        std::process::Command::new("sh").args(["-c", &script]).output().expect("sh").stdout
    }

    #[test]
    fn an_event_by_get_is_in_the_url_alone() {
        let signed =
            Signed { headers: vec![("x".to_owned(), "1".to_owned())], body: b"a=it's&token=t".to_vec() };
        let command = curl(EventMethod::Get, "http://127.0.0.1/x", &signed);
        assert_eq!(command, "curl -sS -i 'http://127.0.0.1/x?a=it'\\''s&token=t' \\\n  -H 'x: 1'");
    }

    #[test]
    fn a_pasted_command_sends_the_same_bytes() {
        let bodies: [&[u8]; 9] = [
            b"{\"plain\":1}",
            b"it's",
            b"''",
            b"a\nb $HOME `id` \\ \"x\" !!",
            b"@file",
            b"tab\tand\r\n",
            b"\xff\x00\x80",
            "Zażółć 💶\n".as_bytes(),
            "a\u{202e}b\u{200b}".as_bytes(),
        ];
        for body in bodies {
            assert_eq!(shown_by_shell(body), body);
        }
    }
}
