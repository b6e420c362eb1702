//! The patterns of event types that handlers and routes are registered for.

/// The event types that a handler or route takes: an exact type, `prefix.*` for everything that starts with
/// `prefix.`, or `*` for everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypePattern(String);

impl TypePattern {
    /// Checks that the only `*` is the last character.
    pub fn parse(text: &str) -> Result<Self, String> {
        let stem = text.strip_suffix('*').unwrap_or(text);
        if text.is_empty() || stem.contains('*') {
            return Err(format!("`{text}` is not a type pattern: write a type, `prefix.*` or `*`"));
        }
        Ok(Self(text.to_owned()))
    }

    /// True when `event_type` is one of these.
    pub fn matches(&self, event_type: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(stem) => event_type.starts_with(stem),
            None => event_type == self.0,
        }
    }
}
