//! `[encryption]`: the key ring.

use crate::config::{Checker, DEFAULTS_ORIGIN, EncryptionConfig, EncryptionKey, Field, Table};
use crate::seal::SealKey;
use crate::types::Name;

/// Most keys of the ring: more than anybody rotates within the time that bodies are kept.
const KEYS_N_MAX: usize = 16;

/// Reads `[encryption]`, whose keys are secrets.
pub(super) fn encryption(checker: &mut Checker<'_>, root: &mut Table) -> Option<EncryptionConfig> {
    let mut table = root.table(checker, "encryption")?;
    let mut keys: Vec<EncryptionKey> = Vec::new();
    if let Some(field) = table.take(checker, "keys") {
        let list = field.list(checker).unwrap_or_default();
        if list.len() > KEYS_N_MAX {
            let why = format!("has {} entries, the limit is {KEYS_N_MAX}", list.len());
            checker.problem(&field, why, "remove those that `hooklatch keys` does not list any more");
        }
        for field in list {
            let place = field.clone();
            let Some(key) = key(checker, field) else { continue };
            let id = key.id();
            if keys.iter().any(|other| other.key.id() == id) {
                let why = format!("has `{id}`, which is the id of two keys");
                checker.problem(&place, why, "give a new key a new id: what is stored names its key by it");
            } else if keys.iter().any(|other| other.key.is_same_as(&key)) {
                checker.problem(&place, "has the key of another entry", "make a key for each");
            }
            keys.push(EncryptionKey {
                key,
                source: place.source.clone(),
                place: format!("{}.key", place.key),
            });
        }
    }
    let words = [("accept", false), ("refuse", true)];
    let is_written = table.peek(checker, "clear").is_some_and(|field| field.source != DEFAULTS_ORIGIN);
    let is_clear_refused = table.word(checker, "clear", &words).unwrap_or_default();
    let is_clear_accepted = is_written && !is_clear_refused;
    if is_clear_refused && keys.is_empty() {
        let remedy =
            "add a key, or write encryption.clear = \"accept\": without a key everything is stored in clear";
        checker.missing("encryption.keys".to_owned(), remedy);
    }
    table.finish(checker);
    Some(EncryptionConfig { keys, is_clear_refused, is_clear_accepted })
}

fn key(checker: &mut Checker<'_>, field: Field) -> Option<SealKey> {
    let mut table = field.table(checker)?;
    let shape = "a key is { id = \"2026-11\", key = { env = \"NAME\" } }";
    let id = table.needed(checker, "id", shape);
    let key = table.needed(checker, "key", shape);
    table.finish(checker);
    let id = id.and_then(|field| {
        let text = field.text(checker)?;
        if let Err(error) = Name::parse(&text) {
            checker.problem(&field, error.to_string(), "choose another id");
            return None;
        }
        Some(text)
    });
    let place = key.as_ref()?.clone();
    let secret = key?.secret(checker)?;
    match SealKey::parse(&id?, secret.reveal()) {
        Ok(key) => Some(key),
        Err(error) => {
            checker.problem(&place, error.to_string(), "make one with `openssl rand -hex 32`");
            None
        }
    }
}
