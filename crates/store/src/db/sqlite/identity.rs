//! Whether the file that SQLite has open is still the one at its path.
//!
//! SQLite writes to an inode, and continues to do so when the path leads elsewhere: after `mv`, `rm`, a copy renamed
//! over it, another folder or mount in its place. Data acknowledged then is lost with the next start. So the device and
//! inode of the opened file are compared with those at the path after each commit, before the response is sent, and by
//! the readiness probe. Once they differ, nothing is written until the process is restarted, even if the file is put
//! back: another program may have written to it meanwhile, with another log.
//!
//! Closing any descriptor of a file drops all POSIX locks that the process has on it, SQLite's included. So nothing in
//! this process may open and close the database, its `-wal` or its `-shm` while SQLite has them open: check by path
//! (`metadata`). Our one descriptor is opened before SQLite's and closed after them.
//!
//! An inode does not identify the content: a backup may be written into the file (`.restore` of the sqlite3 shell, or a
//! copy over it). So the number of the witness, which only rises, is read at the same moments.
//!
//! The witness is a small file beside the database with the number that the database had last. An older copy of the
//! database put back beside it is detected, because this file stays as it is.
//!
//! It has one line: a word with the version of this format, the installation's id, the number of changes, the time in
//! unix milliseconds, and whether a process has it `open` or left it `closed`. The number is written after the database
//! has it on disk (WAL and `synchronous = FULL`), so it is never ahead of the database after a power failure. It is
//! written to a temporary file and renamed, so it is never incomplete.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rusqlite::{Connection, ErrorCode};
use tracing::error;

use super::file::{self, WITNESS, WITNESS_PARTIAL};
use crate::db::error::{DbError, DbResult};
use hooklatch_core::disk::beside;
use hooklatch_core::types::UnixMs;

/// What a file is, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
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
pub(crate) struct DatabaseFile {
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
    pub(crate) fn new(path: &Path, held: File, lock: File) -> io::Result<Self> {
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

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Why the file is not the one at its path any more, if that was seen.
    pub(crate) fn moved(&self) -> Option<&str> {
        self.moved.get().map(String::as_str)
    }

    /// Fails once it was seen that the file is not the one at its path.
    pub(super) fn check_known(&self) -> DbResult<()> {
        self.moved().map_or(Ok(()), |what| {
            Err(DbError::lost(format!("{what}; nothing is written to it before a restart")))
        })
    }

    /// Fails unless the file, and the log if one is given, are at their paths.
    pub(crate) fn check(&self, log: Option<FileId>) -> DbResult<()> {
        self.check_known()?;
        match self.check_path(log) {
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
            // An interrupted or failed read proves nothing.
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
    fn check_path(&self, log: Option<FileId>) -> io::Result<Option<String>> {
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
    pub(crate) fn connect(
        &self,
        open: impl FnOnce(&Path) -> DbResult<Connection>,
    ) -> DbResult<(Connection, Option<FileId>)> {
        // Where the log of the others is gone, SQLite would make a second one.
        let expected = self.log().id;
        self.check(expected)?;
        let db = open(&self.path)?;
        let mut log = self.log();
        // A process that has it open keeps SQLite from deleting it.
        let id = log.id.or_else(|| FileId::at(&self.log_path).ok());
        self.check(id)?;
        log.connections_n += 1;
        log.id = id;
        Ok((db, id))
    }

    /// Closes a connection to it. Closing the last one, SQLite deletes the log by its name: that may be the log of
    /// another database by now, and what was deleted could not be copied out of this process any more. So a connection
    /// to a file that was moved stays open until the process ends.
    pub(crate) fn close(self: Arc<Self>, db: Connection) {
        if !matches!(self.check_path(None), Ok(None)) {
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

const OPEN: &str = "open";
const CLOSED: &str = "closed";
const FORMAT: &str = "hooklatch-witness/1";
/// Longest file that is read. Bytes.
const BYTES_MAX: u64 = 256;
/// No installation gets there, and counting goes on above whatever was read.
const CHANGES_N_MAX: i64 = 1 << 53;

/// What the witness says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Witnessed {
    /// Id of the installation whose database it was beside.
    pub installation_id: String,
    /// Number of changes of that database.
    pub(crate) changes_n: i64,
    /// When it was written.
    pub at_ms: UnixMs,
    /// True when the process that wrote it changed nothing afterwards.
    pub is_closed: bool,
}

/// The witness of one database.
pub(crate) struct WitnessFile {
    path: PathBuf,
    partial: PathBuf,
    /// The reason why it could not be written last time.
    failed: Mutex<Option<String>>,
}

/// Whether this writing went otherwise than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WitnessTurn {
    /// As the time before.
    None,
    /// It went wrong for the first time.
    Fails,
    /// It went well again.
    Recovers,
}

impl WitnessFile {
    /// The one of this database.
    pub(crate) fn beside(database: &Path) -> Self {
        Self {
            path: beside(database, WITNESS),
            partial: beside(database, WITNESS_PARTIAL),
            failed: Mutex::default(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The reason why it could not be written last time, if it could not.
    pub(crate) fn failed(&self) -> Option<String> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What it says; nothing where there is none. An error says why it cannot be read.
    pub(crate) fn read(&self) -> Result<Option<Witnessed>, String> {
        let found = match std::fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
            Ok(found) => found,
        };
        if !found.is_file() || found.len() > BYTES_MAX {
            return Err("it is no file of ours".to_owned());
        }
        let mut text = String::new();
        let read = File::open(&self.path).and_then(|file| file.take(BYTES_MAX).read_to_string(&mut text));
        read.map_err(|error| error.to_string())?;
        parsed(&text).map(Some).ok_or_else(|| format!("it is not one line of {FORMAT}"))
    }

    /// Replaces the file on disk.
    pub(crate) fn write(&self, witnessed: &Witnessed) -> WitnessTurn {
        let failed = self.put(witnessed).err().map(|error| error.to_string());
        let mut before = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = match (before.is_some(), failed.is_some()) {
            (false, true) => WitnessTurn::Fails,
            (true, false) => WitnessTurn::Recovers,
            _ => WitnessTurn::None,
        };
        *before = failed;
        turn
    }

    fn put(&self, witnessed: &Witnessed) -> std::io::Result<()> {
        // A file that a killed process left, or that was put there.
        match std::fs::remove_file(&self.partial) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = file::open_or_create(&self.partial)?;
        file.write_all(line(witnessed).as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&self.partial, &self.path)
    }
}

fn line(witnessed: &Witnessed) -> String {
    let Witnessed { installation_id, changes_n, at_ms, is_closed } = witnessed;
    let state = if *is_closed { CLOSED } else { OPEN };
    format!("{FORMAT} {installation_id} {changes_n} {at_ms} {state}\n")
}

fn parsed(text: &str) -> Option<Witnessed> {
    let mut words = text.strip_suffix('\n')?.split(' ');
    if words.next()? != FORMAT {
        return None;
    }
    let (id, changes_n, at_ms) = (words.next()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let is_closed = match words.next()? {
        OPEN => false,
        CLOSED => true,
        _ => return None,
    };
    let is_good = words.next().is_none() && !id.is_empty() && (0..=CHANGES_N_MAX).contains(&changes_n);
    is_good.then(|| Witnessed { installation_id: id.to_owned(), changes_n, at_ms, is_closed })
}

#[cfg(test)]
mod witness_tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn witnessed(changes_n: i64) -> Witnessed {
        Witnessed {
            installation_id: "0198c0de".to_owned(),
            changes_n,
            at_ms: 5,
            is_closed: changes_n % 2 == 0,
        }
    }

    #[test]
    fn a_written_witness_is_read_back_and_a_foreign_file_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let file = WitnessFile::beside(&folder.path().join("x.db"));
        assert_eq!(file.read(), Ok(None));
        // A file that a killed process left is overwritten.
        std::fs::write(&file.partial, "half").unwrap();
        assert_eq!(file.write(&witnessed(7)), WitnessTurn::None);
        assert_eq!(file.read(), Ok(Some(witnessed(7))));
        assert_eq!(std::fs::metadata(&file.path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!file.partial.exists());
        let good = std::fs::read_to_string(&file.path).unwrap();
        for text in [
            String::new(),
            good.trim_end().to_owned(),
            good.replace("/1 ", "/2 "),
            good.replace(" 7 ", " -7 "),
            good.replace(" 7 ", " 9223372036854775807 "),
            good.replace(" 7 ", "  7 "),
            good.replace(" 5", " 5 6"),
            good.replace("open", "opened"),
            good.replace(" open", ""),
            "\u{fffd}".repeat(100),
            " ".repeat(300),
        ] {
            std::fs::write(&file.path, &text).unwrap();
            assert!(file.read().is_err(), "{text}");
        }
        std::fs::write(&file.path, [0xff, 0xfe, b'\n']).unwrap();
        assert!(file.read().is_err());
    }

    #[test]
    fn a_failing_witness_write_is_reported_once_and_so_is_its_recovery() {
        let folder = tempfile::tempdir().unwrap();
        let file = WitnessFile::beside(&folder.path().join("x.db"));
        std::fs::create_dir(&file.path).unwrap();
        assert!(file.read().unwrap_err().contains("no file of ours"));
        assert_eq!(file.write(&witnessed(1)), WitnessTurn::Fails);
        assert_eq!(file.write(&witnessed(2)), WitnessTurn::None);
        assert!(file.failed().is_some());
        std::fs::remove_dir(&file.path).unwrap();
        assert_eq!(file.write(&witnessed(3)), WitnessTurn::Recovers);
        assert_eq!((file.failed(), file.read()), (None, Ok(Some(witnessed(3)))));
        // A link could lead to a file of another user.
        std::fs::rename(&file.path, folder.path().join("other")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("other"), &file.path).unwrap();
        assert!(file.read().is_err());
        assert_eq!(file.write(&witnessed(4)), WitnessTurn::None);
        assert_eq!(file.read(), Ok(Some(witnessed(4))));
    }
}
