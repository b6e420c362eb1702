//! Writes what attempts came to, many in one transaction, each under its fencing token.
//!
//! A write that fails because the database is away is repeated until it is written or fenced: the call
//! behind it was made and must not be made again. While that goes on, [`Settler::is_behind`] keeps the
//! worker from taking more.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{mpsc, oneshot};
use tracing::{error, warn};

use crate::store::{Settlement, Store, StoreError};
use crate::types::Name;

/// Most settlements in one transaction.
const BATCH_N_MAX: usize = 256;
/// Upper bound of the first wait after a failure, and of any.
const PAUSE_MS: (u64, u64) = (100, 5_000);

/// A clock that is further from where it should be was set. Milliseconds.
pub(super) const CLOCK_SET_MS: i64 = 1_000;

/// A settlement and whose it is.
#[derive(Clone)]
pub(super) struct Settled {
    pub(super) destination: Name,
    pub(super) settlement: Settlement,
}

struct Waiting {
    settled: Settled,
    written: oneshot::Sender<()>,
}

/// Hands settlements to the task that writes them. Cloning shares that task.
#[derive(Clone)]
pub(super) struct Settler {
    // Unbounded, and yet bounded: whoever sends waits for its answer, and there is one sender per slot.
    sender: mpsc::UnboundedSender<Waiting>,
    is_behind: Arc<AtomicBool>,
}

impl Settler {
    /// A settler and the task that writes; the task ends when the last clone is dropped.
    pub(super) fn new(
        store: Store,
        is_well: Arc<AtomicBool>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (sender, waiting) = mpsc::unbounded_channel();
        let is_behind = Arc::new(AtomicBool::new(false));
        let task = run(store, waiting, Arc::clone(&is_behind), is_well);
        (Self { sender, is_behind }, task)
    }

    /// Comes back when the settlement is written, fenced or refused by the database.
    pub(super) async fn settle(&self, settled: Settled) {
        let (written, is_written) = oneshot::channel();
        if self.sender.send(Waiting { settled, written }).is_ok() {
            // An error means that the writing task is gone: the process is stopping.
            drop(is_written.await);
        }
    }

    /// Whether results wait because the database does not take them.
    pub(super) fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::Relaxed)
    }
}

async fn run(
    store: Store,
    mut waiting: mpsc::UnboundedReceiver<Waiting>,
    is_behind: Arc<AtomicBool>,
    is_well: Arc<AtomicBool>,
) {
    let mut batch = Vec::new();
    while waiting.recv_many(&mut batch, BATCH_N_MAX).await > 0 {
        let (settled, written): (Vec<_>, Vec<_>) =
            batch.drain(..).map(|one: Waiting| (one.settled, one.written)).unzip();
        let written_all = AssertUnwindSafe(write_until_answered(&store, &settled, &is_behind)).catch_unwind();
        if written_all.await.is_err() {
            panicked("settler", &is_well);
            // Whichever it was, it must not take the others with it.
            for one in settled.chunks(1) {
                if AssertUnwindSafe(write_each(&store, one)).catch_unwind().await.is_err() {
                    panicked("settler", &is_well);
                }
            }
            is_behind.store(false, Ordering::Relaxed);
        }
        for written in written {
            // Whoever waited may have been stopped meanwhile.
            written.send(()).ok();
        }
    }
}

async fn write_until_answered(store: &Store, batch: &[Settled], is_behind: &AtomicBool) {
    let mut failures_n = 0;
    loop {
        match write(store, batch, failures_n > 0).await {
            Ok(()) => break,
            Err(error) if is_passing(&error) => {}
            // One that the database refuses must not take the others with it.
            Err(refused) => {
                warn!(error = %refused, settlements_n = batch.len(), "could not settle together, settling one by one");
                write_each(store, batch).await;
                break;
            }
        }
        failures_n += 1;
        is_behind.store(true, Ordering::Relaxed);
        warn!(
            failures_n,
            settlements_n = batch.len(),
            "database does not take settlements; writing them again"
        );
        pause(failures_n).await;
    }
    is_behind.store(false, Ordering::Relaxed);
}

/// Each by itself, for as long as the database is away; one that it refuses is written without the texts that the far
/// side had a hand in: what is known of a call must not be lost to a word.
async fn write_each(store: &Store, batch: &[Settled]) {
    for one in batch {
        let mut one = one.clone();
        let mut failures_n = 0;
        loop {
            let refused = match write(store, std::slice::from_ref(&one), true).await {
                Ok(()) => break,
                Err(error) if is_passing(&error) => {
                    failures_n += 1;
                    pause(failures_n).await;
                    continue;
                }
                Err(refused) => refused,
            };
            error!(
                message.id = %one.settlement.message_id,
                destination = %one.destination,
                attempt_n = one.settlement.attempt_n,
                error = %refused,
                "could not settle with what the far side said"
            );
            let has_texts = one.settlement.error.is_some() || one.settlement.response.is_some();
            if !has_texts {
                break;
            }
            one.settlement.error = None;
            one.settlement.response = None;
        }
    }
}

/// Whether the same write may work later.
fn is_passing(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Unavailable { .. }
            | StoreError::CommitUnknown { .. }
            | StoreError::Conflict { .. }
            | StoreError::Locked { .. }
    )
}

/// Writes once. After a failed try nobody knows whether that one was committed, so a settlement that is
/// fenced then may as well be written.
pub(super) async fn write(store: &Store, batch: &[Settled], was_tried: bool) -> Result<(), StoreError> {
    let settlements: Vec<Settlement> = batch.iter().map(|one| one.settlement.clone()).collect();
    let written = store.message_settle(&settlements).await?;
    let fenced = batch.iter().zip(written).filter(|(_, is_written)| !is_written).map(|(one, _)| one);
    for one in fenced.filter(|_| !was_tried) {
        metrics::counter!("hooklatch_fenced_total", "destination" => one.destination.to_string())
            .increment(1);
        warn!(
            message.id = %one.settlement.message_id,
            destination = %one.destination,
            attempt_n = one.settlement.attempt_n,
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
    let (first_ms, max_ms) = PAUSE_MS;
    wait(first_ms.saturating_mul(1 << failures_n.saturating_sub(1).min(20)).min(max_ms)).await;
}

/// Between half and all of `bound_ms`, at least a millisecond: nodes must not march in step.
pub(super) fn jittered(bound_ms: u64) -> Duration {
    let half_ms = bound_ms.max(2) / 2;
    Duration::from_millis(half_ms + fastrand::u64(..=half_ms))
}

/// Waits between half and all of `bound_ms`.
pub(super) async fn wait(bound_ms: u64) {
    drop(tokio::time::timeout(jittered(bound_ms), std::future::pending::<()>()).await);
}
