//! The loop: takes what is due, as much as each destination has free slots for, and lets each message go its
//! way in a task of its own.
//!
//! A slot is free again when its result is written, so what is held in memory is bounded: by the configured
//! concurrency, or a few times that where calls are quick (`gate.rs`). Nothing here decides about a message: see `attempt.rs`.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{error, info, warn};

use super::attempt::{Attempt, Stops};
use super::destinations::{self, Destination, DestinationError};
use super::settle::{self, Settled, Settler};
use crate::config::{DestinationConfig, OutboxConfig};
use crate::store::{LeaseWant, LeasedMessage, Store, StoreError};
use crate::types::{Clock, Name};

/// Most messages of one destination that [`Outbox::run_due`] takes.
const DUE_N_MAX: u32 = 1_000;
/// How long results may take to be written after the calls were cut off.
const CUT_TIMEOUT: Duration = Duration::from_secs(2);

/// Makes the calls of one node.
pub struct Outbox {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    clock: Clock,
    config: OutboxConfig,
    destinations: BTreeMap<Name, Destination>,
    node: String,
    wake: Arc<Notify>,
}

/// Tells an [`Outbox`] that there are new messages. To be used after the commit that wrote them.
#[derive(Debug, Clone)]
pub struct Waker(Arc<Notify>);

impl Waker {
    /// Makes the outbox look now instead of at its next poll. Never waits.
    pub fn wake(&self) {
        self.0.notify_one();
    }
}

/// A running task's place among its destination's `concurrency_n`; free again when dropped, panics included.
struct Slot(Arc<AtomicU32>);

impl Slot {
    fn take(taken_n: &Arc<AtomicU32>) -> Self {
        taken_n.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(taken_n))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Outbox {
    /// Checks and readies every destination. `node` names this process in the tables.
    pub fn new(
        store: Store,
        clock: Clock,
        config: OutboxConfig,
        destinations: BTreeMap<Name, DestinationConfig>,
        node: String,
    ) -> Result<Self, DestinationError> {
        let destinations = destinations::ready(destinations, &config)?;
        let wake = Arc::new(Notify::new());
        Ok(Self { shared: Arc::new(Shared { store, clock, config, destinations, node, wake }) })
    }

    /// A handle that wakes this outbox.
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.shared.wake))
    }

    /// Works until `stop` turns true or its sender is gone. Then takes nothing more, gives calls under way
    /// `stop_timeout_ms` to end, settles what they came to and hands the rest back.
    pub async fn run(self, stop: watch::Receiver<bool>) {
        let (cut, cut_signal) = watch::channel(false);
        let (settler, settling) = Settler::new(self.shared.store.clone());
        let mut writer = JoinSet::new();
        writer.spawn(settling);
        let mut worker = Worker {
            stops: Stops { stopping: stop, cut: cut_signal },
            taken_n: self.shared.destinations.keys().map(|name| (name.clone(), Arc::default())).collect(),
            shared: self.shared,
            settler,
            tasks: JoinSet::new(),
            failures_n: 0,
        };
        worker.work().await;
        worker.finish(&cut).await;
        drop(worker);
        // The writer ends with its last sender; a database that is away must not keep the process.
        if timeout(CUT_TIMEOUT, writer.join_next()).await.is_err() {
            warn!("stopped before every result was written; those leases will end by themselves");
        }
    }

    /// One step, for tests: takes what is due now, makes the calls, settles, and says how many messages it
    /// took.
    pub async fn run_due(&self) -> Result<usize, StoreError> {
        let (_never, quiet) = watch::channel(false);
        let wants: Vec<LeaseWant> =
            self.shared.destinations.values().map(|one| want(one, DUE_N_MAX)).collect();
        let leased = self.shared.lease(&wants).await?;
        let attempts = leased.iter().map(|message| {
            let stops = Stops { stopping: quiet.clone(), cut: quiet.clone() };
            self.shared.attempt(message, stops)
        });
        let settled: Vec<Settled> = join_all(attempts).await.into_iter().flatten().collect();
        settle::write(&self.shared.store, &settled, false).await?;
        Ok(leased.len())
    }
}

impl Shared {
    async fn lease(&self, wants: &[LeaseWant]) -> Result<Vec<LeasedMessage>, StoreError> {
        let lease_ms = i64::try_from(self.config.lease_ms).unwrap_or(i64::MAX);
        self.store.message_lease(wants, self.clock.now_ms(), lease_ms, &self.node).await
    }

    /// `None` for a destination that this node does not know, which it never asks for.
    async fn attempt(&self, message: &LeasedMessage, stops: Stops) -> Option<Settled> {
        let destination = self.destinations.get(&message.destination)?;
        let turn = destination.gate.turn().await;
        let attempt = Attempt { destination, message, clock: &self.clock, stops, call: None };
        let (settlement, call) = tokio::select! {
            made = attempt.make() => made,
            never = self.keep(destination, message) => match never {},
        };
        drop(turn);
        destination.gate.ended(settlement.result, call, self.clock.now_ms());
        Some(Settled { destination: message.destination.clone(), settlement })
    }
}

impl Shared {
    /// Prolongs the lease while its call is under way, where calls may outlast it. Never ends by itself: a lease
    /// that was lost is nothing that the call could be told, and its settlement will be fenced.
    async fn keep(&self, destination: &Destination, message: &LeasedMessage) -> Infallible {
        let Some(beat_ms) = destination.times.beat_ms else { return pending().await };
        let lease_ms = i64::try_from(self.config.lease_ms).unwrap_or(i64::MAX);
        loop {
            drop(timeout(Duration::from_millis(beat_ms), pending::<()>()).await);
            let until_ms = self.clock.now_ms().saturating_add(lease_ms);
            match self.store.message_extend(&message.message_id, message.attempt_n, until_ms).await {
                Ok(true) => {}
                Ok(false) => {
                    warn!(
                        message.id = %message.message_id,
                        destination = %message.destination,
                        attempt_n = message.attempt_n,
                        "lease was lost while the call was under way"
                    );
                    return pending().await;
                }
                Err(error) => {
                    warn!(%error, message.id = %message.message_id, "could not prolong a lease; trying again");
                }
            }
        }
    }
}

fn want(destination: &Destination, free_n: u32) -> LeaseWant {
    LeaseWant {
        destination: destination.name.clone(),
        free_n,
        key_valid_for_ms: destination.key_valid_for_ms(),
    }
}

/// The state of [`Outbox::run`].
struct Worker {
    shared: Arc<Shared>,
    stops: Stops,
    settler: Settler,
    taken_n: BTreeMap<Name, Arc<AtomicU32>>,
    tasks: JoinSet<()>,
    failures_n: u32,
}

impl Worker {
    async fn work(&mut self) {
        let mut stopping = self.stops.stopping.clone();
        while !*stopping.borrow() {
            while let Some(ended) = self.tasks.try_join_next() {
                report_panic(ended);
            }
            // What is known must be written before more is taken: a lease of ours that ended meanwhile would
            // otherwise be taken again and its call repeated.
            let may_be_more = if self.settler.is_behind() { false } else { self.look().await };
            let (wake, poll_ms) = (Arc::clone(&self.shared.wake), self.shared.config.poll_ms);
            tokio::select! {
                _ = stopping.wait_for(|is_stopping| *is_stopping) => return,
                () = settle::pause(self.failures_n), if self.failures_n > 0 => {}
                () = wake.notified(), if self.failures_n == 0 => {}
                () = settle::wait(poll_ms), if self.failures_n == 0 => {}
                Some(ended) = self.tasks.join_next(), if may_be_more => report_panic(ended),
            }
        }
    }

    /// Takes what is due and starts it. Whether a slot that becomes free may find more.
    async fn look(&mut self) -> bool {
        let wants: Vec<LeaseWant> =
            self.shared.destinations.values().map(|one| want(one, self.free_n(one))).collect();
        let wanted_n: BTreeMap<Name, u32> =
            wants.iter().map(|one| (one.destination.clone(), one.free_n)).collect();
        // Awaited to its end, never inside a `select!`: a cancelled statement could leave leases behind.
        let leased = match self.shared.lease(&wants).await {
            Ok(leased) => leased,
            Err(error) => {
                self.failures_n = self.failures_n.saturating_add(1);
                warn!(%error, failures_n = self.failures_n, "could not look for due messages");
                return false;
            }
        };
        if self.failures_n > 0 {
            info!(failures_n = self.failures_n, "looks for due messages again");
            self.failures_n = 0;
        }
        let mut left_n = wanted_n;
        for message in leased {
            if let Some(left_n) = left_n.get_mut(&message.destination) {
                *left_n = left_n.saturating_sub(1);
            }
            self.start(message);
        }
        left_n.values().any(|left_n| *left_n == 0)
    }

    fn free_n(&self, destination: &Destination) -> u32 {
        let taken_n =
            self.taken_n.get(&destination.name).map_or(0, |taken_n| taken_n.load(Ordering::Relaxed));
        let slots_n = destination.gate.in_hand_n().saturating_sub(taken_n);
        destination.gate.allowed_n(slots_n, self.shared.clock.now_ms())
    }

    fn start(&mut self, message: LeasedMessage) {
        let Some(slot) = self.taken_n.get(&message.destination).map(Slot::take) else { return };
        // Now, not when the task first runs: the next look must not count this call's place as free.
        if let Some(destination) = self.shared.destinations.get(&message.destination) {
            destination.gate.started();
        }
        let (shared, settler, stops) = (Arc::clone(&self.shared), self.settler.clone(), self.stops.clone());
        self.tasks.spawn(async move {
            if let Some(settled) = shared.attempt(&message, stops).await {
                settler.settle(settled).await;
            }
            drop(slot);
            if message.has_lane {
                // The next of its lane may be due now.
                shared.wake.notify_one();
            }
        });
    }

    async fn finish(&mut self, cut: &watch::Sender<bool>) {
        let patience = Duration::from_millis(self.shared.config.stop_timeout_ms);
        if timeout(patience, self.join()).await.is_ok() {
            return;
        }
        warn!(calls_n = self.tasks.len(), "cut off calls under way: the server is stopping");
        cut.send_replace(true);
        if timeout(CUT_TIMEOUT, self.join()).await.is_err() {
            warn!(
                calls_n = self.tasks.len(),
                "stopped before every result was written; those leases will end by themselves"
            );
        }
    }

    async fn join(&mut self) {
        while let Some(ended) = self.tasks.join_next().await {
            report_panic(ended);
        }
    }
}

fn report_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        error!(%error, "an attempt ended badly; its lease will end and its outcome count as unknown");
    }
}
