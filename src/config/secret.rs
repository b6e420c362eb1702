//! A secret text that no log line shows.

use subtle::ConstantTimeEq;

/// A secret text. It prints as `[secret]`, and is compared by [`Secret::is`] alone:
///
/// ```compile_fail,E0369
/// # use hooklatch::config::Secret;
/// let is_same = Secret::new("a") == Secret::new("a");
/// ```
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text that must not be shown.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one who needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// True when it is `given`; the time that this takes says nothing about where the two differ.
    pub fn is(&self, given: impl AsRef<[u8]>) -> bool {
        self.0.as_bytes().ct_eq(given.as_ref()).into()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[secret]")
    }
}
