//! Names as they are meant: steps of pointers, and names of members.

use std::borrow::Cow;

use super::scan::ScannedText;

/// One step of a pointer (RFC 6901) as it is meant.
pub(crate) fn unescaped(token: &str) -> Cow<'_, str> {
    if token.contains('~') { token.replace("~1", "/").replace("~0", "~").into() } else { token.into() }
}

/// A name, copied only when it is escaped; `None` when it is not text.
pub(crate) fn decoded(name: ScannedText<'_>) -> Option<Cow<'_, str>> {
    if name.is_escaped {
        return serde_json::from_str(&format!("\"{}\"", name.raw)).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(name.raw))
}
