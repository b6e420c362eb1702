//! Texts of people, as orders carry them.

/// Most characters of a reason.
const REASON_CHARS_MAX: usize = 255;
/// The rule for a reason, as a pattern of JSON Schema.
pub(super) const REASON_PATTERN: &str =
    r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$";
/// The rule for the name of a provider, a destination or a token's holder, as a pattern of JSON Schema.
pub(super) const NAME_PATTERN: &str = "^[a-z0-9_-]{1,64}$";

/// The rule for a type, an object or a lane, as a pattern of JSON Schema.
pub(super) const TEXT_PATTERN: &str = r"^[^\x00]{1,255}$";

/// True for a reason that can be kept: 1 to 255 characters on one line, of which one at least is to be seen.
pub fn is_reason(text: &str) -> bool {
    let is_short = text.chars().take(REASON_CHARS_MAX + 1).count() <= REASON_CHARS_MAX;
    is_short && !text.chars().any(char::is_control) && !text.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_printable_line() {
        for (text, want) in [
            ("asked by Ann", true),
            ("\u{e4}", true),
            (&"\u{1f980}".repeat(255), true),
            (&"x".repeat(256), false),
            ("", false),
            ("  ", false),
            ("\u{a0}", false),
            ("a\nb", false),
            ("a\u{85}b", false),
            ("a\0", false),
        ] {
            assert_eq!(is_reason(text), want, "{text:?}");
        }
    }
}
