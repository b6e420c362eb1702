//! A signed request as one command to paste.

use hooklatch_core::plain;
use hooklatch_verify::Signed;
use hooklatch_verify::spec::EventMethod;

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
