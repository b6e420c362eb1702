//! Texts that are checked once: names of configured things, patterns of types, texts of strangers as far as they may be
//! kept, and the parts of composed ids.

use std::fmt;
use std::sync::Arc;

/// Name of a configured provider, of a provider kind or of a destination: 1 to 64 characters out of
/// `a-z`, `0-9`, `_` and `-`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

/// Reason why a text is not a [`Name`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a name: use 1 to 64 characters out of a-z, 0-9, `_` and `-`")]
pub struct InvalidName(String);

impl Name {
    /// Checks `text` once; the result never needs checking again.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let fits = (1..=64).contains(&text.len())
            && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'));
        if fits { Ok(Self(text.into())) } else { Err(InvalidName(text.chars().take(80).collect())) }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Stands in metrics and logs where a request is for no provider.
pub fn no_provider() -> Name {
    Name("-".into())
}

/// Lets what is kept by name be found by a text.
impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.0)
    }
}

/// A pattern of event types: an exact type, `prefix.*` for everything that starts with `prefix.`, or `*` for
/// everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypePattern(String);

impl TypePattern {
    /// Checks that the only `*` is the last character.
    pub fn parse(text: &str) -> Result<Self, String> {
        let stem = text.strip_suffix('*').unwrap_or(text);
        if text.is_empty() || stem.contains('*') {
            return Err(format!("`{text}` is not a type pattern: write a type, `prefix.*` or `*`"));
        }
        Ok(Self(text.to_owned()))
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True when `event_type` fits.
    pub fn matches(&self, event_type: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(stem) => event_type.starts_with(stem),
            None => event_type == self.0,
        }
    }
}

/// Longest event id, event type, object or lane that is stored, in bytes of UTF-8.
pub const TEXT_BYTES_MAX: usize = 255;

/// `Err(why)` when `text` may not go into a text column: empty, longer than [`TEXT_BYTES_MAX`], or with
/// control characters (both databases must give the same answer; PostgreSQL refuses NUL).
pub fn stored_text(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("is {} bytes long, the limit is {TEXT_BYTES_MAX}", text.len()));
    }
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Ok(());
    }
    if let Some(control) = text.chars().find(|c| c.is_control()) {
        return Err(format!("contains the control character U+{:04X}", u32::from(control)));
    }
    Ok(())
}

/// Fewest characters of an id that is searched for by its beginning, and of one that is kept for that.
pub const SEARCH_CHARS_MIN: usize = 6;

/// An id in the letter case that search ids are kept and compared in.
pub fn folded_id(mut id: String) -> String {
    if id.is_ascii() {
        id.make_ascii_lowercase();
        return id;
    }
    id.to_lowercase()
}

/// True when a `Content-Type` names this media type, whatever its parameters.
pub fn is_media_type(content_type: &str, wanted: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(wanted)
}

/// Longest content type that is kept and sent on, in bytes.
const MEDIA_TYPE_BYTES_MAX: usize = 128;
/// Media type of bytes whose own content type says nothing that can be relied on.
const MEDIA_TYPE_UNKNOWN: &str = "application/octet-stream";

/// A `Content-Type` of a stranger as it may be kept and sent on: as it is when it is a media type with or without
/// parameters (RFC 9110, 8.3) of bounded length, else that of any bytes.
pub fn media_type(text: &str) -> &str {
    let is_token = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
    };
    let is_parameter = |text: &str| {
        let Some((name, value)) = text.trim().split_once('=') else { return false };
        let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        let is_plain = |b: u8| (b' '..=b'~').contains(&b) && !b"\"\\".contains(&b);
        is_token(name) && quoted.map_or_else(|| is_token(value), |quoted| quoted.bytes().all(is_plain))
    };
    let mut parts = text.split(';');
    let essence = parts.next().unwrap_or_default().trim().split_once('/');
    let is_good = text.len() <= MEDIA_TYPE_BYTES_MAX
        && essence.is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
        && parts.all(is_parameter);
    if is_good { text } else { MEDIA_TYPE_UNKNOWN }
}

/// Beginnings of composed ids that end with a mark of the content, with the word for people.
const MARKED: [(&str, &str); 2] = [("content:", "content"), ("signal:", "signal")];
/// Beginnings of ids that are a digest alone.
const DIGESTS: [(&str, &str); 2] = [("unreadable:", "unreadable"), ("conflict:", "conflict")];
/// Characters of a digest that people are shown.
const MARK_SHOWN_N: usize = 8;

/// The parts of a composed id of an event or an object: `23:8835…,13:AUTHORISATION,4:true` has three. Empty for any
/// other id.
pub fn id_parts(id: &str) -> Vec<&str> {
    match MARKED.iter().find_map(|(prefix, _)| id.strip_prefix(prefix)) {
        Some(rest) => netstrings(rest).0,
        None => match netstrings(id) {
            (parts, "") if parts.len() > 1 => parts,
            _ => Vec::new(),
        },
    }
}

/// An id as people read it: the parts of a composed one, and a digest by its first characters. `None` for an id that is
/// read as it is.
pub fn readable_id(id: &str) -> Option<String> {
    let marked = |(prefix, word): &(&str, &'static str)| Some((*word, id.strip_prefix(prefix)?));
    let Some((word, rest)) = MARKED.iter().chain(&DIGESTS).find_map(marked) else {
        let parts = id_parts(id);
        return (!parts.is_empty()).then(|| shown(parts));
    };
    let (mut parts, mark) = netstrings(rest);
    let (mark, firing) = mark.split_once('#').unwrap_or((mark, ""));
    let mut mark: String = mark.chars().take(MARK_SHOWN_N).collect();
    if !firing.is_empty() {
        mark = format!("{mark} no. {firing}");
    }
    let mark = format!("{word} {mark}");
    parts.push(&mark);
    Some(shown(parts))
}

fn shown(parts: Vec<&str>) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
}

/// The length-prefixed texts that `text` begins with, separated by commas, and what stands behind them.
fn netstrings(text: &str) -> (Vec<&str>, &str) {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some((part, after)) = netstring(rest) {
        parts.push(part);
        rest = after;
        match after.strip_prefix(',') {
            Some(behind) if !behind.is_empty() => rest = behind,
            _ => break,
        }
    }
    (parts, rest)
}

fn netstring(text: &str) -> Option<(&str, &str)> {
    let (length, rest) = text.split_once(':')?;
    let is_length = (1..=3).contains(&length.len()) && length.bytes().all(|byte| byte.is_ascii_digit());
    let length: usize = length.parse().ok().filter(|_| is_length)?;
    let (part, after) = rest.split_at_checked(length)?;
    (after.is_empty() || after.starts_with(',')).then_some((part, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_plain() {
        for good in ["stripe", "stripe_test", "a", "acme-2", &"x".repeat(64)] {
            assert!(Name::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "Stripe", "a b", "a/b", "ü", &"x".repeat(65)] {
            assert!(Name::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn who_sends_a_long_text_for_a_name_is_quoted_in_part() {
        let said = Name::parse(&"\u{fc}".repeat(1_000)).expect_err("no name").to_string();
        assert_eq!(said.matches('\u{fc}').count(), 80);
    }

    #[test]
    fn a_pattern_is_a_type_a_beginning_or_everything() {
        #[track_caller]
        fn check(pattern: &str, fits: &[&str], fits_not: &[&str]) {
            let pattern = TypePattern::parse(pattern).expect("a pattern");
            assert!(fits.iter().all(|one| pattern.matches(one)), "{pattern:?}");
            assert!(!fits_not.iter().any(|one| pattern.matches(one)), "{pattern:?}");
        }
        check("invoice.paid", &["invoice.paid"], &["invoice.paid.x", "invoice", ""]);
        check("invoice.*", &["invoice.paid", "invoice."], &["invoice", "xinvoice.paid"]);
        check("*", &["invoice.paid", ""], &[]);
        for wrong in ["", "**", "a*b", "*a", "a**"] {
            assert!(TypePattern::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_a_media_type_of_bounded_length_is_kept_of_a_content_type() {
        for good in [
            "application/json",
            "application/json; charset=utf-8",
            "application/vnd.api+json;profile=\"a b\"",
            "multipart/form-data; boundary=----x",
        ] {
            assert_eq!(media_type(good), good);
        }
        let long = format!("a/{}", "b".repeat(200));
        for bad in [
            "",
            "json",
            "a/b/c",
            "a/",
            "a b/c",
            "a/b; x",
            "a/b; x=\u{fc}",
            "a/b\r\nx: y",
            "a/b;",
            "a/b; x=\"y",
            &long,
        ] {
            assert_eq!(media_type(bad), MEDIA_TYPE_UNKNOWN, "{bad:?}");
        }
    }

    #[test]
    fn text_for_columns_is_bounded_and_without_control_characters() {
        assert_eq!(stored_text(&"x".repeat(255)), Ok(()));
        for bad in ["", "a\0b", "a\nb", &"x".repeat(256)] {
            assert!(stored_text(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn bounds_count_bytes_and_not_letters() {
        let two_bytes_each = "\u{e4}".repeat(127);
        assert_eq!(stored_text(&two_bytes_each), Ok(()));
        assert_eq!(
            stored_text(&format!("{two_bytes_each}\u{e4}")),
            Err("is 256 bytes long, the limit is 255".to_owned())
        );
        assert_eq!(stored_text("a\u{7f}"), Err("contains the control character U+007F".to_owned()));
        assert_eq!(stored_text("a\u{85}b"), Err("contains the control character U+0085".to_owned()));
        let fits = format!("a/{}", "b".repeat(126));
        assert_eq!(media_type(&fits), fits);
        assert_eq!(media_type(&format!("{fits}b")), MEDIA_TYPE_UNKNOWN);
    }

    #[test]
    fn a_composed_id_is_read_by_its_parts_and_any_other_as_it_is() {
        #[track_caller]
        fn check(id: &str, parts: &[&str], readable: Option<&str>) {
            assert_eq!((id_parts(id), readable_id(id).as_deref()), (parts.to_vec(), readable), "{id}");
        }
        let adyen = "16:7914073381342284,13:AUTHORISATION,4:true";
        let parts = ["7914073381342284", "AUTHORISATION", "true"];
        check(adyen, &parts, Some("7914073381342284 · AUTHORISATION · true"));
        check("7:payment,3:a,b", &["payment", "a,b"], Some("payment · a,b"));
        check("0:,2:\u{e4},1:x", &["", "\u{e4}", "x"], Some("\u{e4} · x"));
        check("signal:5:72d3a,abcdefghijklmnopqrstuv#3", &["72d3a"], Some("72d3a · signal abcdefgh no. 3"));
        check("content:5:72d3a,abcdefghijklmnopqrstuv", &["72d3a"], Some("72d3a · content abcdefgh"));
        check("signal:abcdefghijklmnopqrstuv", &[], Some("signal abcdefgh"));
        check("unreadable:0123456789abcdef", &[], Some("unreadable 01234567"));
        check("conflict:0123456789abcdef", &[], Some("conflict 01234567"));
        // Ids of senders that only look like it.
        for id in [
            "evt_1",
            "",
            "3:abc",
            "3:abcd,1:x",
            "3:abc,1:x,",
            "3:abc,1:x,y",
            "1:\u{e4},1:x",
            "0004:abcd,1:x",
            "+1:a,1:b",
        ] {
            check(id, &[], None);
        }
    }
}
