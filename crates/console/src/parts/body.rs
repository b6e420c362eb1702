//! Texts of several lines, such as bodies; JSON is indented so that people can read it.

use std::borrow::Cow;

use maud::{Markup, html};

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

/// What may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Value,
    /// The first value of a list, or its end.
    FirstValue,
    Key,
    /// The first key of an object, or its end.
    FirstKey,
    Colon,
    /// A comma, or the end of what is open.
    Next,
    /// The end of the text: nothing more.
    End,
}

struct Walk<'a> {
    rest: &'a str,
    pieces: Vec<JsonPiece<'a>>,
    made_bytes_n: usize,
    /// For each that is open: true for an object.
    open: Vec<bool>,
    expected: Expected,
}

/// The pieces of a text in JSON; `None` when it is none. With `is_cut`, it may end anywhere.
fn pieces(text: &str, is_cut: bool) -> Option<Vec<JsonPiece<'_>>> {
    let mut walk =
        Walk { rest: text, pieces: Vec::new(), made_bytes_n: 0, open: Vec::new(), expected: Expected::Value };
    loop {
        walk.rest = walk.rest.trim_start_matches([' ', '\t', '\n', '\r']);
        let Some(next) = walk.rest.chars().next() else { break };
        walk.step(next, is_cut)?;
    }
    let is_whole = walk.expected == Expected::End || (is_cut && !walk.pieces.is_empty());
    is_whole.then_some(walk.pieces)
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

impl<'a> Walk<'a> {
    /// Takes one token; `None` when none may stand here.
    fn step(&mut self, next: char, is_cut: bool) -> Option<()> {
        use Expected::{Colon, FirstKey, FirstValue, Key, Next, Value};
        let is_first = matches!(self.expected, FirstKey | FirstValue);
        match (self.expected, next) {
            (FirstKey, '}') | (FirstValue, ']') => self.close(true),
            (FirstKey | Key, '"') => {
                self.begin_line(is_first)?;
                self.expected = Colon;
                let (token, _) = quoted(self.rest, is_cut)?;
                self.take(JsonSort::Key, token.len())
            }
            (Value | FirstValue, '{' | '[') => {
                self.begin_line(is_first)?;
                let is_object = next == '{';
                self.open.push(is_object);
                self.expected = if is_object { FirstKey } else { FirstValue };
                if self.open.len() > DEPTH_N_MAX {
                    return None;
                }
                self.take(JsonSort::Mark, 1)
            }
            (Value | FirstValue, _) => {
                self.begin_line(is_first)?;
                let (sort, token) = scalar(self.rest, is_cut)?;
                self.value_taken();
                self.take(sort, token.len())
            }
            (Colon, ':') => {
                self.expected = Value;
                self.take(JsonSort::Mark, 1)?;
                self.push(JsonSort::Mark, " ")
            }
            (Next, ',') => {
                self.expected = if self.open.last() == Some(&true) { Key } else { Value };
                self.take(JsonSort::Mark, 1)?;
                self.begin_line(true)
            }
            (Next, '}') if self.open.last() == Some(&true) => self.close(false),
            (Next, ']') if self.open.last() == Some(&false) => self.close(false),
            _ => None,
        }
    }

    fn begin_line(&mut self, is_wanted: bool) -> Option<()> {
        if is_wanted { self.push(JsonSort::Break(self.open.len()), "") } else { Some(()) }
    }

    fn close(&mut self, is_empty: bool) -> Option<()> {
        self.open.pop();
        self.begin_line(!is_empty)?;
        self.value_taken();
        self.take(JsonSort::Mark, 1)
    }

    fn value_taken(&mut self) {
        self.expected = if self.open.is_empty() { Expected::End } else { Expected::Next };
    }

    /// Takes so many bytes of what is left.
    fn take(&mut self, sort: JsonSort, bytes_n: usize) -> Option<()> {
        let (token, rest) = self.rest.split_at_checked(bytes_n)?;
        self.rest = rest;
        self.push(sort, token)
    }

    fn push(&mut self, sort: JsonSort, text: &'a str) -> Option<()> {
        let indentation_n = if let JsonSort::Break(depth) = sort { 1 + depth * STEP_N } else { 0 };
        self.made_bytes_n += text.len() + indentation_n;
        self.pieces.push(JsonPiece { sort, text });
        (self.made_bytes_n <= MADE_BYTES_MAX).then_some(())
    }
}

/// The text in quotes that stands first, and whether it ends; one that does not end is taken where the text was cut.
fn quoted(rest: &str, is_cut: bool) -> Option<(&str, bool)> {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if c < ' ' => return None,
            '"' if !is_escaped => return Some((rest.get(..=at)?, true)),
            _ => is_escaped = c == '\\' && !is_escaped,
        }
    }
    is_cut.then_some((rest, false))
}

/// The text, number or word that stands first.
fn scalar(rest: &str, is_cut: bool) -> Option<(JsonSort, &str)> {
    if rest.starts_with('"') {
        return Some((JsonSort::Text, quoted(rest, is_cut)?.0));
    }
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let end = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
    let text = rest.get(..end)?;
    let is_number = text.starts_with(|c: char| c == '-' || c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c));
    let is_cut_here = is_cut && end == rest.len() && !text.is_empty();
    let is_word =
        ["true", "false", "null"].iter().any(|word| *word == text || (is_cut_here && word.starts_with(text)));
    (is_number || is_word).then_some((JsonSort::Word, text))
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
