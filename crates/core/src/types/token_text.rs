//! Tokens of operators that are made at run time, as texts.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// What such a token begins with: people, and programs that look for secrets in texts, see what it is.
const PREFIX: &str = "hlt_";
/// Random bytes of a token.
const RANDOM_BYTES: usize = 32;

/// A token that was made at run time: `hlt_` and 256 random bits in base64url. It does not print itself.
///
/// It is kept as its SHA-256. A slow hash protects what can be guessed; 256 bits cannot be guessed, and a fast one lets
/// a token be checked at every request.
pub struct TokenText(String);

impl TokenText {
    /// The token made of these random bytes.
    pub fn of(random: &[u8; RANDOM_BYTES]) -> Self {
        Self(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random)))
    }

    /// Parses what a caller presents; `None` when it does not have the form of such a token.
    pub fn parse(text: &str) -> Option<Self> {
        let random = text.strip_prefix(PREFIX)?;
        let is_whole = random.len() == (RANDOM_BYTES * 8).div_ceil(6)
            && URL_SAFE_NO_PAD.decode(random).is_ok_and(|random| random.len() == RANDOM_BYTES);
        is_whole.then(|| Self(text.to_owned()))
    }

    /// The token itself, for the one who asked for it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The digest that it goes by.
    pub fn digest(&self) -> [u8; 32] {
        token_digest(&self.0)
    }
}

/// The digest that any token goes by, also one of the configuration.
pub fn token_digest(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[token]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_back_and_nothing_else_is_one() {
        let token = TokenText::of(&[0xfb; 32]);
        assert_eq!(token.reveal(), "hlt_-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_s");
        let again = TokenText::parse(token.reveal()).expect("a token");
        assert_eq!(again.digest(), token.digest());
        assert_ne!(TokenText::of(&[0xfa; 32]).digest(), token.digest());
        assert_eq!(format!("{token:?}"), "[token]");
        for other in [
            "",
            "hlt_",
            token.reveal().trim_start_matches("hlt_"),
            &token.reveal().replace("hlt_", "HLT_"),
            token.reveal().get(..46).expect("46 bytes"),
            &format!("{}A", token.reveal()),
            // Bits beyond the last byte: the same bytes are written in one way alone.
            &format!("{}t", token.reveal().get(..46).expect("46 bytes")),
            &format!("hlt_{}", "é".repeat(22)),
            &format!("hlt_{}", "x".repeat(1_000_000)),
        ] {
            assert!(TokenText::parse(other).is_none(), "{}", other.len());
        }
    }
}
