//! `[[event]]`: where the id, type and the rest of an event are.

use serde::Deserialize;

use super::{AnswerSpec, pointer};

/// How the events of a request are read.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventSpec {
    /// Counts only when this header is present; absent counts always.
    pub when_header: Option<String>,
    /// JSON pointer to the array of events, when one request carries several; `/*` is every array that the body
    /// has as a member. The other pointers of this table then start at each element.
    pub each: Option<String>,
    /// Whether a body without that array is one event itself.
    #[serde(default)]
    pub or_one: bool,
    /// The form field that holds the JSON, when the content type is a form.
    pub form_field: Option<String>,
    /// How else the body is written.
    #[serde(default)]
    pub body: BodyFormat,
    /// Where the id is; several sources are joined with their lengths.
    pub id: Sources,
    /// Whether the signature covers the id. When it does not, equal bodies under another id are `replayed`.
    pub id_signed: bool,
    /// Whether equal bodies of different types are different events (the type decides with the body).
    #[serde(default)]
    pub replay_by_type: bool,
    /// Event types whose equal bodies are legitimate.
    #[serde(default)]
    pub replay_exempt: Vec<String>,
    /// Where the type is; several sources are joined with `.`.
    #[serde(rename = "type")]
    pub event_type: Sources,
    /// JSON pointer to what handlers receive; empty is the whole event.
    #[serde(default)]
    pub payload: String,
    /// JSON pointers whose values may change between copies of one event; left out of the digest. Of a form, too.
    #[serde(default)]
    pub volatile: Vec<String>,
    /// What the event is about, for `latest`.
    pub object: Option<Sources>,
    /// A number or RFC 3339 time that only goes up with the object.
    pub version: Option<Source>,
    /// When it happened at the sender.
    pub created: Option<Source>,
    /// What the sender wants to hear after such events, where it is not the kind's `[answer]`.
    pub answer: Option<AnswerSpec>,
}

/// How a body is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BodyFormat {
    /// JSON.
    #[default]
    Json,
    /// JSON, or a form, which is read as one JSON object of its fields.
    Form,
    /// Lines of JSON, each an event; or one array of them.
    Lines,
}

/// One or several places, in the order they are joined.
#[derive(Debug, Clone, Deserialize)]
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
    /// The digest of the event's bytes without its `volatile` fields, for senders that name their events
    /// nowhere; the text is for people.
    Digest(String),
    /// The first of these names, separated by `|`, that the event has as a member.
    Member(String),
    /// When the request arrived: for notices that name neither themselves nor their state, so that no two are
    /// taken for copies; the text is for people.
    Received(String),
    /// The name of the list that the event is in, with `each = "/*"`; the text is for people.
    List(String),
    /// Always this text.
    Text(String),
}

impl EventSpec {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.id.0.is_empty() || self.event_type.0.is_empty() {
            return Err("event.id and event.type: name at least one source".to_owned());
        }
        let object = self.object.iter().flat_map(|sources| &sources.0);
        let sources = self.id.0.iter().chain(&self.event_type.0).chain(object).chain(&self.version);
        for source in sources.chain(&self.created) {
            if let Source::Json(text) | Source::Outer(text) = source {
                pointer("event", text)?;
            }
        }
        if self.object.is_some() != self.version.is_some() {
            return Err("event: object and version go together".to_owned());
        }
        if self.or_one && self.each.is_none() {
            return Err("event.or_one: name the array that may be missing with `each`".to_owned());
        }
        if let Some(each) = &self.each {
            pointer("event.each", each)?;
        }
        self.volatile.iter().chain([&self.payload]).try_for_each(|text| pointer("event", text))
    }
}
