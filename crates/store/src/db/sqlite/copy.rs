//! A copy of the file while a server writes it, on a connection of a process that only reads.
//!
//! `VACUUM INTO` rather than SQLite's backup API: it reads one snapshot to its end, while the API starts over with
//! every page that another process writes, and never ends under load. It copies no free page, so erased bytes are not
//! in the copy. In WAL mode readers block no writer; but the log cannot be reused from its start meanwhile, so it grows
//! by what is written until the copy is complete.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::file;
use crate::db::error::{DbError, DbResult, StoreError};
use hooklatch_core::disk::{beside, folder_of};
use hooklatch_core::types::UnixMs;

/// A copy that is whole and on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCopy {
    /// Path of the copy.
    pub path: PathBuf,
    /// Size of the file. Bytes.
    pub bytes_n: u64,
    /// How many events it has.
    pub events_n: u64,
    /// Version of its schema.
    pub schema_version: i64,
    /// The encryption keys that it knows.
    pub keys: Vec<FileKey>,
    /// Number of the newest row of its audit log; 0: it has none.
    pub audit_seq: i64,
}

/// An encryption key that a file knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileKey {
    /// Id of the key.
    pub key_id: String,
    /// The value that only this key gives.
    pub check_value: Vec<u8>,
    /// True when something is sealed with it.
    pub is_used: bool,
}

/// Copies the file that `url` names to `to`: beside it first, checked, then put in its place. Takes as long as it
/// takes, on the caller's thread. `now_ms` is noted in the copy, so that a node that starts on it knows what it is.
/// Nothing is copied when `check` refuses the file for the encryption keys that it knows.
pub fn copy_file(
    url: &str,
    to: &Path,
    is_replacing: bool,
    now_ms: UnixMs,
    check: impl FnOnce(&[FileKey]) -> Result<(), String>,
) -> Result<FileCopy, StoreError> {
    let from = file::path(url).map_err(StoreError::Refused)?;
    if !from.is_file() {
        return Err(StoreError::Refused(format!("database `{}` is not there", from.display())));
    }
    if let Some(why) = hindrance(&from, to, is_replacing) {
        return Err(StoreError::Refused(format!("`{}` {why}", to.display())));
    }
    if let Some(folder) = to.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
        let why = format!("there is no folder `{}`: create it first", folder.display());
        return Err(StoreError::Refused(why));
    }
    file::has_one_name(&from)?;
    // Before SQLite opens it: closing this afterwards would drop SQLite's locks.
    let head = File::open(&from);
    head.map_or(Ok(()), |head| file::log_is_its_own(&from, &head))?;
    let failed = |source| StoreError::from_db("backup", source);
    let source = opened(&from).map_err(failed)?;
    let keys = file_keys(&source).map_err(failed)?;
    check(&keys).map_err(StoreError::Refused)?;
    partials_clear(to);
    let partial = PartialFile::create(to)?;
    let copied = copied(source, &partial.path, (now_ms, keys)).map_err(failed)?;
    let bytes_n = partial.put(to).map_err(|error| unusable(to, &error))?;
    Ok(FileCopy { path: to.to_owned(), bytes_n, ..copied })
}

/// The reason why nothing may be put in the place of `to`, if there is one. A device or a link would be replaced by
/// the rename as well as a file is.
fn hindrance(from: &Path, to: &Path, is_replacing: bool) -> Option<&'static str> {
    if file::is_beside(from, to) {
        return Some("belongs to the database itself");
    }
    let Ok(there) = std::fs::symlink_metadata(to) else { return None };
    let is_same = from.canonicalize().is_ok_and(|from| to.canonicalize().is_ok_and(|to| to == from));
    if is_same {
        return Some("is the database itself");
    }
    if !is_replacing {
        return Some("is there: name another file, or say --replace");
    }
    (!there.is_file()).then_some("is no file that could be replaced")
}

fn unusable(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Refused(format!("`{}` cannot be written: {error}", path.display()))
}

/// Ending of the name of a file that is not whole yet.
const PARTIAL: &str = ".partial";
/// Age from which a partial file is no longer being written.
const LEFT_AFTER: Duration = Duration::from_secs(10);

/// A file that is not whole yet. It goes when this is dropped.
struct PartialFile {
    path: PathBuf,
    /// Locked for as long as a process writes it.
    _lock: File,
}

impl PartialFile {
    /// An empty file beside `to` that its owner alone may read, before anything is in it.
    fn create(to: &Path) -> Result<Self, StoreError> {
        let mut name = to.as_os_str().to_owned();
        name.push(format!(".{:08x}{PARTIAL}", fastrand::u32(..)));
        let path = PathBuf::from(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let lock = file.map_err(|error| unusable(&path, &error))?;
        // Where files cannot be locked, a file that was left is taken for one that is written, and stays.
        drop(lock.try_lock());
        Ok(Self { path, _lock: lock })
    }

    /// Renames it to `to` and flushes the folder. Returns its size in bytes.
    fn put(self, to: &Path) -> io::Result<u64> {
        let file = File::open(&self.path)?;
        file.sync_all()?;
        std::fs::rename(&self.path, to)?;
        File::open(folder_of(to))?.sync_all()?;
        Ok(file.metadata()?.len())
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // It was renamed, or is of no use.
        remove(&self.path);
    }
}

fn remove(partial: &Path) {
    for path in [beside(partial, "-journal"), partial.to_owned()] {
        drop(std::fs::remove_file(path));
    }
}

/// Removes the partial files of killed backups to the same place: each is as large as the database.
fn partials_clear(to: &Path) {
    let (Some(name), Ok(all)) = (to.file_name(), std::fs::read_dir(folder_of(to))) else { return };
    let prefix = format!("{}.", name.to_string_lossy());
    for path in all.flatten().map(|one| one.path()) {
        let is_partial = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| {
            let random = name.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(PARTIAL));
            random.is_some_and(|random| {
                random.len() == 8 && random.bytes().all(|byte| byte.is_ascii_hexdigit())
            })
        });
        if is_partial && is_left(&path) {
            remove(&path);
        }
    }
}

fn is_left(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let age = file.metadata().and_then(|found| found.modified()).map(|at| at.elapsed().unwrap_or_default());
    age.is_ok_and(|age| age > LEFT_AFTER) && file.try_lock().is_ok()
}

fn opened(from: &Path) -> DbResult<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let source = Connection::open_with_flags(from, flags)?;
    source.busy_timeout(Duration::from_secs(10))?;
    Ok(source)
}

/// The encryption keys that a file knows, by their ids.
fn file_keys(source: &Connection) -> DbResult<Vec<FileKey>> {
    let mut statement = source.prepare(
        "SELECT k.key_id, k.check_value,
             EXISTS (SELECT 1 FROM webhook_payloads p WHERE p.key_id = k.key_id)
             OR EXISTS (SELECT 1 FROM outbox_contents c WHERE c.key_id = k.key_id)
             OR EXISTS (SELECT 1 FROM outbox_attempts a WHERE a.key_id = k.key_id)
         FROM encryption_keys k ORDER BY k.key_id",
    )?;
    let keys = statement.query_map((), |row| {
        Ok(FileKey { key_id: row.get(0)?, check_value: row.get(1)?, is_used: row.get(2)? })
    })?;
    Ok(keys.collect::<rusqlite::Result<_>>()?)
}

fn copied(source: Connection, to: &Path, (now_ms, keys): (UnixMs, Vec<FileKey>)) -> DbResult<FileCopy> {
    let version = "SELECT COALESCE(MAX(version), 0) FROM hooklatch_migrations";
    let wanted: i64 = source.query_row(version, (), |row| row.get(0))?;
    let name = to.to_str().ok_or_else(|| DbError::lost("the path of the copy is not UTF-8"))?;
    source.execute("VACUUM INTO ?1", [name])?;
    drop(source);
    let copy = Connection::open_with_flags(to, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // One file, without a log beside it: a copy is moved by its name.
    let mode: String = copy.query_row("PRAGMA journal_mode = DELETE", (), |row| row.get(0))?;
    // A copy of a backup that was never taken over is as old as that backup.
    copy.execute("UPDATE installation SET backup_at_ms = COALESCE(backup_at_ms, ?1)", [now_ms])?;
    let checked: String = copy.query_row("PRAGMA quick_check", (), |row| row.get(0))?;
    let found: i64 = copy.query_row(version, (), |row| row.get(0))?;
    let noted = "SELECT COUNT(*) FROM installation WHERE backup_at_ms IS NOT NULL";
    let noted: i64 = copy.query_row(noted, (), |row| row.get(0))?;
    if checked != "ok" || mode != "delete" || found < wanted || noted != 1 {
        return Err(DbError::lost(format!(
            "the copy is not whole: {checked}, journal {mode}, schema {found} of {wanted}, {noted} installation"
        )));
    }
    let audit = "SELECT COALESCE(MAX(audit_seq), 0) FROM audit_log";
    Ok(FileCopy {
        path: to.to_owned(),
        bytes_n: 0,
        events_n: copy
            .query_row("SELECT COUNT(*) FROM processed_webhook_events", (), |row| row.get::<_, i64>(0))?
            .unsigned_abs(),
        schema_version: found,
        keys,
        audit_seq: copy.query_row(audit, (), |row| row.get(0))?,
    })
}
