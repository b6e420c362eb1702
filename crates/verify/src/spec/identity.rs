//! `[[event.identity]]`: what identifies an event, so that copies are recognized.
//!
//! Two questions decide it: can two different events share this, and does a redelivery keep it? A wrong answer to the
//! first loses an event, one to the second runs it twice.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::check::{misfit, pointer};
use super::event::one_place;
use super::source::{Source, Sources};
use hooklatch_core::mistakes::Mistake;
use hooklatch_core::types::{OnConflict, Renderings, TypePattern};

/// Longest time for which equal content is taken for a copy. Seconds.
const WINDOW_S_MAX: u32 = 86_400;
/// The same where a copy is dispatched when it ends: it waits for that long. Seconds.
const REARMED_S_MAX: u32 = 60;

/// A rule that recognizes copies of an event, for some or all of a kind's events.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdentitySpec {
    /// The sort of rule.
    pub is: Identity,
    /// Counts only for these event types: exact, or a prefix and `*`. Empty: for all.
    #[serde(default, deserialize_with = "patterns")]
    pub types: Vec<TypePattern>,
    /// Counts only where each of these JSON pointers (of several separated by `|`: one) leads somewhere.
    #[serde(default)]
    pub has: Vec<String>,
    /// The parts of the key. Of `sender`, and of `signal` without a window, all are needed, else the next identity is
    /// tried; of the others those count that are there.
    #[serde(default)]
    pub id: Sources,
    /// True when the signature covers the id, the type and how the body is read. Where it does not, the signed text is
    /// a key too: equal content under it is `replayed`, other content a `conflict`.
    pub signed: bool,
    /// Parts that join the signed text in that key, where equal bytes of two of these are two events.
    #[serde(default)]
    pub signed_with: Sources,
    /// Time after a `signal` for which equal content is a copy. Seconds, 1 to 86,400.
    pub window_s: Option<u32>,
    /// True when each copy begins the window anew: for senders that go on for longer than it, at intervals below it.
    /// What is said again within each window is then one event for as long as that lasts.
    #[serde(default)]
    pub window_renews: bool,
    /// True when a copy within the window has the signal dispatched once more when the window ends: for signals that are
    /// answered by fetching something, where a missed change costs more than a fetch.
    #[serde(default)]
    pub window_rearms: bool,
    /// JSON pointers, separated by `|`, to what differs from one event to the next. Of a sender's id that no signature
    /// covers: the signed text of a body that has none of them is accepted again under another id, once in ten minutes
    /// of each provider; that of any other body is `replayed`, as all are without this key.
    pub changing: Option<String>,
    /// Rule for other content under the same key, unless the operator says otherwise.
    #[serde(default)]
    pub on_conflict: OnConflict,
    /// With `on_conflict = "copy"`: which other content is the same event, written in another way.
    #[serde(default, deserialize_with = "shared")]
    pub renderings: Option<Arc<Renderings>>,
    /// The version of this key's composition: it goes up when equal events would get other keys than before. The row
    /// of each event says which one it was identified by.
    #[serde(default = "one")]
    pub version: u16,
}

/// Sorts of rules that tell two events apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Identity {
    /// An id that the sender says is unique for each event and equal in each redelivery.
    Sender,
    /// Type, parts and the digest of the content: other content is another event.
    Content,
    /// The same as `content`, for notices that repeat by nature: the parts tell two firings apart, or a window of time
    /// does.
    Signal,
}

impl Identity {
    /// The word as the file has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Content => "content",
            Self::Signal => "signal",
        }
    }
}

fn one() -> u16 {
    1
}

fn shared<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<Renderings>>, D::Error> {
    Renderings::deserialize(deserializer).map(|renderings| Some(Arc::new(renderings)))
}

fn patterns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<TypePattern>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let parsed = texts.iter().map(|text| TypePattern::parse(text));
    parsed.collect::<Result<_, _>>().map_err(|_| D::Error::custom("write a type, or a prefix and `*`"))
}

impl IdentitySpec {
    /// True when each part of the key must be there.
    pub fn needs_all(&self) -> bool {
        match self.is {
            Identity::Sender => true,
            Identity::Content => false,
            Identity::Signal => self.window_s.is_none(),
        }
    }

    /// True when it applies to every event, so that none behind it is tried.
    pub(super) fn is_for_all(&self) -> bool {
        self.types.is_empty() && self.has.is_empty() && !self.needs_all()
    }

    pub fn check(&self) -> Result<(), Mistake> {
        let wrong = |key: &str, why: &str| Err(misfit(&format!("event.identity.{key}"), why));
        if self.is == Identity::Sender && self.id.0.is_empty() {
            return wrong("id", "name at least one source of the sender's id");
        }
        match (self.is, self.window_s) {
            (Identity::Signal, None) if self.id.0.is_empty() => {
                return wrong("id", "name what tells two firings of a signal apart, or a window_s");
            }
            (Identity::Signal, Some(window_s)) if !(1..=WINDOW_S_MAX).contains(&window_s) => {
                return wrong("window_s", "write a number from 1 to 86400");
            }
            (_, None) if self.window_renews => return wrong("window_renews", "there is no window_s"),
            (_, None) if self.window_rearms => return wrong("window_rearms", "there is no window_s"),
            (_, Some(window_s)) if self.window_rearms && (self.window_renews || window_s > REARMED_S_MAX) => {
                return wrong(
                    "window_rearms",
                    "write a window_s of 60 at most, and no window_renews beside it",
                );
            }
            (Identity::Signal, _) | (_, None) => {}
            _ => return wrong("window_s", "only a signal has one"),
        }
        if self.signed && !self.signed_with.0.is_empty() {
            return wrong(
                "signed_with",
                "it joins the signed text, which is a key with `signed = false` alone",
            );
        }
        if self.changing.is_some() && (self.is != Identity::Sender || self.signed) {
            return wrong(
                "changing",
                "it is for an id of the sender's that no signature covers: `signed = false`",
            );
        }
        if self.renderings.is_some() != (self.on_conflict == OnConflict::Copy) {
            return wrong("renderings", "it goes with `on_conflict = \"copy\"`, and that with it");
        }
        if let Some(renderings) = &self.renderings {
            if self.is != Identity::Sender || !self.signed {
                return wrong("renderings", "only an id of the sender's that the signature covers has some");
            }
            let all = renderings.same.iter().chain([&renderings.differs]);
            all.into_iter().try_for_each(|text| one_place("event.identity.renderings", text))?;
        }
        if self.version == 0 {
            return wrong("version", "write a number from 1 to 65535");
        }
        let pointers = self.has.iter().chain(&self.changing);
        pointers.into_iter().try_for_each(|text| pointer("event.identity.has", text))?;
        let parts = self.id.0.iter().chain(&self.signed_with.0);
        parts.into_iter().try_for_each(|source: &Source| source.check("event.identity.id"))
    }
}
