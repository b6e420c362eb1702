//! The committer: one task, one transaction at a time, shared by everything that waits.
//!
//! It never waits for a batch to fill. When a commit ends, whatever queued meanwhile is the next batch: with little
//! load that is one request, answered as fast as the disk allows; with much load it is hundreds, and they share the
//! cost of one commit. No timer would do better, because with a timer requests would wait that could have been
//! committed alone. There is one committer, because a second transaction at the same time would only wait for the same
//! writer, or latch the same ids in another order.
//!
//! Requests of more than a mebibyte have a second one, which commits them one by one: what follows from them is planned
//! before their transaction begins, and what is small waits for none of it (on SQLite, for the bytes of one of them).
//!
//! A batch that cannot be committed must not refuse those who did nothing wrong. So:
//!
//! - the database gave it up for another transaction's sake: the same once more, a few times;
//! - anything that one event may have caused (a refused statement, a panic, a row that another transaction holds): it
//!   is halved, and halved again, until the culprit stands alone, and only its sender is asked to send again;
//! - plain handlers took too long: the rest is cut off and becomes the next transaction, so that locks are not held for
//!   long;
//! - a handler asked for a rejection: that request is answered, and the others go again without it. Handlers that run
//!   here write nothing themselves, so running them twice is harmless;
//! - the database is away or full, or the answer to the commit was lost: trying again finds out no more. All senders
//!   are asked to send again, and for those whose events are there after all the next copy is a duplicate. That is P1
//!   and P2: a 2xx is answered after a commit that was confirmed, and a copy is found out by its latch.
//!
//! This task is never cancelled; it ends when the last [`super::Admitter`] is gone and the queue is empty.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{error, warn};

use super::AdmitContext;
use super::admitter::{AdmitError, Submission};
use super::commit::{BatchEnd, REQUESTS_N_MAX, bounded, commit};
use super::dispatch::record_panic;
use hooklatch_store::StoreError;

/// Most times that a batch is tried again whose transaction the database gave up for another one's sake.
const REPEATS_N_MAX: u32 = 3;

/// Commits what waits, together.
pub struct Committer {
    context: Arc<AdmitContext>,
    waiting: mpsc::Receiver<Submission>,
    /// True for that of large requests.
    is_large: bool,
}

impl Committer {
    pub fn new(context: Arc<AdmitContext>, waiting: mpsc::Receiver<Submission>, is_large: bool) -> Self {
        Self { context, waiting, is_large }
    }

    /// Runs until the entrance is closed and the queue is empty.
    pub async fn run(&mut self) {
        let requests_n_max = if self.is_large { 1 } else { REQUESTS_N_MAX };
        let mut taken = Vec::with_capacity(requests_n_max);
        while self.waiting.recv_many(&mut taken, requests_n_max).await > 0 {
            for batch in bounded(std::mem::take(&mut taken)) {
                commit_batch(&self.context, batch, self.is_large).await;
            }
        }
    }
}

/// Admits `batch` in as few transactions as its members allow, and answers each of them.
async fn commit_batch(context: &Arc<AdmitContext>, batch: Vec<Submission>, is_large: bool) {
    let mut pending = vec![BatchPart { requests: batch, repeats_n: 0, is_suspect: false }];
    while let Some(mut part) = pending.pop() {
        part.requests.retain(|one| !one.is_given_up());
        if part.requests.is_empty() {
            continue;
        }
        match commit_contained(context, &part, is_large).await {
            Ok(BatchEnd::Committed(answers)) => {
                context.health.note_committed();
                for (submission, answer) in part.requests.into_iter().zip(answers) {
                    submission.settle(answer);
                }
            }
            Ok(BatchEnd::Rejected(mut reasons)) => {
                // Handlers are pure, so the others are simply dispatched again, without these.
                let mut others = Vec::with_capacity(part.requests.len());
                for (n, submission) in part.requests.into_iter().enumerate() {
                    match reasons.remove(&n) {
                        Some(why) => submission.settle(Err(AdmitError::Rejected(why))),
                        None => others.push(submission),
                    }
                }
                pending.push(BatchPart { requests: others, ..part });
            }
            Ok(BatchEnd::Cut(requests_n)) => {
                let second = part.requests.split_off(requests_n);
                pending.push(BatchPart { requests: second, repeats_n: 0, is_suspect: part.is_suspect });
                pending.push(part);
            }
            Err(failure) => after(context, &failure, part, &mut pending),
        }
    }
}

/// A panic of one event harms its own batch alone, and in the end itself alone.
async fn commit_contained(
    context: &Arc<AdmitContext>,
    part: &BatchPart,
    is_large: bool,
) -> Result<BatchEnd, PassError> {
    let committing = commit(context, &part.requests, part.is_suspect);
    context.under_way.note(is_large, Some(Instant::now()));
    let ended = AssertUnwindSafe(committing).catch_unwind().await;
    context.under_way.note(is_large, None);
    match ended {
        Ok(result) => Ok(result?),
        Err(panic) => Err(PassError::Panic(record_panic("committer", panic.as_ref()))),
    }
}

/// The reason why a pass ended without a commit.
#[derive(Debug, thiserror::Error)]
enum PassError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Panic(String),
}

/// Ways to go on with a batch after a failure.
#[derive(Debug, PartialEq, Eq)]
enum Remedy {
    /// Commit it once more.
    Repeat,
    /// Commit it in halves, so that one event does not harm the others.
    Halve,
    /// Nothing more: it would end like this again.
    GiveBack,
}

impl PassError {
    fn remedy(&self, requests_n: usize, repeats_n: u32) -> Remedy {
        match self {
            Self::Store(StoreError::Conflict { .. }) if repeats_n < REPEATS_N_MAX => Remedy::Repeat,
            // The database is away or full, or it is unknown what became of the commit.
            Self::Store(
                StoreError::Unavailable { .. } | StoreError::CommitUnknown { .. } | StoreError::Refused(_),
            ) => Remedy::GiveBack,
            _ if requests_n > 1 => Remedy::Halve,
            _ => Remedy::GiveBack,
        }
    }
}

/// A batch, or what is left of one.
struct BatchPart {
    requests: Vec<Submission>,
    /// Number of passes that were tried for nothing.
    repeats_n: u32,
    /// True when an event in it may wait for another node, as one of a larger batch did.
    is_suspect: bool,
}

/// Puts back what is to be tried next, and answers the requests that are not tried again.
fn after(context: &AdmitContext, failure: &PassError, mut part: BatchPart, pending: &mut Vec<BatchPart>) {
    let requests_n = part.requests.len();
    match failure.remedy(requests_n, part.repeats_n) {
        Remedy::Repeat => {
            warn!(reason = %failure, requests_n, "repeated a batch that the database gave up for another's sake");
            pending.push(BatchPart { repeats_n: part.repeats_n + 1, ..part });
        }
        Remedy::Halve => {
            warn!(reason = %failure, requests_n, "halved a batch that could not be committed");
            let is_suspect =
                part.is_suspect || matches!(failure, PassError::Store(StoreError::Locked { .. }));
            let second = part.requests.split_off(requests_n / 2);
            for requests in [second, part.requests] {
                pending.push(BatchPart { requests, repeats_n: 0, is_suspect });
            }
        }
        Remedy::GiveBack => {
            if matches!(failure, PassError::Store(_)) {
                context.health.note_failed();
            }
            error!(reason = %failure, requests_n, "could not commit; senders were asked to retry");
            for submission in part.requests {
                submission.settle(Err(AdmitError::Unavailable(failure.to_string())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_one_never_refuses_the_others() {
        let [conflict, locked, query, away] = {
            let (op, source) = ("x", || hooklatch_store::decode_error("c", "x"));
            [
                StoreError::Conflict { op, source: source() },
                StoreError::Locked { op, source: source() },
                StoreError::Query { op, source: source() },
                StoreError::Unavailable { op, source: source() },
            ]
        }
        .map(PassError::Store);
        assert_eq!(conflict.remedy(2, 0), Remedy::Repeat);
        assert_eq!(conflict.remedy(1, 2), Remedy::Repeat);
        assert_eq!(conflict.remedy(2, 3), Remedy::Halve);
        assert_eq!(conflict.remedy(1, 3), Remedy::GiveBack);
        let odd = StoreError::Inconsistent { table: "t", column: "c", id: "1".to_owned() };
        for one in [locked, query, PassError::Store(odd), PassError::Panic("x".to_owned())] {
            assert_eq!((one.remedy(2, 0), one.remedy(1, 0)), (Remedy::Halve, Remedy::GiveBack), "{one}");
        }
        assert_eq!(away.remedy(2, 0), Remedy::GiveBack, "no event's fault");
    }
}
