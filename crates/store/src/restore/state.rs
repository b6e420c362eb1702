//! Whether a database is the one that ran last.
//!
//! The witness of a database that is a file: a number that rises with changes, in the database and in a small file
//! beside it (`db/sqlite/identity.rs`). A copy that is put back has a lower one.
//!
//! One step: the number rises in the database, and once that is on disk, it is written to the file. So the file is
//! never ahead of its own database, wherever a crash interrupts it, and an older database is behind it. Steps are made
//! once a second at most, the first after a quiet time at once, by one background task: no other work waits for them.
//! Not detected are a copy of the last second before the end, and a copy of the whole folder, which has the witness of
//! that time with it.

use std::path::PathBuf;
use std::sync::Arc;

use tracing::{error, info, warn};

use crate::db::{Backend, DbError, DbResult, Executor, Purpose, Row, StoreError, WitnessTurn, Witnessed};
use crate::handle::Store;
use hooklatch_core::types::UnixMs;

/// Relation of a database to the one that a node last started on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreState {
    /// It is that one, or nothing says otherwise.
    Same,
    /// It is a backup that we made ourselves.
    Backup {
        /// When it was made.
        made_at_ms: UnixMs,
    },
    /// It is a file that lacks what was changed last: a copy of earlier was put in its place.
    Older {
        /// What ran last was there until then, at least.
        ran_until_ms: UnixMs,
    },
    /// It has another table, database or server than before: a dump that was read in, or a move.
    Elsewhere,
    /// Its server was restored to an earlier point in time.
    PointInTime,
    /// Another server took over, which may lack what was confirmed last unless commits waited for it.
    TookOver,
}

impl RestoreState {
    /// The value for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Backup { .. } => "backup",
            Self::Older { .. } => "older",
            Self::Elsewhere => "elsewhere",
            Self::PointInTime => "point_in_time",
            Self::TookOver => "took_over",
        }
    }
}

/// Who a database is: its server, the database and our table in it. A standby that takes over keeps the id and gets
/// another timeline, and so does a server that is restored to a point in time; what is read in from a dump has another
/// id, also where it took the place of the tables in the same database (`pg_restore --clean`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DatabaseIdentity {
    id: String,
    timeline: i64,
    /// True when its server has a recovery target.
    has_target: bool,
}

impl Store {
    /// Checks whether it is the database that a node last started on.
    pub async fn restore_state(&self) -> Result<RestoreState, StoreError> {
        let now = identity(&self.parts.backend).await?;
        let state = alone!(self.reader.restore_state(now.as_ref()))?;
        if state != RestoreState::Same {
            return Ok(state);
        }
        Ok(match self.witness_state().await? {
            Some(WitnessState { finding: WitnessFinding::Older { at_ms }, .. }) => {
                RestoreState::Older { ran_until_ms: at_ms }
            }
            _ => state,
        })
    }

    /// Takes in what a look found of the database: whether it was restored since this process started on it. Once it
    /// was, no connection is given any more. SQLite looks with each commit (`db/sqlite/identity.rs`); a server may not
    /// say which one it is, which is no failure.
    pub(crate) fn restore_found(
        &self,
        state: RestoreState,
        now: Option<&DatabaseIdentity>,
    ) -> Result<(), StoreError> {
        let Some(now) = now else { return Ok(()) };
        let had_target = *self.parts.had_target.get_or_init(|| now.has_target);
        let what = match state {
            RestoreState::Backup { .. } | RestoreState::Elsewhere => {
                "was read in from a dump, or is in another server or database than the one that this server started on"
            }
            // Settings of an earlier recovery stay in the files of a server, and its standby has them when it takes
            // over.
            RestoreState::PointInTime if !had_target => "was restored to an earlier point in time",
            _ => return Ok(()),
        };
        let what = format!("this database {what}");
        if self.parts.backend.health().replace(&what) {
            error!(
                "{what}. Events that were acknowledged since are not in it, so every request is answered 503 and nothing is \
                 sent until this server is restarted. Stop every node, and take the database over: `hooklatch restore-check`. \
                 docs/backup.md says how, under \"Put back under a running server\""
            );
        }
        Err(StoreError::from_db("restore_watch", DbError::lost(what)))
    }

    /// Remembers that a node started on this database.
    pub async fn restore_note(&self) -> Result<(), StoreError> {
        let Some(now) = identity(&self.parts.backend).await? else { return Ok(()) };
        alone!(self.writer.restore_note(&now))
    }
}

async fn restore_state(db: &mut Executor<'_>, now: Option<&DatabaseIdentity>) -> DbResult<RestoreState> {
    let sql = "/* restore_state */ SELECT backup_at_ms, database_id AS noted_id, timeline AS noted_timeline
        FROM installation";
    state_of(&db.fetch_one(sql, &[]).await?, now)
}

/// What a row of the installation says beside this identity.
pub(crate) fn state_of(row: &Row, now: Option<&DatabaseIdentity>) -> DbResult<RestoreState> {
    if let Some(made_at_ms) = row.int_or_null("backup_at_ms")? {
        return Ok(RestoreState::Backup { made_at_ms });
    }
    let noted = row.text_or_null("noted_id")?.zip(row.int_or_null("noted_timeline")?);
    let (Some(now), Some((id, timeline))) = (now, noted) else { return Ok(RestoreState::Same) };
    Ok(if now.id != id {
        RestoreState::Elsewhere
    } else if now.timeline == timeline {
        RestoreState::Same
    } else if now.has_target {
        RestoreState::PointInTime
    } else {
        RestoreState::TookOver
    })
}

pub(crate) async fn restore_note(db: &mut Executor<'_>, now: &DatabaseIdentity) -> DbResult<()> {
    let sql = "/* restore_note */ UPDATE installation SET database_id = $1, timeline = $2
               WHERE COALESCE(database_id, '') <> $1 OR COALESCE(timeline, -1) <> $2";
    db.execute(sql, &[now.id.as_str().into(), now.timeline.into()]).await.map(drop)
}

/// The identity that a server reports; `None` on SQLite, and where our role may not read it.
pub(crate) async fn identity(backend: &Backend) -> Result<Option<DatabaseIdentity>, StoreError> {
    if matches!(backend, Backend::Sqlite(_)) {
        return Ok(None);
    }
    let identity = backend.alone("restore_identity", Purpose::Writer, move |mut executor| {
        Box::pin(async move {
            let sql = format!("/* restore_identity */ SELECT {IDENTITY}");
            restore_identity(&executor.fetch_one(sql, &[]).await?)
        })
    });
    match identity.await {
        Ok(identity) => Ok(Some(identity)),
        Err(error @ (StoreError::Unavailable { .. } | StoreError::CommitUnknown { .. })) => Err(error),
        Err(error) => {
            tracing::debug!(%error, "the server does not say which one it is");
            Ok(None)
        }
    }
}

/// Columns that say who a PostgreSQL is, as far as our role may read them.
pub(crate) const IDENTITY: &str = "CAST((SELECT system_identifier FROM pg_control_system()) AS TEXT) || '/'
            || (SELECT CAST(oid AS TEXT) FROM pg_database WHERE datname = current_database()) || '/'
            || CAST(CAST(to_regclass('installation') AS OID) AS TEXT) AS database_id,
        CAST(CAST('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS BIT(32)) AS BIGINT) AS timeline,
        (SELECT COUNT(*) FROM unnest(ARRAY['recovery_target', 'recovery_target_time', 'recovery_target_xid',
            'recovery_target_lsn', 'recovery_target_name']) AS t (name)
         WHERE COALESCE(current_setting(t.name, true), '') <> '') AS targets_n";

pub(crate) fn restore_identity(row: &Row) -> DbResult<DatabaseIdentity> {
    Ok(DatabaseIdentity {
        id: row.text("database_id")?,
        timeline: row.int("timeline")?,
        has_target: row.int("targets_n")? > 0,
    })
}

/// What is known of the witness of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessState {
    /// Path of the witness.
    pub path: PathBuf,
    /// What it says of the database.
    pub finding: WitnessFinding,
    /// The reason why it could not be written last time, if it could not.
    pub failed: Option<String>,
}

/// What the witness says of the database beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WitnessFinding {
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

/// The content of the witness file beside the database, or why it has none.
type WitnessRead = Result<Option<Witnessed>, String>;
/// What the database holds: its installation, and its number.
type Held = (String, i64);

impl Store {
    /// What the witness says of this database; `None` where there is none, on PostgreSQL.
    pub async fn witness_state(&self) -> Result<Option<WitnessState>, StoreError> {
        let Some(db) = self.parts.backend.sqlite() else { return Ok(None) };
        let (path, failed) = (db.witness.path().to_owned(), db.witness.failed());
        let Some((read, (installation_id, changes_n))) = self.witness_compared().await? else {
            return Ok(None);
        };
        let finding = match read {
            Err(why) => WitnessFinding::Unreadable(why),
            Ok(None) => WitnessFinding::Absent,
            Ok(Some(found)) if found.installation_id != installation_id => WitnessFinding::Other,
            Ok(Some(Witnessed { at_ms, changes_n: seen_n, .. })) if seen_n > changes_n => {
                WitnessFinding::Older { at_ms }
            }
            Ok(Some(Witnessed { at_ms, .. })) => WitnessFinding::Same { at_ms },
        };
        Ok(Some(WitnessState { path, finding, failed }))
    }

    /// True when no event is in the database.
    pub async fn is_without_events(&self) -> Result<bool, StoreError> {
        alone!(self, reader, "is_without_events", |db| {
            let sql = "/* is_without_events */ SELECT event_seq FROM processed_webhook_events LIMIT 1";
            db.fetch_optional(sql, &[]).await.map(|row| row.is_none())
        })
    }

    /// What the witness says, and the installation and the number that the database holds; `None` where there is no
    /// witness, on PostgreSQL.
    async fn witness_compared(&self) -> Result<Option<(WitnessRead, Held)>, StoreError> {
        let Some(db) = self.parts.backend.sqlite() else { return Ok(None) };
        let file = Arc::clone(&db.witness);
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

    /// Writes the witness as the database is now, whatever it said before. Logs a warning where it cannot be written.
    async fn witness_write(&self, now_ms: UnixMs, is_closed: bool) -> Result<(), StoreError> {
        let Some(db) = self.parts.backend.sqlite() else { return Ok(()) };
        let file = Arc::clone(&db.witness);
        let (installation_id, changes_n) = alone!(self.reader.witness_held())?;
        // What is beside the path now may be the witness of another database.
        db.file.check(None).map_err(|source| StoreError::from_db("witness_write", source))?;
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
                "the witness of the database cannot be written: an older copy that is put back will not be noticed. \
                 Give this process the right to make that file, and room for it"
            ),
        }
        Ok(())
    }

    /// How often this process changed what the witness is about; `None` where there is none.
    pub fn witness_works_n(&self) -> Option<u64> {
        self.parts.backend.sqlite().map(|db| db.changes.works_n())
    }

    /// Waits for the next change; without end where there is no witness. For a single caller.
    pub async fn witness_changed(&self) {
        match self.parts.backend.sqlite() {
            Some(db) => db.changes.changed().await,
            None => std::future::pending().await,
        }
    }
}

/// Runs work that may wait for the disk on a blocking thread.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())
}

async fn witness_held(db: &mut Executor<'_>) -> DbResult<Held> {
    let sql = "/* witness_held */ SELECT installation_id, witnessed_n FROM installation";
    let row = db.fetch_one(sql, &[]).await?;
    Ok((row.text("installation_id")?, row.int("witnessed_n")?))
}

async fn witness_step(db: &mut Executor<'_>) -> DbResult<()> {
    let sql = "/* witness_step */ UPDATE installation SET witnessed_n = witnessed_n + 1";
    db.execute(sql, &[]).await.map(drop)
}
