//! Keys that were fetched from senders' own hosts and verified a request: a restart does not lose them.
//!
//! A row is a copy of what the sender's host can return again, so one that does not decrypt is skipped and fetched
//! anew: it keeps no key of `[encryption]` in use. With encryption on, rows in the clear are skipped as well, because
//! nothing authenticates them.
//!
//! The check values of encryption keys: a key id names one key only.
//!
//! A node whose configuration has another key under a known id could not decrypt any stored value, and no other node
//! could decrypt what it encrypts. So a value derived of each key is kept under its id, and is written before anything
//! is encrypted with the key. It is never deleted: a backup may hold what was encrypted with the key.

use std::collections::BTreeSet;

use super::damaged::intact;
use super::db::{DbResult, Row, StoreError};
use super::handle::Store;
use hooklatch_core::seal::{KeyRing, SealedPlace};
use hooklatch_core::types::{Clock, Name, UnixMs};

/// Most keys that are kept of each provider: the newest.
pub const FETCHED_KEYS_N_MAX: u32 = 32;
/// Longest key that is kept, with its id. Bytes.
pub const FETCHED_KEY_BYTES_MAX: usize = 16 * 1024;
/// Age at which a row is deleted: beyond the longest time for which a kind uses a key.
const KEPT_MS: i64 = 400 * 86_400_000;
/// Most rows that are read.
const READ_N_MAX: u32 = 4_096;

/// A fetched key that verified a request.
#[derive(Clone, PartialEq, Eq)]
pub struct FetchedKey {
    /// Name of the provider.
    pub provider: String,
    /// SHA-256 of its id and of everything that decided what was fetched.
    pub digest: [u8; 32],
    /// Time when it was fetched.
    pub fetched_at_ms: UnixMs,
    /// Id, key and time, as its fetcher writes them.
    pub content: String,
}

impl std::fmt::Debug for FetchedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FetchedKey").field("provider", &self.provider).finish_non_exhaustive()
    }
}

/// The number of a row for its sealed place: of the digest, which is no other row's.
fn place(digest: &[u8; 32]) -> SealedPlace<'static> {
    let first = digest.first_chunk().copied().unwrap_or_default();
    SealedPlace::of_fetched_key(i64::from_be_bytes(first))
}

impl Store {
    /// Keeps these, and of each of their providers the newest [`FETCHED_KEYS_N_MAX`].
    pub async fn fetched_keys_keep(&self, keys: &[FetchedKey]) -> Result<(), StoreError> {
        if keys.is_empty() {
            return Ok(());
        }
        let (keys, ring) = (keys.to_vec(), self.ring.clone());
        together!(self, writer, "fetched_keys_keep", |db| {
            for one in &keys {
                let content = ring.seal(&place(&one.digest), one.content.as_bytes())?.into_owned();
                db.execute(
                    KEEP,
                    &[
                        one.provider.as_str().into(),
                        one.digest.to_vec().into(),
                        one.fetched_at_ms.into(),
                        content.into(),
                        ring.key_id().into(),
                    ],
                )
                .await?;
            }
            let providers: BTreeSet<&str> = keys.iter().map(|one| one.provider.as_str()).collect();
            for provider in providers {
                db.execute(KEEP_NEWEST, &[provider.into(), FETCHED_KEYS_N_MAX.into()]).await?;
            }
            Ok(())
        })
    }

    /// Returns the keys of one provider that open, the newest first: what other nodes have kept meanwhile is among
    /// them.
    pub async fn fetched_keys_of(&self, provider: &Name) -> Result<Vec<FetchedKey>, StoreError> {
        let (provider, ring) = (provider.clone(), self.ring.clone());
        alone!(self, reader, "fetched_keys_of", |db| {
            let values = [provider.as_str().into(), FETCHED_KEYS_N_MAX.into()];
            opened(&db.fetch(READ_OF, &values).await?, &ring)
        })
    }

    /// Deletes what is too old, and returns the others that open.
    pub async fn fetched_keys(&self, now_ms: UnixMs) -> Result<Vec<FetchedKey>, StoreError> {
        let ring = self.ring.clone();
        together!(self, writer, "fetched_keys", |db| {
            let before_ms = now_ms.saturating_sub(KEPT_MS);
            db.execute(DELETE_OLD, &[before_ms.into()]).await?;
            opened(&db.fetch(READ, &[READ_N_MAX.into()]).await?, &ring)
        })
    }
}

const KEEP: &str =
    "/* fetched_keys_keep */ INSERT INTO fetched_keys (provider, digest, fetched_at_ms, content, key_id)
    VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (provider, digest) DO UPDATE SET
        fetched_at_ms = excluded.fetched_at_ms, content = excluded.content, key_id = excluded.key_id";
const KEEP_NEWEST: &str =
    "/* fetched_keys_keep */ DELETE FROM fetched_keys WHERE provider = $1 AND digest NOT IN (
    SELECT digest FROM fetched_keys WHERE provider = $1 ORDER BY fetched_at_ms DESC, digest LIMIT $2)";
const DELETE_OLD: &str = "/* fetched_keys */ DELETE FROM fetched_keys WHERE fetched_at_ms < $1";
const READ: &str =
    "/* fetched_keys */ SELECT provider, digest, fetched_at_ms, content, key_id FROM fetched_keys
    ORDER BY provider, fetched_at_ms, digest LIMIT $1";

const READ_OF: &str =
    "/* fetched_keys_of */ SELECT provider, digest, fetched_at_ms, content, key_id FROM fetched_keys
    WHERE provider = $1 ORDER BY fetched_at_ms DESC, digest LIMIT $2";

/// The statements by name, for tests that look at their plans.
#[cfg(any(test, feature = "testing"))]
pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("fetched_keys keep", KEEP),
    ("fetched_keys keep newest", KEEP_NEWEST),
    ("fetched_keys delete old", DELETE_OLD),
    ("fetched_keys read", READ),
    ("fetched_keys read of one", READ_OF),
    ("key check value", CHECK_VALUE),
    ("key register", REGISTER),
];

/// Those of these rows that open.
fn opened(rows: &[Row], ring: &KeyRing) -> DbResult<Vec<FetchedKey>> {
    let key = |row: &Row| {
        let Ok(digest) = <[u8; 32]>::try_from(row.bytes("digest")?) else { return Ok(None) };
        let key_id = row.text_or_null("key_id")?;
        if ring.is_on() && key_id.is_none() {
            return Ok(None);
        }
        let opened = ring.open(key_id.as_deref(), &place(&digest), row.bytes("content")?);
        let content = opened.ok().and_then(|content| String::from_utf8(content).ok());
        let (provider, fetched_at_ms) = (row.text("provider")?, row.int("fetched_at_ms")?);
        Ok(content.map(|content| FetchedKey { provider, digest, fetched_at_ms, content }))
    };
    Ok(intact("fetched_keys", "provider", rows, key)?.rows.into_iter().flatten().collect())
}

impl Store {
    /// Returns the id of the first key of the ring that is not the key that this database knows under this id.
    pub async fn key_mismatch(&self) -> Result<Option<String>, StoreError> {
        let ring = self.ring().clone();
        if ring.is_on() {
            alone!(self, operators, "key_mismatch", |db| {
                for key in ring.keys() {
                    if let Some(row) = db.fetch_optional(CHECK_VALUE, &[key.id().into()]).await?
                        && row.bytes("check_value")? != key.check_value()
                    {
                        return Ok(Some(key.id().to_owned()));
                    }
                }
                Ok(None)
            })
        } else {
            Ok(None)
        }
    }

    /// Returns the id of the newest key that this database was sealed with, if any.
    pub async fn key_known(&self) -> Result<Option<String>, StoreError> {
        alone!(self, operators, "key_known", |db| {
            let sql = "/* key_known */ SELECT key_id FROM encryption_keys ORDER BY written_at_ms DESC, key_id DESC LIMIT 1";
            db.fetch_optional(sql, &[]).await?.map(|row| row.text("key_id")).transpose()
        })
    }

    /// Writes the check values that are missing, then does the same. To be called before anything is encrypted.
    pub async fn keys_register(&self) -> Result<Option<String>, StoreError> {
        let ring = self.ring().clone();
        if ring.is_on() {
            alone!(self, writer, "key_checks_write", |db| {
                // Of two nodes that write at once, the second one waits for the first, and changes nothing.
                for key in ring.keys() {
                    let now_ms = Clock::system().now_ms();
                    db.execute(REGISTER, &[key.id().into(), key.check_value().into(), now_ms.into()]).await?;
                }
                Ok(())
            })?;
        }
        self.key_mismatch().await
    }
}

const CHECK_VALUE: &str = "/* key_mismatch */ SELECT check_value FROM encryption_keys WHERE key_id = $1";
const REGISTER: &str = "/* keys_register */ INSERT INTO encryption_keys (key_id, check_value, written_at_ms)
    VALUES ($1, $2, $3) ON CONFLICT (key_id) DO NOTHING";
