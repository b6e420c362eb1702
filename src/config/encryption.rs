//! `[encryption]`: the keys that what is kept of events is sealed with.

use super::problem::ConfigProblem;
use crate::seal::{KeyRing, SealKey};

/// `[encryption]`: encryption at rest.
#[derive(Debug, Clone, Default)]
pub struct EncryptionConfig {
    /// Keys, newest first: the first seals, all open. None: nothing is sealed.
    pub keys: Vec<EncryptionKey>,
    /// True when nothing that is stored in the clear is read or sent.
    pub is_clear_refused: bool,
    /// True when it is written that rows in the clear are accepted.
    pub is_clear_accepted: bool,
}

/// A key of `[encryption] keys`, and where it is written.
#[derive(Debug, Clone)]
pub struct EncryptionKey {
    /// The key with its id.
    pub key: SealKey,
    /// The file, or the environment variable, that says it.
    pub source: String,
    /// The configuration key, such as `encryption.keys[0].key`.
    pub place: String,
}

impl EncryptionConfig {
    /// The keys as the store wants them.
    pub fn ring(&self) -> KeyRing {
        let keys: Vec<SealKey> = self.keys.iter().map(|one| one.key.clone()).collect();
        KeyRing::new(&keys).refusing_clear(self.is_clear_refused)
    }

    /// What is wrong with a configuration without keys where the database was sealed with one of this id.
    pub(crate) fn missing(key_id: &str) -> ConfigProblem {
        ConfigProblem {
            source: String::new(),
            key: "encryption.keys".to_owned(),
            value: None,
            why: format!(
                "there is no key, and this database was sealed with the key under the id `{key_id}`: what is sealed would not \
                 open, and what is new would be stored in the clear"
            ),
            remedy: "add the [encryption] section that the other nodes have, or write encryption.clear = \"accept\" to store in \
                     the clear from now on"
                .to_owned(),
        }
    }

    /// What is wrong with the key of this id where the database knows another one under it.
    pub(crate) fn mismatch(&self, key_id: &str) -> ConfigProblem {
        let found = self.keys.iter().find(|one| one.key.id() == key_id);
        let (source, key) = found.map(|one| (one.source.clone(), one.place.clone())).unwrap_or_default();
        ConfigProblem {
            source,
            key,
            value: None,
            why: format!(
                "the key under the id `{key_id}` is not the key that this database was sealed with: another key was used here under \
                 that id"
            ),
            remedy: format!(
                "put that key back under `{key_id}` (is the secret complete, and the same on every node?), or give this key an id \
                 that was never used"
            ),
        }
    }

    /// One line for people: whether it is on, and with which keys.
    pub fn in_words(&self) -> String {
        match self.keys.split_first() {
            None => "encryption at rest is off".to_owned(),
            Some((first, rest)) => {
                let others = match rest.len() {
                    0 => String::new(),
                    n => format!(", {n} more open"),
                };
                let clear = if self.is_clear_refused { ", rows in clear are refused" } else { "" };
                format!("encryption at rest is on: `{}` seals{others}{clear}", first.key.id())
            }
        }
    }
}
