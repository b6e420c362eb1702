//! Writes outcomes, many at a time: takes what waits, one statement for all of it.
//!
//! When the database is away the write is repeated, never the call, until the lease is over; then whoever
//! takes the message next finds that its outcome is unknown.

use std::time::Duration;

use tokio::sync::mpsc;
use tracing::warn;

use crate::store::{Settlement, Store, StoreError};
use crate::types::{Clock, Name, UnixMs};

/// Most outcomes in one statement.
const SETTLEMENTS_N_MAX: usize = 256;
/// Longest wait between two tries of a write.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// One outcome on its way to its row.
pub(super) struct Outcome {
    pub(super) destination: Name,
    pub(super) settlement: Settlement,
    /// Past this the row is somebody else's.
    pub(super) lease_until_ms: UnixMs,
}

/// Runs until every sender of outcomes is gone and the last one is written.
pub(super) async fn run(store: Store, clock: Clock, mut waiting: mpsc::Receiver<Outcome>) {
    let mut batch = Vec::with_capacity(SETTLEMENTS_N_MAX);
    while waiting.recv_many(&mut batch, SETTLEMENTS_N_MAX).await > 0 {
        write(&store, &clock, std::mem::take(&mut batch)).await;
    }
}

async fn write(store: &Store, clock: &Clock, mut batch: Vec<Outcome>) {
    let mut pause = Duration::from_millis(20);
    while !batch.is_empty() {
        let settlements: Vec<Settlement> = batch.iter().map(|one| one.settlement.clone()).collect();
        match store.message_settle(&settlements).await {
            Ok(settled) => {
                for (one, is_settled) in batch.iter().zip(settled) {
                    if !is_settled {
                        fenced(one);
                    }
                }
                return;
            }
            Err(error) => {
                warn!(%error, outcomes_n = batch.len(), "could not write outcomes; writing them again");
                if matches!(error, StoreError::Query { .. }) && batch.len() > 1 {
                    // One of them is refused; alone, the others go through.
                    for one in batch {
                        Box::pin(write(store, clock, vec![one])).await;
                    }
                    return;
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
                let now_ms = clock.now_ms();
                batch.retain(|one| now_ms < one.lease_until_ms);
            }
        }
    }
}

fn fenced(one: &Outcome) {
    metrics::counter!("hooklatch_fenced_total", "destination" => one.destination.to_string()).increment(1);
    warn!(
        message.id = one.settlement.message_id,
        destination = %one.destination,
        attempt_n = one.settlement.attempt_n,
        "a lost lease kept this outcome from being written"
    );
}
