//! Names of configured things.

use std::fmt;
use std::sync::Arc;

/// Name of a configured provider, of a provider kind or of a destination: 1 to 64 characters out of
/// `a-z`, `0-9`, `_` and `-`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

/// Reason why a text is not a [`Name`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a name: use 1 to 64 characters out of a-z, 0-9, `_` and `-`")]
pub struct InvalidName(String);

impl Name {
    /// Checks `text` once; the result never needs checking again.
    #[doc(hidden)]
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let fits = (1..=64).contains(&text.len())
            && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'));
        if fits { Ok(Self(text.into())) } else { Err(InvalidName(text.chars().take(80).collect())) }
    }

    /// Stands in metrics and logs where a request is for no provider.
    #[doc(hidden)]
    pub fn of_none() -> Self {
        Self("-".into())
    }

    /// The name as text.
    #[doc(hidden)]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Lets what is kept by name be found by a text.
impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_plain() {
        for good in ["stripe", "stripe_test", "a", "acme-2", &"x".repeat(64)] {
            assert!(Name::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "Stripe", "a b", "a/b", "ü", &"x".repeat(65)] {
            assert!(Name::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn who_sends_a_long_text_for_a_name_is_quoted_in_part() {
        let said = Name::parse(&"\u{fc}".repeat(1_000)).expect_err("no name").to_string();
        assert_eq!(said.matches('\u{fc}').count(), 80);
    }
}
