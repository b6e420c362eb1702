//! The version of what can change, as an `ETag`: equal as long as nothing has changed that a decision is about; and
//! `If-Match`, which version a request is about (RFC 9110, 13.1.1).

use sha2::{Digest, Sha256};

use super::event::{EventView, MessageView};
use super::provider::{DestinationView, ProviderView};
use hooklatch_core::types::{AttemptResult, EventState, MessageState, UnixMs};

/// A view of something that people decide about.
pub trait Tagged {
    /// Its version: a strong `ETag` with its quotes (RFC 9110, 8.8.3).
    fn etag(&self) -> String;
}

impl Tagged for EventView {
    fn etag(&self) -> String {
        let calls = &self.delivery;
        event_tag(
            (&self.provider, &self.event_id),
            (self.state, self.generation, self.attempts_n, self.processed_at_ms),
            [calls.open_n, calls.held_n, calls.dead_n, calls.delivered_n, calls.discarded_n],
        )
    }
}

impl Tagged for MessageView {
    /// That of a message whose event was not run again after it.
    fn etag(&self) -> String {
        (self, false).etag()
    }
}

/// A message, and whether its event was run again after it was written: then sending it risks more.
impl Tagged for (&MessageView, bool) {
    fn etag(&self) -> String {
        let (message, is_rerun) = self;
        let counted = (message.attempts_n, message.visible_at_ms);
        message_tag(message.state, counted, message.last_result, message.finished_at_ms, *is_rerun)
    }
}

impl Tagged for DestinationView {
    fn etag(&self) -> String {
        pause_tag(self.pause.as_ref().map(|pause| (pause.actor.as_str(), pause.paused_at_ms)))
    }
}

impl Tagged for ProviderView {
    fn etag(&self) -> String {
        pause_tag(self.pause.as_ref().map(|pause| (pause.actor.as_str(), pause.paused_at_ms)))
    }
}

/// The version of an event: its id, its row, and the number of its calls in each state, because a decision about an
/// event is a decision about its calls.
fn event_tag(
    (provider, event_id): (&str, &str),
    (state, generation, attempts_n, processed_at_ms): (EventState, u32, u32, Option<UnixMs>),
    calls: [u32; 5],
) -> String {
    let at = processed_at_ms.unwrap_or_default();
    let calls = calls.map(|n| n.to_string()).join(" ");
    let (generation, attempts_n) = (generation.to_string(), attempts_n.to_string());
    tag(&[provider, event_id, state.as_str(), &generation, &attempts_n, &at.to_string(), &calls])
}

/// The version of a message likewise; `counted` is its number of claims and its due time.
pub fn message_tag(
    state: MessageState,
    counted: (u32, UnixMs),
    last_result: Option<AttemptResult>,
    finished_at_ms: Option<UnixMs>,
    is_rerun: bool,
) -> String {
    let finished = finished_at_ms.unwrap_or_default().to_string();
    let result = last_result.map_or("", AttemptResult::as_str);
    let rerun = if is_rerun { "rerun" } else { "" };
    tag(&[state.as_str(), &counted.0.to_string(), &counted.1.to_string(), result, &finished, rerun])
}

/// The version of a destination: who paused it, and when.
pub fn pause_tag(pause: Option<(&str, UnixMs)>) -> String {
    match pause {
        None => tag(&["running"]),
        Some((actor, paused_at_ms)) => tag(&["paused", actor, &paused_at_ms.to_string()]),
    }
}

fn tag(parts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        // With its length, so that no two lists of parts read the same.
        digest.update([u8::try_from(part.len()).unwrap_or(u8::MAX)]);
        digest.update(part);
    }
    let digest: [u8; 32] = digest.finalize().into();
    format!("\"{}\"", hex::encode(digest.get(..8).unwrap_or_default()))
}

/// The versions of its subject that a request may act on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum IfMatch {
    /// No header: any version.
    #[default]
    Missing,
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
    pub const MISSING: &'static Self = &Self::Missing;

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
            (false, _) => Ok(Self::Missing),
            (true, true) if tags.is_empty() => Ok(Self::Any),
            (true, true) => Err(InvalidIfMatch),
            (true, false) => Ok(Self::Tags(tags)),
        }
    }

    /// True when a subject that is there, with this tag, may be acted on.
    pub fn admits(&self, tag: &str) -> bool {
        match self {
            Self::Missing | Self::Any => true,
            Self::Tags(tags) => tags.iter().any(|one| version(one) == version(tag)),
        }
    }

    /// True when this very tag is named, the digest behind its version included.
    pub fn names(&self, tag: &str) -> bool {
        match self {
            Self::Missing => false,
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
    fn whatever_a_decision_is_about_has_another_version_when_it_changes() {
        let message = |state, n, at, result, end| message_tag(state, (n, at), result, end, false);
        let (held, dead) = (MessageState::Held, MessageState::Dead);
        let event = |id, row, calls| event_tag(("stripe", id), row, calls);
        let all = [
            message(held, 1, 5, None, None),
            message(dead, 1, 5, None, None),
            message(held, 2, 5, None, None),
            message(held, 1, 6, None, None),
            message(held, 1, 5, Some(AttemptResult::Unknown), None),
            message(held, 1, 5, None, Some(7)),
            message_tag(held, (1, 5), None, None, true),
            event("evt_1", (EventState::Failed, 0, 1, None), [0; 5]),
            event("evt_2", (EventState::Failed, 0, 1, None), [0; 5]),
            event("evt_1", (EventState::Failed, 1, 0, None), [0; 5]),
            event("evt_1", (EventState::Failed, 0, 1, Some(1)), [0; 5]),
            event("evt_1", (EventState::Handled, 0, 1, None), [0; 5]),
            event("evt_1", (EventState::Handled, 0, 1, None), [0, 0, 1, 0, 0]),
            event("evt_1", (EventState::Handled, 0, 1, None), [0, 0, 0, 1, 0]),
            pause_tag(None),
            pause_tag(Some(("ann", 1))),
            pause_tag(Some(("ann", 2))),
            pause_tag(Some(("bob", 1))),
        ];
        assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), all.len());
        assert_eq!(message(held, 1, 5, None, None), all[0], "equal as long as nothing changes");
        assert!(
            all.iter().all(|tag| tag.len() == 18 && tag.starts_with('"') && tag.ends_with('"')),
            "{all:?}"
        );
    }

    #[test]
    fn if_match_is_read_as_rfc_9110_has_it() {
        #[track_caller]
        fn check(lines: &[&str], want: Option<&IfMatch>) {
            assert_eq!(IfMatch::parse(lines.iter().copied()).ok().as_ref(), want, "{lines:?}");
        }
        let tags = |tags: &[&str]| IfMatch::Tags(tags.iter().map(|one| format!("\"{one}\"")).collect());
        check(&[], Some(&IfMatch::Missing));
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
        assert!(IfMatch::Missing.admits("\"a\""));
        assert!(admits("\"a.1\"", "\"a\"") && !admits("\"b.1\"", "\"a\""), "whatever bytes it came with");
        let names = |line: &str, tag: &str| IfMatch::parse_none([line]).unwrap().names(tag);
        assert!(names("W/\"a.1\"", "\"a.1\"") && names("*", "\"a.1\"") && !names("\"a.2\"", "\"a.1\""));
    }
}
