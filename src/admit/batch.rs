//! What goes into one transaction, and what becomes of a batch that could not be committed: it is tried again,
//! halved until the culprit stands alone, or given back.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::time::Instant;
use tracing::{error, warn};

use super::failures::panic_told;
use super::{AdmitContext, AdmitError, Admitted, Submission};
use crate::store::StoreError;

/// Most requests in one transaction; nothing is gained above (`docs/benchmarks.md`).
pub(super) const REQUESTS_N_MAX: usize = 256;
/// Most events in one transaction, unless one request alone has more.
const EVENTS_N_MAX: usize = 1_024;
/// Most bytes of events in one transaction, unless one request alone has more: a statement takes up several times
/// as much memory, and the database refuses one of a gigabyte.
const BYTES_MAX: usize = 8 << 20;
/// How often a batch is tried again whose transaction the database gave up for another one's sake.
const REPEATS_N_MAX: u32 = 3;

/// What one pass over a batch came to.
pub(super) enum Pass {
    /// What each request hears.
    Committed(Vec<Result<Admitted, AdmitError>>),
    /// These positions asked for a rejection; nothing was written.
    Rejected(HashMap<usize, String>),
    /// Handlers took too long: from this position on it is to be another transaction; nothing was written.
    Cut(usize),
}

/// Why a pass ended without a commit.
enum PassError {
    Store(StoreError),
    Panic(String),
}

impl std::fmt::Display for PassError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Store(failure) => failure.fmt(f),
            Self::Panic(what) => f.write_str(what),
        }
    }
}

/// What is to be done about a batch after a failure.
#[derive(Debug, PartialEq, Eq)]
enum Remedy {
    /// The same once more.
    Repeat,
    /// In halves, so that the others do not suffer from one.
    Halve,
    /// Nothing more: it would end like this again.
    GiveBack,
}

impl PassError {
    fn remedy(&self, requests_n: usize, repeats_n: u32) -> Remedy {
        match self {
            Self::Store(StoreError::Conflict { .. }) if repeats_n < REPEATS_N_MAX => Remedy::Repeat,
            // The database is away or full, or nobody knows what became of the commit.
            Self::Store(
                StoreError::Unavailable { .. } | StoreError::CommitUnknown { .. } | StoreError::Refused(_),
            ) => Remedy::GiveBack,
            _ if requests_n > 1 => Remedy::Halve,
            _ => Remedy::GiveBack,
        }
    }
}

/// A batch, or what is left of one.
struct Part {
    requests: Vec<Submission>,
    /// How often it was tried for nothing.
    repeats_n: u32,
    /// Whether an event in it may wait for another node, as one of a larger batch did.
    is_suspect: bool,
}

/// Cuts what waits into batches, in its order.
pub(super) fn bounded(taken: Vec<Submission>) -> Vec<Vec<Submission>> {
    let sizes: Vec<(usize, usize)> = taken.iter().map(|one| (one.events.len(), one.bytes_n())).collect();
    let mut batches = Vec::new();
    let mut taken = taken.into_iter();
    for requests_n in cuts(&sizes) {
        batches.push(taken.by_ref().take(requests_n).collect());
    }
    batches
}

/// How many requests, of so many events and bytes each, go into each batch.
fn cuts(sizes: &[(usize, usize)]) -> Vec<usize> {
    let mut cuts = Vec::new();
    let (mut requests_n, mut events_n, mut bytes_n) = (0, 0_usize, 0_usize);
    for (events, bytes) in sizes {
        let is_full =
            events_n.saturating_add(*events) > EVENTS_N_MAX || bytes_n.saturating_add(*bytes) > BYTES_MAX;
        if is_full && requests_n > 0 {
            cuts.push(requests_n);
            (requests_n, events_n, bytes_n) = (0, 0, 0);
        }
        requests_n += 1;
        events_n = events_n.saturating_add(*events);
        bytes_n = bytes_n.saturating_add(*bytes);
    }
    if requests_n > 0 {
        cuts.push(requests_n);
    }
    cuts
}

impl AdmitContext {
    /// Admits `batch` in as few transactions as its members allow, and answers each of them.
    pub(super) async fn commit_batch(self: &Arc<Self>, batch: Vec<Submission>) {
        let mut pending = vec![Part { requests: batch, repeats_n: 0, is_suspect: false }];
        while let Some(mut part) = pending.pop() {
            part.requests.retain(|one| !one.is_given_up());
            if part.requests.is_empty() {
                continue;
            }
            match self.commit_contained(&part).await {
                Ok(Pass::Committed(answers)) => {
                    for (submission, answer) in part.requests.into_iter().zip(answers) {
                        submission.settle(answer);
                    }
                }
                Ok(Pass::Rejected(mut reasons)) => {
                    // Handlers are pure, so the others are simply dispatched again, without these.
                    let mut others = Vec::with_capacity(part.requests.len());
                    for (n, submission) in part.requests.into_iter().enumerate() {
                        match reasons.remove(&n) {
                            Some(why) => submission.settle(Err(AdmitError::Rejected(why))),
                            None => others.push(submission),
                        }
                    }
                    pending.push(Part { requests: others, ..part });
                }
                Ok(Pass::Cut(requests_n)) => {
                    let second = part.requests.split_off(requests_n);
                    pending.push(Part { requests: second, repeats_n: 0, is_suspect: part.is_suspect });
                    pending.push(part);
                }
                Err(failure) => after(&failure, part, &mut pending),
            }
        }
    }

    /// A panic of one event harms its own batch alone, and in the end itself alone.
    async fn commit_contained(self: &Arc<Self>, part: &Part) -> Result<Pass, PassError> {
        let commit = self.commit_once(&part.requests, part.is_suspect);
        self.under_way.note(Some(Instant::now()));
        let ended = AssertUnwindSafe(commit).catch_unwind().await;
        self.under_way.note(None);
        match ended {
            Ok(result) => result.map_err(PassError::Store),
            Err(panic) => Err(PassError::Panic(panic_told("committer", panic.as_ref()))),
        }
    }
}

/// What is tried next.
fn after(failure: &PassError, mut part: Part, pending: &mut Vec<Part>) {
    let requests_n = part.requests.len();
    match failure.remedy(requests_n, part.repeats_n) {
        Remedy::Repeat => {
            warn!(reason = %failure, requests_n, "repeated a batch that the database gave up for another's sake");
            pending.push(Part { repeats_n: part.repeats_n + 1, ..part });
        }
        Remedy::Halve => {
            warn!(reason = %failure, requests_n, "halved a batch that could not be committed");
            let is_suspect =
                part.is_suspect || matches!(failure, PassError::Store(StoreError::Locked { .. }));
            let second = part.requests.split_off(requests_n / 2);
            for requests in [second, part.requests] {
                pending.push(Part { requests, repeats_n: 0, is_suspect });
            }
        }
        Remedy::GiveBack => {
            error!(reason = %failure, requests_n, "could not commit; senders were told to try again");
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
    fn a_batch_is_bounded_by_events_and_by_bytes_unless_one_alone_is_larger() {
        const MIB: usize = 1 << 20;
        assert_eq!(cuts(&[]), Vec::<usize>::new());
        assert_eq!(cuts(&[(1, 10); 200]), [200]);
        assert_eq!(cuts(&[(1, MIB); 20]), [8, 8, 4]);
        assert_eq!(cuts(&[(1, 1), (1, 64 * MIB), (1, 1), (1, 1)]), [1, 1, 2]);
        assert_eq!(cuts(&[(600, 1), (600, 1), (400, 1), (5_000, 1)]), [1, 2, 1]);
    }

    #[test]
    fn a_setback_of_one_never_refuses_the_others() {
        let [conflict, locked, query, away] = StoreError::examples().map(PassError::Store);
        assert_eq!(conflict.remedy(2, 0), Remedy::Repeat);
        assert_eq!(conflict.remedy(1, 2), Remedy::Repeat);
        assert_eq!(conflict.remedy(2, 3), Remedy::Halve);
        assert_eq!(conflict.remedy(1, 3), Remedy::GiveBack);
        let odd = StoreError::Inconsistent { table: "t", column: "c", id: "1".to_owned() };
        for one in [locked, query, PassError::Store(odd), PassError::Panic("x".to_owned())] {
            assert_eq!((one.remedy(2, 0), one.remedy(1, 0)), (Remedy::Halve, Remedy::GiveBack), "{one}");
        }
        assert_eq!(away.remedy(2, 0), Remedy::GiveBack, "nobody's fault");
    }
}
