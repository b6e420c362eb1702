//! Open files: as many as the system lets us have, and no more connections than those allow.
//!
//! A process starts with 1024 of them as a rule, whatever it may have. Without one that is left over no message goes
//! out and no row is written, so strangers' connections must not take the last.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Files that the process needs besides connections, calls and the database: its log, its clocks, its libraries.
const OWN_N: usize = 64;
/// Fewest connections, however little the system gives.
const CONNECTIONS_N_MIN: usize = 8;

/// Returns how many connections of strangers there may be, of `wanted_n`, when `others_n` files are for other things.
/// Raises the process's limit as far as it goes and is needed.
pub(crate) fn connections_n(wanted_n: usize, others_n: usize) -> usize {
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
pub(crate) fn fit_n(wanted_n: usize, others_n: usize) -> usize {
    let has_n = getrlimit(Resource::Nofile).current.and_then(|current| usize::try_from(current).ok());
    let left_n = has_n.unwrap_or(usize::MAX).saturating_sub(others_n).saturating_sub(OWN_N);
    wanted_n.min(left_n.max(CONNECTIONS_N_MIN))
}

/// Number of files that are open, and of those that may be; 0 open where the system does not say.
pub(crate) fn open() -> (u64, u64) {
    let open_n = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    (open_n as u64, getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_fit_into_what_the_system_gives_and_some_are_always_left() {
        assert_eq!(connections_n(4, 0), 4, "fewer than there may be");
        let all_n = connections_n(usize::MAX, 0);
        assert!(all_n >= CONNECTIONS_N_MIN);
        assert!(connections_n(usize::MAX, 100) <= all_n.saturating_sub(100).max(CONNECTIONS_N_MIN));
        assert_eq!(connections_n(1_000, usize::MAX), CONNECTIONS_N_MIN, "however much the rest takes");
    }
}
