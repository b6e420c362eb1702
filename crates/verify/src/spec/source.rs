//! The place in a request where a part of an event is.

use serde::Deserialize;

use super::check::pointer;
use hooklatch_core::mistakes::Mistake;

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
