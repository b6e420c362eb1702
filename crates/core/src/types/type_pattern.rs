//! Patterns of event types: in handlers, in routes, in `types`, in a kind's identities.

/// A pattern of event types: an exact type, `prefix.*` for everything that starts with `prefix.`, or `*` for
/// everything.
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

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True when `event_type` fits.
    pub fn matches(&self, event_type: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(stem) => event_type.starts_with(stem),
            None => event_type == self.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_type_a_beginning_or_everything() {
        #[track_caller]
        fn check(pattern: &str, fits: &[&str], fits_not: &[&str]) {
            let pattern = TypePattern::parse(pattern).expect("a pattern");
            assert!(fits.iter().all(|one| pattern.matches(one)), "{pattern:?}");
            assert!(!fits_not.iter().any(|one| pattern.matches(one)), "{pattern:?}");
        }
        check("invoice.paid", &["invoice.paid"], &["invoice.paid.x", "invoice", ""]);
        check("invoice.*", &["invoice.paid", "invoice."], &["invoice", "xinvoice.paid"]);
        check("*", &["invoice.paid", ""], &[]);
        for wrong in ["", "**", "a*b", "*a", "a**"] {
            assert!(TypePattern::parse(wrong).is_err(), "{wrong}");
        }
    }
}
