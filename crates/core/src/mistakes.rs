//! Mistakes in a text that a person wrote, as data: a configuration, a kind's `provider.toml`, a handler's pattern; and
//! how words of others are shown and guessed.
//!
//! Which file a mistake is in, and how it is shown, is decided where the file is known: see `config::ConfigProblem`.

use std::fmt;

/// One thing that is wrong with a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The key as a dotted path below what was checked; empty for all of it.
    pub key: String,
    /// The line in its text, from 1, where it is about one line and that is known.
    pub line: Option<usize>,
    /// The flaw: what is wrong.
    pub flaw: Flaw,
    /// The remedy, in words: what to do.
    pub remedy: String,
}

/// The ways in which a text can be wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flaw {
    /// The key must be there and is not.
    Missing,
    /// There is no such key.
    UnknownKey {
        /// The key as it is written.
        name: String,
        /// The keys that are known in its place.
        known: &'static [&'static str],
    },
    /// The value is of another type or form, or none of the words that its key takes.
    WrongValue {
        /// The value that is there, in words.
        found: String,
        /// The values that its key takes, in words.
        expected: String,
    },
    /// Any other flaw, in words.
    Said(String),
}

impl Mistake {
    /// A mistake of `key`, in words.
    pub fn said(key: impl Into<String>, why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { key: key.into(), line: None, flaw: Flaw::Said(why.into()), remedy: remedy.into() }
    }
}

/// The key and the flaw; who shows it says where it is and what to do.
impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        self.flaw.fmt(f)
    }
}

impl Flaw {
    /// The flaw in words, without what would be right: the remedy says that.
    pub fn brief(&self) -> String {
        match self {
            Self::UnknownKey { name, .. } => format!("unknown field `{name}`"),
            Self::WrongValue { found, .. } => found.clone(),
            Self::Missing | Self::Said(_) => self.to_string(),
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("is missing"),
            Self::UnknownKey { name, known: [] } => write!(f, "unknown field `{name}`, there are no fields"),
            Self::UnknownKey { name, known } => {
                write!(f, "unknown field `{name}`, expected {}", one_of(known))
            }
            Self::WrongValue { found, expected } => write!(f, "{found}, expected {expected}"),
            Self::Said(why) => f.write_str(why),
        }
    }
}

/// A choice in words: `` `a` ``, `` `a` or `b` ``, ``one of `a`, `b`, `c` ``.
pub fn one_of(words: &[&str]) -> String {
    match words {
        [only] => format!("`{only}`"),
        [one, other] => format!("`{one}` or `{other}`"),
        _ => format!("one of `{}`", words.join("`, `")),
    }
}

/// Longest part of a value that is shown. Characters.
const SHOWN_CHARS_MAX: usize = 80;

/// `text` without control characters and cut to what fits a line.
pub fn shown(text: &str) -> String {
    let mut shown: String =
        text.chars().take(SHOWN_CHARS_MAX).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// The one of `known` that `text` was probably meant to be: at most two edits away (characters put in, left out,
/// replaced, or swapped with their neighbour), and fewer than half of its letters.
pub fn nearest<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let text: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    known
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&text, candidate), candidate))
        .filter(|(edits, candidate)| *edits <= 2 && edits * 2 < candidate.len().max(2))
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_formatted_with_its_key_in_full_or_in_brief() {
        #[track_caller]
        fn check(flaw: Flaw, full: &str, brief: &str) {
            let mistake = Mistake { key: "a.b".to_owned(), line: Some(3), flaw, remedy: String::new() };
            assert_eq!(
                (mistake.to_string(), mistake.flaw.brief()),
                (format!("a.b: {full}"), brief.to_owned())
            );
        }
        let unknown = |known| Flaw::UnknownKey { name: "x".to_owned(), known };
        check(Flaw::Missing, "is missing", "is missing");
        check(unknown(&[]), "unknown field `x`, there are no fields", "unknown field `x`");
        check(unknown(&["a"]), "unknown field `x`, expected `a`", "unknown field `x`");
        check(unknown(&["a", "b"]), "unknown field `x`, expected `a` or `b`", "unknown field `x`");
        check(
            unknown(&["a", "b", "c"]),
            "unknown field `x`, expected one of `a`, `b`, `c`",
            "unknown field `x`",
        );
        let found = "invalid type: string \"1\"".to_owned();
        let wrong = Flaw::WrongValue { found: found.clone(), expected: "u32".to_owned() };
        check(wrong, "invalid type: string \"1\", expected u32", &found);
        check(
            Flaw::Said("is odd, expected or not".to_owned()),
            "is odd, expected or not",
            "is odd, expected or not",
        );
        assert_eq!(Mistake::said("", "is odd", "").to_string(), "is odd");
    }

    #[test]
    fn nearest_key_is_offered_only_when_it_is_near() {
        let known = ["listen", "public_url", "body_bytes_max"];
        assert_eq!(nearest("listn", known), Some("listen"));
        assert_eq!(nearest("public-url", known), Some("public_url"));
        assert_eq!(nearest("ulr", ["unknown", "url"]), Some("url"));
        assert_eq!(nearest("port", known), None);
        assert_eq!(nearest("", ["on", "to"]), None);
    }

    #[test]
    fn shown_values_are_short_and_stay_on_one_line() {
        assert_eq!(shown("a\nb"), "a\u{fffd}b");
        assert_eq!(shown(&"x".repeat(100)).chars().count(), SHOWN_CHARS_MAX + 1);
    }
}
