//! The place of one value in an event.

use std::fmt;

/// The part of an event that a place is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// What handlers get.
    Payload,
    /// The whole text that the event was read from.
    Envelope,
    /// A header of this name, in lower case.
    Header(String),
}

/// The place of one value: `payload.customer`, `envelope.account`, `headers["x-tenant"]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub root: Root,
    /// JSON pointer within the root; empty for a header.
    pub pointer: String,
    /// As it was written.
    text: String,
}

impl Place {
    pub fn new(root: Root, pointer: String, text: String) -> Self {
        Self { root, pointer, text }
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Reads the place of a lane: a JSON pointer into the payload, or a place as `when` has it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with('/') {
            return Ok(Self::new(Root::Payload, text.to_owned(), text.to_owned()));
        }
        super::parse::place(text)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What an event has at a place.
pub enum Found<'a> {
    /// The raw JSON text of one value.
    Json(&'a [u8]),
    /// The value of a header.
    Header(String),
    Missing,
    /// A name on the way is there twice.
    Doubled,
}

/// An event whose values can be read one by one.
pub trait Lookup {
    /// Finds what is at `place`; an error when the text that it is in is not JSON.
    fn find(&self, place: &Place) -> Result<Found<'_>, String>;
}
