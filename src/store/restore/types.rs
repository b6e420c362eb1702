//! The types of a restore that is taken over.

use super::lost_time::LostTime;
use crate::types::UnixMs;

/// A person's word about a restored database.
#[derive(Debug, Clone)]
pub struct TakeOver {
    /// The newest moment that it knows of; `None`: that of its newest event.
    pub from_ms: Option<UnixMs>,
    /// The moment when nothing was acknowledged any more by whom it was restored from.
    pub until_ms: UnixMs,
    /// Destinations that are paused, so that a person looks before anything is sent.
    pub paused: Vec<String>,
    /// True when tokens that were made at run time stay good: some of them may have been revoked since.
    pub are_tokens_kept: bool,
    /// Reason, for the audit log.
    pub reason: String,
    /// When it is ordered, as it is now.
    pub now_ms: UnixMs,
}

/// What was done to take a restored database over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TakenOver {
    /// Time that the restore took away, and when it was taken over.
    pub from_ms: UnixMs,
    /// The end of it.
    pub until_ms: UnixMs,
    /// Open messages of which nobody knows any more whether they were sent.
    pub messages_n: u64,
    /// Operations that were running, and were cancelled.
    pub operations_n: u64,
    /// Tokens that were revoked.
    pub tokens_n: u64,
    /// Sessions of people that were ended.
    pub sessions_n: u64,
    /// Destinations that were paused.
    pub paused_n: u64,
}

/// What `take_over_rows.rs` writes: the word, and the numbers that follow from it.
#[derive(Debug, Clone)]
pub(super) struct Taking {
    pub(super) word: TakeOver,
    pub(super) lost: LostTime,
    /// Where the numbers of events go on.
    pub(super) event_seq: i64,
    /// What the witness has seen.
    pub(super) witnessed_n: i64,
}

/// What it takes to write that nothing is missing.
#[derive(Debug, Clone)]
pub(super) struct Moving {
    pub(super) reason: String,
    /// What the witness has seen.
    pub(super) witnessed_n: i64,
    pub(super) now_ms: UnixMs,
}
