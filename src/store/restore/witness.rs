//! The witness of a database that is a file: a number that rises with what is changed, in the database and in a small
//! file beside it (`db/sqlite/witness.rs`). A copy that is put back has a lower one.
//!
//! One step: the number rises in the database, and once that is on disk, it is written to the file. So the file is
//! never ahead of its own database, whatever is cut off where, and an older database is behind it. Steps are made once
//! a second at most, the first after a quiet time at once, by one task, beside everything else: nobody waits for them.
//! What is not noticed: a copy of the last second before the end, and a copy of the folder, which has the witness of
//! then with it.

use std::path::PathBuf;
use std::sync::Arc;

use tracing::{info, warn};

use crate::store::db::{DbResult, Door, StoreError, WitnessTurn, Witnessed};
use crate::store::handle::Store;
use crate::types::UnixMs;

/// What is known of the witness of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessState {
    /// Path of the witness.
    pub path: PathBuf,
    /// What it says of the database.
    pub word: WitnessWord,
    /// The reason why it could not be written last time, if it could not.
    pub failed: Option<String>,
}

/// What the witness says of the database beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WitnessWord {
    /// There is no witness, so nothing is said.
    Absent,
    /// It cannot be read, for this reason.
    Unreadable(String),
    /// It is of another installation.
    Other,
    /// The database has all that was witnessed.
    Same {
        /// When the witness was written.
        at_ms: UnixMs,
    },
    /// The database lacks what was witnessed last.
    Older {
        /// When the witness was written: what ran last was there until then, at least.
        at_ms: UnixMs,
    },
}

/// What the file beside the database says, or why it says nothing.
type WitnessRead = Result<Option<Witnessed>, String>;
/// What the database holds: its installation, and its number.
type Held = (String, i64);

impl Store {
    /// What the witness says of this database; `None` where there is none, on PostgreSQL.
    pub async fn witness_state(&self) -> Result<Option<WitnessState>, StoreError> {
        let Some(db) = self.parts.backend.sqlite() else { return Ok(None) };
        let (path, failed) = (db.witness().path().to_owned(), db.witness().failed());
        let Some((read, (installation_id, changes_n))) = self.witness_compared().await? else {
            return Ok(None);
        };
        let word = match read {
            Err(why) => WitnessWord::Unreadable(why),
            Ok(None) => WitnessWord::Absent,
            Ok(Some(found)) if found.installation_id != installation_id => WitnessWord::Other,
            Ok(Some(Witnessed { at_ms, changes_n: seen_n, .. })) if seen_n > changes_n => {
                WitnessWord::Older { at_ms }
            }
            Ok(Some(Witnessed { at_ms, .. })) => WitnessWord::Same { at_ms },
        };
        Ok(Some(WitnessState { path, word, failed }))
    }

    /// True when no event is in the database.
    pub async fn is_without_events(&self) -> Result<bool, StoreError> {
        alone!(self.reader.is_without_events())
    }

    /// What the witness says, and the installation and the number that the database holds; `None` where there is no
    /// witness, on PostgreSQL.
    async fn witness_compared(&self) -> Result<Option<(WitnessRead, Held)>, StoreError> {
        let Some(db) = self.parts.backend.sqlite() else { return Ok(None) };
        let file = Arc::clone(db.witness());
        // The file first: what it says is in the database already, whatever is changed meanwhile.
        let read = apart(move || file.read()).await.unwrap_or_else(Err);
        Ok(Some((read, alone!(self.reader.witness_held())?)))
    }

    /// How high the number in the witness is, if it is of this installation; 0 otherwise.
    pub(super) async fn witness_seen_n(&self) -> Result<i64, StoreError> {
        let Some((read, (installation_id, _))) = self.witness_compared().await? else { return Ok(0) };
        let is_ours = |found: &Witnessed| found.installation_id == installation_id;
        Ok(read.ok().flatten().filter(is_ours).map_or(0, |found| found.changes_n))
    }

    /// Begins: what the process before may have changed without a step is witnessed, and that this one runs.
    pub async fn witness_begin(&self, now_ms: UnixMs) -> Result<(), StoreError> {
        let Some((read, held)) = self.witness_compared().await? else { return Ok(()) };
        let is_closed =
            |found: Witnessed| found.is_closed && held == (found.installation_id, found.changes_n);
        if !read.ok().flatten().is_some_and(is_closed) {
            alone!(self.writer.witness_step())?;
        }
        self.witness_write(now_ms, false).await
    }

    /// One step: once it is over, a copy from before it is known to be older.
    pub async fn witness_step(&self, now_ms: UnixMs) -> Result<(), StoreError> {
        if self.parts.backend.sqlite().is_none() {
            return Ok(());
        }
        alone!(self.writer.witness_step())?;
        self.witness_write(now_ms, false).await
    }

    /// Ends: with a last step if one `is_due`. Nothing is changed afterwards.
    pub async fn witness_end(&self, now_ms: UnixMs, is_due: bool) -> Result<(), StoreError> {
        if is_due && self.parts.backend.sqlite().is_some() {
            alone!(self.writer.witness_step())?;
        }
        self.witness_write(now_ms, true).await
    }

    /// Writes the witness as the database is now, whatever it said before. Where it cannot be written, that is told.
    async fn witness_write(&self, now_ms: UnixMs, is_closed: bool) -> Result<(), StoreError> {
        let Some(db) = self.parts.backend.sqlite() else { return Ok(()) };
        let file = Arc::clone(db.witness());
        let (installation_id, changes_n) = alone!(self.reader.witness_held())?;
        // What is beside the path now may be the witness of another database.
        db.file().check(None).map_err(|source| StoreError::from_db("witness_write", source))?;
        let path = file.path().to_owned();
        let witnessed = Witnessed { installation_id, changes_n, at_ms: now_ms, is_closed };
        let turn = match apart(move || (file.write(&witnessed), file.failed())).await {
            Ok((WitnessTurn::Fails, why)) => Err(why.unwrap_or_default()),
            Ok((turn, _)) => Ok(turn),
            Err(why) => Err(why),
        };
        let file = path.display();
        match turn {
            Ok(WitnessTurn::Recovers) => info!(%file, "the witness of the database is written again"),
            Ok(_) => {}
            Err(error) => warn!(
                %file,
                %error,
                "the witness of the database cannot be written: an older copy that somebody puts back will not be noticed. \
                 Give this process the right to make that file, and room for it"
            ),
        }
        Ok(())
    }

    /// How often this process changed what the witness is about; `None` where there is none.
    pub fn witness_works_n(&self) -> Option<u64> {
        self.parts.backend.sqlite().map(|db| db.changes().works_n())
    }

    /// Waits for the next change; for ever where there is no witness. For one who asks.
    pub async fn witness_changed(&self) {
        match self.parts.backend.sqlite() {
            Some(db) => db.changes().changed().await,
            None => std::future::pending().await,
        }
    }
}

/// Runs what may wait for the disk where nobody else is kept by it.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())
}

async fn witness_held(db: &mut Door<'_>) -> DbResult<Held> {
    let sql = "/* witness_held */ SELECT installation_id, witnessed_n FROM installation";
    let row = db.fetch_one(sql, &[]).await?;
    Ok((row.text("installation_id")?, row.int("witnessed_n")?))
}

async fn is_without_events(db: &mut Door<'_>) -> DbResult<bool> {
    let sql = "/* is_without_events */ SELECT event_seq FROM processed_webhook_events LIMIT 1";
    db.fetch_optional(sql, &[]).await.map(|row| row.is_none())
}

async fn witness_step(db: &mut Door<'_>) -> DbResult<()> {
    let sql = "/* witness_step */ UPDATE installation SET witnessed_n = witnessed_n + 1";
    db.execute(sql, &[]).await.map(drop)
}
