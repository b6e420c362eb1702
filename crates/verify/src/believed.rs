//! The result of a verification: which secret signed, and what exactly it signed.

use sha2::{Digest, Sha256};

use hooklatch_core::types::BodyDigest;

/// The evidence of a verified request: the secret that matched, and the text, time and id that it signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Believed {
    secret_n: usize,
    signed: SignedText,
    time: Option<String>,
    id: Option<String>,
}

/// The text that a MAC or a signature was computed of, as a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SignedText {
    /// Nothing is signed, or the text is not needed.
    Nothing,
    /// One text for the whole request.
    Whole(BodyDigest),
    /// One for each of its events, in their order.
    Each(Vec<BodyDigest>),
}

impl Believed {
    /// Signed by the secret at `secret_n` (0 is the newest): the joined text of `parts`.
    pub fn of(secret_n: usize, parts: &[&[u8]]) -> Self {
        Self { signed: SignedText::Whole(digest_of(parts)), ..Self::plain(secret_n) }
    }

    /// A digest that identifies the signed text of the `event_n`th event of the request: where there is one text for
    /// the whole, its event's place joins it.
    pub(crate) fn signed_text(&self, event_n: usize) -> Option<BodyDigest> {
        match &self.signed {
            SignedText::Nothing => None,
            SignedText::Each(texts) => texts.get(event_n).copied(),
            SignedText::Whole(text) if event_n == 0 => Some(*text),
            SignedText::Whole(text) => {
                let place = u64::try_from(event_n).unwrap_or(u64::MAX).to_be_bytes();
                Some(digest_of(&[text, &place]))
            }
        }
    }
}

/// The other parts of the evidence, which single built-in kinds and the program itself use.
pub trait Evidence: Sized {
    /// Signed by the secret at `secret_n`, where every event of a batch has its own signed text.
    fn each<T: AsRef<[u8]>>(secret_n: usize, texts: &[T]) -> Self;
    /// Nothing of the request is signed: a token alone authenticated it.
    fn plain(secret_n: usize) -> Self;
    /// Adds the time that the signature covers, as it was written.
    #[must_use]
    fn at(self, time: impl Into<String>) -> Self;
    /// Adds the id that the signature covers.
    #[must_use]
    fn id(self, id: impl Into<String>) -> Self;
    /// Position of the configured secret that matched, from 0 (the newest).
    fn secret_n(&self) -> usize;
    /// The time that the signature covers, as it was written.
    fn signed_time(&self) -> Option<&str>;
    /// The id that the signature covers.
    fn signed_id(&self) -> Option<&str>;
}

impl Evidence for Believed {
    fn each<T: AsRef<[u8]>>(secret_n: usize, texts: &[T]) -> Self {
        let signed = SignedText::Each(texts.iter().map(|text| digest_of(&[text.as_ref()])).collect());
        Self { signed, ..Self::plain(secret_n) }
    }

    fn plain(secret_n: usize) -> Self {
        Self { secret_n, signed: SignedText::Nothing, time: None, id: None }
    }

    fn at(self, time: impl Into<String>) -> Self {
        Self { time: Some(time.into()), ..self }
    }

    fn id(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    fn secret_n(&self) -> usize {
        self.secret_n
    }

    fn signed_time(&self) -> Option<&str> {
        self.time.as_deref()
    }

    fn signed_id(&self) -> Option<&str> {
        self.id.as_deref()
    }
}

fn digest_of(parts: &[&[u8]]) -> BodyDigest {
    parts.iter().fold(Sha256::new(), Sha256::chain_update).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_of_a_request_has_a_signed_text_that_no_other_has() {
        let whole = Believed::of(0, &[b"a", b"b"]);
        assert_eq!(whole.signed_text(0), Believed::of(1, &[b"ab"]).signed_text(0), "the parts make one text");
        assert_ne!(whole.signed_text(0), whole.signed_text(1));
        assert_ne!(whole.signed_text(1), whole.signed_text(2));
        assert_ne!(whole.signed_text(1), Believed::of(0, &[b"ac"]).signed_text(1));
        let each = Believed::each(0, &["a", "b"]);
        assert_eq!(each.signed_text(1), Believed::of(0, &[b"b"]).signed_text(0));
        assert_eq!(each.signed_text(2), None, "it has no third");
        assert_eq!(Believed::plain(0).signed_text(0), None);
    }
}
