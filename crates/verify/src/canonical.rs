//! Bodies rewritten the way a sender writes them before it signs: JSON as JavaScript's `JSON.stringify`
//! would, PHP's `serialize`. Works on raw JSON text, so a number keeps the digits it was sent with.

use std::borrow::Cow;

use serde_json::value::RawValue;

/// Deepest nesting that is followed. These bodies are rewritten before verification, so a stranger
/// must not choose how deep we go: each level takes stack.
const DEPTH_MAX: usize = 64;
/// Most values in a text that is written again: what is kept of each while the whole is sorted must not grow to many
/// times the body.
const VALUES_N_MAX: usize = 100_000;

/// The JSON without white space between its parts; everything else as it is. `None` when it is not JSON, or
/// nested deeper or of more values than any sender does it.
pub fn compact_json(json: &[u8]) -> Option<Vec<u8>> {
    written(parsed(json)?, false, json.len())
}

/// Writes JSON as [`compact_json`] does, with the members of every object sorted by their names.
pub fn sorted_json(json: &[u8]) -> Option<Vec<u8>> {
    written(parsed(json)?, true, json.len())
}

/// A value as written in the text.
enum Node<'a> {
    /// A text with its quotes, a number or a word.
    Plain(&'a str),
    Array(Vec<Node<'a>>),
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
}

/// The whole text as a tree, in two passes however it is nested: one checks that it is JSON, the other splits it.
fn parsed(json: &[u8]) -> Option<Node<'_>> {
    if !is_bounded(json) {
        return None;
    }
    let raw: &RawValue = serde_json::from_slice(json).ok()?;
    JsonWalk { text: raw.get(), at: 0 }.value()
}

/// True when it is nested no deeper than [`DEPTH_MAX`] and has no more than [`VALUES_N_MAX`] values, checked in one
/// pass.
fn is_bounded(json: &[u8]) -> bool {
    let (mut depth, mut values_n, mut is_text, mut is_escaped) = (0_usize, 1_usize, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            b'[' | b'{' if !is_text => {
                depth += 1;
                values_n += 1;
            }
            b',' if !is_text => values_n += 1,
            b']' | b'}' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH_MAX || values_n > VALUES_N_MAX {
            return false;
        }
    }
    true
}

/// Goes through a text that is known to be JSON, once.
struct JsonWalk<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> JsonWalk<'a> {
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    /// Steps over `byte` if it is next.
    fn took(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn value(&mut self) -> Option<Node<'a>> {
        match self.peek()? {
            b'{' => self.object(),
            b'[' => self.array(),
            b'"' => self.string().map(Node::Plain),
            _ => {
                let rest = self.text.get(self.at..)?;
                let is_end = |c: char| c.is_ascii_whitespace() || ",]}".contains(c);
                let (plain, _) = rest.split_at_checked(rest.find(is_end).unwrap_or(rest.len()))?;
                self.at += plain.len();
                Some(Node::Plain(plain))
            }
        }
    }

    /// A text with its quotes.
    fn string(&mut self) -> Option<&'a str> {
        self.peek()?;
        let from = self.at;
        let mut is_escaped = false;
        for (n, byte) in self.text.as_bytes().get(from + 1..)?.iter().enumerate() {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => {
                    self.at = from + n + 2;
                    return self.text.get(from..self.at);
                }
                _ => {}
            }
        }
        None
    }

    fn array(&mut self) -> Option<Node<'a>> {
        let mut items = Vec::new();
        self.at += 1;
        if self.took(b']') {
            return Some(Node::Array(items));
        }
        loop {
            items.push(self.value()?);
            if !self.took(b',') {
                return self.took(b']').then_some(Node::Array(items));
            }
        }
    }

    fn object(&mut self) -> Option<Node<'a>> {
        let mut members = Vec::new();
        self.at += 1;
        if self.took(b'}') {
            return Some(Node::Object(members));
        }
        loop {
            let name = self.string()?;
            let name = if name.contains('\\') {
                Cow::Owned(serde_json::from_str(name).ok()?)
            } else {
                Cow::Borrowed(name.get(1..name.len() - 1)?)
            };
            if !self.took(b':') {
                return None;
            }
            members.push((name, self.value()?));
            if !self.took(b',') {
                return self.took(b'}').then_some(Node::Object(members));
            }
        }
    }
}

fn written(node: Node<'_>, is_sorted: bool, bytes_n: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(bytes_n);
    write(node, is_sorted, &mut out)?;
    Some(out)
}

fn write(node: Node<'_>, is_sorted: bool, out: &mut Vec<u8>) -> Option<()> {
    match node {
        Node::Plain(raw) if raw.starts_with('"') => {
            out.extend_from_slice(text(&serde_json::from_str::<Cow<'_, str>>(raw).ok()?).as_bytes());
        }
        Node::Plain(raw) => out.extend(number(raw)),
        Node::Array(items) => {
            out.push(b'[');
            for (n, item) in items.into_iter().enumerate() {
                if n > 0 {
                    out.push(b',');
                }
                write(item, is_sorted, out)?;
            }
            out.push(b']');
        }
        Node::Object(mut members) => {
            if is_sorted {
                members.sort_by(|(one, _), (other, _)| one.cmp(other));
            }
            out.push(b'{');
            for (n, (name, value)) in members.into_iter().enumerate() {
                if n > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(text(&name).as_bytes());
                out.push(b':');
                write(value, is_sorted, out)?;
            }
            out.push(b'}');
        }
    }
    Some(())
}

/// A text as `JSON.stringify` writes it.
fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A number as JavaScript writes it back where that is another text: `2.00` is `2`, `1.50` is `1.5`. Integers
/// and exponents keep the digits that they were sent with.
fn number(raw: &str) -> Vec<u8> {
    let is_plain = raw.bytes().all(|b| b.is_ascii_digit() || b == b'-' || b == b'.');
    match raw.split_once('.') {
        Some((whole, fraction)) if is_plain => {
            let fraction = fraction.trim_end_matches('0');
            let whole = if fraction.is_empty() && whole == "-0" { "0" } else { whole };
            if fraction.is_empty() { whole.into() } else { format!("{whole}.{fraction}").into_bytes() }
        }
        _ => raw.into(),
    }
}

/// PHP's `serialize` of an associative array of texts. Lengths are bytes.
pub fn php_serialized(pairs: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let text = |bytes: &[u8]| [format!("s:{}:\"", bytes.len()).as_bytes(), bytes, b"\";"].concat();
    let inner: Vec<u8> = pairs.iter().flat_map(|(name, value)| [text(name), text(value)].concat()).collect();
    [format!("a:{}:{{", pairs.len()).as_bytes(), &inner, b"}"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_written_as_javascript_would() {
        #[track_caller]
        fn check(json: &str, compact: &str, sorted: &str) {
            let text = |bytes: Option<Vec<u8>>| String::from_utf8(bytes.expect("JSON")).expect("text");
            assert_eq!(text(compact_json(json.as_bytes())), compact);
            assert_eq!(text(sorted_json(json.as_bytes())), sorted);
        }
        check(
            r#" { "b" : [ 1 , { "d":"\/x" , "c":null } ] , "a" : "é\u00e9" } "#,
            r#"{"b":[1,{"d":"/x","c":null}],"a":"éé"}"#,
            r#"{"a":"éé","b":[1,{"c":null,"d":"/x"}]}"#,
        );
        check("[2.00, 1.50, 10, -0.0, 1e3]", "[2,1.5,10,0,1e3]", "[2,1.5,10,0,1e3]");
        for bad in ["", "{", "[1,]", "nul", "{\"a\":}"] {
            assert_eq!(compact_json(bad.as_bytes()), None, "{bad}");
        }
        let list = |n: usize| format!("[{}]", vec!["1"; n].join(","));
        assert!(sorted_json(list(VALUES_N_MAX - 1).as_bytes()).is_some());
        assert_eq!(sorted_json(list(VALUES_N_MAX + 1).as_bytes()), None);
        assert_eq!(
            compact_json(br#"{"\u0061\"":[ ],"b":{ }, "c" : true }"#).as_deref(),
            Some(br#"{"a\"":[],"b":{},"c":true}"#.as_slice())
        );
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(sorted_json(nested(DEPTH_MAX).as_bytes()).is_some());
        assert!(
            compact_json(format!("[\"\\\"{}\"]", "[".repeat(100)).as_bytes()).is_some(),
            "a text is not nested"
        );
        assert_eq!(sorted_json(nested(DEPTH_MAX + 1).as_bytes()), None);
        assert_eq!(sorted_json(nested(100_000).as_bytes()), None, "and not a stack that overflows");
    }

    #[test]
    fn php_counts_bytes() {
        let pairs = [(b"a".to_vec(), "é".as_bytes().to_vec())];
        assert_eq!(php_serialized(&pairs), "a:1:{s:1:\"a\";s:2:\"é\";}".as_bytes());
    }
}
