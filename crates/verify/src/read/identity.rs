//! The identity of an event: the first of the kind's identities that applies, else the content.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::reader::{EventReader, EventText, TYPE_UNKNOWN, UNREADABLE};
use super::source::{joined, text_at};
use crate::spec::{Identity, IdentitySpec, Source, Sources};
use crate::{Evidence, base64url_text};
use hooklatch_core::json::{Document, PointerTarget};
use hooklatch_core::types::{
    BodyDigest, OnConflict, Renderings, TEST_EVENT, TEXT_BYTES_MAX, TypePattern, WANTING, stored_text,
};

/// Prefixes of the ids that are made here or by admission: no sender's own id that starts so is taken.
const OURS: [&str; 5] = [UNREADABLE, "conflict:", CONTENT, SIGNAL, TEST_EVENT];
const CONTENT: &str = "content:";
const SIGNAL: &str = "signal:";
/// Longest key of ours before its parts give way to their digest: admission may number it. Bytes.
const COMPOSED_BYTES_MAX: usize = TEXT_BYTES_MAX - 25;
/// Length of the digest of type and content in a key. Bytes.
const MARK_BYTES: usize = 16;
/// Longest reason that a row stores. Bytes.
const WHY_BYTES_MAX: usize = 120;

/// The key of an event, and the rule that it was found by.
pub(super) struct Identified {
    pub event_id: String,
    pub identity: String,
    pub replay_key: Option<BodyDigest>,
    pub window_ms: Option<i64>,
    pub is_window_renewed: bool,
    pub is_window_rearmed: bool,
    pub is_repeatable: bool,
    pub on_conflict: OnConflict,
    pub renderings: Option<Arc<Renderings>>,
}

/// The key of the event, and how it was found. The error says that a part of its id is there twice, so that two readers
/// may see two events, or that the id is missing which every event of this sender has.
pub(crate) fn identified(
    reader: &EventReader<'_>,
    event: EventText<'_>,
    event_type: &str,
) -> Result<Identified, String> {
    let mut first_why = None;
    // Whether a part that no signature covers could have led to another identity: who took it out comes here.
    let mut is_open = false;
    for spec in reader.spec.identity.iter().filter(|spec| applies(spec, event_type, event.document)) {
        match key(reader, spec, event, event_type)? {
            Ok(event_id) => {
                let on_conflict = reader.on_conflict.unwrap_or(spec.on_conflict);
                return Ok(Identified {
                    event_id,
                    identity: rule(spec),
                    replay_key: replay_key(reader, spec, is_open, event, event_type),
                    window_ms: spec.window_s.map(|window_s| i64::from(window_s) * 1_000),
                    is_window_renewed: spec.window_renews,
                    is_window_rearmed: spec.window_rearms,
                    is_repeatable: is_repeatable(spec, event.document),
                    on_conflict,
                    renderings: spec.renderings.clone().filter(|_| on_conflict == OnConflict::Copy),
                });
            }
            Err(why) => first_why = first_why.or(Some(why)),
        }
        is_open |= !spec.signed;
    }
    let why = first_why.as_deref().unwrap_or("no identity applies");
    match &reader.spec.id_needed {
        Some(remedy) => Err(format!("{why}: {remedy}")),
        None => Ok(by_content(reader, event, event_type, why)),
    }
}

/// Nothing is where the kind looks: equal content of one type is one event.
fn by_content(reader: &EventReader<'_>, event: EventText<'_>, event_type: &str, why: &str) -> Identified {
    let is_signed = reader.spec.identity.iter().all(|spec| spec.signed);
    let why: String =
        why.chars().filter(|c| !c.is_control()).scan(0, |n, c| room(n, c, WHY_BYTES_MAX)).collect();
    Identified {
        event_id: composed(CONTENT, event_type, &[], event.digest),
        identity: format!("content/1{WANTING}{why}"),
        replay_key: if is_signed { None } else { text_key(reader, &Sources::default(), event) },
        window_ms: None,
        is_window_renewed: false,
        is_window_rearmed: false,
        is_repeatable: false,
        on_conflict: reader.on_conflict.unwrap_or_default(),
        renderings: None,
    }
}

/// The key as `spec` makes it, or why it has none.
fn key(
    reader: &EventReader<'_>,
    spec: &IdentitySpec,
    event: EventText<'_>,
    event_type: &str,
) -> Result<Result<String, String>, String> {
    // One source is the id as it is.
    if let (Identity::Sender, [one]) = (spec.is, spec.id.0.as_slice()) {
        return match text_at(reader, one, event) {
            Ok(text) => Ok(senders_own(text)),
            Err(why) if is_doubled(reader, one, event) => Err(why),
            Err(why) => Ok(Err(why)),
        };
    }
    let mut parts = Vec::with_capacity(spec.id.0.len());
    for source in &spec.id.0 {
        match text_at(reader, source, event) {
            Ok(text) => parts.push(text),
            Err(why) if is_doubled(reader, source, event) => return Err(why),
            Err(why) if spec.needs_all() => return Ok(Err(why)),
            Err(_) => parts.push(String::new()),
        }
    }
    Ok(match (spec.is, parts.as_slice()) {
        (Identity::Sender, several) => senders_own(joined(several)),
        (Identity::Content, parts) => Ok(composed(CONTENT, event_type, parts, event.digest)),
        (Identity::Signal, parts) => Ok(composed(SIGNAL, event_type, parts, event.digest)),
    })
}

/// Returns what requests with one signed text have in common under any id; for ids that no signature covers.
fn replay_key(
    reader: &EventReader<'_>,
    spec: &IdentitySpec,
    is_open: bool,
    event: EventText<'_>,
    event_type: &str,
) -> Option<BodyDigest> {
    // A signal's content repeats by nature: its signed text identifies it only if a time is part of it.
    let repeats = spec.is == Identity::Signal && reader.believed.signed_time().is_none();
    // A window forgets texts that still pass verification.
    let is_remembered = spec.signed && !is_open && spec.window_s.is_none();
    if is_remembered || repeats {
        return None;
    }
    // Events of types without a subscription are not distinguished.
    let none = Sources::default();
    let with = if event_type == TYPE_UNKNOWN { &none } else { &spec.signed_with };
    text_key(reader, with, event)
}

fn text_key(reader: &EventReader<'_>, with: &Sources, event: EventText<'_>) -> Option<BodyDigest> {
    let text = reader.believed.signed_text(event.event_n)?;
    if with.0.is_empty() {
        return Some(text);
    }
    let with: Vec<String> =
        with.0.iter().map(|one| text_at(reader, one, event).unwrap_or_default()).collect();
    Some(Sha256::new().chain_update(text).chain_update(joined(&with)).finalize().into())
}

fn is_doubled(reader: &EventReader<'_>, source: &Source, event: EventText<'_>) -> bool {
    let (document, pointers) = match source {
        Source::Json(pointers) => (event.document, pointers),
        Source::Outer(pointers) => (reader.outer, pointers),
        _ => return false,
    };
    document.is_some_and(|json| pointers.split('|').any(|one| json.find(one) == PointerTarget::Doubled))
}

/// The rule that an event was identified by, as its row says it.
fn rule(spec: &IdentitySpec) -> String {
    let version = u32::from(spec.version);
    match char::from_digit(version, 10) {
        Some(digit) => [spec.is.as_str(), "/", digit.encode_utf8(&mut [0; 4])].concat(),
        None => format!("{}/{version}", spec.is.as_str()),
    }
}

/// True when an identity counts for an event of this type and content.
fn applies(spec: &IdentitySpec, event_type: &str, document: Option<&Document<'_>>) -> bool {
    let is_type = |pattern: &TypePattern| pattern.matches(event_type);
    let has = |pointers: &String| has_one(pointers, document);
    (spec.types.is_empty() || spec.types.iter().any(is_type)) && spec.has.iter().all(has)
}

/// True when one of the pointers, separated by `|`, leads somewhere.
fn has_one(pointers: &str, document: Option<&Document<'_>>) -> bool {
    let is_there = |json: &Document<'_>, pointer: &str| matches!(json.find(pointer), PointerTarget::One(raw) if raw != b"null");
    document.is_some_and(|json| pointers.split('|').any(|one| is_there(json, one)))
}

/// True when an event has nothing in it that differs from one to the next: two of them may be equal to the byte.
fn is_repeatable(spec: &IdentitySpec, document: Option<&Document<'_>>) -> bool {
    spec.changing.as_ref().is_some_and(|pointers| !has_one(pointers, document))
}

/// An id of the sender's, unless it cannot be stored or looks like one of ours.
fn senders_own(id: String) -> Result<String, String> {
    stored_text(&id).map_err(|why| format!("the event id {why}"))?;
    match OURS.into_iter().find(|ours| id.starts_with(ours)) {
        Some(ours) => Err(format!("the event id starts with `{ours}`, as only ours do")),
        None => Ok(id),
    }
}

/// A key of ours: the parts, as far as people can read them, and a mark of type and content. It is short, because every
/// index of an event has it: half a digest, in base64. Who finds two contents of one mark has a conflict for it, no
/// copy.
fn composed(prefix: &str, event_type: &str, parts: &[String], digest: &BodyDigest) -> String {
    // No type has a NUL in it.
    let whole = Sha256::new().chain_update(event_type).chain_update([0]).chain_update(digest).finalize();
    let mark = base64url_text(whole.get(..MARK_BYTES).unwrap_or_default());
    if parts.is_empty() {
        return format!("{prefix}{mark}");
    }
    let key = format!("{prefix}{},{mark}", joined(parts));
    if key.len() <= COMPOSED_BYTES_MAX && stored_text(&key).is_ok() {
        return key;
    }
    format!("{prefix}{}", hex::encode(Sha256::digest(key)))
}

/// Lets characters pass as long as they fit into `bytes_max` bytes; for `scan`.
fn room(used_n: &mut usize, c: char, bytes_max: usize) -> Option<char> {
    *used_n += c.len_utf8();
    (*used_n <= bytes_max).then_some(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_senders_id_looks_like_one_of_ours_or_cannot_be_stored() {
        for id in [
            "unreadable:1",
            "conflict:1",
            "content:1",
            "signal:1",
            "test:1",
            "",
            "a\0b",
            &"x".repeat(TEXT_BYTES_MAX + 1),
        ] {
            assert!(senders_own(id.to_owned()).is_err(), "{id}");
        }
        for id in ["evt_1", "contents:1", "Signal:1", "x:content:1", "test", "Test:1", " test:1"] {
            assert_eq!(senders_own(id.to_owned()).as_deref(), Ok(id));
        }
    }

    #[test]
    fn keys_of_ours_differ_by_type_content_and_parts_and_are_short() {
        let part = |text: &str| vec![text.to_owned()];
        let key =
            |event_type: &str, parts: &[String], digest| composed(CONTENT, event_type, parts, &[digest; 32]);
        let first = key("a", &[], 1);
        assert_eq!(first.len(), CONTENT.len() + 22, "half a digest in base64");
        assert_ne!(first, key("b", &[], 1));
        assert_ne!(first, key("a", &[], 2));
        assert!(key("a", &part("shop"), 1).starts_with("content:4:shop,"), "people can read it");
        // The longest that is readable still leaves room for a number behind it.
        let readable_n = COMPOSED_BYTES_MAX - "content:000:,".len() - 22;
        let longest = key("a", &part(&"x".repeat(readable_n)), 1);
        assert_eq!(longest.len(), COMPOSED_BYTES_MAX);
        for odd in ["x".repeat(readable_n + 1), "a\0b".to_owned()] {
            assert_eq!(key("a", &part(&odd), 1).len(), CONTENT.len() + 64, "a whole digest");
        }
    }
}
