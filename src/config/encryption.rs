//! `[encryption]`: the keys that what is kept of events is sealed with.

use crate::seal::{KeyRing, SealKey};

/// `[encryption]`: encryption at rest.
#[derive(Debug, Clone, Default)]
pub struct EncryptionConfig {
    /// Keys, newest first: the first seals, all open. None: nothing is sealed.
    pub keys: Vec<SealKey>,
}

impl EncryptionConfig {
    /// The keys as the store wants them.
    pub fn ring(&self) -> KeyRing {
        KeyRing::new(&self.keys)
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
                format!("encryption at rest is on: `{}` seals{others}", first.id())
            }
        }
    }
}
