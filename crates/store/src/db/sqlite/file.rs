//! The database's file: where it is, and the lock that keeps other processes out.
//!
//! The files are readable by our user alone, because customers' data is in them. Only on Unix; elsewhere the folder's
//! permissions have to ensure it.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use tracing::warn;

use super::identity::{DatabaseFile, WitnessFile};
use crate::db::error::StoreError;
use hooklatch_core::disk::{beside, folder_of, followed};
use hooklatch_core::times::rfc3339;

/// File systems whose locks cannot be trusted.
const NETWORK_FILE_SYSTEMS: [&str; 7] = ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph"];

/// The first bytes of every SQLite database.
const SQLITE_HEAD: &[u8; 16] = b"SQLite format 3\0";

/// The path in `sqlite://PATH` or `sqlite:PATH`, of which `%` spells what a URL cannot. An error says what is wrong.
pub fn path(url: &str) -> Result<PathBuf, String> {
    let wrong = |why: &str| format!("database url is not an SQLite url: {why}");
    let rest = url.strip_prefix("sqlite:").ok_or_else(|| wrong("it does not start with `sqlite:`"))?;
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    let (name, query) = rest.split_once('?').unwrap_or((rest, ""));
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair {
            "mode=rw" | "mode=rwc" | "cache=private" => {}
            "mode=memory" => return Err(in_memory()),
            other => {
                return Err(wrong(&format!("`{other}` is not for a file that is written, with one process")));
            }
        }
    }
    let name = percent_decode_str(name).decode_utf8().map_err(|_| wrong("its path is not UTF-8"))?;
    match name.as_ref() {
        "" => Err(wrong("it names no file")),
        name if name.contains(":memory:") => Err(in_memory()),
        name => Ok(PathBuf::from(name)),
    }
}

fn in_memory() -> String {
    "database is in memory and would lose everything: name a file".to_owned()
}

/// Opens the file, makes it if it is missing, and locks it for this process alone: a second one would find leases of
/// the first that it takes for dead. Refuses a file that another process could have under another name. SQLite may open
/// it then.
pub(crate) fn opened(path: &Path) -> Result<DatabaseFile, StoreError> {
    let refused = |why: String| StoreError::Refused(format!("database `{}` {why}", path.display()));
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|error| refused(format!("has no usable folder: {error}")))?;
    }
    if let Some(kind) = network_file_system(path) {
        return Err(refused(format!("is on a network file system ({kind}), whose locks cannot be trusted")));
    }
    has_one_name(path)?;
    // Each protects what the other one cannot: the file by whatever name, and the name whatever file is there.
    let lock_path = beside(path, ".lock");
    let lock = open_or_create(&lock_path)
        .map_err(|error| refused(format!("cannot be locked: {error}{}", owner_hint(&lock_path, &error))))?;
    locked(&lock).map_err(refused)?;
    is_where_it_was(path)?;
    let file = open_or_create(path)
        .map_err(|error| refused(format!("cannot be written: {error}{}", owner_hint(path, &error))))?;
    // Elsewhere this lock and those of SQLite are of one sort, and in each other's way.
    if cfg!(target_os = "linux") {
        locked(&file).map_err(refused)?;
    }
    is_a_database(path, &file)?;
    log_is_its_own(path, &file)?;
    keep(path);
    DatabaseFile::new(path, file, lock).map_err(|error| refused(format!("cannot be opened: {error}")))
}

/// Refuses a file of another kind before its rights are changed. SQLite makes a database of an empty one.
fn is_a_database(path: &Path, file: &File) -> Result<(), StoreError> {
    let mut head = [0; SQLITE_HEAD.len()];
    let is_other = file.read_at(&mut head, 0).is_ok_and(|n| n > 0 && head != *SQLITE_HEAD);
    if !is_other {
        return Ok(());
    }
    Err(StoreError::Refused(format!(
        "database `{}` is no SQLite file, and was left as it is: correct database.url. If it was the database, put a backup in \
         its place (docs/backup.md)",
        path.display()
    )))
}

/// An error says what is wrong.
fn locked(file: &File) -> Result<(), String> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => "is held by another process: stop that one first".to_owned(),
        TryLockError::Error(error) => format!("cannot be locked: {error}"),
    })
}

/// Refuses a file that has a hard link, or is mounted by itself. SQLite finds the log by the name of the database, so
/// two who open it by two names write two logs, and destroy it.
pub(super) fn has_one_name(path: &Path) -> Result<(), StoreError> {
    let Ok(found) = std::fs::metadata(path) else { return Ok(()) };
    let why = if found.nlink() > 1 {
        format!(
            "has {} names (hard links): a program that opens it by another name does not see its log (-wal), and destroys it. Remove \
             the other names (find them by `find FOLDER -samefile {}`), keep this one, and start again",
            found.nlink(),
            path.display()
        )
    } else if mounts().iter().any(|(point, _)| *point == followed(path)) {
        "is mounted by itself, as a file: its log (-wal) would stay behind in this container, and another one with the same \
         file would destroy it. Mount its folder, not the file"
            .to_owned()
    } else {
        return Ok(());
    };
    Err(StoreError::Refused(format!("database `{}` {why}", path.display())))
}

/// Refuses to begin anew where the file is missing or empty.
fn is_where_it_was(path: &Path) -> Result<(), StoreError> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Ok(found) if found.len() == 0 => {}
        _ => return Ok(()),
    }
    begins_anew(path, "is missing or empty")
}

/// Refuses to begin anew beside the witness of a database that was here.
pub(super) fn begins_anew(path: &Path, how: &str) -> Result<(), StoreError> {
    let witness = WitnessFile::beside(path);
    let what = match witness.read() {
        Ok(None) => return Ok(()),
        Ok(Some(found)) => {
            let at = rfc3339(found.at_ms).unwrap_or_else(|| found.at_ms.to_string());
            format!("says that installation {} ran on it until {at} at least", found.installation_id)
        }
        Err(why) => format!("cannot be read ({why})"),
    };
    Err(StoreError::Refused(format!(
        "database `{}` {how}, and its witness `{}` {what}. On an empty one every event of before would be new, \
         and whatever senders send again would be paid again. Put the file back, with its -wal, or a backup of it \
         (docs/backup.md). If you mean to begin anew, remove the witness",
        path.display(),
        witness.path().display()
    )))
}

/// Our user, and the owner of this file or its folder: operators mount folders of another user, or write files as root.
fn owner_hint(path: &Path, error: &Error) -> String {
    if !matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) {
        return String::new();
    }
    let us = rustix::process::geteuid().as_raw();
    let owner = |path: &Path| std::fs::metadata(path).ok().map(|found| found.uid());
    if let Some(owner) = owner(path).filter(|owner| *owner != us) {
        return format!(
            "; `{}` belongs to user {owner}, and must belong to user {us}: chown it",
            path.display()
        );
    }
    let folder = folder_of(path);
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let owner = owner(&folder).map_or_else(|| "?".to_owned(), |owner| owner.to_string());
    format!("; the folder `{}` must be writable for user {us}, and belongs to user {owner}", folder.display())
}

/// Refuses a file beside which the log of another one was left. A copy that `hooklatch backup` made has no log, and
/// says so in its head (byte 18 is 1, where a file with a log has 2); SQLite would write what it finds there over it
/// all the same.
pub(super) fn log_is_its_own(path: &Path, file: &File) -> Result<(), StoreError> {
    let log = beside(path, "-wal");
    let is_there = std::fs::metadata(&log).is_ok_and(|found| found.len() > 0);
    let mut version = [0];
    if !is_there || file.read_exact_at(&mut version, 18).is_err() || version != [1] {
        return Ok(());
    }
    Err(StoreError::Refused(format!(
        "database `{}` is a copy, and `{}` beside it is the log of the database that was there before, which would be \
         written over it: move that file and the one that ends with -shm away, and start from a fresh copy of the backup \
         if anything else has opened it since",
        path.display(),
        log.display()
    )))
}

/// True when `to` is a file that SQLite or we keep beside the database `from`.
pub(super) fn is_beside(from: &Path, to: &Path) -> bool {
    let Some((folder, name)) = folder_of(to).canonicalize().ok().zip(to.file_name()) else {
        return false;
    };
    ["-wal", "-shm", "-journal", ".lock", WITNESS, WITNESS_PARTIAL]
        .iter()
        .any(|ending| beside(from, ending) == folder.join(name))
}

/// The kind of file system `path` is on, when it is one of [`NETWORK_FILE_SYSTEMS`]. Linux only.
fn network_file_system(path: &Path) -> Option<String> {
    let folder = folder_of(path).canonicalize().ok()?;
    let of_folder = mounts().into_iter().filter(|(point, _)| folder.starts_with(point));
    let (_, kind) = of_folder.max_by_key(|(point, _)| point.as_os_str().len())?;
    NETWORK_FILE_SYSTEMS.contains(&kind.as_str()).then_some(kind)
}

/// Where something is mounted, and the kind of its file system. Nothing but on Linux.
fn mounts() -> Vec<(PathBuf, String)> {
    mounts_of(&std::fs::read_to_string("/proc/self/mounts").unwrap_or_default())
}

fn mounts_of(text: &str) -> Vec<(PathBuf, String)> {
    // What the kernel escapes; the backslash last.
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\043", "#"), ("\\134", "\\")];
    let mount = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let point = escapes.iter().fold(words.next()?.to_owned(), |text, (code, is)| text.replace(code, is));
        Some((PathBuf::from(point), words.next()?.to_owned()))
    };
    text.lines().filter_map(mount).collect()
}

/// Read and written by their owner.
const MODE: u32 = 0o600;
/// Rights of every user of the machine.
const OTHERS: u32 = 0o007;

/// Endings of the witness, and of one that is being written.
pub(crate) const WITNESS: &str = ".witness";
pub(super) const WITNESS_PARTIAL: &str = ".witness.partial";

/// Returns how a file is made that is not there yet, whatever the umask allows.
pub(crate) fn options() -> OpenOptions {
    let mut options = File::options();
    options.create(true).read(true).write(true).truncate(false).mode(MODE);
    options
}

/// Opens a file, and makes it if it is missing. What root makes by hand in the folder of a service belongs to that
/// service, which could not open it otherwise. No link is followed to what is given away: it is new.
pub(super) fn open_or_create(path: &Path) -> io::Result<File> {
    let made = match options().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return options().open(path),
        made => made?,
    };
    let owner = std::fs::metadata(folder_of(path)).ok().filter(|_| rustix::process::geteuid().is_root());
    if let Some(owner) = owner.filter(|owner| owner.uid() != 0)
        && let Err(error) = fchown(&made, Some(owner.uid()), Some(owner.gid()))
    {
        warn!(file = %path.display(), %error, "could not give this file to the owner of its folder");
    }
    Ok(made)
}

/// Removes the permissions on the database's files that an earlier version, or a copy, gave to others. SQLite gives its
/// other files the rights that the database has. A file that its group may read was meant so, and stays.
pub(crate) fn keep(path: &Path) {
    for ending in ["", "-wal", "-shm", ".lock", WITNESS] {
        let file = beside(path, ending);
        let Ok(found) = std::fs::metadata(&file) else { continue };
        if found.permissions().mode() & OTHERS == 0 {
            continue;
        }
        match std::fs::set_permissions(&file, Permissions::from_mode(MODE)) {
            Ok(()) => {
                warn!(file = %file.display(), "every user could read this file of the database; now only its owner can");
            }
            Err(error) => {
                warn!(file = %file.display(), %error, "every user can read this file of the database; make it 0600");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_file_that_stays() {
        for (url, wanted) in [
            ("sqlite://hooklatch.db", "hooklatch.db"),
            ("sqlite:hooklatch.db", "hooklatch.db"),
            ("sqlite:///var/lib/x.db", "/var/lib/x.db"),
            ("sqlite:///a%20b%3F.db?mode=rwc", "/a b?.db"),
        ] {
            assert_eq!(path(url).unwrap(), Path::new(wanted), "{url}");
        }
        for (url, wanted) in [
            ("sqlite://", "names no file"),
            ("sqlite::memory:", "in memory"),
            ("sqlite://x.db?mode=memory", "in memory"),
            ("sqlite://x.db?mode=ro", "mode=ro"),
            ("sqlite://x.db?cache=shared", "cache=shared"),
            ("sqlite://%ff", "UTF-8"),
        ] {
            let said = path(url).unwrap_err();
            assert!(said.contains(wanted), "{url}: {said}");
        }
    }

    #[test]
    fn a_file_of_another_kind_is_refused_and_keeps_its_rights() {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in [("hooklatch.toml", "[server]\nlisten = \"127.0.0.1:8080\"\n"), ("short", "x")]
        {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
            let said = opened(&path).err().unwrap().to_string();
            assert!(said.contains(name) && said.contains("is no SQLite file"), "{said}");
            assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o644);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
        let empty = folder.path().join("empty");
        std::fs::write(&empty, "").unwrap();
        assert!(opened(&empty).is_ok());
    }

    #[test]
    fn mounts_are_read_with_what_the_kernel_escapes() {
        let text = "overlay / overlay rw 0 0\n/dev/vda /a\\040b\\134040#/hl.db ext4 rw 0 0\nbroken\n";
        let wanted = [("/", "overlay"), ("/a b\\040#/hl.db", "ext4")];
        assert_eq!(mounts_of(text), wanted.map(|(point, kind)| (PathBuf::from(point), kind.to_owned())));
    }
}

#[cfg(test)]
mod private_tests {
    use std::os::unix::fs::chown;

    use super::*;

    #[test]
    fn what_root_makes_in_the_folder_of_a_service_belongs_to_the_service() {
        /// An id that no user has.
        const SERVICE: u32 = 54_321;
        let folder = tempfile::tempdir().unwrap();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            chown(folder.path(), Some(SERVICE), Some(SERVICE)).unwrap();
        }
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        std::fs::write(&old, "old").unwrap();
        for path in [&new, &old] {
            drop(open_or_create(path).unwrap());
        }
        let owner = |path| std::fs::metadata(path).unwrap().uid();
        assert_eq!(owner(&new), if is_root { SERVICE } else { owner(&old) });
        assert_ne!(owner(&old), SERVICE, "what was there stays whose it was");
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "old");
    }
}
