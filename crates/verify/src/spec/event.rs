//! `[[event]]`: where the id, type and the rest of an event are.

use serde::Deserialize;

use super::answer::AnswerSpec;
use super::check::{misfit, pointer};
use super::identity::{Identity, IdentitySpec};
use super::source::{Source, Sources};
use hooklatch_core::mistakes::Mistake;

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
    /// unreadable and says this, where its content would otherwise tell it, and two of equal content would be one.
    pub id_needed: Option<String>,
    /// Rules that tell copies of an event; the first that applies counts. See [`IdentitySpec`].
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
        if self.event_type.0.is_empty() {
            return Err(misfit("event.type", "name at least one source"));
        }
        if self.identity.is_empty() {
            return Err(misfit(
                "event.identity",
                "say what two copies of an event are, in an [[event.identity]]",
            ));
        }
        self.identity.iter().try_for_each(IdentitySpec::check)?;
        let before = self.identity.split_last().map_or(&[][..], |(_, before)| before);
        if before.iter().any(IdentitySpec::is_for_all) {
            return Err(misfit(
                "event.identity",
                "one that every event has comes last, the others behind it would never count",
            ));
        }
        self.check_transport()?;
        // Otherwise a person with one signed request could have it read as a signal, which may repeat without end.
        let is_open =
            |one: &IdentitySpec| one.is == Identity::Signal && !one.types.is_empty() && one.has.is_empty();
        if self.is_type_unsigned() && self.identity.iter().any(is_open) {
            return Err(misfit(
                "event.identity.has",
                "the type of this kind is in an unsigned header, so say what such signals have in their bodies",
            ));
        }
        let object = self.object.iter().flat_map(|sources| &sources.0);
        let sources = self.event_type.0.iter().chain(object).chain(&self.version).chain(&self.created);
        sources.into_iter().try_for_each(|source| source.check("event"))?;
        self.check_search()?;
        if self.object.is_some() != self.version.is_some() {
            return Err(misfit("event", "object and version go together"));
        }
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
            if text.is_empty() {
                return Err(misfit(
                    "event.volatile",
                    "the whole body cannot be, or no two events would differ",
                ));
            }
        }
        Ok(())
    }

    /// Checks that no event goes by its content because a header with its id is missing, unless the file says that it does.
    /// A signed id is present, or the verification fails.
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
pub(super) fn one_place(key: &str, text: &str) -> Result<(), Mistake> {
    match text.split_once('|') {
        Some(_) => Err(misfit(key, format!("`{text}` is not one JSON pointer: write each by itself"))),
        None => pointer(key, text),
    }
}
