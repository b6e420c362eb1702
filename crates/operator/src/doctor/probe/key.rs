//! Tokens of probes. A token is a random number and an expiry time, with a MAC; the key of the MAC is derived from the
//! installation's id, which is secret to its database. So every node, also behind a balancer, can check every token
//! without storing any.
//!
//! A token gives no access: for two minutes, its holder can see what arrived of its own request, without any value in
//! it. That it can be used more than once therefore costs what any refused request costs.

use uuid::Uuid;

use hooklatch_core::types::UnixMs;
use hooklatch_verify::{Hash, hmac, same};

/// Time for which a token is good. Milliseconds.
const GOOD_FOR_MS: i64 = 120_000;
/// Longest token that is looked at. Bytes.
const TOKEN_BYTES_MAX: usize = 160;

/// The key of an installation's probes.
#[derive(Clone)]
pub struct ProbeKey(Vec<u8>);

/// The key of the answers to one probe.
#[derive(Clone)]
pub struct AnswerKey(Vec<u8>);

/// A token with what belongs to it.
pub struct MadeToken {
    pub token: String,
    pub(crate) answer_key: AnswerKey,
    pub(crate) good_until_ms: UnixMs,
}

impl ProbeKey {
    /// The key of this installation.
    pub fn new(installation_id: &Uuid) -> Self {
        Self(hmac(Hash::Sha256, installation_id.as_bytes(), &[b"hooklatch probe 1"]))
    }

    /// A new token, good from now on.
    pub fn make(&self, now_ms: UnixMs) -> MadeToken {
        let (good_until_ms, nonce) =
            (now_ms.saturating_add(GOOD_FOR_MS), Uuid::new_v4().simple().to_string());
        let token = format!("{good_until_ms}.{nonce}.{}", hex::encode(self.mac(good_until_ms, &nonce)));
        MadeToken { token, answer_key: self.answer_key(&nonce), good_until_ms }
    }

    /// The key of the answers to this token; `None` for what is no token of this installation, or not good now.
    pub fn good(&self, token: &str, now_ms: UnixMs) -> Option<AnswerKey> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (until, rest) = token.split_once('.')?;
        let (nonce, mac) = rest.split_once('.')?;
        let until_ms: UnixMs = until.parse().ok()?;
        // A clock that is ahead makes tokens that are valid for longer, so the lifetime of a token is bounded.
        let is_now = until_ms > now_ms && until_ms.saturating_sub(now_ms) <= 10 * GOOD_FOR_MS;
        let is_ours = same(&self.mac(until_ms, nonce), &hex::decode(mac).ok()?);
        (is_ours && is_now).then(|| self.answer_key(nonce))
    }

    fn mac(&self, good_until_ms: UnixMs, nonce: &str) -> Vec<u8> {
        hmac(Hash::Sha256, &self.0, &[b"token\0", &good_until_ms.to_be_bytes(), nonce.as_bytes()])
    }

    fn answer_key(&self, nonce: &str) -> AnswerKey {
        AnswerKey(hmac(Hash::Sha256, &self.0, &[b"answer\0", nonce.as_bytes()]))
    }
}

impl AnswerKey {
    /// Parses a key as the API returns it.
    pub fn of_text(text: &str) -> Option<Self> {
        hex::decode(text).ok().filter(|bytes| bytes.len() == 32).map(Self)
    }

    /// The key as the API returns it.
    pub fn text(&self) -> String {
        hex::encode(&self.0)
    }

    /// The proof that an answer is ours.
    pub fn proof(&self, arrived: &str) -> String {
        hex::encode(hmac(Hash::Sha256, &self.0, &[b"arrived\0", arrived.as_bytes()]))
    }

    /// True when the proof is of this text.
    pub(crate) fn proves(&self, arrived: &str, proof: &str) -> bool {
        same(self.proof(arrived).as_bytes(), proof.as_bytes())
    }

    /// The digest that stands for the values of a header.
    pub fn digest<'a>(&self, name: &str, values: impl Iterator<Item = &'a [u8]>) -> String {
        let mut text = format!("header\0{name}").into_bytes();
        for value in values {
            text.push(0);
            text.extend_from_slice(value.trim_ascii());
        }
        let mut digest = hex::encode(hmac(Hash::Sha256, &self.0, &[&text]));
        digest.truncate(32);
        digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_valid_on_every_node_of_one_installation_only() {
        let (id, now_ms) = (Uuid::new_v4(), 1_795_356_311_500);
        let made = ProbeKey::new(&id).make(now_ms);
        let other_node = ProbeKey::new(&id);
        let key = other_node.good(&made.token, now_ms + 1).expect("it is good");
        assert_eq!(key.text(), made.answer_key.text());
        assert!(AnswerKey::of_text(&key.text()).expect("a key").proves("x", &made.answer_key.proof("x")));
        assert!(!key.proves("x", &key.proof("y")) && !key.proves("x", ""));
        assert!(ProbeKey::new(&Uuid::new_v4()).good(&made.token, now_ms).is_none(), "another installation");
        assert!(other_node.good(&made.token, made.good_until_ms).is_none(), "it is over");
        assert!(other_node.good(&made.token, now_ms - 3_600_000).is_none(), "it is good for too long");
        let (_, rest) = made.token.split_once('.').expect("parts");
        let (nonce, mac) = rest.split_once('.').expect("parts");
        for odd in [
            String::new(),
            "..".to_owned(),
            format!("{}.{nonce}.{mac}", made.good_until_ms + 1),
            format!("{}.{nonce}0.{mac}", made.good_until_ms),
            format!("{}.{nonce}.", made.good_until_ms),
            format!("{}.{nonce}.{}", made.good_until_ms, "0".repeat(64)),
            "9".repeat(1_000),
        ] {
            assert!(other_node.good(&odd, now_ms).is_none(), "{odd}");
        }
    }
}
