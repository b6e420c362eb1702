//! What a kind's spec says about identity, in words for people: `providers`, `explain` and the generated pages.

use crate::spec::{EventSpec, Identity, IdentitySpec, Source, Sources, Spec};

/// Places, in the order they are joined.
pub(super) fn places(sources: &Sources) -> String {
    let either = |names: &str| format!("`{}`", names.replace('|', "` or `"));
    let one = |source: &Source| match source {
        Source::Json(pointer) if pointer.is_empty() => "the whole event".to_owned(),
        Source::Json(pointer) => either(pointer),
        Source::Outer(pointer) => format!("{} of the batch", either(pointer)),
        Source::Header(name) => format!("header {}", either(name)),
        Source::Member(names) => format!("which of {} it has", either(names)),
        Source::OnlyMember(_) => "the name of its only member".to_owned(),
        Source::List(_) => "the name of its list".to_owned(),
        Source::Text(text) => format!("the text `{text}`"),
        Source::SignedId(_) => "the id that is signed".to_owned(),
        Source::SignedTime(_) => "the signed time".to_owned(),
        Source::Place(_) => "its place in the batch".to_owned(),
    };
    sources.0.iter().map(one).collect::<Vec<_>>().join(" + ")
}

/// What two copies of an event are: which rule, for what, and what is not covered by the signature.
pub(super) fn identity(spec: &IdentitySpec) -> String {
    let parts = if spec.id.0.is_empty() { String::new() } else { format!(" + {}", places(&spec.id)) };
    let rule = match (spec.is, spec.window_s) {
        (Identity::Sender, _) => format!("the sender's own id, {}", places(&spec.id)),
        (Identity::Content, _) => format!("type{parts} + digest of the content"),
        (Identity::Signal, Some(window_s)) => {
            let of = if spec.window_renews { "the last one" } else { "the event" };
            format!("type{parts} + digest of the content, a copy within {window_s} s of {of}")
        }
        (Identity::Signal, None) => format!("a signal: type{parts} + digest of the content"),
    };
    let either = |names: &String| format!("`{}`", names.replace('|', "` or `"));
    let types: Vec<String> = spec.types.iter().map(|one| format!("`{}`", one.as_str())).collect();
    let has: Vec<String> = spec.has.iter().map(either).collect();
    let types = if types.is_empty() { String::new() } else { format!(" of type {}", types.join(", ")) };
    let has = if has.is_empty() { String::new() } else { format!(" with {}", has.join(" and ")) };
    let of = if types.is_empty() && has.is_empty() { String::new() } else { format!("events{types}{has}: ") };
    format!("{of}{rule}")
}

/// Every identity of one `[[event]]`, in the order they are tried.
pub(super) fn identities(event: &EventSpec) -> String {
    event.identity.iter().map(identity).collect::<Vec<_>>().join("; else ")
}

/// The key of most events, for a cell of a table: that of the first identity that is for all of them.
pub(super) fn key(spec: &Spec) -> String {
    let identities = spec.event.last().map(|event| event.identity.as_slice()).unwrap_or_default();
    let is_for_all = |one: &&IdentitySpec| one.types.is_empty() && one.has.is_empty();
    let Some(identity) = identities.iter().find(is_for_all).or(identities.last()) else {
        return String::new();
    };
    let parts = places(&identity.id);
    match (identity.is, parts.is_empty()) {
        (Identity::Sender, _) => parts,
        (_, true) => "content".to_owned(),
        (_, false) => format!("{parts} + content"),
    }
}

/// Whether no signature covers an id, a type or how a body is read.
pub(super) fn is_any_unsigned(spec: &Spec) -> bool {
    spec.event.iter().flat_map(|event| &event.identity).any(|identity| !identity.signed)
}
