//! Writes the results of attempts, many in one transaction, each under its fencing token.
//!
//! The token is the message's claim counter. Every statement that settles says `attempts_n = $token AND state =
//! 'leased'`: a worker whose lease ended, and whose message another one has claimed since, changes no row (P4). It gets
//! `false`, the settlement counts as fenced, and the result of the other one stands.
//!
//! A call that was made must not be made again because its result could not be written. So a write that fails because
//! the database is away is repeated until it is written or fenced; while that goes on, `Settler::is_behind` keeps the
//! worker from taking more. After a failed try it is unknown whether it was committed, so "fenced" is then no reason
//! for an alarm.
//!
//! A batch that is refused for another reason is written one by one, so that its culprit stands alone: one that another
//! transaction has locked waits for that lock with its lease prolonged, one that the database refuses is written
//! without its texts. A lease that ends meanwhile may be claimed again, also while a batch waits for such a lock: then
//! the known result answers that claim (`Settler::unwritten_result`), and no second call is made.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{error, warn};

use super::pause::{PAUSE_MS, pause, wait};
use super::post::OccupiedSlot;
use super::settler::{BehindGuard, NotedResult, Waiting};
use super::state::OutboxState;
use hooklatch_store::{Settlement, Store, StoreError};

/// Most settlements in one transaction.
const BATCH_N_MAX: usize = 256;
/// Most settlements that are written each by itself at once, besides one of those that are known to be locked: each
/// holds a connection, perhaps while it waits for another transaction's lock.
const ALONE_N_MAX: usize = 2;
/// Time after which what a batch holds, and what is queued meanwhile, is noted: much less than any lease, and than a
/// wait for a lock.
const NOTED_AFTER: Duration = Duration::from_millis(200);

/// The task that writes results.
#[derive(Clone)]
pub(super) struct Writer {
    shared: Arc<OutboxState>,
    turns: Arc<Semaphore>,
    turns_of_locked: Arc<Semaphore>,
}

/// What there is besides a batch that is being written.
#[derive(Default)]
struct Backlog {
    /// Queued while the batch was slow: the next batches.
    later: Vec<Waiting>,
    /// Each of these is written by itself.
    apart: JoinSet<()>,
}

impl Writer {
    pub(crate) fn new(shared: Arc<OutboxState>) -> Self {
        let turns = Arc::new(Semaphore::new(ALONE_N_MAX));
        Self { shared, turns, turns_of_locked: Arc::new(Semaphore::new(1)) }
    }

    /// Writes until [`Settler::close`], and then what is left.
    pub(crate) async fn run(self, mut waiting: mpsc::UnboundedReceiver<Waiting>) {
        let (mut settlements, mut rest) = (Vec::new(), Vec::new());
        let mut batch = Vec::new();
        let mut backlog = Backlog::default();
        loop {
            tokio::select! {
                biased;
                () = std::future::ready(()), if !backlog.later.is_empty() => {
                    let n = backlog.later.len().min(BATCH_N_MAX);
                    batch.extend(backlog.later.drain(..n));
                }
                taken_n = waiting.recv_many(&mut batch, BATCH_N_MAX) => {
                    if taken_n == 0 {
                        break;
                    }
                    for one in batch.extract_if(.., |one| one.noted.is_some()) {
                        self.begin_apart(one, &mut backlog);
                    }
                    if batch.is_empty() {
                        continue;
                    }
                }
                () = self.shared.settler.closing.notified() => {
                    waiting.close();
                    continue;
                }
            }
            for Waiting { settlement, slot, noted } in batch.drain(..) {
                settlements.push(settlement);
                rest.push((slot, noted));
            }
            let is_done = self.write_noting(&settlements, &mut rest, &mut waiting, &mut backlog).await;
            for (settlement, (slot, noted)) in settlements.drain(..).zip(rest.drain(..)) {
                if is_done {
                    drop(noted);
                    self.shared.settled(&settlement, slot);
                } else {
                    // Whichever it was, it must not take the others with it, nor block the later ones.
                    self.begin_apart(Waiting { settlement, slot, noted }, &mut backlog);
                }
            }
            self.shared.freed.notify_one();
            while backlog.apart.try_join_next().is_some() {}
        }
        while backlog.apart.join_next().await.is_some() {}
    }

    fn begin_apart(&self, one: Waiting, backlog: &mut Backlog) {
        let Waiting { settlement, slot, noted } = one;
        let noted = noted.unwrap_or_else(|| self.shared.settler.known.note(&settlement));
        backlog.apart.spawn(self.clone().write_apart(settlement, slot, noted));
    }

    /// Writes a batch. Once that is slow, what is in it and what is queued meanwhile is noted: their leases may end
    /// before they are written.
    async fn write_noting(
        &self,
        batch: &[Settlement],
        rest: &mut [(OccupiedSlot, Option<NotedResult>)],
        waiting: &mut mpsc::UnboundedReceiver<Waiting>,
        backlog: &mut Backlog,
    ) -> bool {
        let known = &self.shared.settler.known;
        let mut together = pin!(AssertUnwindSafe(self.write_together(batch)).catch_unwind());
        let mut written = timeout(NOTED_AFTER, &mut together).await.ok();
        if written.is_none() {
            for (settlement, (_, noted)) in batch.iter().zip(rest) {
                noted.get_or_insert_with(|| known.note(settlement));
            }
        }
        loop {
            if let Some(written) = written {
                return written.unwrap_or_else(|_| {
                    self.shared.panicked("settler");
                    false
                });
            }
            tokio::select! {
                ended = &mut together => written = Some(ended),
                Some(mut one) = waiting.recv() => {
                    if one.noted.is_some() {
                        self.begin_apart(one, backlog);
                    } else {
                        one.noted = Some(known.note(&one.settlement));
                        backlog.later.push(one);
                    }
                }
            }
        }
    }

    /// All in one transaction, for as long as the database is away; `false` when something about one of them is in the
    /// way: then it is unknown of which.
    async fn write_together(&self, batch: &[Settlement]) -> bool {
        let (mut failures_n, mut behind) = (0, None);
        loop {
            match write(&self.shared.store, batch, failures_n > 0).await {
                Ok(()) => return true,
                Err(error) if is_away(&error) => {}
                Err(error) => {
                    warn!(%error, settlements_n = batch.len(), "could not settle together, settling one by one");
                    return false;
                }
            }
            failures_n += 1;
            behind.get_or_insert_with(|| BehindGuard::new(&self.shared.settler.behind_n));
            warn!(
                failures_n,
                settlements_n = batch.len(),
                "database does not take settlements; writing them again"
            );
            pause(failures_n).await;
        }
    }

    async fn write_apart(self, settlement: Settlement, slot: OccupiedSlot, noted: NotedResult) {
        let is_refused = AtomicBool::new(false);
        let written_alone = async {
            // Operations of the store run to their end, even when no caller waits for them.
            tokio::select! {
                () = self.write_alone(settlement.clone(), &is_refused) => {}
                () = self.keep(&settlement, &is_refused) => {}
            }
        };
        if AssertUnwindSafe(written_alone).catch_unwind().await.is_err() {
            self.shared.panicked("settler");
        }
        drop(noted);
        self.shared.settled(&settlement, slot);
        self.shared.freed.notify_one();
    }

    /// Writes one result by itself, again and again while the database is away or its row or lane is locked. A result
    /// that the database refuses is written without the destination's texts: what is known of a call must not be lost
    /// because of a text. When it is refused even so, it is written again until it is taken: the call was made, and
    /// must not be made again.
    async fn write_alone(&self, mut one: Settlement, is_refused: &AtomicBool) {
        let (mut failures_n, mut behind, mut turns) = (0, None, &self.turns);
        loop {
            let turn = turns.acquire().await;
            let answer = self.shared.store.message_settle_apart(&one).await;
            drop(turn);
            match answer {
                // One that is fenced may be one that was written before: it is unknown what the first try did.
                Ok(_) => return,
                Err(error) if is_away(&error) => {
                    behind.get_or_insert_with(|| BehindGuard::new(&self.shared.settler.behind_n));
                }
                Err(StoreError::Locked { source, .. }) => {
                    if failures_n == 0 {
                        warn!(
                            message.id = %one.message_id,
                            destination = %one.destination,
                            error = %source,
                            "somebody keeps a message or its lane locked; its result is written when they let go"
                        );
                    }
                    failures_n += 1;
                    // Those that are not locked have turns of their own from now on. And no pause: the database waited,
                    // and the waiter that is there when the lock is gone is first.
                    (behind, turns) = (None, &self.turns_of_locked);
                    continue;
                }
                Err(refused) => {
                    error!(
                        message.id = %one.message_id,
                        destination = %one.destination,
                        attempt_n = one.attempt_n,
                        error = %refused,
                        "could not settle: the database refuses it"
                    );
                    behind = None;
                    if one.error.is_some() || one.response.is_some() {
                        (one.error, one.response) = (None, None);
                        continue;
                    }
                    is_refused.store(true, Ordering::Relaxed);
                }
            }
            failures_n += 1;
            pause(failures_n).await;
        }
    }

    /// Prolongs the lease of what waits for its lane or is refused, until it is dropped: no worker may take the message
    /// because its lease ends first. Where its own row is locked, no worker can take it either.
    async fn keep(&self, one: &Settlement, is_refused: &AtomicBool) {
        let (id, attempt_n) = (one.message_id, one.attempt_n);
        let lease_ms = self.shared.lease_ms();
        loop {
            let is_kept = one.lane.is_some() || is_refused.load(Ordering::Relaxed);
            let now_ms = self.shared.clock.steady_ms();
            if is_kept
                && let Err(error) = self.shared.store.message_extend(id, attempt_n, now_ms, lease_ms).await
            {
                warn!(%error, message.id = %id, "could not prolong a lease");
            }
            wait(u64::try_from(lease_ms / 4).unwrap_or(PAUSE_MS.1)).await;
        }
    }
}

/// True when the same write may work later, and no other would work sooner.
fn is_away(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Unavailable { .. } | StoreError::CommitUnknown { .. } | StoreError::Conflict { .. }
    )
}

/// Writes once. After a failed try it is unknown whether that one was committed, so a settlement that is fenced then
/// may as well be written.
pub(crate) async fn write(store: &Store, batch: &[Settlement], was_tried: bool) -> Result<(), StoreError> {
    let written = store.message_settle(batch).await?;
    let fenced = batch.iter().zip(written).filter(|(_, is_written)| !is_written).map(|(one, _)| one);
    for one in fenced.filter(|_| !was_tried) {
        metrics::counter!("hooklatch_fenced_total", "destination" => one.destination.to_string())
            .increment(1);
        warn!(
            message.id = %one.message_id,
            destination = %one.destination,
            attempt_n = one.attempt_n,
            "settlement was fenced: the lease had ended and another worker holds the message"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_database_that_is_away_is_worth_the_same_write_again() {
        let [conflict, locked, refused, away] = {
            let (op, source) = ("x", || hooklatch_store::decode_error("c", "x"));
            [
                StoreError::Conflict { op, source: source() },
                StoreError::Locked { op, source: source() },
                StoreError::Query { op, source: source() },
                StoreError::Unavailable { op, source: source() },
            ]
        };
        assert_eq!([conflict, away].map(|error| is_away(&error)), [true, true]);
        assert_eq!([locked, refused].map(|error| is_away(&error)), [false, false]);
    }
}
