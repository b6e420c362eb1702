//! What the system says of the process and of the disk. Linux, for the most part: elsewhere these are left out.

use std::path::{Path, PathBuf};

use rustix::fs::statvfs;
use rustix::process::{Resource, getrlimit};

use super::numbers::number;

/// Publishes how many files are open, and how large the database's files are. Reads folders: to be called where that
/// keeps nobody waiting.
pub(super) fn publish(database: Option<&Path>) {
    if let Some(open_n) = open_files_n() {
        metrics::gauge!("hooklatch_process_open_files").set(number(open_n));
    }
    let most = getrlimit(Resource::Nofile).current.and_then(|most| usize::try_from(most).ok());
    if let Some(most) = most {
        metrics::gauge!("hooklatch_process_open_files_max").set(number(most));
    }
    let Some(file) = database else { return };
    let bytes = ["", "-wal", "-shm"].map(|ending| bytes_of(&beside(file, ending))).into_iter().sum::<u64>();
    metrics::gauge!("hooklatch_database_bytes").set(number(usize::try_from(bytes).unwrap_or(usize::MAX)));
    if let Some(bytes) = free_bytes(file) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        metrics::gauge!("hooklatch_database_disk_free_bytes").set(number(bytes));
    }
}

/// The one that is open while they are counted is not among them.
fn open_files_n() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1))
}

fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn bytes_of(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |found| found.len())
}

/// Room that is left for a process without special rights.
fn free_bytes(file: &Path) -> Option<u64> {
    let found = statvfs(file).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_open_are_counted() {
        let Some(before_n) = open_files_n() else { return };
        let held: Vec<_> = (0..10).map(|_| std::fs::File::open("/dev/null").expect("a file")).collect();
        assert_eq!(open_files_n(), Some(before_n + 10));
        drop(held);
    }

    #[test]
    fn a_disk_has_room_and_a_file_that_is_not_there_has_no_size() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("x.db");
        assert_eq!((bytes_of(&file), free_bytes(&file)), (0, None));
        std::fs::write(&file, [0; 1_000]).expect("written");
        assert_eq!(bytes_of(&file), 1_000);
        assert!(free_bytes(&file).expect("linux") > 0);
        assert_eq!(beside(&file, "-wal"), folder.path().join("x.db-wal"));
    }
}
