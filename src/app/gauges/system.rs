//! Metrics of the process and the disk from the operating system. Most need Linux: elsewhere they are left out.

use std::path::Path;

use super::numbers::number;
use hooklatch_core::disk::{DiskRoom, beside};
use hooklatch_operator::http::OpenFiles;

/// Ticks of a second in /proc: `USER_HZ`, which is 100 wherever Rust has a Linux target.
const TICKS_PER_S: u64 = 100;

/// Publishes what the process has of files, memory and processor, and how large the database's files are. Reads
/// folders: call it where blocking delays no request.
pub(super) fn publish(database: Option<&Path>) {
    let OpenFiles { n, n_max } = OpenFiles::of_process();
    let number_of = |n: u64| number(usize::try_from(n).unwrap_or(usize::MAX));
    if let Some(n) = n {
        metrics::gauge!("process_open_fds").set(number_of(n));
    }
    if let Some(n_max) = n_max {
        metrics::gauge!("process_max_fds").set(number_of(n_max));
    }
    if let Some(kib) = resident_kib() {
        metrics::gauge!("process_resident_memory_bytes").set(number_of(kib * 1_024));
    }
    if let Some(ticks_n) = cpu_ticks_n() {
        metrics::counter!("process_cpu_seconds_total").absolute(ticks_n / TICKS_PER_S);
    }
    let Some(file) = database else { return };
    let bytes = ["", "-wal", "-shm"].map(|ending| bytes_of(&beside(file, ending))).into_iter().sum::<u64>();
    metrics::gauge!("hooklatch_database_bytes").set(number_of(bytes));
    if let Some(room) = DiskRoom::of(file) {
        metrics::gauge!("hooklatch_database_disk_free_bytes").set(number_of(room.free_bytes));
    }
}

/// Memory of the process that is not swapped out, `VmRSS` of `proc_pid_status(5)`.
fn resident_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// Time of the processor that the process took, user and system: fields 14 and 15 of `proc_pid_stat(5)`, behind its name.
fn cpu_ticks_n() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

fn bytes_of(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |found| found.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn linux_says_what_a_process_takes() {
        let kib = resident_kib().expect("a size");
        assert!((1_000..100_000_000).contains(&kib), "{kib}");
        let before_n = cpu_ticks_n().expect("a time");
        while cpu_ticks_n().expect("a time") < before_n + 2 {
            std::hint::black_box((0..100_000_u64).sum::<u64>());
        }
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
