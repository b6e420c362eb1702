//! Libraries that log what they carry: a message that RabbitMQ returns, with its body, is a warning of `lapin`. What
//! matters of it is in our own lines, so whatever `log.filter` says, theirs are not written.

use super::kinds::kinds;

/// Beginnings of the log targets that are not to be written.
pub fn silent_log_targets() -> Vec<&'static str> {
    kinds().iter().flat_map(|kind| kind.silent()).copied().collect()
}
