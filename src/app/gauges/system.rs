//! What the system says of the process and of the disk. Linux, for the most part: elsewhere these are left out.

use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::numbers::number;
use crate::disk::{DiskRoom, beside};

/// Publishes how many files are open, and how large the database's files are. Reads folders: to be called where that
/// keeps nobody waiting.
pub(super) fn publish(database: Option<&Path>) {
    let most = getrlimit(Resource::Nofile).current.and_then(|most| usize::try_from(most).ok());
    if let Some(open_n) = open_n(std::fs::read_dir("/proc/self/fd").map(Iterator::count), most) {
        metrics::gauge!("hooklatch_process_open_files").set(number(open_n));
    }
    if let Some(most) = most {
        metrics::gauge!("hooklatch_process_open_files_max").set(number(most));
    }
    let Some(file) = database else { return };
    let bytes = ["", "-wal", "-shm"].map(|ending| bytes_of(&beside(file, ending))).into_iter().sum::<u64>();
    metrics::gauge!("hooklatch_database_bytes").set(number(usize::try_from(bytes).unwrap_or(usize::MAX)));
    if let Some(room) = DiskRoom::of(file) {
        let bytes = usize::try_from(room.free_bytes).unwrap_or(usize::MAX);
        metrics::gauge!("hooklatch_database_disk_free_bytes").set(number(bytes));
    }
}

/// How many files are open, of those that were counted: the one that is open meanwhile is not among them. Who may open
/// none any more cannot count either, and has all.
fn open_n(counted: io::Result<usize>, most: Option<usize>) -> Option<usize> {
    match counted {
        Ok(counted_n) => Some(counted_n.saturating_sub(1)),
        Err(error) if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => most,
        Err(_) => None,
    }
}

fn bytes_of(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |found| found.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_open_are_counted() {
        let now_n = || open_n(std::fs::read_dir("/proc/self/fd").map(Iterator::count), Some(1_024));
        let Some(before_n) = now_n() else { return };
        let held: Vec<_> = (0..10).map(|_| std::fs::File::open("/dev/null").expect("a file")).collect();
        assert_eq!(now_n(), Some(before_n + 10));
        drop(held);
    }

    #[test]
    fn who_cannot_open_a_file_to_count_them_has_all_open() {
        let failed = |errno: Errno| Err(io::Error::from_raw_os_error(errno.raw_os_error()));
        assert_eq!(open_n(failed(Errno::MFILE), Some(1_024)), Some(1_024));
        assert_eq!(open_n(failed(Errno::MFILE), None), None, "without a limit that is known");
        assert_eq!(open_n(failed(Errno::NOENT), Some(1_024)), None, "not on Linux");
    }

    #[test]
    fn a_file_that_is_not_there_has_no_size() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("x.db");
        assert_eq!(bytes_of(&file), 0);
        std::fs::write(&file, [0; 1_000]).expect("written");
        assert_eq!(bytes_of(&file), 1_000);
    }
}
