//! `If-Match`: which version of its subject a request is about (RFC 9110, 13.1.1).

/// The versions of its subject that a request may act on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum IfMatch {
    /// No header: any version.
    #[default]
    Unsaid,
    /// `*`: any that there is.
    Any,
    /// One of these strong tags, with their quotes; weak ones match nothing, and are not here.
    Tags(Vec<String>),
}

/// Reason why an `If-Match` cannot be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`If-Match` is `*`, or a list of entity tags such as `\"33a64df5\"`")]
pub struct InvalidIfMatch;

impl IfMatch {
    /// The request has no `If-Match`.
    pub const UNSAID: &'static Self = &Self::Unsaid;

    /// Reads the lines of the header: a list may be spread over several of them.
    pub fn parse<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidIfMatch> {
        Self::read(lines, false)
    }

    /// Reads the lines of `If-None-Match`, for which a weak tag is the same as a strong one (RFC 9110, 13.1.2).
    pub fn parse_none<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidIfMatch> {
        Self::read(lines, true)
    }

    fn read<'a>(lines: impl IntoIterator<Item = &'a str>, has_weak: bool) -> Result<Self, InvalidIfMatch> {
        let (mut found, mut tags, mut is_any) = (false, Vec::new(), false);
        for line in lines {
            found = true;
            // Elements may be empty: RFC 9110, 5.6.1.
            let mut rest = line.trim_matches([' ', '\t', ',']);
            while !rest.is_empty() {
                let after = if let Some(after) = rest.strip_prefix('*') {
                    is_any = true;
                    after
                } else {
                    let (tag, after) = entity_tag(rest, has_weak)?;
                    tags.extend(tag);
                    after
                };
                rest = after.trim_start_matches([' ', '\t']);
                if !rest.is_empty() {
                    rest = rest.strip_prefix(',').ok_or(InvalidIfMatch)?.trim_start_matches([' ', '\t', ',']);
                }
            }
        }
        match (found, is_any) {
            (false, _) => Ok(Self::Unsaid),
            (true, true) if tags.is_empty() => Ok(Self::Any),
            (true, true) => Err(InvalidIfMatch),
            (true, false) => Ok(Self::Tags(tags)),
        }
    }

    /// True when a subject that is there, with this tag, may be acted on.
    pub fn admits(&self, tag: &str) -> bool {
        match self {
            Self::Unsaid | Self::Any => true,
            Self::Tags(tags) => tags.iter().any(|one| version(one) == version(tag)),
        }
    }

    /// True when this very tag is named, the digest behind its version included.
    pub fn names(&self, tag: &str) -> bool {
        match self {
            Self::Unsaid => false,
            Self::Any => true,
            Self::Tags(tags) => tags.iter().any(|one| one == tag),
        }
    }
}

/// The version in a tag: the part before the digest of the response body.
fn version(tag: &str) -> &str {
    let inside = tag.trim_matches('"');
    inside.split_once('.').map_or(inside, |(version, _)| version)
}

/// The entity tag that `text` begins with, `None` if it is a weak one that does not count, and what comes after it.
fn entity_tag(text: &str, has_weak: bool) -> Result<(Option<String>, &str), InvalidIfMatch> {
    let (is_weak, strong) = text.strip_prefix("W/").map_or((false, text), |strong| (true, strong));
    let inside = strong.strip_prefix('"').ok_or(InvalidIfMatch)?;
    let (opaque, after) = inside.split_once('"').ok_or(InvalidIfMatch)?;
    if opaque.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(InvalidIfMatch);
    }
    Ok(((has_weak || !is_weak).then(|| format!("\"{opaque}\"")), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn if_match_is_read_as_rfc_9110_has_it() {
        #[track_caller]
        fn check(lines: &[&str], want: Option<&IfMatch>) {
            assert_eq!(IfMatch::parse(lines.iter().copied()).ok().as_ref(), want, "{lines:?}");
        }
        let tags = |tags: &[&str]| IfMatch::Tags(tags.iter().map(|one| format!("\"{one}\"")).collect());
        check(&[], Some(&IfMatch::Unsaid));
        check(&["*"], Some(&IfMatch::Any));
        check(&[" * "], Some(&IfMatch::Any));
        check(&["\"a\""], Some(&tags(&["a"])));
        check(&["\"a\", \"b,c\"\t,,\"d\""], Some(&tags(&["a", "b,c", "d"])));
        check(&["\"a\"", "\"b\""], Some(&tags(&["a", "b"])));
        check(&["\"\""], Some(&tags(&[""])));
        // Weak tags are never the same as anything: nothing may be acted on.
        check(&["W/\"a\""], Some(&tags(&[])));
        check(&[""], Some(&tags(&[])));
        let weak = IfMatch::parse_none(["W/\"a\", \"b\""]);
        assert_eq!(weak, Ok(tags(&["a", "b"])), "for a read, a weak tag is the same");
        for bad in ["a", "\"a", "a\"", "\"a\" \"b\"", "w/\"a\"", "\"a b\"", "*, \"a\"", "\"a\"x", ",\"a\"x"] {
            check(&[bad], None);
        }
    }

    #[test]
    fn a_version_is_admitted_when_it_is_listed() {
        let admits = |line: &str, tag: &str| IfMatch::parse([line]).unwrap().admits(tag);
        assert!(admits("*", "\"a\"") && admits("\"x\", \"a\"", "\"a\""));
        assert!(!admits("\"A\"", "\"a\"") && !admits("W/\"a\"", "\"a\"") && !admits("", "\"a\""));
        assert!(IfMatch::Unsaid.admits("\"a\""));
        assert!(admits("\"a.1\"", "\"a\"") && !admits("\"b.1\"", "\"a\""), "whatever bytes it came with");
        let names = |line: &str, tag: &str| IfMatch::parse_none([line]).unwrap().names(tag);
        assert!(names("W/\"a.1\"", "\"a.1\"") && names("*", "\"a.1\"") && !names("\"a.2\"", "\"a.1\""));
    }
}
