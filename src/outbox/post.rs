//! One destination on one node: its slots, the messages in hand that wait for their turn, the tasks that make the calls,
//! and what is counted of them.
//!
//! There are as many tasks as calls may be under way, and no more than there is work for: a task makes one call after the
//! other until nothing waits, and ends. What a call came to goes to the settler together with the message's slot, so
//! nobody waits for what is written.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use metrics::{Counter, Histogram};

use super::destinations::Destination;
use super::gate::Begun;
use super::node::InHand;
use crate::store::LeasedMessage;
use crate::types::AttemptResult;

/// One destination on this node.
pub(super) struct Post {
    pub(super) destination: Destination,
    /// Messages in hand.
    taken_n: AtomicU32,
    /// Whether the last look found less than there were slots for: then nothing older waits, and new messages
    /// may be taken over from admission.
    pub(super) is_drained: AtomicBool,
    queue: Mutex<Queue>,
    pub(super) meters: Meters,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Work>,
    /// Tasks that make calls.
    tasks_n: u32,
}

/// A message in hand, before its call.
pub(super) struct Work {
    pub(super) message: LeasedMessage,
    pub(super) begun: Begun,
    pub(super) in_hand: InHand,
}

/// A message's place among those that its destination may have in hand; free again when dropped, panics included.
pub(super) struct Slot(Arc<Post>);

impl Slot {
    pub(super) fn post(&self) -> &Arc<Post> {
        &self.0
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.taken_n.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Post {
    pub(super) fn new(destination: Destination) -> Self {
        Self {
            destination,
            taken_n: AtomicU32::new(0),
            is_drained: AtomicBool::new(false),
            queue: Mutex::default(),
            meters: Meters::default(),
        }
    }

    pub(super) fn take(self: &Arc<Self>) -> Slot {
        self.taken_n.fetch_add(1, Ordering::Relaxed);
        Slot(Arc::clone(self))
    }

    /// Messages in hand.
    pub(super) fn taken_n(&self) -> u32 {
        self.taken_n.load(Ordering::Relaxed)
    }

    /// How many more may be taken now.
    pub(super) fn free_n(&self, ticks_ms: i64) -> u32 {
        let slots_n = self.destination.gate.in_hand_n().saturating_sub(self.taken_n());
        self.destination.gate.allowed_n(slots_n, ticks_ms)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Whole at any time: a panic elsewhere cannot leave it half-changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a message wait for its turn. `true`: one more task is to be started for it, and is counted.
    #[must_use]
    pub(super) fn add(&self, work: Work) -> bool {
        let mut queue = self.queue();
        queue.waiting.push_back(work);
        let is_task_wanted = queue.tasks_n < self.destination.config.concurrency_n;
        queue.tasks_n += u32::from(is_task_wanted);
        is_task_wanted
    }

    /// For a task that is counted: its next message. `None`: nothing waits, and the task ends, and counts no more.
    pub(super) fn next(&self) -> Option<Work> {
        let mut queue = self.queue();
        let work = queue.waiting.pop_front();
        if work.is_none() {
            queue.tasks_n = queue.tasks_n.saturating_sub(1);
        }
        work
    }

    /// Drops what waits: nobody works on it any more.
    pub(super) fn clear(&self) {
        let waiting = std::mem::take(&mut self.queue().waiting);
        drop(waiting);
    }
}

/// What is counted of a destination's calls. A meter is looked up once.
#[derive(Default)]
pub(super) struct Meters {
    took: OnceLock<Histogram>,
    /// By how attempts ended.
    ended: [OnceLock<Counter>; AttemptResult::ALL.len()],
}

impl Meters {
    /// A call took so long.
    pub(super) fn took(&self, destination: &str, took: Duration) {
        let meter =
            || metrics::histogram!("hooklatch_attempt_seconds", "destination" => destination.to_owned());
        self.took.get_or_init(meter).record(took.as_secs_f64());
    }

    /// An attempt ended so.
    pub(super) fn ended(&self, destination: &str, result: AttemptResult) {
        let meter = || {
            metrics::counter!(
                "hooklatch_attempts_total",
                "destination" => destination.to_owned(),
                "result" => result.as_str(),
            )
        };
        let place = AttemptResult::ALL.iter().position(|one| *one == result);
        if let Some(counter) = place.and_then(|place| self.ended.get(place)) {
            counter.get_or_init(meter).increment(1);
        }
    }
}
