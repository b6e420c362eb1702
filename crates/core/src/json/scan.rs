//! One pass over a JSON text (RFC 8259), without a stack of calls however it is nested: validates the JSON and finds
//! where the requested values are. Nothing is decoded or copied on the way. What a scanned text means, and how a text
//! is written, is here as well.

use std::borrow::Cow;
use std::ops::Range;

/// A place in a JSON text.
pub(super) struct Scan<'a> {
    text: &'a str,
    at: usize,
    /// Closing brackets of the arrays and objects that are open.
    open: Vec<u8>,
}

/// A text as it is written, without its quotes.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScannedText<'a> {
    pub raw: &'a str,
    /// True when it stands for another text than it looks like.
    pub is_escaped: bool,
}

impl<'a> ScannedText<'a> {
    /// The text, copied only when it is escaped; `None` when it is not text.
    pub(super) fn decoded(self) -> Option<Cow<'a, str>> {
        if self.is_escaped {
            return serde_json::from_str(&format!("\"{}\"", self.raw)).ok().map(Cow::Owned);
        }
        Some(Cow::Borrowed(self.raw))
    }
}

/// One step of a pointer (RFC 6901) as it is meant.
pub(super) fn unescaped(token: &str) -> Cow<'_, str> {
    if token.contains('~') { token.replace("~1", "/").replace("~0", "~").into() } else { token.into() }
}

/// Writes `text` behind `out` as JSON has it, with its quotes.
pub fn push_text(out: &mut String, text: &str) {
    if plain_n(text.as_bytes()) < text.len() {
        out.push_str(&serde_json::Value::from(text).to_string());
        return;
    }
    out.push('"');
    out.push_str(text);
    out.push('"');
}

/// The numbers in a JSON text, as they are written.
pub(super) fn numbers(json: &[u8]) -> impl Iterator<Item = &str> {
    let (mut is_in_text, mut is_escaped) = (false, false);
    let is_between = move |byte: &u8| {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_in_text = !is_in_text,
            _ => {}
        }
        is_in_text || !matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E' | b'0'..=b'9')
    };
    // The `e` of `true` and `false` is no number.
    let pieces = json.split(is_between).filter_map(|piece| str::from_utf8(piece).ok());
    pieces.filter(|piece| piece.contains(|first: char| first.is_ascii_digit()))
}

impl<'a> Scan<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, open: Vec::new() }
    }

    /// The next byte that is not white space; it is not stepped over.
    pub(super) fn next(&mut self) -> Option<u8> {
        loop {
            match self.here()? {
                b' ' | b'\n' | b'\t' | b'\r' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    /// Steps over one value and gives its text; `None` when it is not a value.
    pub(super) fn value(&mut self) -> Option<&'a str> {
        let outside = self.open.len();
        self.next()?;
        let from = self.at;
        while self.opens()? || self.goes_on(outside)? {}
        self.since(from)
    }

    /// Steps over a value that is neither an array nor an object, and says whether it is a text with escapes.
    pub(super) fn single(&mut self) -> Option<bool> {
        match self.next()? {
            b'"' => return self.written().map(|text| text.is_escaped),
            b'n' => self.word("null")?,
            b't' => self.word("true")?,
            b'f' => self.word("false")?,
            _ => self.number()?,
        }
        Some(false)
    }

    /// The place of what is next.
    pub(super) fn place(&self) -> usize {
        self.at
    }

    /// The text from a place to here.
    pub(super) fn since(&self, from: usize) -> Option<&'a str> {
        self.text.get(from..self.at)
    }

    /// The range of the text that `step` steps over.
    pub(super) fn range_of(&mut self, step: impl FnOnce(&mut Self) -> Option<()>) -> Option<Range<usize>> {
        self.next()?;
        let from = self.at;
        step(self)?;
        Some(from..self.at)
    }

    /// Steps over the object that is next. Each of its members' names is handed to `take`, which steps over the value.
    pub(super) fn members(
        &mut self,
        mut take: impl FnMut(&mut Self, ScannedText<'a>) -> Option<()>,
    ) -> Option<()> {
        self.list(b'{', |scan| {
            let name = scan.name()?;
            take(scan, name)
        })
    }

    /// Steps over the array that is next; `take` steps over each of its elements.
    pub(super) fn elements(&mut self, take: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.list(b'[', take)
    }

    fn list(&mut self, open: u8, mut take: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.step(open)?;
        if self.next()? == closing(open) {
            self.at += 1;
            return Some(());
        }
        loop {
            take(self)?;
            match self.next()? {
                b',' => self.at += 1,
                byte => return (byte == closing(open)).then(|| self.at += 1),
            }
        }
    }

    /// Steps over what a value begins with. Whether there is more of it: it is an array or an object, and not empty.
    fn opens(&mut self) -> Option<bool> {
        match self.next()? {
            open @ (b'{' | b'[') => {
                self.at += 1;
                let close = closing(open);
                if self.next()? == close {
                    self.at += 1;
                    return Some(false);
                }
                self.open.push(close);
                self.name_in(close)?;
                Some(true)
            }
            _ => self.single().map(|_| false),
        }
    }

    /// Behind a value: closes what ends here, until only `outside` are open. Whether another value follows before that.
    fn goes_on(&mut self, outside: usize) -> Option<bool> {
        while self.open.len() > outside {
            let (close, byte) = (*self.open.last()?, self.next()?);
            self.at += 1;
            if byte == close {
                self.open.pop();
            } else if byte == b',' {
                self.name_in(close)?;
                return Some(true);
            } else {
                return None;
            }
        }
        Some(false)
    }

    /// Passes over the name before a value, when the value is in an object.
    fn name_in(&mut self, close: u8) -> Option<()> {
        if close == b'}' { self.name().map(drop) } else { Some(()) }
    }

    /// Steps over the name of a member, and the colon behind it.
    pub(super) fn name(&mut self) -> Option<ScannedText<'a>> {
        let name = self.written()?;
        self.step(b':')?;
        Some(name)
    }

    fn written(&mut self) -> Option<ScannedText<'a>> {
        self.step(b'"')?;
        let (from, mut is_escaped) = (self.at, false);
        loop {
            self.at += plain_n(self.text.as_bytes().get(self.at..)?);
            match self.here()? {
                b'"' => {
                    let raw = self.text.get(from..self.at)?;
                    self.at += 1;
                    return Some(ScannedText { raw, is_escaped });
                }
                b'\\' => {
                    is_escaped = true;
                    self.escape()?;
                }
                _ => return None,
            }
        }
    }

    /// Steps over an escape. Its meaning does not matter here, so half a surrogate pair passes.
    fn escape(&mut self) -> Option<()> {
        let rest = self.text.as_bytes().get(self.at + 1..)?;
        self.at += match rest {
            [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
            [b'u', a, b, c, d, ..] if [a, b, c, d].into_iter().all(u8::is_ascii_hexdigit) => 6,
            _ => return None,
        };
        Some(())
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.text.get(self.at..)?.starts_with(word).then(|| self.at += word.len())
    }

    fn number(&mut self) -> Option<()> {
        self.at += usize::from(self.is(b'-'));
        // Digits after a leading zero are no number, and nothing else may follow a value either.
        if self.is(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.is(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if self.is(b'e') || self.is(b'E') {
            self.at += 1;
            self.at += usize::from(self.is(b'+') || self.is(b'-'));
            self.digits()?;
        }
        Some(())
    }

    /// Steps over decimal digits, of which there must be one at least.
    fn digits(&mut self) -> Option<()> {
        let from = self.at;
        while self.here().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > from).then_some(())
    }

    /// Steps over `byte`, which must be next.
    pub(super) fn step(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then(|| self.at += 1)
    }

    fn is(&self, byte: u8) -> bool {
        self.here() == Some(byte)
    }

    fn here(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
}

/// Returns what closes a brace or bracket: in ASCII it is two places further.
pub(super) fn closing(open: u8) -> u8 {
    open + 2
}

/// A word with the number 1 in each byte.
const ONES: u64 = u64::MAX / 255;
/// Words of a text that are looked at one by one: names and ids are short.
const SHORT_WORDS_N: usize = 4;

/// Number of bytes from here on that belong to a text: up to a quote, an escape, or what no text may hold.
fn plain_n(rest: &[u8]) -> usize {
    let (words, _) = rest.as_chunks::<8>();
    // Several words at a time and nothing decided between them, for long texts.
    let is_plain = |[a, b, c, d]: &&[[u8; 8]; 4]| (others(*a) | others(*b) | others(*c) | others(*d)) == 0;
    let mut n = 0;
    while let Some(mut word) = words.get(n) {
        if n == SHORT_WORDS_N {
            let (blocks, _) = words.get(n..).unwrap_or_default().as_chunks::<4>();
            n += blocks.iter().take_while(is_plain).count() * 4;
            let Some(next) = words.get(n) else { break };
            word = next;
        }
        match others(*word) {
            0 => n += 1,
            others => return n * 8 + others.trailing_zeros() as usize / 8,
        }
    }
    let tail = rest.get(n * 8..).unwrap_or_default();
    let is_other = |byte: &u8| *byte == b'"' || *byte == b'\\' || *byte < b' ';
    n * 8 + tail.iter().position(is_other).unwrap_or(tail.len())
}

/// The high bit of the first byte that is a quote, an escape or below a blank, and maybe those of some behind it: what
/// is taken from a byte that is too small is taken from the next ones, too.
fn others(word: [u8; 8]) -> u64 {
    let word = u64::from_le_bytes(word);
    let below = |word: u64, bound: u8| word.wrapping_sub(ONES.wrapping_mul(u64::from(bound))) & !word;
    let is = |byte: u8| below(word ^ ONES.wrapping_mul(u64::from(byte)), 1);
    (below(word, b' ') | is(b'"') | is(b'\\')) & (ONES << 7)
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

    #[test]
    fn a_text_ends_at_its_first_special_byte_however_long_it_is() {
        for n in 0..100 {
            for special in ['"', '\\', '\n', '\u{1f}'] {
                let text = format!("{}{special}{}", "é".repeat(n / 2) + &"x".repeat(n % 2), "y".repeat(n));
                let want = text.find(special).expect("it has one");
                assert_eq!(plain_n(text.as_bytes()), want, "{text:?}");
            }
            assert_eq!(plain_n("x".repeat(n).as_bytes()), n);
        }
    }
}
