//! One destination on one node: its slots, the messages in them that wait for their turn, the tasks that make the
//! calls.
//!
//! There are as many tasks as calls may be under way, and no more than there is work for: a task makes one call after
//! the other until nothing waits, and ends. The result of a call goes to the settler together with the message's slot,
//! so the task does not wait for the write.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::destinations::Destination;
use crate::gate::BegunCall;
use crate::locked;
use crate::meters::Meters;
use hooklatch_core::types::MessageId;
use hooklatch_store::{LeaseWant, LeasedMessage};

/// Fencing tokens of the messages under way, by message.
#[derive(Debug, Default)]
pub(crate) struct CallsUnderWay(Mutex<HashMap<MessageId, u32>>);

impl CallsUnderWay {
    /// Notes that a message is under way, under this fencing token.
    pub(crate) fn add(&self, message_id: MessageId, attempt_n: u32) {
        locked(&self.0).insert(message_id, attempt_n);
    }

    /// Forgets a message that is no longer under way.
    pub(crate) fn remove(&self, message_id: MessageId) {
        locked(&self.0).remove(&message_id);
    }

    /// A copy of all of them.
    pub(crate) fn all(&self) -> HashMap<MessageId, u32> {
        locked(&self.0).clone()
    }
}

/// Bytes of bodies that the slots of one destination may hold, about: what waits for its turn, where bodies are large,
/// waits in the database. One message is always let through, whatever its size.
const BODY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The part of the slots whose messages may wait for their turn before more are claimed.
const WAITING_PART: usize = 4;

/// One destination on this node.
pub(crate) struct Post {
    pub(crate) destination: Destination,
    /// Number of slots that are taken.
    taken_n: AtomicU32,
    /// Bytes of their bodies.
    bytes_n: AtomicU64,
    /// True when the last look found less than there were slots for: then nothing older waits, and new
    /// messages may be taken over from admission.
    pub(crate) is_drained: AtomicBool,
    /// True when the last look may have left something: it found all that it asked for, or no slot was free.
    pub(crate) may_have_more: AtomicBool,
    queue: Mutex<Queue>,
    pub(crate) meters: Arc<Meters>,
    /// This destination before a reload, while calls to it are under way: they take slots of this one.
    before: Mutex<Option<Arc<Post>>>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Work>,
    /// Tasks that make calls.
    tasks_n: u32,
}

/// A message in its slot, before its call.
pub(crate) struct Work {
    pub(crate) message: LeasedMessage,
    pub(crate) begun: BegunCall,
    pub(crate) slot: MessageSlot,
}

/// A place among the messages that this node may have taken for its destination, until the result of the message's call
/// is written. Free again when dropped, panics included.
pub(crate) struct MessageSlot {
    pub(crate) post: Arc<Post>,
    /// Bytes of the body that is in it.
    bytes_n: u64,
    /// The list in which the message is noted as under way, and its number there.
    under_way: Option<(Arc<CallsUnderWay>, MessageId)>,
}

impl MessageSlot {
    /// Puts a message in, once. Where the node's clock gives the database the time, the message is noted as under way.
    pub(crate) fn occupied_by(
        mut self,
        message: &LeasedMessage,
        noted_in: Option<&Arc<CallsUnderWay>>,
    ) -> Self {
        self.bytes_n = u64::try_from(message.body.len()).unwrap_or(u64::MAX);
        self.post.bytes_n.fetch_add(self.bytes_n, Ordering::Relaxed);
        self.under_way = noted_in.map(|calls| {
            calls.add(message.message_id, message.attempt_n);
            (Arc::clone(calls), message.message_id)
        });
        self
    }
}

impl Drop for MessageSlot {
    fn drop(&mut self) {
        if let Some((calls, message_id)) = &self.under_way {
            calls.remove(*message_id);
        }
        self.post.bytes_n.fetch_sub(self.bytes_n, Ordering::Relaxed);
        self.post.taken_n.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Post {
    pub(crate) fn new(destination: Destination) -> Self {
        Self {
            destination,
            taken_n: AtomicU32::new(0),
            bytes_n: AtomicU64::new(0),
            is_drained: AtomicBool::new(false),
            may_have_more: AtomicBool::new(true),
            queue: Mutex::default(),
            meters: Arc::default(),
            before: Mutex::default(),
        }
    }

    /// This destination with other settings.
    pub(crate) fn after(before: &Arc<Self>, destination: Destination) -> Self {
        before.forget_idle();
        let meters = Arc::clone(&before.meters);
        Self { meters, before: Mutex::new(Some(Arc::clone(before))), ..Self::new(destination) }
    }

    /// Forgets the destination before a reload when this is its only owner: no task can take a slot of it any more.
    fn forget_idle(&self) {
        let mut before = locked(&self.before);
        if let Some(one) = &*before {
            one.forget_idle();
            if Arc::strong_count(one) == 1 && locked(&one.before).is_none() {
                *before = None;
            }
        }
    }

    pub(crate) fn take(self: &Arc<Self>) -> MessageSlot {
        self.taken_n.fetch_add(1, Ordering::Relaxed);
        MessageSlot { post: Arc::clone(self), bytes_n: 0, under_way: None }
    }

    /// Number of slots that are taken, those of before a reload included.
    pub(crate) fn taken_n(&self) -> u32 {
        let before_n = locked(&self.before).as_ref().map_or(0, |before| before.taken_n());
        self.taken_n.load(Ordering::Relaxed).saturating_add(before_n)
    }

    /// Returns how many more may be taken now.
    pub(crate) fn free_n(&self, ticks_ms: i64) -> u32 {
        self.forget_idle();
        let taken_n = self.taken_n();
        if taken_n > 0 && self.free_bytes_n() == 0 {
            return 0;
        }
        self.destination.gate.allowed_n(self.destination.gate.slots_n().saturating_sub(taken_n), ticks_ms)
    }

    /// True when more may be taken without a look: a slot is free, nothing older waits, and no rate or breaker counts.
    pub(crate) fn has_room(&self) -> bool {
        self.is_drained.load(Ordering::Relaxed)
            && self.destination.gate.is_wide_open()
            && self.taken_n() < self.destination.gate.slots_n()
            && self.free_bytes_n() > 0
    }

    /// True when older messages may wait in the database, and soon none waits for its turn here, or admission may hand
    /// over newer ones meanwhile.
    pub(crate) fn is_hungry(&self) -> bool {
        let waiting_n = locked(&self.queue).waiting.len();
        self.may_have_more.load(Ordering::Relaxed)
            && (self.is_drained.load(Ordering::Relaxed)
                || waiting_n.saturating_mul(WAITING_PART) < self.destination.gate.slots_n() as usize)
    }

    /// Returns how many bytes of bodies the slots may hold beside those that are in them.
    pub(crate) fn free_bytes_n(&self) -> u64 {
        BODY_BYTES_MAX.saturating_sub(self.bytes_n.load(Ordering::Relaxed))
    }

    /// Returns what a look asks for: at most `free_n` messages of this destination.
    pub(crate) fn want(&self, free_n: u32) -> LeaseWant {
        LeaseWant {
            destination: self.destination.name.clone(),
            free_n,
            free_bytes_n: self.free_bytes_n(),
            key_valid_for_ms: self.destination.key_valid_for_ms(),
        }
    }

    /// Has a message wait for its turn. `true`: one more task is to be started for it, and is counted.
    #[must_use]
    pub(crate) fn add(&self, work: Work) -> bool {
        let mut queue = locked(&self.queue);
        queue.waiting.push_back(work);
        let is_task_wanted = queue.tasks_n < self.destination.config.concurrency_n;
        queue.tasks_n += u32::from(is_task_wanted);
        is_task_wanted
    }

    /// Returns the next message of a counted task. `None` when nothing waits: the task ends and no longer counts.
    pub(crate) fn next(&self) -> Option<Work> {
        let mut queue = locked(&self.queue);
        let work = queue.waiting.pop_front();
        if work.is_none() {
            queue.tasks_n = queue.tasks_n.saturating_sub(1);
        }
        work
    }

    /// Drops what waits: no task works on it any more.
    pub(crate) fn clear(&self) {
        let waiting = std::mem::take(&mut locked(&self.queue).waiting);
        drop(waiting);
        let before = locked(&self.before).clone();
        if let Some(before) = before {
            before.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::tests::{config, first_attempt};
    use hooklatch_core::config::{DestinationConfig, UnknownPolicy};
    use hooklatch_core::types::Name;

    const MIB: usize = 1024 * 1024;

    fn post() -> Arc<Post> {
        let config = DestinationConfig { concurrency_n: 1_000, ..config(UnknownPolicy::Retry) };
        let name = Name::parse("far").unwrap();
        Arc::new(Post::new(Destination::new(name, config, 30_000).unwrap()))
    }

    fn taken(post: &Arc<Post>, n: u32, body_bytes_n: usize) -> Vec<MessageSlot> {
        let message = LeasedMessage { body: vec![0; body_bytes_n].into(), ..first_attempt() };
        (0..n).map(|_| post.take().occupied_by(&message, None)).collect()
    }

    #[test]
    fn the_slots_of_a_destination_are_bounded_by_the_bytes_of_bodies_too() {
        let post = post();
        assert_eq!((post.free_n(0), post.want(9).free_bytes_n), (1_000, BODY_BYTES_MAX));
        let small = taken(&post, 200, 1_000);
        assert_eq!((post.free_n(0), post.free_bytes_n()), (800, BODY_BYTES_MAX - 200_000));
        drop(small);
        let large = taken(&post, 3, 20 * MIB);
        assert_eq!((post.free_n(0), post.free_bytes_n()), (997, 4 * 1024 * 1024));
        let larger = taken(&post, 1, 20 * MIB);
        assert_eq!(post.free_n(0), 0, "the first of a look may be larger than there is room");
        drop((large, larger));
        assert_eq!((post.free_n(0), post.bytes_n.load(Ordering::Relaxed)), (1_000, 0));
    }

    #[test]
    fn there_is_room_without_a_look_only_while_a_slot_is_free_and_nothing_older_waits() {
        let config = DestinationConfig { concurrency_n: 2, ..config(UnknownPolicy::Hold) };
        let name = Name::parse("far").unwrap();
        let post = Arc::new(Post::new(Destination::new(name, config, 30_000).unwrap()));
        assert!(!post.has_room(), "nobody has looked yet");
        post.is_drained.store(true, Ordering::Relaxed);
        let first = post.take();
        assert!(post.has_room());
        let second = post.take();
        assert!(!post.has_room(), "others may wait for a slot");
        drop(first);
        assert!(post.has_room());
        post.is_drained.store(false, Ordering::Relaxed);
        assert!(!post.has_room());
        drop(second);
    }

    fn leased(id: i64) -> LeasedMessage {
        LeasedMessage { message_id: MessageId::from_column(id), ..first_attempt() }
    }

    #[test]
    fn a_slot_is_free_again_when_its_message_is_let_go_and_the_message_is_under_way_no_more() {
        let (post, calls) = (post(), Arc::new(CallsUnderWay::default()));
        let slots: Vec<MessageSlot> =
            (1..=3).map(|id| post.take().occupied_by(&leased(id), Some(&calls))).collect();
        assert_eq!((post.taken_n(), calls.all().len()), (3, 3));
        assert_eq!(calls.all().get(&MessageId::from_column(2)), Some(&1), "by its fencing token");
        let unnoted = post.take().occupied_by(&leased(9), None);
        assert_eq!((post.taken_n(), calls.all().len()), (4, 3));
        drop(slots);
        assert_eq!((post.taken_n(), calls.all().len()), (1, 0));
        drop(unnoted);
        assert_eq!(post.taken_n(), 0);
    }

    #[test]
    fn a_destination_is_hungry_while_older_messages_wait_elsewhere_and_few_wait_here() {
        let post = post();
        let work = |id: i64| Work {
            message: leased(id),
            begun: post.destination.gate.started(),
            slot: post.take().occupied_by(&leased(id), None),
        };
        assert!(post.is_hungry(), "nobody has looked yet");
        assert!((0..250).all(|id| post.add(work(id))));
        assert!(!post.is_hungry(), "a quarter of its slots wait for their turn");
        post.next();
        assert!(post.is_hungry());
        assert!(post.add(work(0)));
        post.is_drained.store(true, Ordering::Relaxed);
        assert!(post.is_hungry(), "newer ones may come");
        post.may_have_more.store(false, Ordering::Relaxed);
        assert!(!post.is_hungry(), "nothing is left there");
    }

    #[test]
    fn there_are_as_many_tasks_as_calls_may_be_under_way_and_each_ends_when_nothing_waits() {
        let config = DestinationConfig { concurrency_n: 2, ..config(UnknownPolicy::Retry) };
        let name = Name::parse("far").unwrap();
        let post = Arc::new(Post::new(Destination::new(name, config, 30_000).unwrap()));
        let work = |id: i64| Work {
            message: leased(id),
            begun: post.destination.gate.started(),
            slot: post.take().occupied_by(&leased(id), None),
        };
        assert_eq!([post.add(work(1)), post.add(work(2)), post.add(work(3))], [true, true, false]);
        let next = || post.next().map(|work| work.message.message_id.number());
        assert_eq!([next(), next(), next(), next()], [Some(1), Some(2), Some(3), None], "in their order");
        assert!(post.add(work(4)), "the one that found nothing has ended");
        assert!(!post.add(work(5)), "the other one works on");
        post.clear();
        assert_eq!((post.taken_n(), next()), (0, None), "what no task works on has no slot");
    }
}
