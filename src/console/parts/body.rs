//! Texts of several lines that strangers wrote: bodies, and pieces of answers. Shown as text, whatever they are; see
//! ADR 0056.

use maud::{Markup, html};

use super::indent::{JsonSort, indented, line_end, pieces};
use crate::plain;

/// Most pieces that get a colour each: a page of more would be large for little.
const COLOURED_N_MAX: usize = 4_000;

/// How a text is to be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::console) struct BodyLook {
    /// True when there is more of it than this text.
    pub(in crate::console) is_cut: bool,
    /// True when not even the space between tokens is to be ours.
    pub(in crate::console) is_as_sent: bool,
}

/// Shows a text; `label` says what it is to those who do not see it.
pub(in crate::console) fn body(text: &str, label: &str, look: BodyLook) -> Markup {
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
pub(in crate::console) fn lines(text: &str, is_cut: bool) -> Vec<String> {
    plain::text(&indented(text, is_cut)).lines().map(str::to_owned).collect()
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
}
