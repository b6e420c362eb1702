//! Tokens inside bodies: anyone who reads one can send as the sender does, so they are blanked before anything is
//! stored.
//!
//! Only where the token is the whole verification: such a body is not signed, so nothing that could be verified is
//! lost.

use std::ops::Range;

use bytes::Bytes;

use super::headers::BLANK;
use crate::form_without;
use crate::spec::{Scheme, Spec};
use hooklatch_core::json::{self, PointerTarget, find};

/// The body without the token that its kind carries in it.
pub(super) fn without_token(spec: &Spec, body: &Bytes) -> Bytes {
    if let Some(name) = &spec.signature.query {
        return Bytes::from(form_without(body, name));
    }
    let Some(pointer) = spec.signature.json.as_ref().filter(|_| spec.signature.scheme == Scheme::Token)
    else {
        return body.clone();
    };
    let whole: &[u8] = body;
    let mut tokens = Vec::new();
    match &spec.signature.each {
        None => tokens.extend(place(whole, whole, pointer)),
        Some(each) => {
            let PointerTarget::One(list) = find(whole, each) else { return body.clone() };
            let elements = json::elements(list).unwrap_or_default().into_iter();
            let elements = elements.filter_map(|range| list.get(range));
            tokens.extend(elements.filter_map(|element| place(whole, element, pointer)));
        }
    }
    let blank = format!("\"{BLANK}\"");
    let pieces: Vec<_> = tokens.into_iter().map(|range| (range, blank.as_bytes())).collect();
    Bytes::from(spliced(whole, &pieces))
}

/// The range in `whole` of the value that `pointer` names in `part`, which is a part of it.
pub(crate) fn place(whole: &[u8], part: &[u8], pointer: &str) -> Option<Range<usize>> {
    let PointerTarget::One(raw) = find(part, pointer) else { return None };
    let start = raw.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    Some(start..start + raw.len())
}

/// `whole` with other texts in these places, which are in order.
pub(super) fn spliced(whole: &[u8], pieces: &[(Range<usize>, &[u8])]) -> Vec<u8> {
    let mut made = Vec::with_capacity(whole.len());
    let mut from = 0;
    for (range, text) in pieces {
        made.extend_from_slice(whole.get(from..range.start).unwrap_or_default());
        made.extend_from_slice(text);
        from = range.end;
    }
    made.extend_from_slice(whole.get(from..).unwrap_or_default());
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_of_a_query_is_left_out_and_the_rest_stays_as_it_was_written() {
        let text = include_str!("../../../../providers/mangopay/provider.toml");
        let spec = Spec::parse(text).expect("a spec");
        for (query, want) in [
            ("token=t&EventType=A+b&Date=%31", "EventType=A+b&Date=%31"),
            ("EventType=A&%74oken=t&token=u&x", "EventType=A&x"),
            ("tokens=1&token", "tokens=1"),
        ] {
            assert_eq!(without_token(&spec, &Bytes::from_static(query.as_bytes())), want, "{query}");
        }
    }

    #[test]
    fn tokens_are_blanked_where_they_stand_and_nothing_else_changes() {
        let spec = |more: &str| {
            let text = include_str!("../../../../providers/stripe/provider.toml");
            let mut spec = Spec::parse(text).expect("a spec");
            spec.signature.scheme = Scheme::Token;
            spec.signature.json = Some("/token".to_owned());
            spec.signature.each = Some(more.to_owned()).filter(|each| !each.is_empty());
            spec
        };
        let blanked =
            |spec: &Spec, body: &'static str| without_token(spec, &Bytes::from_static(body.as_bytes()));
        let one = spec("");
        assert_eq!(
            blanked(&one, r#"{ "a":1.0, "token" : "se\"c" , "b":[]}"#),
            r#"{ "a":1.0, "token" : "[redacted]" , "b":[]}"#
        );
        assert_eq!(blanked(&one, r#"{"a":"token"}"#), r#"{"a":"token"}"#);
        let each = spec("/list");
        assert_eq!(
            blanked(&each, r#"{"list":[{"token":"x","n":1},{"n":2},{"token":"yy"}]}"#),
            r#"{"list":[{"token":"[redacted]","n":1},{"n":2},{"token":"[redacted]"}]}"#
        );
        let signed = Spec {
            signature: crate::spec::SignatureSpec { scheme: Scheme::HmacSha256, ..one.signature.clone() },
            ..one
        };
        assert_eq!(
            blanked(&signed, r#"{"token":"x"}"#),
            r#"{"token":"x"}"#,
            "what is signed stays as it was signed"
        );
    }
}
