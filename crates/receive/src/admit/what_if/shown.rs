//! How much of a call is shown: bodies in part, headers without what opens a door, addresses without their paths.

use std::collections::BTreeMap;

use hooklatch_contract::WhatIfCall;
use hooklatch_store::CommittedCall;
use hooklatch_verify::read::shown_value;

/// Most headers that are shown of one call, and most characters of each.
const HEADERS_N_MAX: usize = 50;
const HEADER_CHARS_MAX: usize = 256;

/// Bytes of bodies that an answer has room for.
#[derive(Debug, Clone, Copy)]
pub struct ShownBytes {
    /// Most bytes of one body.
    each_max: usize,
    /// Bytes that are left for all of one event.
    left: usize,
}

impl ShownBytes {
    /// For an answer about one event.
    pub const ONE: Self = Self { each_max: 64 * 1024, left: 512 * 1024 };
    /// For each event of an answer about many.
    pub const EACH: Self = Self { each_max: 2 * 1024, left: 16 * 1024 };

    /// The piece of a body that is shown; `None` where nothing is left.
    fn take(&mut self, body: &[u8]) -> Option<String> {
        let piece = body.get(..self.each_max).unwrap_or(body);
        self.left = self.left.checked_sub(piece.len())?;
        Some(String::from_utf8_lossy(piece).into_owned())
    }
}

/// A call as it is shown. `event_body` is what it carries when it has no body of its own.
pub(super) fn call_view(
    (destination, lane): (&str, Option<&str>),
    call: &CommittedCall,
    event_body: &[u8],
    shown: &mut ShownBytes,
) -> WhatIfCall {
    let whole = call.body.as_deref().unwrap_or(event_body);
    let body = shown.take(whole);
    WhatIfCall {
        destination: destination.to_owned(),
        lane: lane.map(str::to_owned),
        method: call.method.clone(),
        path: shown_path(&call.path),
        headers: shown_headers(&call.headers),
        is_event_body: call.body.is_none(),
        is_cut: body.is_none() || whole.len() > shown.each_max,
        body,
        body_bytes_n: whole.len() as u64,
    }
}

fn shown_headers(headers: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let one = |(name, value): (&String, &String)| {
        let value = shown_value(name, value).chars().take(HEADER_CHARS_MAX).collect();
        (name.clone(), value)
    };
    headers.iter().take(HEADERS_N_MAX).map(one).collect()
}

/// A path as it is; of a whole address, which a template made, the host alone: secrets stand in paths of such addresses.
fn shown_path(path: &str) -> String {
    if path.is_empty() || path.starts_with('/') {
        return path.to_owned();
    }
    match path
        .parse::<http::Uri>()
        .ok()
        .and_then(|uri| Some((uri.scheme_str()?.to_owned(), uri.host()?.to_owned())))
    {
        Some((scheme, host)) => format!("{scheme}://{host}/…"),
        None => "…".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn credentials_and_private_paths_are_not_shown() {
        let headers = [("authorization", "x"), ("x-note", "Bearer abc"), ("content-type", "text/plain")];
        let call = CommittedCall {
            method: "PUT".to_owned(),
            path: "https://user:pw@far.test/T0/secret?k=1".to_owned(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            body: Some(Bytes::from_static(b"a\xffb")),
        };
        let view = call_view(("far", None), &call, b"", &mut { ShownBytes::ONE });
        assert_eq!(view.path, "https://far.test/…");
        assert_eq!(view.headers["authorization"], "[redacted]");
        assert_eq!(view.headers["x-note"], "[redacted]");
        assert_eq!(view.headers["content-type"], "text/plain");
        assert_eq!((view.body.as_deref(), view.is_cut), (Some("a\u{fffd}b"), false));
        assert_eq!((shown_path("/a?b=1"), shown_path("a b")), ("/a?b=1".to_owned(), "…".to_owned()));
    }

    #[test]
    fn bodies_are_shown_in_part_until_there_is_no_room_and_counted_whole() {
        let call = CommittedCall {
            method: "POST".to_owned(),
            path: String::new(),
            headers: BTreeMap::new(),
            body: None,
        };
        let mut shown = ShownBytes { each_max: 4, left: 10 };
        let mut view = |body: &[u8]| {
            let view = call_view(("a", None), &call, body, &mut shown);
            (view.body, view.is_cut, view.body_bytes_n)
        };
        assert_eq!(view(b"abcdef"), (Some("abcd".to_owned()), true, 6));
        assert_eq!(view(b"abcd"), (Some("abcd".to_owned()), false, 4));
        assert_eq!(view(b"abc"), (None, true, 3), "no room is left");
    }
}
