//! Whether the file that SQLite has open is still the one at its path.
//!
//! SQLite writes to an inode, and goes on doing so when the path leads elsewhere: after `mv`, `rm`, a copy renamed over
//! it, another folder or mount in its place. What is acknowledged then is lost with the next start. So device and inode
//! of what was opened are compared with what is at the path after each commit, before anybody is answered, and by the
//! probe of readiness. Once they differ, nothing is written until the process is restarted, even if the file is put
//! back: another program may have written to it meanwhile, with another log.
//!
//! Closing any descriptor of a file drops all POSIX locks that the process has on it, SQLite's included. So nothing in
//! this process may open and close the database, its `-wal` or its `-shm` while SQLite has them open: look by path
//! (`metadata`). The one descriptor of our own is opened before SQLite's and closed after them.
//!
//! An inode says nothing of what is in the file: a backup may be put into it (`.restore` of the sqlite3 shell, or a copy
//! that is written over it). So the number of `witness.rs`, which only rises, is read at the same moments.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rusqlite::{Connection, ErrorCode};
use tracing::error;

use crate::disk::beside;
use crate::store::db::error::{DbError, DbResult};

/// What a file is, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(found: &Metadata) -> Self {
        Self { device: found.dev(), inode: found.ino() }
    }

    fn at(path: &Path) -> io::Result<Self> {
        std::fs::metadata(path).map(|found| Self::of(&found))
    }
}

/// The database's file, open and locked for as long as this or a connection to it lives.
pub(in crate::store) struct DatabaseFile {
    /// Path as the URL has it.
    path: PathBuf,
    /// Where it must be found: absolute, and with links followed.
    places: Vec<PathBuf>,
    log_path: PathBuf,
    id: FileId,
    log: Mutex<OpenLog>,
    /// Why it is not the one at its path, or has not what was written to it, once that was seen.
    moved: OnceLock<String>,
    /// The highest number of changes that was read in it.
    changes_n: AtomicI64,
    /// The file itself and `PATH.lock`, both locked.
    _held: [File; 2],
}

/// The log of the connections that are open. SQLite deletes it when the last one is closed.
#[derive(Default)]
struct OpenLog {
    connections_n: usize,
    id: Option<FileId>,
}

impl DatabaseFile {
    /// The file that `held` has open and locked beside its `lock`, before SQLite opens it.
    pub(super) fn new(path: &Path, held: File, lock: File) -> io::Result<Self> {
        let mut places = vec![path.canonicalize()?, std::path::absolute(path)?];
        places.dedup();
        Ok(Self {
            path: path.to_owned(),
            places,
            log_path: beside(path, "-wal"),
            id: FileId::of(&held.metadata()?),
            log: Mutex::default(),
            moved: OnceLock::new(),
            changes_n: AtomicI64::new(0),
            _held: [held, lock],
        })
    }

    pub(in crate::store) fn path(&self) -> &Path {
        &self.path
    }

    /// Why the file is not the one at its path any more, if that was seen.
    pub(in crate::store) fn moved(&self) -> Option<&str> {
        self.moved.get().map(String::as_str)
    }

    /// Fails once it was seen that the file is not the one at its path.
    pub(super) fn check_known(&self) -> DbResult<()> {
        self.moved().map_or(Ok(()), |what| {
            Err(DbError::lost(format!("{what}; nothing is written to it before a restart")))
        })
    }

    /// Fails unless the file, and the log if one is given, are at their paths.
    pub(in crate::store) fn check(&self, log: Option<FileId>) -> DbResult<()> {
        self.check_known()?;
        match self.look(log) {
            Ok(None) => Ok(()),
            Ok(Some(what)) => {
                self.moved.get_or_init(|| {
                    self.report(&what);
                    what
                });
                self.check_known()
            }
            Err(error) => {
                let path = self.path.display();
                Err(DbError::lost(format!("could not look whether `{path}` is still the database: {error}")))
            }
        }
    }

    /// Fails once the database is at an earlier state than this process has read in it.
    pub(super) fn check_state(&self, db: &Connection) -> DbResult<()> {
        const SQL: &str = "SELECT witnessed_n FROM installation";
        // Before it is read: whatever was seen until now is committed, and has to be there.
        let seen_n = self.changes_n.load(Ordering::SeqCst);
        let read = db.prepare_cached(SQL).and_then(|mut select| select.query_row((), |row| row.get(0)));
        let found_n: i64 = match read {
            Ok(found_n) => found_n,
            Err(rusqlite::Error::QueryReturnedNoRows) => 0,
            // There is no such table.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::Unknown) => 0,
            // An interrupted or failed read says nothing.
            Err(_) => return Ok(()),
        };
        if found_n < seen_n {
            self.moved.get_or_init(|| {
                let what = format!(
                    "`{}` is at an earlier state than this server has written to it: another program put a copy into it",
                    self.path.display()
                );
                error!(
                    file = %self.path.display(),
                    changes_n = found_n,
                    changes_seen_n = seen_n,
                    "{what}. Events that were acknowledged since are not in it, so every request is answered 503 and nothing \
                     is sent until this server is restarted. Stop it, and take the database over: `hooklatch restore-check`. \
                     docs/backup.md says how, under \"Put back under a running server\""
                );
                what
            });
        }
        self.changes_n.fetch_max(found_n, Ordering::SeqCst);
        self.check_known()
    }

    /// What is not where it should be.
    fn look(&self, log: Option<FileId>) -> io::Result<Option<String>> {
        let log = log.map(|id| (&self.log_path, id));
        for (path, id) in self.places.iter().map(|path| (path, self.id)).chain(log) {
            let what = match FileId::at(path) {
                Ok(found) if found == id => continue,
                Ok(_) => "another file is at its path",
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    "it was moved or deleted, or its folder was"
                }
                Err(error) => return Err(error),
            };
            return Ok(Some(format!(
                "`{}` is not the file that this server has open: {what}",
                path.display()
            )));
        }
        Ok(None)
    }

    fn report(&self, what: &str) {
        let process_id = std::process::id();
        error!(
            file = %self.path.display(),
            process_id,
            "{what}. What is written now would be missing after a restart, so every request is answered 503 and nothing is \
             sent until this server is restarted. Events of the last commit were not acknowledged, and may be in the file \
             that is open: their senders send them again. If the files were moved, stop this server, put the database and \
             its -wal back to where they were, and start it. If they were deleted, copy them from /proc/{process_id}/fd \
             before you stop it. docs/backup.md says how, under \"Moved or deleted under a running server\""
        );
    }

    /// Opens a connection to it; gives back the log that it has.
    pub(super) fn connect(
        &self,
        open: impl FnOnce(&Path) -> DbResult<Connection>,
    ) -> DbResult<(Connection, Option<FileId>)> {
        // Where the log of the others is gone, SQLite would make a second one.
        let expected = self.log().id;
        self.check(expected)?;
        let db = open(&self.path)?;
        let mut log = self.log();
        // Whoever has it open keeps SQLite from deleting it.
        let id = log.id.or_else(|| FileId::at(&self.log_path).ok());
        self.check(id)?;
        log.connections_n += 1;
        log.id = id;
        Ok((db, id))
    }

    /// Closes a connection to it. Closing the last one, SQLite deletes the log by its name: that may be the log of
    /// another database by now, and what was deleted could not be copied out of this process any more. So a connection to
    /// a file that was moved stays open until the process ends.
    pub(super) fn close(self: Arc<Self>, db: Connection) {
        if !matches!(self.look(None), Ok(None)) {
            std::mem::forget((db, self));
            return;
        }
        if self.moved().is_some() {
            // Only the log was lost: what is in it is still open here, and goes into the file.
            drop(db.query_row("PRAGMA wal_checkpoint(FULL)", (), |_| Ok(())));
        }
        let mut log = self.log();
        log.connections_n = log.connections_n.saturating_sub(1);
        if log.connections_n == 0 {
            log.id = None;
        }
        drop(log);
        // Without the lock: another connection may be waiting for the transaction that this one rolls back.
        drop(db);
    }

    fn log(&self) -> MutexGuard<'_, OpenLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
