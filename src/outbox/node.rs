//! One node's outbox: its parts, how it starts and stops, and what its loop and its messages share.
//!
//! Nothing here decides about a message: see `attempt.rs`; nor when to look for more: see `worker.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::warn;

use super::attempt::{Attempt, Stops};
use super::destinations::{self, Destination, DestinationError};
use super::gate::Begun;
use super::handover::{Handed, Handover, Load};
use super::settle::{self, Settled, Settler};
use super::watch::Watch;
use super::worker::Worker;
use crate::config::{DestinationConfig, OutboxConfig};
use crate::store::{LeaseWant, LeasedMessage, Store, StoreError};
use crate::types::{Clock, Name};

/// Most messages of one destination that [`Outbox::run_due`] takes.
const DUE_N_MAX: u32 = 1_000;
/// What may be lost where times are rounded to milliseconds.
const ROUNDED_MS: i64 = 2;
/// Most due times that are remembered; what is due beyond them is found by the next look.
const DUE_TIMES_N_MAX: usize = 10_000;
/// How long results may take to be written after the calls were cut off.
pub(super) const CUT_TIMEOUT: Duration = Duration::from_secs(2);

/// Makes the calls of one node.
pub struct Outbox {
    shared: Arc<Shared>,
    /// What admission hands over, and its other end.
    handed: (mpsc::UnboundedSender<Handed>, mpsc::UnboundedReceiver<Handed>),
}

pub(super) struct Shared {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) config: OutboxConfig,
    pub(super) destinations: BTreeMap<Name, Destination>,
    pub(super) node: Arc<str>,
    pub(super) wake: Arc<Notify>,
    /// Told when the next look is due sooner than was thought.
    pub(super) replan: Notify,
    /// When messages of this node are due again, by its steady clock.
    due_at_ms: Mutex<BTreeSet<i64>>,
    /// Looks so far: each claims under a name of its own.
    looks_n: AtomicU64,
    pub(super) loads: BTreeMap<Name, Load>,
    /// The messages that this node has under way, and their claims.
    in_hand: Mutex<BTreeMap<String, u32>>,
    /// False after a part of the outbox has panicked, until it has done something well.
    pub(super) is_well: Arc<AtomicBool>,
}

/// A message that is under way.
pub(super) struct InHand {
    shared: Arc<Shared>,
    message_id: String,
}

impl Drop for InHand {
    fn drop(&mut self) {
        let mut in_hand = self.shared.in_hand.lock().unwrap_or_else(PoisonError::into_inner);
        in_hand.remove(&self.message_id);
    }
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
        let shared = Arc::new(Shared {
            // Leases must not depend on how well nodes agree about the time.
            store: store.timed_by(&clock),
            clock,
            config,
            destinations,
            node,
            wake,
            replan: Notify::new(),
            due_at_ms: Mutex::default(),
            looks_n: AtomicU64::new(0),
            loads,
            in_hand: Mutex::default(),
            is_well: Arc::new(AtomicBool::new(true)),
        });
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

    /// Whether its parts work: false from a panic until the part that was started again has done something well.
    pub fn is_well(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.shared.is_well)
    }

    /// Works until `stop` turns true or its sender is gone. Then takes nothing more, gives calls under way
    /// `stop_timeout_ms` to end, settles what they came to and hands the rest back.
    pub async fn run(self, stop: watch::Receiver<bool>) {
        let (cut, cut_signal) = watch::channel(false);
        let shared = &self.shared;
        let (store, clock) = (shared.store.clone(), shared.clock.clone());
        let (settler, settling) = Settler::new(store, clock, shared.lease_ms(), Arc::clone(&shared.is_well));
        let (mut writer, mut watcher) = (JoinSet::new(), JoinSet::new());
        writer.spawn(settling);
        watcher.spawn(Watch::new(Arc::clone(&self.shared)).run(stop.clone()));
        self.shared.steady().await;
        let stops = Stops { stopping: stop, cut: cut_signal };
        let mut worker = Worker::new(self.shared, stops, self.handed.1, settler);
        worker.work().await;
        worker.finish(&cut).await;
        drop(worker);
        // The writer ends with its last sender; a database that is away must not keep the process.
        if timeout(CUT_TIMEOUT, writer.join_next()).await.is_err() {
            warn!("stopped before every result was written; those leases will end by themselves");
        }
        // It is between two looks at the database, or in one that is bounded by whoever owns it.
        drop(timeout(CUT_TIMEOUT, watcher.join_next()).await);
    }

    /// One step, for tests: takes what is due now, makes the calls, settles, and says how many messages it
    /// took.
    pub async fn run_due(&self) -> Result<usize, StoreError> {
        let (_never, quiet) = watch::channel(false);
        self.shared.steady().await;
        let wants: Vec<LeaseWant> =
            self.shared.destinations.values().map(|one| want(one, DUE_N_MAX)).collect();
        let leased = self.shared.lease(&wants, &self.shared.holder()).await?;
        let attempts = leased.iter().map(|message| {
            let stops = Stops { stopping: quiet.clone(), cut: quiet.clone() };
            self.shared.attempt(message, stops, None)
        });
        let settled: Vec<Settled> = join_all(attempts).await.into_iter().flatten().collect();
        settle::write(&self.shared.store, &settled, false).await?;
        Ok(leased.len())
    }
}

impl Shared {
    /// A name for the claims of one look, which tells them from those of any other.
    pub(super) fn holder(&self) -> String {
        format!("{}/{}", self.node, self.looks_n.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn lease_ms(&self) -> i64 {
        i64::try_from(self.config.lease_ms).unwrap_or(i64::MAX)
    }

    pub(super) async fn lease(
        &self,
        wants: &[LeaseWant],
        holder: &str,
    ) -> Result<Vec<LeasedMessage>, StoreError> {
        self.store.message_lease(wants, self.clock.steady_ms(), self.lease_ms(), holder).await
    }

    /// Where the database has no clock of its own, ours goes on from the latest time that it tells of: what was
    /// written before the clock was set back must not wait until it is as late again.
    async fn steady(&self) {
        if self.store.is_own_clock() {
            return;
        }
        match self.store.message_latest_ms().await {
            Ok(Some(latest_ms)) => {
                let wall_ms = self.clock.now_ms();
                if self.clock.steady_from(latest_ms).saturating_sub(wall_ms) > settle::CLOCK_SET_MS {
                    warn!(
                        back_ms = latest_ms.saturating_sub(wall_ms),
                        "clock was set back; leases and due times go on from the latest time in the database"
                    );
                }
            }
            Ok(None) => {}
            Err(error) => warn!(%error, "could not read the latest time of the messages"),
        }
    }

    /// `None` for a destination that this node does not know, which it never asks for.
    pub(super) async fn attempt(
        &self,
        message: &LeasedMessage,
        stops: Stops,
        begun: Option<Begun>,
    ) -> Option<Settled> {
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
        let was_open = destination.gate.is_open();
        destination.gate.ended(settlement.result, settlement.http_status, call, self.clock.ticks_ms());
        drop(begun);
        if was_open {
            // A probe's answer decides what may be taken now.
            self.wake.notify_one();
        }
        Some(Settled { destination: message.destination.clone(), settlement })
    }

    /// Notes that a message is under way, until what comes back is dropped.
    pub(super) fn hold(self: &Arc<Self>, message: &LeasedMessage) -> InHand {
        let mut in_hand = self.in_hand.lock().unwrap_or_else(PoisonError::into_inner);
        in_hand.insert(message.message_id.clone(), message.attempt_n);
        InHand { shared: Arc::clone(self), message_id: message.message_id.clone() }
    }

    /// Prolongs every lease of this node: they would end, though no time has passed, because our clock was set
    /// forward and tells the database the time.
    pub(super) async fn extend_all(&self) -> Result<(), StoreError> {
        let in_hand = self.in_hand.lock().unwrap_or_else(PoisonError::into_inner).clone();
        warn!(
            messages_n = in_hand.len(),
            "clock was set forward; the leases of calls under way are prolonged"
        );
        for (message_id, attempt_n) in in_hand {
            let now_ms = self.clock.steady_ms();
            self.store.message_extend(&message_id, attempt_n, now_ms, self.lease_ms()).await?;
        }
        Ok(())
    }

    /// Remembers when a message is due that this node has just put back: as long from now as it was put back for,
    /// which is no earlier than the database will have it.
    pub(super) fn remember_due(&self, put_back_for_ms: i64) {
        let visible_at_ms = self.clock.steady_ms().saturating_add(put_back_for_ms).saturating_add(ROUNDED_MS);
        let mut due = self.due_at_ms.lock().unwrap_or_else(PoisonError::into_inner);
        due.insert(visible_at_ms);
        if due.len() > DUE_TIMES_N_MAX {
            due.pop_last();
        }
        drop(due);
        self.replan.notify_one();
    }

    /// How long until the next of those is due.
    pub(super) fn next_due_in_ms(&self) -> Option<i64> {
        let now_ms = self.clock.steady_ms();
        let due = self.due_at_ms.lock().unwrap_or_else(PoisonError::into_inner);
        due.first().map(|at_ms| at_ms.saturating_sub(now_ms))
    }

    /// Forgets what is due by now: it is looked for.
    pub(super) fn forget_due(&self) {
        let now_ms = self.clock.steady_ms();
        let mut due = self.due_at_ms.lock().unwrap_or_else(PoisonError::into_inner);
        *due = due.split_off(&now_ms.saturating_add(1));
    }

    /// Prolongs the lease until its call is `over`, where calls may outlast it. A lease that was lost is nothing
    /// that the call could be told, and its settlement will be fenced. What is being written is awaited to its
    /// end: a cancelled statement could leave a connection in the middle of it.
    async fn keep(&self, destination: &Destination, message: &LeasedMessage, over: &Notify) {
        let Some(beat_ms) = destination.times.beat_ms else { return };
        while timeout(Duration::from_millis(beat_ms), over.notified()).await.is_err() {
            let (id, now_ms) = (&message.message_id, self.clock.steady_ms());
            match self.store.message_extend(id, message.attempt_n, now_ms, self.lease_ms()).await {
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

pub(super) fn want(destination: &Destination, free_n: u32) -> LeaseWant {
    LeaseWant {
        destination: destination.name.clone(),
        free_n,
        key_valid_for_ms: destination.key_valid_for_ms(),
    }
}
