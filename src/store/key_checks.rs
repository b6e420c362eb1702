//! The check values of encryption keys: a key id names one key only.
//!
//! A node whose configuration has another key under a known id would open nothing of what is here, and what it encrypted
//! would open for nobody else. So a value that is derived of each key is kept under its id, and is written before anything is
//! encrypted with the key. It is never deleted: a backup may hold what was encrypted with the key.

use super::db::{DbResult, Door, StoreError};
use super::handle::Store;
use crate::seal::KeyRing;
use crate::types::Clock;

impl Store {
    /// Returns the id of the first key of the ring that is not the key that this database knows under this id.
    pub async fn key_mismatch(&self) -> Result<Option<String>, StoreError> {
        let ring = self.ring().clone();
        if ring.is_on() { alone!(self.people.key_mismatch(&ring)) } else { Ok(None) }
    }

    /// Returns the id of the newest key that this database was sealed with, if any.
    pub(crate) async fn key_known(&self) -> Result<Option<String>, StoreError> {
        alone!(self.people.key_known())
    }

    /// Writes the check values that are missing, then does the same. To be called before anything is encrypted.
    pub async fn keys_register(&self) -> Result<Option<String>, StoreError> {
        let ring = self.ring().clone();
        if ring.is_on() {
            alone!(self.writer.key_checks_write(&ring))?;
        }
        self.key_mismatch().await
    }
}

const CHECK_VALUE: &str = "/* key_mismatch */ SELECT check_value FROM encryption_keys WHERE key_id = $1";
const REGISTER: &str = "/* keys_register */ INSERT INTO encryption_keys (key_id, check_value, written_at_ms)
    VALUES ($1, $2, $3) ON CONFLICT (key_id) DO NOTHING";

/// The statements by name, for tests that look at their plans.
pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("key check value", CHECK_VALUE), ("key register", REGISTER)];

async fn key_known(db: &mut Door<'_>) -> DbResult<Option<String>> {
    let sql =
        "/* key_known */ SELECT key_id FROM encryption_keys ORDER BY written_at_ms DESC, key_id DESC LIMIT 1";
    db.fetch_optional(sql, &[]).await?.map(|row| row.text("key_id")).transpose()
}

async fn key_mismatch(db: &mut Door<'_>, ring: &KeyRing) -> DbResult<Option<String>> {
    for key in ring.keys() {
        if let Some(row) = db.fetch_optional(CHECK_VALUE, &[key.id().into()]).await?
            && row.bytes("check_value")? != key.check_value()
        {
            return Ok(Some(key.id().to_owned()));
        }
    }
    Ok(None)
}

/// Of two nodes that write at once, the second one waits for the first, and changes nothing.
async fn key_checks_write(db: &mut Door<'_>, ring: &KeyRing) -> DbResult<()> {
    for key in ring.keys() {
        let now_ms = Clock::system().now_ms();
        db.execute(REGISTER, &[key.id().into(), key.check_value().into(), now_ms.into()]).await?;
    }
    Ok(())
}
