//! The state that the parts of one node's outbox share, and the calls that its tasks make: each message in its turn,
//! under a lease that is extended while the call lasts.

use std::collections::{BTreeMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{error, warn};

use crate::attempt::{Attempt, Stops};
use crate::gate::BegunCall;
use crate::locked;
use crate::post::{CallsUnderWay, MessageSlot, Post, Work};
use crate::settler::Settler;
use crate::timing::DueTimes;
use crate::traces::Traces;
use hooklatch_core::config::OutboxConfig;
use hooklatch_core::current::Current;
use hooklatch_core::types::{Clock, Name};
use hooklatch_store::{LeaseWant, LeasedMessage, SettleTo, Settlement, Store, StoreError};

/// A clock that is further from where it should be was set. Milliseconds.
pub(crate) const CLOCK_SET_MS: i64 = 1_000;

pub(crate) struct OutboxState {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) config: OutboxConfig,
    /// A reload replaces them; the holder of a slot keeps the destination that it is of.
    pub(crate) posts: Current<BTreeMap<Name, Arc<Post>>>,
    pub(crate) node: Arc<str>,
    pub(crate) settler: Settler,
    pub(crate) wake: Arc<Notify>,
    /// Notified when slots are free again.
    pub(crate) freed: Notify,
    pub(crate) due: DueTimes,
    /// Looks so far: each claims under a name of its own.
    pub(crate) looks_n: AtomicU64,
    /// Claims whose answer was lost: what they claimed as, and when. By the node's ticks.
    pub(crate) lost: Mutex<VecDeque<(String, i64)>>,
    /// The messages that this node has under way, and their claims; where our clock gives the database the time.
    pub(crate) under_way: Arc<CallsUnderWay>,
    /// False after a part of the outbox has panicked, until it has done something well.
    pub(crate) is_well: Arc<AtomicBool>,
    /// The tasks that make calls.
    pub(crate) tasks: Mutex<JoinSet<()>>,
    /// The stops that those listen to; there from the start of [`Outbox::run`](crate::Outbox::run) on.
    pub(crate) stops: OnceLock<Stops>,
    /// True when no task works here any more.
    pub(crate) is_closed: AtomicBool,
    /// Where spans of attempts are recorded; unset when tracing is off.
    pub(crate) traces: OnceLock<Traces>,
}

/// Most claims that are looked for, of those whose answer was lost.
const LOST_N_MAX: usize = 1_000;

/// The claims of one operation. Without an answer, a panic included, they are looked for and given back.
pub(crate) struct Claims<'a> {
    shared: &'a OutboxState,
    pub(crate) holder: String,
    /// When they began. By the node's ticks.
    at_ms: i64,
    is_answered: bool,
}

impl Claims<'_> {
    /// The answer has come: what was claimed is known.
    pub(crate) fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for Claims<'_> {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        let mut lost = locked(&self.shared.lost);
        lost.push_back((std::mem::take(&mut self.holder), self.at_ms));
        if lost.len() > LOST_N_MAX {
            lost.pop_front();
        }
    }
}

impl OutboxState {
    /// A name for the claims of one look, different from those of any other.
    pub(crate) fn holder(&self) -> String {
        format!("{}/{}", self.node, self.looks_n.fetch_add(1, Ordering::Relaxed))
    }

    /// A name for the claims of one operation, which counts as lost unless its answer comes.
    pub(crate) fn claims(&self) -> Claims<'_> {
        Claims { shared: self, holder: self.holder(), at_ms: self.clock.ticks_ms(), is_answered: false }
    }

    /// Where spans of attempts are recorded.
    pub(crate) fn traces(&self) -> Option<&Traces> {
        self.traces.get()
    }

    /// Lets the call of a message say which attempt it is of.
    pub(crate) fn propagate(&self, message: &mut LeasedMessage) {
        message.traceparent = self.traces().and_then(|traces| traces.propagated(message));
    }

    pub(crate) fn lease_ms(&self) -> i64 {
        i64::try_from(self.config.lease_ms).unwrap_or(i64::MAX)
    }

    pub(crate) async fn lease(
        &self,
        wants: &[LeaseWant],
        holder: &str,
    ) -> Result<Vec<LeasedMessage>, StoreError> {
        self.store.message_lease(wants, self.clock.steady_ms(), self.lease_ms(), holder).await
    }

    /// Moves our clock on to the latest time in the database, where the database has no clock of its own: what was
    /// written before our clock was set back must not wait until it is as late again.
    pub(crate) async fn steady(&self) {
        if self.store.is_own_clock() {
            return;
        }
        match self.store.message_latest_ms().await {
            Ok(Some(latest_ms)) => {
                let wall_ms = self.clock.now_ms();
                if self.clock.steady_from(latest_ms).saturating_sub(wall_ms) > CLOCK_SET_MS {
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

    /// True when a destination needs more messages than it has here, and more wait in the database.
    pub(crate) fn is_hungry(&self) -> bool {
        self.posts.get().values().any(|post| post.is_hungry())
    }

    /// Slots that are taken, of all destinations.
    pub(crate) fn taken_n(&self) -> u32 {
        self.posts.get().values().map(|post| post.taken_n()).sum()
    }

    /// Frees the slot of a message whose result is written, and says what may be due sooner now. `is_next_known`: the
    /// next message of its lane, if there is one, was taken or is looked for already.
    pub(crate) fn settled(&self, settlement: &Settlement, slot: MessageSlot, is_next_known: bool) {
        drop(slot);
        if let SettleTo::Ready { visible_at_ms } = settlement.to {
            let back_for_ms = visible_at_ms.saturating_sub(settlement.settled_at_ms);
            self.due.remember(self.clock.steady_ms(), back_for_ms);
        }
        if settlement.lane.is_some() && !is_next_known {
            // The next of its lane may be due now.
            self.wake.notify_one();
        }
    }

    /// What is to be taken together with these settlements: the next message of a lane, where a slot is free beside
    /// those that are taken and nothing older waits for one. A lane that is never empty would otherwise keep its slot
    /// from all others.
    pub(crate) fn next_wants(&self, settlements: &[Settlement]) -> Vec<LeaseWant> {
        let is_stopping = self.stops.get().is_none_or(|stops| stops.stopping.is_set());
        if is_stopping || self.settler.is_behind() {
            return Vec::new();
        }
        let mut lanes_n: BTreeMap<&Name, u32> = BTreeMap::new();
        for one in settlements.iter().filter(|one| one.lane.is_some()) {
            *lanes_n.entry(&one.destination).or_default() += 1;
        }
        let posts = self.posts.get();
        let want = |(name, lanes_n): (&Name, u32)| {
            let post = posts.get(name).filter(|post| post.has_room())?;
            let want = post.want(lanes_n);
            Some(LeaseWant { free_bytes_n: want.free_bytes_n / u64::from(lanes_n), ..want })
        };
        lanes_n.into_iter().filter_map(want).collect()
    }

    /// Starts the call of a message that was claimed, in a slot of its destination.
    pub(crate) fn start_claimed(self: &Arc<Self>, message: LeasedMessage) {
        let slot = self.posts.get().get(&message.destination).map(Post::take);
        if let Some(slot) = slot {
            self.start(message, slot);
        }
    }

    /// Extends every lease of this node: they would end, though no time has passed, because our clock was set forward
    /// and gives the database the time.
    pub(crate) async fn extend_all(&self) -> Result<(), StoreError> {
        let under_way = self.under_way.all();
        warn!(
            messages_n = under_way.len(),
            "clock was set forward; the leases of calls under way are extended"
        );
        for (message_id, attempt_n) in under_way {
            let now_ms = self.clock.steady_ms();
            self.store.message_extend(message_id, attempt_n, now_ms, self.lease_ms()).await?;
        }
        Ok(())
    }

    /// Counts a panic of a part of the outbox, which goes on; readiness knows until it has done something well.
    pub(crate) fn panicked(&self, part: &'static str) {
        self.is_well.store(false, Ordering::Relaxed);
        metrics::counter!("hooklatch_panics_total", "part" => format!("outbox_{part}")).increment(1);
        error!(part, "a part of the outbox panicked; it goes on");
    }
}

impl OutboxState {
    /// Schedules a message's call for its turn. Once the node has stopped working, the message's lease ends by itself.
    pub(crate) fn start(self: &Arc<Self>, mut message: LeasedMessage, slot: MessageSlot) {
        let Some(stops) = self.stops.get().filter(|_| !self.is_closed.load(Ordering::SeqCst)) else { return };
        let post = Arc::clone(&slot.post);
        let is_noted = !self.store.is_own_clock();
        let slot = slot.occupied_by(&message, is_noted.then_some(&self.under_way));
        if let Some(unwritten) = self.settler.unwritten_result(message.message_id, message.attempt_n) {
            self.settler.settle_unwritten(unwritten, slot);
            return;
        }
        self.propagate(&mut message);
        // Now, not when the task makes the call: the next look must not count this call's place as free.
        let begun = post.destination.gate.started();
        if post.add(Work { message, begun, slot }) {
            let mut tasks = locked(&self.tasks);
            // Those that have ended.
            while tasks.try_join_next().is_some() {}
            tasks.spawn(Arc::clone(self).serve(post, stops.clone()));
        }
    }

    /// Makes one call after the other, until nothing waits. A panic costs the message that it was about.
    async fn serve(self: Arc<Self>, post: Arc<Post>, mut stops: Stops) {
        while let Some(Work { message, begun, slot }) = post.next() {
            if self.store.replaced().is_some() {
                // Its result could not be written. What is leased in that file counts as perhaps sent after a restart.
                continue;
            }
            let attempt = self.attempt(&post, &message, &mut stops, Some(begun));
            if let Ok(settlement) = AssertUnwindSafe(attempt).catch_unwind().await {
                self.settler.settle(settlement, slot);
            } else {
                self.panicked("attempt");
                let message_id = message.message_id;
                error!(%message_id, "an attempt ended badly; its lease will end and its outcome count as unknown");
                drop(slot);
                self.freed.notify_one();
            }
        }
    }

    /// One attempt; says what to write.
    pub(crate) async fn attempt(
        &self,
        post: &Post,
        message: &LeasedMessage,
        stops: &mut Stops,
        begun: Option<BegunCall>,
    ) -> Settlement {
        let gate = &post.destination.gate;
        let turn = gate.turn().await;
        let traces = self.traces();
        let attempt = Attempt { post, message, clock: &self.clock, stops, call: None, traces };
        let (settlement, call) = match post.destination.times.beat_ms {
            None => attempt.make().await,
            Some(beat_ms) => {
                let over = Notify::new();
                let made = async {
                    let made = attempt.make().await;
                    over.notify_one();
                    made
                };
                tokio::join!(made, self.extend_lease(beat_ms, message, &over)).0
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

    /// Extends the lease until its call is `over`, where calls may outlast it. A lost lease does not stop the call:
    /// its settlement will be fenced. What is being written is awaited to its end: a cancelled statement could leave a
    /// connection in the middle of it.
    async fn extend_lease(&self, beat_ms: u64, message: &LeasedMessage, over: &Notify) {
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
                    warn!(%error, message.id = %message.message_id, "could not extend a lease; trying again");
                }
            }
        }
    }
}
