//! Texts of several lines, such as bodies; JSON is indented so that people can read it.

use std::borrow::Cow;

use maud::{Markup, html};
use serde::de::IgnoredAny;

use hooklatch_core::plain;

/// Most pieces that get a colour each: a page of more would be large for little.
const COLOURED_N_MAX: usize = 4_000;

/// How a text is to be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyLook {
    /// True when there is more of it than this text.
    pub is_cut: bool,
    /// True when not even the space between tokens is to be ours.
    pub(crate) is_as_sent: bool,
}

/// Shows a text; `label` says what it is to those who do not see it.
pub(crate) fn body(text: &str, label: &str, look: BodyLook) -> Markup {
    html! {
        pre class="body" tabindex="0" role="region" aria-label=(label) { bdi { (tokens(text, look)) } }
    }
}

fn tokens(text: &str, look: BodyLook) -> Markup {
    let pieces = if look.is_as_sent { None } else { pieces(text, look.is_cut) };
    let Some(pieces) = pieces.filter(|pieces| pieces.len() <= COLOURED_N_MAX) else {
        let text = if look.is_as_sent { text.into() } else { indented(text, look.is_cut) };
        return html! { (plain::text(&text)) };
    };
    html! {
        @for piece in pieces {
            @match piece.sort {
                JsonSort::Key => b { (plain::line(piece.text)) },
                JsonSort::Word => i { (plain::line(piece.text)) },
                JsonSort::Text | JsonSort::Mark => (plain::line(piece.text)),
                JsonSort::Break(depth) => (line_end(depth)),
            }
        }
    }
}

/// The lines of a text as people read it, to be compared with those of another.
pub(crate) fn lines(text: &str, is_cut: bool) -> Vec<String> {
    plain::text(&indented(text, is_cut)).lines().map(str::to_owned).collect()
}

/// Deepest nesting that is indented.
const DEPTH_N_MAX: usize = 64;
/// Longest text that is made. Bytes.
const MADE_BYTES_MAX: usize = 256 << 10;
/// Spaces for each level.
const STEP_N: usize = 2;

/// Sort of a piece, for its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JsonSort {
    /// Name of a member, with its quotes.
    Key,
    /// A text, with its quotes.
    Text,
    /// A number, `true`, `false` or `null`.
    Word,
    /// A bracket, a comma or a colon.
    Mark,
    /// The end of a line, and the indentation of the next one.
    Break(usize),
}

/// A piece of a text in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct JsonPiece<'a> {
    sort: JsonSort,
    /// What was sent; empty for the end of a line.
    text: &'a str,
}

impl JsonPiece<'_> {
    fn line(depth: usize) -> Self {
        Self { sort: JsonSort::Break(depth), text: "" }
    }

    fn bytes_n(&self) -> usize {
        match self.sort {
            JsonSort::Break(depth) => 1 + depth * STEP_N,
            _ => self.text.len(),
        }
    }
}

/// The pieces of a text in JSON; `None` when it is none. With `is_cut`, it may end anywhere.
fn pieces(text: &str, is_cut: bool) -> Option<Vec<JsonPiece<'_>>> {
    match serde_json::from_str::<IgnoredAny>(text) {
        Err(error) if !is_cut || !error.is_eof() || text.trim().is_empty() => return None,
        _ => {}
    }
    let (mut rest, mut depth, mut made_bytes_n) = (text.trim_ascii_start(), 0, 0);
    let mut pieces: Vec<JsonPiece<'_>> = Vec::new();
    while let Some(first) = rest.chars().next() {
        let (token, after) = rest.split_at_checked(token_bytes_n(rest, first))?;
        rest = after.trim_ascii_start();
        let token = |sort| JsonPiece { sort, text: token };
        let before_n = pieces.len();
        match first {
            '{' | '[' => {
                depth += 1;
                pieces.push(token(JsonSort::Mark));
                pieces.extend((!rest.starts_with(['}', ']'])).then(|| JsonPiece::line(depth)));
            }
            '}' | ']' => {
                depth -= 1;
                let is_empty = matches!(pieces.last(), Some(JsonPiece { text: "{" | "[", .. }));
                pieces.extend((!is_empty).then(|| JsonPiece::line(depth)));
                pieces.push(token(JsonSort::Mark));
            }
            ',' => pieces.extend([token(JsonSort::Mark), JsonPiece::line(depth)]),
            ':' => pieces.extend([token(JsonSort::Mark), JsonPiece { sort: JsonSort::Mark, text: " " }]),
            '"' if rest.starts_with(':') => pieces.push(token(JsonSort::Key)),
            '"' => pieces.push(token(JsonSort::Text)),
            _ => pieces.push(token(JsonSort::Word)),
        }
        made_bytes_n += pieces.iter().skip(before_n).map(JsonPiece::bytes_n).sum::<usize>();
        if depth > DEPTH_N_MAX || made_bytes_n > MADE_BYTES_MAX {
            return None;
        }
    }
    Some(pieces)
}

/// Length of the token that a text in JSON begins with. Bytes.
fn token_bytes_n(text: &str, first: char) -> usize {
    let end = match first {
        '"' => {
            let mut is_escaped = true;
            let ends = |c: char| {
                let is_end = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                is_end
            };
            text.find(ends).map(|at| at + 1)
        }
        '{' | '}' | '[' | ']' | ',' | ':' => Some(1),
        _ => text.find(|c: char| c.is_ascii_whitespace() || ",:{}[]\"".contains(c)),
    };
    end.unwrap_or(text.len())
}

/// A text as people read it: indented when it is JSON, else as it is.
pub fn indented(text: &str, is_cut: bool) -> Cow<'_, str> {
    let Some(pieces) = pieces(text, is_cut) else { return Cow::Borrowed(text) };
    let mut made = String::new();
    for piece in pieces {
        match piece.sort {
            JsonSort::Break(depth) => made.push_str(&line_end(depth)),
            _ => made.push_str(piece.text),
        }
    }
    Cow::Owned(made)
}

/// The end of a line, and the spaces before the next one.
fn line_end(depth: usize) -> String {
    format!("\n{}", " ".repeat(depth * STEP_N))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: BodyLook = BodyLook { is_cut: false, is_as_sent: false };

    #[test]
    fn a_body_is_shown_as_text_whatever_it_is() {
        #[track_caller]
        fn check(given: &str, want: &str) {
            let shown = body(given, "Body", WHOLE).0;
            let (_, shown) = shown.split_once("<bdi>").expect("the text");
            assert_eq!(shown.strip_suffix("</bdi></pre>"), Some(want));
        }
        check("{\"a\":1}", "{\n  <b>&quot;a&quot;</b>: <i>1</i>\n}");
        check(
            "{\"<b>\":\"</pre><script>\"}",
            "{\n  <b>&quot;&lt;b&gt;&quot;</b>: &quot;&lt;/pre&gt;&lt;script&gt;&quot;\n}",
        );
        check("</pre><script>alert(1)</script>", "&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;");
        check("[\"\u{202e}\"]", "[\n  &quot;\\u202e&quot;\n]");
        check("a\u{1b}[2J\n\u{202e}b", "a\\u001b[2J\n\\u202eb");
        check("", "");
    }

    #[test]
    fn as_sent_is_as_sent() {
        let shown = body("{ \"a\":1 }", "Body", BodyLook { is_as_sent: true, ..WHOLE }).0;
        assert!(shown.contains("<bdi>{ &quot;a&quot;:1 }</bdi>"), "{shown}");
    }

    #[test]
    fn a_body_of_very_many_pieces_is_indented_without_colours() {
        let many = format!("[{}1]", "1,".repeat(COLOURED_N_MAX));
        let shown = body(&many, "Body", WHOLE).0;
        assert!(shown.contains("[\n  1,\n  1,\n") && !shown.contains("<i>"));
        assert_eq!(lines("{\"a\":1}", false), ["{", "  \"a\": 1", "}"]);
    }

    #[track_caller]
    fn check(given: &str, want: &str) {
        assert_eq!(indented(given, false), want, "{given}");
        // Nothing is lost and nothing is added but space.
        let tight = |text: &str| text.chars().filter(|c| !c.is_ascii_whitespace()).collect::<String>();
        assert_eq!(tight(&indented(given, false)), tight(given));
    }

    #[test]
    fn tokens_stand_as_they_were_sent() {
        check(
            r#"{"id":12345678901234567890123,"amount":1.10,"e":1E+400,"id":2}"#,
            "{\n  \"id\": 12345678901234567890123,\n  \"amount\": 1.10,\n  \"e\": 1E+400,\n  \"id\": 2\n}",
        );
        check(
            r#"{ "a" : [ ] , "b":{},"c":[1,"\u0041\/\"",null] }"#,
            "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1,\n    \"\\u0041\\/\\\"\",\n    null\n  ]\n}",
        );
        check("[[true],[false]]", "[\n  [\n    true\n  ],\n  [\n    false\n  ]\n]");
        check(" \"only\\\\\" ", "\"only\\\\\"");
        check("-0.0e-7", "-0.0e-7");
    }

    #[test]
    fn what_is_no_json_is_left_alone() {
        for odd in [
            "",
            " ",
            "a=1&b=2",
            "<xml/>",
            "{",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "[1,]",
            "[1 2]",
            "[1]]",
            "{]",
            "[}",
            "{\"a\":1",
            "\"open",
            "tru",
            "nan",
            "{'a':1}",
            "{\"a\":1}{\"b\":2}",
            "[\"a\nb\"]",
            "[1}",
            "{\"a\":1]",
            ",",
            "]",
            "{1:2}",
            "{\"a\" 1}",
        ] {
            assert_eq!(indented(odd, false), odd);
            assert_eq!(pieces(odd, false), None, "{odd}");
        }
    }

    #[test]
    fn a_text_that_was_cut_is_indented_as_far_as_it_goes() {
        let whole = r#"{"a":[1,{"b":"text \" of it"}],"c":true}"#;
        for at in 1..whole.len() {
            let cut = whole.get(..at).expect("ASCII");
            let made = indented(cut, true);
            let tight = |text: &str| text.chars().filter(|c| !" \n".contains(*c)).collect::<String>();
            assert_eq!(tight(&made), tight(cut));
            assert!(pieces(cut, true).is_some(), "{cut}");
        }
        assert_eq!(pieces("<html>", true), None);
        assert_eq!(pieces("", true), None);
    }

    #[test]
    fn nothing_grows_without_bound() {
        let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(pieces(&deep(DEPTH_N_MAX), false).is_some());
        assert_eq!(pieces(&deep(DEPTH_N_MAX + 1), false), None);
        let wide = format!("{}{}1{}", "[".repeat(60), "1,".repeat(20_000), "]".repeat(60));
        assert_eq!(pieces(&wide, false), None, "each number would be a line of 120 spaces");
        assert!(pieces(&"[".repeat(60_000), true).is_none());
    }
}
