//! One node's outbox: its parts, how it starts and stops, and what its loop and its messages share.
//!
//! Nothing here decides about a message: see `attempt.rs`; nor when to look for more: see `worker.rs`.

use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{error, warn};

use super::attempt::{Attempt, Stops};
use super::destinations::{self, DestinationError};
use super::due::DueTimes;
use super::gate::Begun;
use super::handover::Handover;
use super::post::{Post, Slot, Work};
use super::settle::{self, Settler, Waiting, Writer};
use super::watch::Watch;
use super::worker::Worker;
use crate::config::{DestinationConfig, OutboxConfig};
use crate::stop::{Stop, to_end};
use crate::store::{LeaseWant, LeasedMessage, SettleTo, Settlement, Store, StoreError};
use crate::types::{Clock, MessageId, Name};

/// Most messages of one destination that [`Outbox::run_due`] takes.
const DUE_N_MAX: u32 = 1_000;
/// How long results may take to be written after the calls were cut off.
pub(super) const CUT_TIMEOUT: Duration = Duration::from_secs(2);

/// Makes the calls of one node.
pub struct Outbox {
    shared: Arc<Shared>,
    /// What calls came to, on its way to be written.
    waiting: mpsc::UnboundedReceiver<Waiting>,
}

pub(super) struct Shared {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) config: OutboxConfig,
    pub(super) posts: BTreeMap<Name, Arc<Post>>,
    pub(super) node: Arc<str>,
    pub(super) settler: Settler,
    pub(super) wake: Arc<Notify>,
    /// Told when slots are free again.
    pub(super) freed: Notify,
    pub(super) due: DueTimes,
    /// Looks so far: each claims under a name of its own.
    looks_n: AtomicU64,
    /// The messages that this node has under way, and their claims; where our clock tells the database the time.
    under_way: Mutex<HashMap<MessageId, u32>>,
    /// False after a part of the outbox has panicked, until it has done something well.
    pub(super) is_well: Arc<AtomicBool>,
    /// The tasks that make calls.
    tasks: Mutex<JoinSet<()>>,
    /// How those are told to stop; there from the start of [`Outbox::run`] on.
    stops: OnceLock<Stops>,
    /// Whether nobody works here any more.
    is_closed: AtomicBool,
}

/// A message that is in hand. Dropping it frees its slot.
pub(super) struct InHand {
    _slot: Slot,
    under_way: Option<(Arc<Shared>, MessageId)>,
}

impl Drop for InHand {
    fn drop(&mut self) {
        if let Some((shared, message_id)) = &self.under_way {
            shared.under_way().remove(message_id);
        }
    }
}

/// Ends the tasks that make calls when it is dropped, also with the future that it is in.
struct Crew(Arc<Shared>);

impl Drop for Crew {
    fn drop(&mut self) {
        self.0.is_closed.store(true, Ordering::SeqCst);
        self.0.tasks().abort_all();
        self.0.posts.values().for_each(|post| post.clear());
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
        let posts = destinations.into_iter().map(|(name, one)| (name, Arc::new(Post::new(one)))).collect();
        // Bounded all the same: whatever is in it has a slot.
        let (settler, waiting) = Settler::new();
        let shared = Arc::new(Shared {
            // Leases must not depend on how well nodes agree about the time.
            store: store.timed_by(&clock),
            clock,
            config,
            posts,
            node: Arc::from(node),
            settler,
            wake: Arc::new(Notify::new()),
            freed: Notify::new(),
            due: DueTimes::default(),
            looks_n: AtomicU64::new(0),
            under_way: Mutex::default(),
            is_well: Arc::new(AtomicBool::new(true)),
            tasks: Mutex::default(),
            stops: OnceLock::new(),
            is_closed: AtomicBool::new(false),
        });
        Ok(Self { shared, waiting })
    }

    /// Lets admission hand over what it has just committed.
    pub fn handover(&self) -> Handover {
        Handover::new(Arc::clone(&self.shared))
    }

    /// A handle that wakes this outbox.
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.shared.wake))
    }

    /// Whether its parts work: false from a panic until the part that was started again has done something well.
    pub fn is_well(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.shared.is_well)
    }

    /// Works until `stop` is set. Then takes nothing more, gives calls under way
    /// `stop_timeout_ms` to end, settles what they came to and hands the rest back.
    pub async fn run(self, stop: Stop) {
        let shared = self.shared;
        let (cut, cut_signal) = Stop::channel();
        shared.stops.get_or_init(|| Stops { stopping: stop.clone(), cut: cut_signal });
        let crew = Crew(Arc::clone(&shared));
        let (mut writer, mut watcher) = (JoinSet::new(), JoinSet::new());
        writer.spawn(Writer::new(Arc::clone(&shared)).run(self.waiting));
        watcher.spawn(Watch::new(Arc::clone(&shared)).run(stop.clone()));
        shared.steady().await;
        let mut worker = Worker::new(Arc::clone(&shared), stop);
        worker.work().await;
        worker.finish(&cut).await;
        drop(crew);
        shared.settler.close();
        // It ends when all is written; a database that is away must not keep the process.
        if timeout(CUT_TIMEOUT, writer.join_next()).await.is_err() {
            warn!("stopped before every result was written; those leases will end by themselves");
        }
        // It is between two looks at the database, or in one that is bounded by whoever owns it.
        to_end(timeout(CUT_TIMEOUT, watcher.join_next())).await;
    }

    /// One step, for tests: takes what is due now, makes the calls, settles, and says how many messages it
    /// took.
    pub async fn run_due(&self) -> Result<usize, StoreError> {
        let (_never, quiet) = Stop::channel();
        let stops = Stops { stopping: quiet.clone(), cut: quiet };
        let shared = &self.shared;
        shared.steady().await;
        let wants: Vec<LeaseWant> = shared.posts.values().map(|post| want(post, DUE_N_MAX)).collect();
        let leased = shared.lease(&wants, &shared.holder()).await?;
        let attempts = leased.iter().filter_map(|message| {
            let post = shared.posts.get(&message.destination)?;
            let mut stops = stops.clone();
            Some(async move { shared.attempt(post, message, &mut stops, None).await })
        });
        let settlements: Vec<Settlement> = join_all(attempts).await;
        settle::write(&shared.store, &settlements, false).await?;
        Ok(leased.len())
    }
}

impl Shared {
    fn under_way(&self) -> MutexGuard<'_, HashMap<MessageId, u32>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

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

    /// Messages in hand, of all destinations.
    pub(super) fn in_hand_n(&self) -> u32 {
        self.posts.values().map(|post| post.taken_n()).sum()
    }

    /// Sees to it that a message's call is made, in its turn. Where nobody works any more, its lease ends by itself.
    pub(super) fn start(self: &Arc<Self>, message: LeasedMessage, slot: Slot) {
        let Some(stops) = self.stops.get().filter(|_| !self.is_closed.load(Ordering::SeqCst)) else { return };
        let post = Arc::clone(slot.post());
        let in_hand = self.hold(&message, slot);
        if let Some(known) = self.settler.known(message.message_id, message.attempt_n) {
            self.settler.settle(known, in_hand);
            return;
        }
        // Now, not when the task comes to it: the next look must not count this call's place as free.
        let begun = post.destination.gate.started();
        if post.add(Work { message, begun, in_hand }) {
            let mut tasks = self.tasks();
            // Those that have ended.
            while tasks.try_join_next().is_some() {}
            tasks.spawn(Arc::clone(self).serve(post, stops.clone()));
        }
    }

    /// Makes one call after the other, until nothing waits. A panic costs the message that it was about.
    async fn serve(self: Arc<Self>, post: Arc<Post>, mut stops: Stops) {
        while let Some(Work { message, begun, in_hand }) = post.next() {
            let attempt = self.attempt(&post, &message, &mut stops, Some(begun));
            if let Ok(settlement) = AssertUnwindSafe(attempt).catch_unwind().await {
                self.settler.settle(settlement, in_hand);
            } else {
                settle::panicked("attempt", &self.is_well);
                let message_id = message.message_id;
                error!(%message_id, "an attempt ended badly; its lease will end and its outcome count as unknown");
                drop(in_hand);
                self.freed.notify_one();
            }
        }
    }

    /// One attempt; says what to write.
    pub(super) async fn attempt(
        &self,
        post: &Post,
        message: &LeasedMessage,
        stops: &mut Stops,
        begun: Option<Begun>,
    ) -> Settlement {
        let gate = &post.destination.gate;
        let turn = gate.turn().await;
        let attempt = Attempt { post, message, clock: &self.clock, stops, call: None };
        let (settlement, call) = match post.destination.times.beat_ms {
            None => attempt.make().await,
            Some(beat_ms) => {
                let over = Notify::new();
                let made = async {
                    let made = attempt.make().await;
                    over.notify_one();
                    made
                };
                tokio::join!(made, self.keep(beat_ms, message, &over)).0
            }
        };
        drop(turn);
        let was_open = gate.is_open();
        gate.ended(settlement.result, settlement.http_status, call, self.clock.ticks_ms());
        drop(begun);
        if was_open {
            // A probe's answer decides what may be taken now.
            self.wake.notify_one();
        }
        settlement
    }

    /// Notes that a message is under way, until what comes back is dropped.
    fn hold(self: &Arc<Self>, message: &LeasedMessage, mut slot: Slot) -> InHand {
        slot.weigh(message.body.len());
        let is_noted = !self.store.is_own_clock();
        if is_noted {
            self.under_way().insert(message.message_id, message.attempt_n);
        }
        InHand { _slot: slot, under_way: is_noted.then(|| (Arc::clone(self), message.message_id)) }
    }

    /// What a message in hand came to is written: its slot is free.
    pub(super) fn settled(&self, settlement: &Settlement, in_hand: InHand) {
        drop(in_hand);
        if let SettleTo::Ready { visible_at_ms } = settlement.to {
            let back_for_ms = visible_at_ms.saturating_sub(settlement.settled_at_ms);
            self.due.remember(self.clock.steady_ms(), back_for_ms);
        }
        if settlement.lane.is_some() {
            // The next of its lane may be due now.
            self.wake.notify_one();
        }
    }

    /// Prolongs every lease of this node: they would end, though no time has passed, because our clock was set
    /// forward and tells the database the time.
    pub(super) async fn extend_all(&self) -> Result<(), StoreError> {
        let under_way = self.under_way().clone();
        warn!(
            messages_n = under_way.len(),
            "clock was set forward; the leases of calls under way are prolonged"
        );
        for (message_id, attempt_n) in under_way {
            let now_ms = self.clock.steady_ms();
            self.store.message_extend(message_id, attempt_n, now_ms, self.lease_ms()).await?;
        }
        Ok(())
    }

    /// Prolongs the lease until its call is `over`, where calls may outlast it. A lease that was lost is nothing
    /// that the call could be told, and its settlement will be fenced. What is being written is awaited to its
    /// end: a cancelled statement could leave a connection in the middle of it.
    async fn keep(&self, beat_ms: u64, message: &LeasedMessage, over: &Notify) {
        while timeout(Duration::from_millis(beat_ms), over.notified()).await.is_err() {
            let (id, now_ms) = (message.message_id, self.clock.steady_ms());
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

pub(super) fn want(post: &Post, free_n: u32) -> LeaseWant {
    LeaseWant {
        destination: post.destination.name.clone(),
        free_n,
        key_valid_for_ms: post.destination.key_valid_for_ms(),
    }
}
