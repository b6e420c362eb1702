//! Bodies rewritten the way a sender writes them before it signs: JSON as JavaScript's `JSON.stringify`
//! would, PHP's `serialize`. Works on raw JSON text, so a number keeps the digits it was sent with.

use std::borrow::Cow;

use hooklatch_core::json::{Rewrite, rewritten};

/// Deepest nesting that is followed. These bodies are rewritten before verification, so a stranger
/// must not choose how deep we go: each level takes stack.
const DEPTH_MAX: usize = 64;
/// Most values in a text that is written again: what is kept of each while the whole is sorted must not grow to many
/// times the body.
const VALUES_N_MAX: usize = 100_000;

/// The JSON without white space between its parts; everything else as it is. `None` when it is not JSON, or
/// nested deeper or of more values than any sender does it.
pub fn compact_json(json: &[u8]) -> Option<Vec<u8>> {
    written(json, false)
}

/// Writes JSON as [`compact_json`] does, with the members of every object sorted by their names.
pub fn sorted_json(json: &[u8]) -> Option<Vec<u8>> {
    written(json, true)
}

fn written(json: &[u8], is_sorted: bool) -> Option<Vec<u8>> {
    rewritten(json, &Rewrite { is_sorted, values_n_max: VALUES_N_MAX, depth_max: DEPTH_MAX, number })
}

/// A number as JavaScript writes it back where that is another text: `2.00` is `2`, `1.50` is `1.5`. Integers
/// and exponents keep the digits that they were sent with.
fn number(raw: &str) -> Cow<'_, str> {
    let is_plain = raw.bytes().all(|b| b.is_ascii_digit() || b == b'-' || b == b'.');
    match raw.split_once('.') {
        Some((whole, fraction)) if is_plain => {
            let fraction = fraction.trim_end_matches('0');
            let whole = if fraction.is_empty() && whole == "-0" { "0" } else { whole };
            if fraction.is_empty() { whole.into() } else { format!("{whole}.{fraction}").into() }
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
