//! What the system says of the process and of the disk. Linux, for the most part: elsewhere these are left out.

use std::path::Path;

use super::numbers::number;
use crate::disk::{DiskRoom, beside};
use crate::http::files::OpenFiles;

/// Publishes how many files are open, and how large the database's files are. Reads folders: to be called where that
/// keeps nobody waiting.
pub(super) fn publish(database: Option<&Path>) {
    let OpenFiles { n, n_max } = OpenFiles::of_process();
    let number_of = |n: u64| number(usize::try_from(n).unwrap_or(usize::MAX));
    if let Some(n) = n {
        metrics::gauge!("hooklatch_process_open_files").set(number_of(n));
    }
    if let Some(n_max) = n_max {
        metrics::gauge!("hooklatch_process_open_files_max").set(number_of(n_max));
    }
    let Some(file) = database else { return };
    let bytes = ["", "-wal", "-shm"].map(|ending| bytes_of(&beside(file, ending))).into_iter().sum::<u64>();
    metrics::gauge!("hooklatch_database_bytes").set(number_of(bytes));
    if let Some(room) = DiskRoom::of(file) {
        metrics::gauge!("hooklatch_database_disk_free_bytes").set(number_of(room.free_bytes));
    }
}

fn bytes_of(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |found| found.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_has_no_size() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("x.db");
        assert_eq!(bytes_of(&file), 0);
        std::fs::write(&file, [0; 1_000]).expect("written");
        assert_eq!(bytes_of(&file), 1_000);
    }
}
