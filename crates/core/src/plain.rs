//! Text that a person reads and a stranger wrote: what would steer a terminal, or hide or turn around what stands
//! beside it, is written as `\uXXXX`.
//!
//! In JSON, where such characters can only be inside of texts, that is the same value to every program.

use std::borrow::Cow;
use std::io;

/// Characters besides the control characters that are not seen, or that move others: Unicode 17's `Cf`, `Zl`, `Zp` and
/// `Default_Ignorable_Code_Point`, and the blank Braille pattern. First and last of one range after the other.
const HIDDEN: [u32; 54] = [
    0xad, 0xad, 0x34f, 0x34f, 0x600, 0x605, 0x61c, 0x61c, 0x6dd, 0x6dd, 0x70f, 0x70f, 0x890, 0x891, 0x8e2,
    0x8e2, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x180b, 0x180f, 0x200b, 0x200f, 0x2028, 0x202e, 0x2060, 0x206f,
    0x2800, 0x2800, 0x3164, 0x3164, 0xfe00, 0xfe0f, 0xfeff, 0xfeff, 0xffa0, 0xffa0, 0xfff0, 0xfffb, 0x1_10bd,
    0x1_10bd, 0x1_10cd, 0x1_10cd, 0x1_3430, 0x1_343f, 0x1_bca0, 0x1_bca3, 0x1_d173, 0x1_d17a, 0xe_0000,
    0xe_0fff, 0x10_fffe, 0x10_ffff,
];

/// True for a character that a person does not see, or that moves others.
pub fn is_hidden(c: char) -> bool {
    let is_in = |[first, last]: &[u32; 2]| (*first..=*last).contains(&u32::from(c));
    c.is_control() || (!c.is_ascii() && HIDDEN.as_chunks::<2>().0.iter().any(is_in))
}

/// Lines for a person, or JSON: only line ends and tabs stay of what is hidden.
pub fn text(text: &str) -> Cow<'_, str> {
    escaped(text, &['\n', '\t'])
}

/// Shows one line, or a field of a line.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, &[])
}

fn escaped<'a>(text: &'a str, kept: &[char]) -> Cow<'a, str> {
    let is_shown = |c: char| !is_hidden(c) || kept.contains(&c);
    if text.chars().all(is_shown) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_shown(c) {
            plain.push(c);
        } else {
            plain.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    Cow::Owned(plain)
}

/// Writes lines as [`text`] has them, and colours where a terminal shows them.
pub struct Plain<W> {
    inner: W,
    kept: &'static [char],
}

impl<W: io::Write> Plain<W> {
    /// Makes a writer for whole lines. With `has_colours`, the sequences that make colours stay; the code that formats
    /// the line must remove those inside of values.
    pub fn new(inner: W, has_colours: bool) -> Self {
        Self { inner, kept: if has_colours { &['\n', '\t', '\u{1b}'] } else { &['\n', '\t'] } }
    }
}

impl<W: io::Write> io::Write for Plain<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write_all(escaped(&String::from_utf8_lossy(bytes), self.kept).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_or_steers_is_written_out_and_all_else_stays() {
        #[track_caller]
        fn check(given: &str, want: &str) {
            assert_eq!(line(given), want);
        }
        check("evt_1 Zażółć 日本語 💶 \\u0000 \"x\"", "evt_1 Zażółć 日本語 💶 \\u0000 \"x\"");
        check("a\u{202e}b\u{2066}c\u{200b}", "a\\u202eb\\u2066c\\u200b");
        check("a\u{2028}b\u{2029}", "a\\u2028b\\u2029");
        check("\u{9b}31m\u{7f}\u{1b}[2J", "\\u009b31m\\u007f\\u001b[2J");
        check("a\tb\r\nc", "a\\u0009b\\u000d\\u000ac");
        check("\u{e0041}\u{feff}", "\\udb40\\udc41\\ufeff");
        check("\u{fff9}\u{3164}\u{ad}\u{61c}", "\\ufff9\\u3164\\u00ad\\u061c");
        assert_eq!(text("a\tb\r\n"), "a\tb\\u000d\n");
    }

    #[test]
    fn json_is_equivalent_afterwards() {
        let value = serde_json::json!({ "a\u{202e}": ["\u{1b}\u{9b}", "\u{e0041}\u{2028}\u{7f}"], "b": "日本\\u202e" });
        for written in [value.to_string(), format!("{value:#}")] {
            let plain = text(&written);
            assert!(!plain.chars().any(|c| is_hidden(c) && c != '\n'), "{plain:?}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&plain).expect("JSON"), value);
        }
    }

    #[test]
    fn hidden_ranges_are_in_order_and_do_not_meet() {
        let (ranges, []) = HIDDEN.as_chunks::<2>() else { panic!("a range has two ends") };
        assert!(ranges.iter().all(|[first, last]| first <= last && char::from_u32(*last).is_some()));
        for pair in ranges.windows(2) {
            assert!(pair[0][1] + 1 < pair[1][0], "{pair:?}");
        }
        assert!(
            is_hidden('\u{ad}') && is_hidden('\u{10ffff}') && !is_hidden('\u{ac}') && !is_hidden('\u{ae}')
        );
    }

    #[test]
    fn a_log_keeps_the_colours_that_it_makes_where_a_terminal_shows_them() {
        #[track_caller]
        fn check(has_colours: bool, given: &[u8], want: &str) {
            let mut written = Vec::new();
            let n = io::Write::write(&mut Plain::new(&mut written, has_colours), given).expect("written");
            assert_eq!((n, String::from_utf8_lossy(&written).as_ref()), (given.len(), want));
        }
        check(true, b"\x1b[31mred\x1b[0m\n", "\u{1b}[31mred\u{1b}[0m\n");
        check(false, b"\x1b[31mred\n", "\\u001b[31mred\n");
        check(true, "a\u{9b}b\r".as_bytes(), "a\\u009bb\\u000d");
        check(false, b"\xff", "\u{fffd}");
    }
}
