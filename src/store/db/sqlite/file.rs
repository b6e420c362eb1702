//! The database's file: where it is, and that nobody else has it.

use std::fs::File;
use std::io::{Error, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use rustix::fs::Access;

use super::private::{self, WITNESS, WITNESS_PARTIAL};
use crate::disk::{beside, folder_of};
use crate::store::db::store_error::StoreError;

/// File systems whose locks cannot be trusted.
const NETWORK_FILE_SYSTEMS: [&str; 7] = ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph"];

/// The path in `sqlite://PATH` or `sqlite:PATH`, of which `%` spells what a URL cannot. An error says what is wrong.
pub(super) fn path(url: &str) -> Result<PathBuf, String> {
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

/// One process for one file: a second one would find leases of the first that it takes for dead. The lock is held until
/// what this gives back is dropped.
pub(super) fn locked(path: &Path) -> Result<File, StoreError> {
    let refused = |why: String| StoreError::Refused(format!("database `{}` {why}", path.display()));
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|error| refused(format!("has no usable folder: {error}")))?;
    }
    if let Some(kind) = network_file_system(path) {
        return Err(refused(format!("is on a network file system ({kind}), whose locks cannot be trusted")));
    }
    let lock = beside(path, ".lock");
    let file = private::opened_or_made(&lock);
    let file = file.map_err(|error| refused(format!("cannot be locked: {error}{}", whose(&lock, &error))))?;
    file.try_lock().map_err(|_| refused("is held by another process: stop that one first".to_owned()))?;
    if let Err(errno) = rustix::fs::access(path, Access::READ_OK | Access::WRITE_OK)
        && path.exists()
    {
        let error = Error::from(errno);
        return Err(refused(format!("cannot be written: {error}{}", whose(path, &error))));
    }
    Ok(file)
}

/// Who we are, and whose this file or its folder is: people mount folders of somebody else, and put files there as root.
fn whose(path: &Path, error: &Error) -> String {
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

/// Refuses a file beside which the log of another one was left. A copy that `hooklatch backup` made has no log, and says
/// so in its head; SQLite would write what it finds there over it all the same.
pub(super) fn log_is_its_own(path: &Path) -> Result<(), StoreError> {
    let log = beside(path, "-wal");
    let is_there = std::fs::metadata(&log).is_ok_and(|found| found.len() > 0);
    if !is_there || !is_without_log(path) {
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

/// True when the head of the file says that it has no log: byte 18 is 1, where a file with a log has 2.
fn is_without_log(path: &Path) -> bool {
    let mut head = [0; 19];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head.last() == Some(&1)
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
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let mut best = (0, "");
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(point), Some(kind)) = (words.next(), words.next()) else { continue };
        if folder.starts_with(point) && point.len() >= best.0 {
            best = (point.len(), kind);
        }
    }
    NETWORK_FILE_SYSTEMS.contains(&best.1).then(|| best.1.to_owned())
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
}
