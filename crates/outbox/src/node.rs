//! One node's outbox: how it is made, how it starts and how it stops; and how admission hands messages over to it.
//!
//! Nothing here decides about a message: see `attempt.rs`; nor when to look for more: see `worker.rs`.
//!
//! **Hand-over in memory.** A message that admission has just committed is called at once, without a query, if there is
//! a slot for it and nothing older waits. Admission asks for a slot *before* its commit ([`Handover::take`]); the slot
//! is reserved then. The message is inserted as `leased` by this node, with its first claim counted, so that no other
//! worker can take it, not even in the moment between the commit and the call. After the commit admission starts the
//! call; whatever else happens, it drops the slot.
//!
//! Nothing depends on that start. If the commit fails, there is no message. If the process dies after the commit, or
//! the answer to the commit is lost, the lease ends by itself and the ordinary claim finds the message, whose call then
//! counts as unknown (P3). So the hand-over is never the only way, only the short one.
//!
//! It must not overtake: `is_drained` is true only while the last look found fewer messages than it had slots for. The
//! first message that finds no slot sets it to false, and everything after it goes through the table until a look has
//! caught up. Messages of a lane are never handed over: their order is the table's affair (P5).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::warn;

use crate::attempt::Stops;
use crate::destinations::{self, Destination, DestinationError, Handshake, Handshakes, HttpDestination};
use crate::locked;
use crate::post::Post;
use crate::settler::{self, Settler, Waiting, Writer};
use crate::state::OutboxState;
use crate::timing::DueTimes;
use crate::traces::Traces;
use crate::watch::Watch;
use crate::worker::{CUT_TIMEOUT, Worker};
use hooklatch_contract::CallTimesView;
use hooklatch_core::config::{DestinationConfig, OutboxConfig, Secret, UnknownPolicy};
use hooklatch_core::current::Current;
use hooklatch_core::stop::{Stop, ignore_result};
use hooklatch_core::types::{Clock, Name};
use hooklatch_store::{
    ActivityCounts, ActivitySubject, InitialLease, LeaseWant, LeasedMessage, Settlement, Store, StoreError,
};

/// Most messages of one destination that [`Outbox::run_due`] takes.
const DUE_N_MAX: u32 = 1_000;

/// Makes the calls of one node.
pub struct Outbox {
    shared: Arc<OutboxState>,
    /// Results of calls on their way to be written.
    waiting: mpsc::UnboundedReceiver<Waiting>,
}

/// Ends the tasks that make calls when it is dropped, also with the future that it is in.
struct CallTasks(Arc<OutboxState>);

impl Drop for CallTasks {
    fn drop(&mut self) {
        self.0.is_closed.store(true, Ordering::SeqCst);
        locked(&self.0.tasks).abort_all();
        self.0.posts.get().values().for_each(|post| post.clear());
    }
}

/// Notifies an [`Outbox`] of new messages. To be used after the commit that wrote them.
#[derive(Debug, Clone)]
pub struct Waker(Arc<Notify>);

impl Waker {
    /// Makes the outbox look now instead of at its next poll. Never waits.
    pub fn wake(&self) {
        self.0.notify_one();
    }
}

/// Destinations that are ready to be called, and are not called yet.
pub struct ReadyDestinations(BTreeMap<Name, Destination>);

/// The circuit breakers of one node and what became of its calls, for the API and the metrics.
#[derive(Clone)]
pub struct NodeCalls(Arc<OutboxState>);

impl NodeCalls {
    /// Name of the node, as attempts have it.
    pub fn node(&self) -> &str {
        &self.0.node
    }

    /// Names of the destinations that this node calls, also of those that a reload removed.
    pub fn destinations(&self) -> Vec<String> {
        self.posts().keys().map(Name::to_string).collect()
    }

    pub(crate) fn posts(&self) -> Arc<BTreeMap<Name, Arc<Post>>> {
        self.0.posts.get()
    }

    /// Checks and readies these destinations, for [`NodeCalls::replace`].
    pub fn ready(
        &self,
        destinations: BTreeMap<Name, DestinationConfig>,
    ) -> Result<ReadyDestinations, DestinationError> {
        destinations::ready(destinations, &self.0.config).map(ReadyDestinations)
    }

    /// Calls these destinations as they are now. Calls under way, and messages that this node has taken, go on as they
    /// began; so do messages of a destination that is no longer configured: only this node will call those that were
    /// admitted meanwhile.
    pub fn replace(&self, ReadyDestinations(destinations): ReadyDestinations) {
        let mut posts = (*self.posts()).clone();
        for (name, destination) in destinations {
            let post = match posts.get(&name) {
                Some(before) => Post::after(before, destination),
                None => Post::new(destination),
            };
            posts.insert(name, Arc::new(post));
        }
        self.0.posts.set(posts);
        self.0.wake.notify_one();
    }

    /// Attempts since the start, by destination and result.
    pub fn totals(&self) -> ActivityCounts {
        let posts = self.posts();
        let all = posts.iter().flat_map(|(name, post)| {
            let key = move |result| (ActivitySubject::Destination, name.clone(), result);
            post.meters.totals().map(move |(result, n)| (key(result), n))
        });
        all.collect()
    }

    /// How long the newest calls to this destination took; `None` before the first.
    pub fn times(&self, destination: &str) -> Option<CallTimesView> {
        self.posts().get(destination).and_then(|post| post.meters.newest())
    }

    /// State of a destination's breaker: `closed`, `open` or `half_open`; `None` for a destination that is not
    /// configured.
    pub fn state_of(&self, destination: &str) -> Option<&'static str> {
        let ticks_ms = self.0.clock.ticks_ms();
        self.posts().get(destination).map(|post| post.destination.gate.breaker(ticks_ms))
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
        let posts: BTreeMap<_, _> =
            destinations.into_iter().map(|(name, one)| (name, Arc::new(Post::new(one)))).collect();
        // Bounded all the same: whatever is in it has a slot.
        let (settler, waiting) = Settler::new();
        let shared = Arc::new(OutboxState {
            // Leases must not depend on how well nodes agree about the time.
            store: store.timed_by(&clock),
            clock,
            config,
            posts: Current::new(posts),
            node: Arc::from(node),
            settler,
            wake: Arc::new(Notify::new()),
            freed: Notify::new(),
            due: DueTimes::default(),
            looks_n: AtomicU64::new(0),
            lost: Mutex::default(),
            under_way: Arc::default(),
            is_well: Arc::new(AtomicBool::new(true)),
            tasks: Mutex::default(),
            stops: OnceLock::new(),
            is_closed: AtomicBool::new(false),
            traces: OnceLock::new(),
        });
        Ok(Self { shared, waiting })
    }

    /// Records spans of its attempts; called once, before anything is sent.
    pub fn trace(&self, traces: Traces) {
        self.shared.traces.get_or_init(|| traces);
    }

    /// Where spans of its attempts are recorded.
    pub fn traces(&self) -> Traces {
        self.shared.traces().cloned().unwrap_or_default()
    }

    /// Lets admission hand over what it has just committed.
    pub fn handover(&self) -> Handover {
        Handover(Arc::clone(&self.shared))
    }

    /// The breakers of its destinations, and what became of its calls.
    pub fn calls(&self) -> NodeCalls {
        NodeCalls(Arc::clone(&self.shared))
    }

    /// A handle that wakes this outbox.
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.shared.wake))
    }

    /// A flag that is true while its parts work: it is false from a panic until the part that was started again has
    /// done something well.
    pub fn is_well(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.shared.is_well)
    }

    /// Works until `stop` is set. Then takes nothing more, gives calls under way `stop_timeout_ms` to end, settles
    /// their results and hands the rest back.
    pub async fn run(self, stop: Stop) {
        let shared = self.shared;
        let (cut, cut_signal) = Stop::channel();
        shared.stops.get_or_init(|| Stops { stopping: stop.clone(), cut: cut_signal });
        let tasks = CallTasks(Arc::clone(&shared));
        let (mut writer, mut watcher) = (JoinSet::new(), JoinSet::new());
        writer.spawn(Writer::new(Arc::clone(&shared)).run(self.waiting));
        watcher.spawn(Watch::new(Arc::clone(&shared)).run(stop.clone()));
        shared.steady().await;
        let mut worker = Worker::new(Arc::clone(&shared), stop);
        worker.work().await;
        worker.finish(&cut).await;
        drop(tasks);
        shared.settler.close();
        // It ends when all is written; a database that is away must not keep the process.
        if timeout(CUT_TIMEOUT, writer.join_next()).await.is_err() {
            warn!("stopped before every result was written; those leases will end by themselves");
        }
        // What the last results took in their lanes.
        worker.give_back().await;
        // It is between two looks at the database, or in one whose time is limited.
        ignore_result(timeout(CUT_TIMEOUT, watcher.join_next())).await;
    }

    /// One step, for tests: takes what is due now, makes the calls, settles, and says how many messages it
    /// took.
    pub async fn run_due(&self) -> Result<usize, StoreError> {
        let (_never, quiet) = Stop::channel();
        let stops = Stops { stopping: quiet.clone(), cut: quiet };
        let shared = &self.shared;
        shared.steady().await;
        let posts = shared.posts.get();
        let wants: Vec<LeaseWant> = posts.values().map(|post| post.want(DUE_N_MAX)).collect();
        let mut leased = shared.lease(&wants, &shared.holder()).await?;
        for message in &mut leased {
            shared.propagate(message);
        }
        let attempts = leased.iter().filter_map(|message| {
            let post = posts.get(&message.destination)?;
            let mut stops = stops.clone();
            Some(async move { shared.attempt(post, message, &mut stops, None).await })
        });
        let settlements: Vec<Settlement> = join_all(attempts).await;
        settler::write(&shared.store, &settlements, false).await?;
        Ok(leased.len())
    }
}

/// Takes over new messages from admission, without a look at the database.
pub struct Handover(Arc<OutboxState>);

impl Handover {
    /// A free slot of `destination`, if it has one: the lease that a new message is to be written with, and what
    /// starts its call once that is committed. Dropping the latter gives the slot back.
    ///
    /// None with `hold`: a commit whose answer is lost would leave an operator to decide about what was never sent.
    pub fn take(
        &self,
        destination: &str,
    ) -> Option<(InitialLease, impl FnOnce(LeasedMessage) + Send + use<>)> {
        let shared = &self.0;
        let posts = shared.posts.get();
        let post = posts.get(destination)?;
        let destination = &post.destination;
        if destination.config.unknown == UnknownPolicy::Hold || !destination.gate.is_wide_open() {
            return None;
        }
        if !post.is_drained.load(Ordering::Relaxed) {
            return None;
        }
        let (free_bytes_n, slot) = (post.free_bytes_n(), post.take());
        let taken_n = post.taken_n();
        if taken_n > destination.gate.slots_n() || (free_bytes_n == 0 && taken_n > 1) {
            // Others will have to wait in the database, and later ones wait behind them.
            post.is_drained.store(false, Ordering::Relaxed);
            return None;
        }
        let now_ms = shared.clock.steady_ms();
        let lease = InitialLease {
            node: Arc::clone(&shared.node),
            from_ms: now_ms,
            until_ms: now_ms.saturating_add(shared.lease_ms()),
            key_valid_until_ms: now_ms.saturating_add(destination.key_valid_for_ms()),
            taken_at_ms: shared.store.is_own_clock().then_some(now_ms),
        };
        let shared = Arc::clone(shared);
        Some((lease, move |message| shared.start(message, slot)))
    }
}

/// Most handshakes of one look: so many connections are open at once.
const HANDSHAKES_N_MAX: usize = 64;

impl NodeCalls {
    /// Connects to each destination that is called over HTTPS, all at once, and hangs up: no request is sent. Those
    /// that are called at one place with one set of certificates are one. Takes as long as `limit`, and a third of a
    /// second.
    pub async fn handshakes(&self, limit: Duration) -> Handshakes {
        let (mut places, mut elsewhere_n) = (BTreeMap::<_, Vec<&Arc<Post>>>::new(), 0);
        let posts = self.posts();
        for post in posts.values() {
            let Some(host) = post.destination.http().and_then(HttpDestination::tls_host) else { continue };
            let http = &post.destination.config.http;
            if host.is_empty() || http.proxy.is_some() {
                elsewhere_n += 1;
                continue;
            }
            let reveal = |secret: &Option<Secret>| secret.as_ref().map(|text| text.reveal().to_owned());
            let key = (host, reveal(&http.tls.ca), reveal(&http.tls.certificate), http.version as u8);
            places.entry(key).or_default().push(post);
        }
        let left_n = places.values().skip(HANDSHAKES_N_MAX).map(Vec::len).sum();
        let looks = places.into_iter().take(HANDSHAKES_N_MAX).map(|((host, ..), posts)| async move {
            let end = posts.first()?.destination.http()?.handshake(limit).await?;
            let destinations = posts.iter().map(|post| post.destination.name.to_string()).collect();
            Some(Handshake { destinations, host, end })
        });
        let done = join_all(looks).await.into_iter().flatten().collect();
        Handshakes { done, elsewhere_n, left_n }
    }
}
