//! The texts of an event as its routes read them: each is parsed at most once, and only when a route asks for it.

use std::cell::OnceCell;

use super::event::RawEvent;
use crate::filter::{Found, Lookup, Place, Root};
use crate::json::{Document, PointerTarget, text};

/// What the routes of one dispatch read of an event.
pub(crate) struct EventTexts<'a> {
    event: &'a RawEvent,
    payload: OnceCell<Option<Document<'a>>>,
    envelope: OnceCell<Option<Document<'a>>>,
}

impl<'a> EventTexts<'a> {
    /// Parses nothing yet.
    pub(crate) fn new(event: &'a RawEvent) -> Self {
        Self { event, payload: OnceCell::new(), envelope: OnceCell::new() }
    }

    /// The id-like text at `place`: a text, a whole number as it is written, true or false; or why there is none.
    pub(crate) fn id_text(&self, place: &Place) -> Result<String, String> {
        let name = place.to_string();
        match self.find(place)? {
            Found::Header(value) => Ok(value),
            Found::Json(raw) => text(&PointerTarget::One(raw), &name),
            Found::Missing => Err(format!("{name} is missing")),
            Found::Doubled => Err(format!("{name} is there twice")),
        }
    }
}

impl Lookup for EventTexts<'_> {
    fn find(&self, place: &Place) -> Result<Found<'_>, String> {
        let event = self.event;
        let (part, document) = match &place.root {
            Root::Payload => ("payload", self.payload.get_or_init(|| Document::parse(&event.payload))),
            Root::Envelope => {
                ("envelope", self.envelope.get_or_init(|| Document::parse(event.envelope.bytes())))
            }
            Root::Header(name) => return Ok(event.headers.get(name).map_or(Found::Missing, Found::Header)),
        };
        let document = document.as_ref().ok_or_else(|| format!("{part} is not JSON"))?;
        Ok(match document.find(&place.pointer) {
            PointerTarget::One(raw) => Found::Json(raw),
            PointerTarget::Doubled => Found::Doubled,
            PointerTarget::Missing | PointerTarget::NotJson => Found::Missing,
        })
    }
}
