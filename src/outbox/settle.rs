//! Writes what attempts came to, many in one transaction, each under its fencing token.
//!
//! A write that fails because the database is away is repeated until it is written or fenced: the call
//! behind it was made and must not be made again. While that goes on, [`Settler::is_behind`] keeps the
//! worker from taking more.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::JoinSet;
use tracing::{error, warn};

use super::node::{InHand, Shared};
use crate::stop::pass;
use crate::store::{Settlement, Store, StoreError};
use crate::types::MessageId;

/// Most settlements in one transaction.
const BATCH_N_MAX: usize = 256;
/// Upper bound of the first wait after a failure, and of any.
const PAUSE_MS: (u64, u64) = (100, 5_000);
/// Most settlements that are written each by itself at once, besides one of those that are known to be locked: each
/// holds a connection, perhaps while it waits for somebody's lock.
const ALONE_N_MAX: usize = 2;

/// A clock that is further from where it should be was set. Milliseconds.
pub(super) const CLOCK_SET_MS: i64 = 1_000;

/// What a call came to, and what is in hand until that is written.
pub(super) struct Waiting {
    settlement: Settlement,
    in_hand: InHand,
}

/// Hands settlements to the task that writes them.
pub(super) struct Settler {
    // Unbounded, and yet bounded: whatever is in it has a slot.
    sender: mpsc::UnboundedSender<Waiting>,
    behind_n: Arc<AtomicU32>,
    known: Known,
    /// Told when nothing more will come.
    closing: Notify,
}

/// Results that wait apart, by message. One whose lease ended meanwhile may be claimed again before they are written: then
/// what became of its call is known, and it is neither made again nor left to a person.
#[derive(Clone, Default)]
struct Known(Arc<Mutex<HashMap<MessageId, Settlement>>>);

/// A result that is known until it is written.
struct Noted {
    known: Known,
    message_id: MessageId,
    attempt_n: u32,
}

impl Known {
    fn note(&self, settlement: &Settlement) -> Noted {
        let (message_id, attempt_n) = (settlement.message_id, settlement.attempt_n);
        self.all().insert(message_id, settlement.clone());
        Noted { known: self.clone(), message_id, attempt_n }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<MessageId, Settlement>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        let mut all = self.known.all();
        if all.get(&self.message_id).is_some_and(|one| one.attempt_n == self.attempt_n) {
            all.remove(&self.message_id);
        }
    }
}

impl Settler {
    /// A settler, and what a [`Writer`] takes from it.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Waiting>) {
        let (sender, waiting) = mpsc::unbounded_channel();
        let settler =
            Self { sender, behind_n: Arc::default(), known: Known::default(), closing: Notify::new() };
        (settler, waiting)
    }

    /// Has a settlement written or fenced; what is in hand is let go then.
    pub(super) fn settle(&self, settlement: Settlement, in_hand: InHand) {
        // An error means that the writing task is gone: the process is stopping.
        drop(self.sender.send(Waiting { settlement, in_hand }));
    }

    /// Nothing more will come: the writer ends when all is written.
    pub(super) fn close(&self) {
        self.closing.notify_one();
    }

    /// What an earlier call for this message came to, while that is not written: it counts for the claim `attempt_n`.
    pub(super) fn known(&self, message_id: MessageId, attempt_n: u32) -> Option<Settlement> {
        let known = self.known.all().get(&message_id)?.clone();
        Some(Settlement { attempt_n, ..known })
    }

    /// Whether results wait because the database does not take them.
    pub(super) fn is_behind(&self) -> bool {
        self.behind_n.load(Ordering::Relaxed) > 0
    }
}

/// Somebody whose results the database does not take.
struct Behind(Arc<AtomicU32>);

impl Behind {
    fn new(behind_n: &Arc<AtomicU32>) -> Self {
        behind_n.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(behind_n))
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What writes.
#[derive(Clone)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    turns: Arc<Semaphore>,
    turns_of_locked: Arc<Semaphore>,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let turns = Arc::new(Semaphore::new(ALONE_N_MAX));
        Self { shared, turns, turns_of_locked: Arc::new(Semaphore::new(1)) }
    }

    /// Writes until [`Settler::close`], and then what is left.
    pub(super) async fn run(self, mut waiting: mpsc::UnboundedReceiver<Waiting>) {
        let (mut settlements, mut in_hands) = (Vec::new(), Vec::new());
        let mut batch = Vec::new();
        let mut apart = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                taken_n = waiting.recv_many(&mut batch, BATCH_N_MAX) => {
                    if taken_n == 0 {
                        break;
                    }
                }
                () = self.shared.settler.closing.notified() => {
                    waiting.close();
                    continue;
                }
            }
            for one in batch.drain(..) {
                let Waiting { settlement, in_hand } = one;
                settlements.push(settlement);
                in_hands.push(in_hand);
            }
            let together = AssertUnwindSafe(self.write_together(&settlements)).catch_unwind().await;
            let is_done = together.unwrap_or_else(|_| {
                panicked("settler", &self.shared.is_well);
                false
            });
            for (settlement, in_hand) in settlements.drain(..).zip(in_hands.drain(..)) {
                if is_done {
                    self.shared.settled(&settlement, in_hand);
                } else {
                    // Whichever it was, it must not take the others with it, nor keep those that come after it.
                    let noted = self.shared.settler.known.note(&settlement);
                    apart.spawn(self.clone().write_apart(settlement, in_hand, noted));
                }
            }
            self.shared.freed.notify_one();
            while apart.try_join_next().is_some() {}
        }
        while apart.join_next().await.is_some() {}
    }

    /// All in one transaction, for as long as the database is away; `false` when something about one of them is in the
    /// way: then nobody knows of whom.
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
            behind.get_or_insert_with(|| Behind::new(&self.shared.settler.behind_n));
            warn!(
                failures_n,
                settlements_n = batch.len(),
                "database does not take settlements; writing them again"
            );
            pause(failures_n).await;
        }
    }

    async fn write_apart(self, settlement: Settlement, in_hand: InHand, noted: Noted) {
        let is_refused = AtomicBool::new(false);
        let written_alone = async {
            // Operations of the store run to their ends, whoever waits for them.
            tokio::select! {
                () = self.write_alone(settlement.clone(), &is_refused) => {}
                () = self.keep(&settlement, &is_refused) => {}
            }
        };
        if AssertUnwindSafe(written_alone).catch_unwind().await.is_err() {
            panicked("settler", &self.shared.is_well);
        }
        drop(noted);
        self.shared.settled(&settlement, in_hand);
        self.shared.freed.notify_one();
    }

    /// By itself, for as long as the database is away or somebody has its row or lane locked; one that it refuses is
    /// written without the texts that the destination had a hand in: what is known of a call must not be lost to a word.
    /// One that is refused even so is written again until it is taken: the call was made, and must not be made again.
    async fn write_alone(&self, mut one: Settlement, is_refused: &AtomicBool) {
        let (mut failures_n, mut behind, mut turns) = (0, None, &self.turns);
        loop {
            let turn = turns.acquire().await;
            let answer = self.shared.store.message_settle_apart(&one).await;
            drop(turn);
            match answer {
                // One that is fenced may be one that was written before: nobody knows what the first try did.
                Ok(_) => return,
                Err(error) if is_away(&error) => {
                    behind.get_or_insert_with(|| Behind::new(&self.shared.settler.behind_n));
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
                    // Those that nobody locks have turns of their own from now on. And no pause: the database waited,
                    // and whoever waits there when the lock is gone is first.
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

    /// Prolongs the lease of what waits for its lane or is refused, until it is dropped: nobody may take the message
    /// because its lease ends first. Where its own row is locked, nobody can take it either.
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

/// Whether the same write may work later, and no other would work sooner.
fn is_away(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Unavailable { .. } | StoreError::CommitUnknown { .. } | StoreError::Conflict { .. }
    )
}

/// Writes once. After a failed try nobody knows whether that one was committed, so a settlement that is
/// fenced then may as well be written.
pub(super) async fn write(store: &Store, batch: &[Settlement], was_tried: bool) -> Result<(), StoreError> {
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

/// Counts a panic of a part of the outbox, which goes on; readiness knows until it has done something well.
pub(super) fn panicked(part: &'static str, is_well: &AtomicBool) {
    is_well.store(false, Ordering::Relaxed);
    metrics::counter!("hooklatch_panics_total", "part" => format!("outbox_{part}")).increment(1);
    error!(part, "a part of the outbox panicked; it goes on");
}

/// Waits after the `failures_n`th failure in a row: exponential.
pub(super) async fn pause(failures_n: u32) {
    pass(pause_for(failures_n)).await;
}

/// How long that is.
pub(super) fn pause_for(failures_n: u32) -> Duration {
    let (first_ms, max_ms) = PAUSE_MS;
    jittered(first_ms.saturating_mul(1 << failures_n.saturating_sub(1).min(20)).min(max_ms))
}

/// Between half and all of `bound_ms`, at least a millisecond: nodes must not march in step.
pub(super) fn jittered(bound_ms: u64) -> Duration {
    let half_ms = bound_ms.max(2) / 2;
    Duration::from_millis(half_ms + fastrand::u64(..=half_ms))
}

/// Waits between half and all of `bound_ms`.
pub(super) async fn wait(bound_ms: u64) {
    pass(jittered(bound_ms)).await;
}
