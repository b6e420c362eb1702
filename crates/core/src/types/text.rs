//! Texts of strangers, as far as they may be kept.

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
