//! Texts of strangers that may be long: as much of them as a page bears.

use maud::{Markup, html};

use super::moment::foreign;

/// The first characters of a text, on one line, and a sign where it was longer.
pub(in crate::console) fn line(text: &str, chars_n_max: usize) -> Markup {
    let (shown, is_cut) = cut(text, chars_n_max);
    html! { (foreign(shown)) @if is_cut { "…" } }
}

/// The first characters of a text of several lines, as it was written.
pub(in crate::console) fn lines(text: &str, chars_n_max: usize) -> Markup {
    let (shown, is_cut) = cut(text, chars_n_max);
    html! {
        pre tabindex="0" { (crate::plain::text(shown)) @if is_cut { "…" } }
    }
}

/// The first characters of a text, and whether there are more.
fn cut(text: &str, chars_n_max: usize) -> (&str, bool) {
    match text.char_indices().nth(chars_n_max) {
        Some((at, _)) => (text.split_at(at).0, true),
        None => (text, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters_and_says_so() {
        #[track_caller]
        fn check(text: &str, want: &str) {
            assert_eq!(line(text, 3).0, format!("<bdi>{want}"), "{text}");
        }
        check("", "</bdi>");
        check("äöü", "äöü</bdi>");
        check("äöü€", "äöü</bdi>…");
        check("<b>", "&lt;b&gt;</bdi>");
        check("a\nb", "a\\u000ab</bdi>");
        assert_eq!(lines("a\n\u{202e}bc", 3).0, "<pre tabindex=\"0\">a\n\\u202e…</pre>");
    }
}
