//! Writes texts as JSON has them.

/// Writes `text` behind `out` as JSON has it, with its quotes.
pub fn push_text(out: &mut String, text: &str) {
    if text.bytes().any(|byte| byte < b' ' || byte == b'"' || byte == b'\\') {
        out.push_str(&serde_json::Value::from(text).to_string());
        return;
    }
    out.push('"');
    out.push_str(text);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_written_as_serde_json_writes_it() {
        for text in
            ["", "plain", "é", "a \"b\"", "back\\slash", "line\nbreak", "\u{0}\u{1f}", "\u{7f} \u{2028}"]
        {
            let mut out = String::from("[");
            push_text(&mut out, text);
            assert_eq!(out, format!("[{}", serde_json::Value::from(text)), "{text:?}");
        }
    }
}
