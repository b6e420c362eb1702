//! Sessions of people at the console, as texts: what their browsers keep.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Random bytes of a session.
const RANDOM_BYTES: usize = 32;

/// A session: 256 random bits in base64url. It does not print itself, and is kept as its SHA-256.
pub struct SessionText(String);

impl SessionText {
    /// The session made of these random bytes.
    pub fn of(random: &[u8; RANDOM_BYTES]) -> Self {
        Self(URL_SAFE_NO_PAD.encode(random))
    }

    /// Parses what a browser presents; `None` when it does not have the form of a session.
    pub fn parse(text: &str) -> Option<Self> {
        let is_whole = text.len() == (RANDOM_BYTES * 8).div_ceil(6)
            && URL_SAFE_NO_PAD.decode(text).is_ok_and(|random| random.len() == RANDOM_BYTES);
        is_whole.then(|| Self(text.to_owned()))
    }

    /// The session itself, for the browser that it is of.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The digest that it goes by.
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(&self.0).into()
    }

    /// What is kept of the token that it was made with, which goes by `token_digest`: only the holder of the session
    /// can try tokens against it. A person may have made up a token of the configuration, so its own digest is kept
    /// nowhere.
    pub fn bound_to(&self, token_digest: &[u8; 32]) -> [u8; 32] {
        Sha256::new_with_prefix("hooklatch session of a token\0")
            .chain_update(&self.0)
            .chain_update(token_digest)
            .finalize()
            .into()
    }

    /// True when `bound` was made of this session and the token that goes by `token_digest`.
    pub fn is_bound(&self, bound: &[u8; 32], token_digest: &[u8; 32]) -> bool {
        self.bound_to(token_digest).ct_eq(bound).into()
    }
}

impl fmt::Debug for SessionText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[session]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_read_back_and_nothing_else_is_one() {
        let session = SessionText::of(&[0xfb; 32]);
        assert_eq!(session.reveal(), "-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_s");
        let again = SessionText::parse(session.reveal()).expect("a session");
        assert_eq!(again.digest(), session.digest());
        assert_eq!(format!("{again:?}"), "[session]");
        for other in ["", "x", "hlt_-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_s", &"é".repeat(22)] {
            assert!(SessionText::parse(other).is_none(), "{other}");
        }
        assert!(SessionText::parse("-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_t").is_none(), "bits beyond");
    }

    #[test]
    fn what_is_kept_of_a_token_fits_one_session_and_one_token() {
        let (one, other) = (SessionText::of(&[1; 32]), SessionText::of(&[2; 32]));
        let bound = one.bound_to(&[7; 32]);
        assert!(one.is_bound(&bound, &[7; 32]));
        assert!(!one.is_bound(&bound, &[8; 32]) && !other.is_bound(&bound, &[7; 32]));
    }
}
