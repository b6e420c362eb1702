//! Two JSON texts of one event, which its sender wrote in two ways.

use super::by_value;
use super::document::{Document, PointerTarget};
use crate::types::Renderings;

/// True when `first` and `second` are JSON texts of one event, as far as these fields show.
pub fn is_rendering(by: &Renderings, first: &[u8], second: &[u8]) -> bool {
    let (Some(first), Some(second)) = (Document::parse(first), Document::parse(second)) else { return false };
    let both = |pointer: &str| Ok::<_, Ambiguous>((at(&first, pointer)?, at(&second, pointer)?));
    let is_same = |pointer: &String| match both(pointer) {
        Ok((Some(one), Some(other))) => is_equal(one, other),
        Ok((None, None)) => true,
        Ok(_) | Err(Ambiguous) => false,
    };
    let differs = matches!(both(&by.differs), Ok((Some(one), Some(other))) if !is_equal(one, other));
    differs && by.same.iter().all(is_same)
}

/// Two readers may see two values at one pointer.
struct Ambiguous;

/// The value at a pointer, if there is one.
fn at<'a>(json: &Document<'a>, pointer: &str) -> Result<Option<&'a str>, Ambiguous> {
    match json.find(pointer) {
        PointerTarget::One(b"null") | PointerTarget::Missing => Ok(None),
        PointerTarget::One(raw) => std::str::from_utf8(raw).map(Some).map_err(|_| Ambiguous),
        PointerTarget::Doubled | PointerTarget::NotJson => Err(Ambiguous),
    }
}

/// True when two values are equal, however they are written.
fn is_equal(one: &str, other: &str) -> bool {
    one == other
        || by_value::digest(one, &[]).is_some_and(|digest| by_value::digest(other, &[]) == Some(digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_texts_are_one_event_when_all_that_is_named_is_equal_and_they_differ_where_they_may() {
        let by = Renderings {
            same: vec!["/id".to_owned(), "/account".to_owned(), "/data/object/id".to_owned()],
            differs: "/api_version".to_owned(),
        };
        let first = r#"{"id":"evt_1","api_version":"2024-06-20","data":{"object":{"id":"pi_1","amount":1}}}"#;
        for (second, want) in [
            (
                r#"{"api_version":"2025-03-31.basil","data":{"object":{"id":"pi_1","sum":1}},"id":"\u0065vt_1"}"#,
                true,
            ),
            (r#"{"id":"evt_1","api_version":"2025","account":null,"data":{"object":{"id":"pi_1"}}}"#, true),
            // The same version says another thing: that is not a rendering.
            (
                r#"{"id":"evt_1","api_version":"2024-06-20","data":{"object":{"id":"pi_1","amount":2}}}"#,
                false,
            ),
            (r#"{"id":"evt_1","data":{"object":{"id":"pi_1","amount":1}}}"#, false),
            (r#"{"id":"evt_1","api_version":null,"data":{"object":{"id":"pi_1"}}}"#, false),
            (r#"{"id":"evt_2","api_version":"2025","data":{"object":{"id":"pi_1"}}}"#, false),
            (
                r#"{"id":"evt_1","api_version":"2025","account":"acct_1","data":{"object":{"id":"pi_1"}}}"#,
                false,
            ),
            (r#"{"id":"evt_1","api_version":"2025","data":{"object":{"id":"pi_2"}}}"#, false),
            (r#"{"id":"evt_1","api_version":"2025","data":{"object":{}}}"#, false),
            (r#"{"id":"evt_1","id":"evt_1","api_version":"2025","data":{"object":{"id":"pi_1"}}}"#, false),
            (
                r#"{"id":"evt_1","api_version":"2025","api_version":"2024","data":{"object":{"id":"pi_1"}}}"#,
                false,
            ),
            ("", false),
        ] {
            assert_eq!(is_rendering(&by, first.as_bytes(), second.as_bytes()), want, "{second}");
            assert_eq!(is_rendering(&by, second.as_bytes(), first.as_bytes()), want, "{second}");
        }
    }
}
