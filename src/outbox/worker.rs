//! The loop: takes what is due, as much as each destination has free slots for, and lets each message go its
//! way in a task of its own.
//!
//! A slot is free again when its result is written, so what is held in memory is bounded: by the configured
//! concurrency, or a few times that where calls are quick (`gate.rs`). Nothing here decides about a message: see `attempt.rs`.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{error, info, warn};

use super::attempt::{Attempt, Stops};
use super::destinations::{self, Destination, DestinationError};
use super::handover::{Handed, Handover, Load, Slot};
use super::settle::{self, Settled, Settler};
use crate::config::{DestinationConfig, OutboxConfig};
use crate::store::{LeaseWant, LeasedMessage, Store, StoreError};
use crate::types::{Clock, Name};

/// Most messages of one destination that [`Outbox::run_due`] takes.
const DUE_N_MAX: u32 = 1_000;
/// How often a stopping worker looks whether admission has given back its slots. Milliseconds.
const SLOT_CHECK_MS: u64 = 20;
/// How long results may take to be written after the calls were cut off.
const CUT_TIMEOUT: Duration = Duration::from_secs(2);

/// Makes the calls of one node.
pub struct Outbox {
    shared: Arc<Shared>,
    /// What admission hands over, and its other end.
    handed: (mpsc::UnboundedSender<Handed>, mpsc::UnboundedReceiver<Handed>),
}

pub(super) struct Shared {
    store: Store,
    pub(super) clock: Clock,
    pub(super) config: OutboxConfig,
    pub(super) destinations: BTreeMap<Name, Destination>,
    pub(super) node: Arc<str>,
    wake: Arc<Notify>,
    pub(super) loads: BTreeMap<Name, Load>,
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
        let loads = destinations.keys().map(|name| (name.clone(), Load::default())).collect();
        let node = Arc::from(node);
        let shared = Arc::new(Shared { store, clock, config, destinations, node, wake, loads });
        // Bounded all the same: whatever is in it has a slot.
        Ok(Self { shared, handed: mpsc::unbounded_channel() })
    }

    /// Lets admission hand over what it has just committed.
    pub fn handover(&self) -> Handover {
        Handover::new(Arc::clone(&self.shared), self.handed.0.clone())
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
            shared: self.shared,
            handed: self.handed.1,
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
        let over = Notify::new();
        let made = async {
            let made = attempt.make().await;
            over.notify_one();
            made
        };
        let ((settlement, call), ()) = tokio::join!(made, self.keep(destination, message, &over));
        drop(turn);
        destination.gate.ended(settlement.result, call, self.clock.now_ms());
        Some(Settled { destination: message.destination.clone(), settlement })
    }
}

impl Shared {
    /// Prolongs the lease until its call is `over`, where calls may outlast it. A lease that was lost is nothing
    /// that the call could be told, and its settlement will be fenced. What is being written is awaited to its
    /// end: a cancelled statement could leave a connection in the middle of it.
    async fn keep(&self, destination: &Destination, message: &LeasedMessage, over: &Notify) {
        let Some(beat_ms) = destination.times.beat_ms else { return };
        let lease_ms = i64::try_from(self.config.lease_ms).unwrap_or(i64::MAX);
        while timeout(Duration::from_millis(beat_ms), over.notified()).await.is_err() {
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
                    return;
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
    handed: mpsc::UnboundedReceiver<Handed>,
    tasks: JoinSet<()>,
    failures_n: u32,
}

impl Worker {
    async fn work(&mut self) {
        let mut stopping = self.stops.stopping.clone();
        let (mut is_look_due, mut may_be_more) = (true, false);
        let mut next_look = Instant::now();
        while !*stopping.borrow() {
            while let Some(ended) = self.tasks.try_join_next() {
                report_panic(ended);
            }
            // What is known must be written before more is taken: a lease of ours that ended meanwhile would
            // otherwise be taken again and its call repeated.
            if is_look_due || next_look <= Instant::now() {
                may_be_more = if self.settler.is_behind() { false } else { self.look().await };
                next_look = Instant::now() + settle::jittered(self.shared.config.poll_ms);
            }
            is_look_due = true;
            let wake = Arc::clone(&self.shared.wake);
            tokio::select! {
                _ = stopping.wait_for(|is_stopping| *is_stopping) => return,
                () = settle::pause(self.failures_n), if self.failures_n > 0 => {}
                () = wake.notified(), if self.failures_n == 0 => {}
                Some((message, slot)) = self.handed.recv() => {
                    self.start(message, slot);
                    self.start_handed();
                    // Nothing new is in the database: no look.
                    is_look_due = false;
                }
                () = until(next_look), if self.failures_n == 0 => {}
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
        let mut left_n = wanted_n.clone();
        for message in leased {
            if let Some(left_n) = left_n.get_mut(&message.destination) {
                *left_n = left_n.saturating_sub(1);
            }
            let slot = self.shared.loads.get(&message.destination).map(Load::take);
            if let Some(slot) = slot {
                self.start(message, slot);
            }
        }
        for (name, load) in &self.shared.loads {
            // One that had no slot was not asked about: what it has waiting is as it was.
            if wanted_n.get(name).is_some_and(|wanted_n| *wanted_n > 0) {
                load.is_drained.store(left_n.get(name).is_some_and(|left_n| *left_n > 0), Ordering::Relaxed);
            }
        }
        left_n.values().any(|left_n| *left_n == 0)
    }

    fn start_handed(&mut self) {
        while let Ok((message, slot)) = self.handed.try_recv() {
            self.start(message, slot);
        }
    }

    fn free_n(&self, destination: &Destination) -> u32 {
        let taken_n =
            self.shared.loads.get(&destination.name).map_or(0, |load| load.taken_n.load(Ordering::Relaxed));
        let slots_n = destination.gate.in_hand_n().saturating_sub(taken_n);
        destination.gate.allowed_n(slots_n, self.shared.clock.now_ms())
    }

    fn start(&mut self, message: LeasedMessage, slot: Slot) {
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
        for load in self.shared.loads.values() {
            load.is_drained.store(false, Ordering::Relaxed);
        }
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

    /// Waits for what is under way; what admission still hands over is handed back.
    async fn join(&mut self) {
        loop {
            self.start_handed();
            let is_any_taken =
                self.shared.loads.values().any(|load| load.taken_n.load(Ordering::Relaxed) > 0);
            if self.tasks.is_empty() && !is_any_taken {
                return;
            }
            tokio::select! {
                Some(ended) = self.tasks.join_next() => report_panic(ended),
                Some((message, slot)) = self.handed.recv() => self.start(message, slot),
                // A slot that admission gives back unused tells nobody.
                () = settle::wait(SLOT_CHECK_MS) => {}
            }
        }
    }
}

async fn until(at: Instant) {
    drop(timeout_at(at, pending::<()>()).await);
}

fn report_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        error!(%error, "an attempt ended badly; its lease will end and its outcome count as unknown");
    }
}
