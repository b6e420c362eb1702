//! Open files: as many as the system lets us have, and no more connections than those allow.
//!
//! A process usually starts with a limit of 1024 of them, whatever it may have. Without a free one no message is sent
//! and no row is written, so connections of clients must not take the last.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit, setrlimit};

/// Files that the process needs besides connections, calls and the database: its log, its clocks, its libraries.
const OWN_N: usize = 64;
/// Fewest connections, however little the system gives.
const CONNECTIONS_N_MIN: usize = 8;

/// Returns how many connections of clients there may be, of `wanted_n`, when `others_n` files are for other things.
/// Raises the process's limit as far as possible and needed.
pub fn connections_n(wanted_n: usize, others_n: usize) -> usize {
    let needed_n = wanted_n.saturating_add(others_n).saturating_add(OWN_N);
    let mut limit = getrlimit(Resource::Nofile);
    let is_short = limit.current.is_some_and(|current| current < needed_n as u64);
    if is_short {
        let before = limit.current;
        limit.current = limit.maximum.map_or(Some(needed_n as u64), |most| Some(most.min(needed_n as u64)));
        if setrlimit(Resource::Nofile, limit).is_err() {
            limit.current = before;
        }
    }
    let has_n = limit.current.and_then(|current| usize::try_from(current).ok()).unwrap_or(usize::MAX);
    let left_n = has_n.saturating_sub(others_n).saturating_sub(OWN_N);
    wanted_n.min(left_n.max(CONNECTIONS_N_MIN))
}

/// The same, and nothing is raised.
pub fn fit_n(wanted_n: usize, others_n: usize) -> usize {
    let has_n = getrlimit(Resource::Nofile).current.and_then(|current| usize::try_from(current).ok());
    let left_n = has_n.unwrap_or(usize::MAX).saturating_sub(others_n).saturating_sub(OWN_N);
    wanted_n.min(left_n.max(CONNECTIONS_N_MIN))
}

/// Files that are open, and those that may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFiles {
    /// `None` where the system does not say.
    pub n: Option<u64>,
    /// `None` where there is no limit.
    pub n_max: Option<u64>,
}

impl OpenFiles {
    /// Those of this process.
    pub fn of_process() -> Self {
        let n_max = getrlimit(Resource::Nofile).current;
        // The one that is open while they are counted is not among them.
        let counted = std::fs::read_dir("/proc/self/fd").map(|all| all.count().saturating_sub(1) as u64);
        Self { n: open_n(counted, n_max), n_max }
    }
}

/// Who may open none any more cannot count either, and has all.
fn open_n(counted: io::Result<u64>, n_max: Option<u64>) -> Option<u64> {
    match counted {
        Ok(n) => Some(n),
        Err(error) if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => n_max,
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_open_are_counted() {
        let Some(before_n) = OpenFiles::of_process().n else { return };
        let held: Vec<_> = (0..10).map(|_| std::fs::File::open("/dev/null").expect("a file")).collect();
        assert_eq!(OpenFiles::of_process().n, Some(before_n + 10));
        drop(held);
    }

    #[test]
    fn all_files_count_as_open_when_they_cannot_be_counted() {
        let failed = |errno: Errno| Err(io::Error::from_raw_os_error(errno.raw_os_error()));
        assert_eq!(open_n(failed(Errno::MFILE), Some(1_024)), Some(1_024));
        assert_eq!(open_n(failed(Errno::MFILE), None), None, "without a limit that is known");
        assert_eq!(open_n(failed(Errno::NOENT), Some(1_024)), None, "not on Linux");
    }

    #[test]
    fn connections_fit_into_what_the_system_gives_and_some_are_always_left() {
        assert_eq!(connections_n(4, 0), 4, "fewer than there may be");
        let all_n = connections_n(usize::MAX, 0);
        assert!(all_n >= CONNECTIONS_N_MIN);
        assert!(connections_n(usize::MAX, 100) <= all_n.saturating_sub(100).max(CONNECTIONS_N_MIN));
        assert_eq!(connections_n(1_000, usize::MAX), CONNECTIONS_N_MIN, "however much the rest takes");
    }
}
