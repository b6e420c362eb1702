//! `[[event]]`: where the id, type and the rest of an event are. `[[event.identity]]`: what identifies it, so that
//! copies are recognized.
//!
//! Two questions decide an identity: can two different events share this, and does a redelivery keep it? A wrong answer
//! to the first loses an event, one to the second runs it twice.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::misfits::{misfit, pointer, refuse};
use super::provider_toml::AnswerSpec;
use hooklatch_core::mistakes::Mistake;
use hooklatch_core::types::{OnConflict, Renderings, TypePattern};

/// One or several places, in the order they are joined.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Sources(pub Vec<Source>);

/// One place in a request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Source {
    /// A JSON pointer into the event; the first of several separated by `|` that is there.
    Json(String),
    /// A JSON pointer into the whole body of a batch.
    Outer(String),
    /// A header; the first of several separated by `|` that is present.
    Header(String),
    /// The first of these names, separated by `|`, that the event has as a member; a name that starts with `/` is a
    /// pointer, whose last step is the text.
    Member(String),
    /// The name of the event's only member; the text is for people.
    OnlyMember(String),
    /// The id that the signature covers, of the header family that was verified; the text is for people.
    SignedId(String),
    /// The signed time as it was written; the text is for people.
    SignedTime(String),
    /// The name of the list that the event is in, with `each = "/*"`; the text is for people.
    List(String),
    /// The event's place in its batch, from 0: where equal elements of one request are events of their own, and a
    /// request that is sent again has them in the same order. The text is for people.
    Place(String),
    /// This text in every event.
    Text(String),
}

impl Source {
    pub fn check(&self, key: &str) -> Result<(), Mistake> {
        match self {
            Self::Json(text) | Self::Outer(text) => pointer(key, text),
            _ => Ok(()),
        }
    }
}

/// Longest time for which equal content is taken for a copy. Seconds.
const WINDOW_S_MAX: u32 = 86_400;
/// Longest such time where a copy is dispatched when it ends: the copy waits for that long. Seconds.
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
    /// True when a copy within the window has the signal dispatched once more when the window ends: for signals that
    /// are answered by fetching something, where a missed change costs more than a fetch.
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

/// Sorts of rules that distinguish two events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Identity {
    /// An id that the sender says is unique for each event and equal in each redelivery.
    Sender,
    /// Type, parts and the digest of the content: other content is another event.
    Content,
    /// As `content`, for notices that repeat by nature: the parts distinguish two firings, or a window of time
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
    fn is_for_all(&self) -> bool {
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

/// Rules by which the events of a request are read.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventSpec {
    /// Counts only when this header is present; absent counts always.
    pub when_header: Option<String>,
    /// Counts only for bodies of this media type; absent counts for any.
    pub when_content_type: Option<String>,
    /// JSON pointer to the array of events, when one request carries several (of several separated by `|`: the first
    /// that leads anywhere); `/*` is every array that the body has as a member. The other pointers of this table then
    /// start at each element.
    pub each: Option<String>,
    /// JSON pointers to lists inside an element of `each` whose entries are events of
    /// their own, such as the messages of an account: an element with several entries is read as several with one each.
    /// How they are grouped may then differ from one delivery to the next.
    #[serde(default)]
    pub split: Vec<String>,
    /// True when a body without that array is one event itself.
    #[serde(default)]
    pub or_one: bool,
    /// The form field that holds the JSON, when the content type is a form.
    pub form_field: Option<String>,
    /// Form of the body, where it is not JSON alone.
    #[serde(default)]
    pub body: BodyFormat,
    /// What to do where no identity applies, of a sender whose transport has an id for each event: such an event is
    /// unreadable and says this, where its content would otherwise identify it, and two of equal content would be one.
    pub id_needed: Option<String>,
    /// Rules that recognize copies of an event; the first that applies counts. See [`IdentitySpec`].
    #[serde(default)]
    pub identity: Vec<IdentitySpec>,
    /// Places of the type; several sources are joined with `.`.
    #[serde(rename = "type")]
    pub event_type: Sources,
    /// JSON pointer to what handlers receive; empty is the whole event.
    #[serde(default)]
    pub payload: String,
    /// JSON pointers to what the signature covers, where that is not the whole event: `when` and `lane` of routes read
    /// nothing else. Absent where it is the whole event, or where no document says what it is.
    pub covered: Option<Vec<String>>,
    /// JSON pointers whose values may change between copies of one event; left out of the digest. Of a form, too.
    #[serde(default)]
    pub volatile: Vec<String>,
    /// Places of the object that the event is about, for `latest`.
    pub object: Option<Sources>,
    /// A number or RFC 3339 time that only goes up with the object.
    pub version: Option<Source>,
    /// Place of the time at which it happened at the sender: RFC 3339, or a number since 1970 whose size implies its
    /// unit.
    pub created: Option<Source>,
    /// The response that the sender expects to such events, where it is not the kind's `[answer]`.
    pub answer: Option<AnswerSpec>,
    /// Places of ids that people search for, besides the event's own: its payment, order, invoice. Up to four; a place
    /// where an event has none is skipped.
    #[serde(default)]
    pub search: Sources,
}

/// Most places in `search`, and most ids of one event that a search finds it by.
pub(crate) const SEARCH_N_MAX: usize = 4;

/// Forms of a body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BodyFormat {
    /// The body is JSON.
    #[default]
    Json,
    /// The body is JSON, or a form, which is read as one JSON object of its fields.
    Form,
    /// The body is lines of JSON, each an event; or one array of them.
    Lines,
}

impl EventSpec {
    /// True when an unsigned header decides about the type: a person who has one signed request can have it read as any
    /// type.
    pub fn is_type_unsigned(&self) -> bool {
        let is_header = |source: &Source| matches!(source, Source::Header(_));
        self.event_type.0.iter().any(is_header) && self.identity.iter().any(|one| !one.signed)
    }

    /// True when `pointer` into the event leads to what the signature covers, as far as that is known.
    pub fn covers(&self, pointer: &str) -> bool {
        let is_in = |covered: &String| {
            pointer
                .strip_prefix(covered.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.covered.as_ref().is_none_or(|all| all.iter().any(is_in))
    }

    pub fn check(&self) -> Result<(), Mistake> {
        refuse(self.event_type.0.is_empty(), "event.type", "name at least one source")?;
        refuse(
            self.identity.is_empty(),
            "event.identity",
            "say what two copies of an event are, in an [[event.identity]]",
        )?;
        self.identity.iter().try_for_each(IdentitySpec::check)?;
        let before = self.identity.split_last().map_or(&[][..], |(_, before)| before);
        refuse(
            before.iter().any(IdentitySpec::is_for_all),
            "event.identity",
            "one that every event has comes last, the others behind it would never count",
        )?;
        self.check_transport()?;
        // Otherwise a person with one signed request could have it read as a signal, which may repeat without end.
        let is_open =
            |one: &IdentitySpec| one.is == Identity::Signal && !one.types.is_empty() && one.has.is_empty();
        refuse(
            self.is_type_unsigned() && self.identity.iter().any(is_open),
            "event.identity.has",
            "the type of this kind is in an unsigned header, so say what such signals have in their bodies",
        )?;
        let object = self.object.iter().flat_map(|sources| &sources.0);
        let sources = self.event_type.0.iter().chain(object).chain(&self.version).chain(&self.created);
        sources.into_iter().try_for_each(|source| source.check("event"))?;
        self.check_search()?;
        refuse(self.object.is_some() != self.version.is_some(), "event", "object and version go together")?;
        if self.or_one && self.each.is_none() {
            return Err(misfit("event.or_one", "name the array that may be missing with `each`"));
        }
        if let Some(each) = &self.each {
            pointer("event.each", each)?;
        }
        if !self.split.is_empty() && self.each.is_none() {
            return Err(misfit("event.split", "name the array whose elements hold these lists with `each`"));
        }
        let each = self.each.iter().filter(|each| *each != "/*");
        let is_through = |text: &&String| text.split('/').any(|step| step == "*");
        if let Some(text) = each.chain(&self.split).find(is_through) {
            let why = format!(
                "`{text}` leads through a list: `each` names the outermost one, and `split` those inside its elements, with 0 for \
                 the step through each (`/changes/0/items`)"
            );
            return Err(misfit("event.each", why));
        }
        self.split.iter().try_for_each(|text| one_place("event.split", text))?;
        one_place("event.payload", &self.payload)?;
        self.covered.iter().flatten().try_for_each(|text| one_place("event.covered", text))?;
        for text in &self.volatile {
            one_place("event.volatile", text)?;
            refuse(
                text.is_empty(),
                "event.volatile",
                "the whole body cannot be, or no two events would differ",
            )?;
        }
        Ok(())
    }

    /// Checks that no event goes by its content because a header with its id is missing, unless the file says that it
    /// does. A signed id is present, or the verification fails.
    fn check_transport(&self) -> Result<(), Mistake> {
        let is_transport = |source: &Source| matches!(source, Source::Header(_));
        let has_id = self.identity.iter().any(|one| one.id.0.iter().any(is_transport));
        let is_open = self.id_needed.is_none() && !self.identity.last().is_some_and(IdentitySpec::is_for_all);
        if has_id && is_open {
            let why = "a header has the id of each event: say what to do where it is missing, or in an [[event.identity]] \
                       of all events that equal content is one event";
            return Err(misfit("event.id_needed", why));
        }
        Ok(())
    }

    fn check_search(&self) -> Result<(), Mistake> {
        let wrong = |why: &str| Err(misfit("event.search", why));
        if self.search.0.len() > SEARCH_N_MAX {
            return wrong("write up to four places");
        }
        let is_id = |source: &Source| match source {
            Source::Json(pointer) | Source::Outer(pointer) => !pointer.is_empty(),
            Source::Header(_) | Source::SignedId(_) => true,
            _ => false,
        };
        if !self.search.0.iter().all(is_id) {
            return wrong("an id is at a `json` or `outer` pointer, in a `header`, or the `signed_id`");
        }
        self.search.0.iter().try_for_each(|source| source.check("event.search"))
    }
}

/// A pointer to one place: of several only the sources of types and ids know.
fn one_place(key: &str, text: &str) -> Result<(), Mistake> {
    match text.split_once('|') {
        Some(_) => Err(misfit(key, format!("`{text}` is not one JSON pointer: write each by itself"))),
        None => pointer(key, text),
    }
}
