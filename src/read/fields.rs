//! A body's JSON for kinds that verify with code: taken apart once, however many fields are looked at.

use crate::json::{Document, Lookup};

/// A JSON text, scanned once.
pub struct Json<'a>(Document<'a>);

impl<'a> Json<'a> {
    /// `None` when it is not JSON.
    pub fn parse(json: &'a [u8]) -> Option<Self> {
        Document::parse(json).map(Self)
    }

    /// The raw text that `pointer` names; `None` when it is missing or there twice.
    pub fn raw(&self, pointer: &str) -> Option<&'a [u8]> {
        match self.0.find(pointer) {
            Lookup::One(raw) => Some(raw),
            _ => None,
        }
    }

    /// The text, or whole number as text, that `pointer` names; or why there is none.
    pub fn text(&self, pointer: &str) -> Result<String, String> {
        self.0.text(pointer)
    }

    /// Whether nothing is at `pointer`.
    pub fn is_missing(&self, pointer: &str) -> bool {
        self.0.find(pointer) == Lookup::Missing
    }

    /// As [`Json::text`], where a field that is missing, `null` or empty is as good as empty; `None` when it is there
    /// twice or no text.
    pub fn text_or_empty(&self, pointer: &str) -> Option<String> {
        match self.0.find(pointer) {
            Lookup::One(b"null" | b"\"\"") | Lookup::Missing => Some(String::new()),
            Lookup::One(_) => self.text(pointer).ok(),
            Lookup::Doubled | Lookup::NotJson => None,
        }
    }
}
