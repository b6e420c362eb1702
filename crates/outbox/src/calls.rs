//! Makes calls: each message in its turn, by the tasks of its destination, under a lease that is kept.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Notify;
use tokio::time::timeout;
use tracing::{error, warn};

use super::attempt::{Attempt, Stops};
use super::gate::BegunCall;
use super::post::{MessageSlot, Post, Work};
use super::state::OutboxState;
use hooklatch_store::{LeasedMessage, Settlement};

impl OutboxState {
    /// Schedules a message's call for its turn. Once the node has stopped working, the message's lease ends by itself.
    pub fn start(self: &Arc<Self>, mut message: LeasedMessage, slot: MessageSlot) {
        let Some(stops) = self.stops.get().filter(|_| !self.is_closed.load(Ordering::SeqCst)) else { return };
        let post = Arc::clone(slot.post());
        let is_noted = !self.store.is_own_clock();
        let slot = slot.occupied_by(&message, is_noted.then_some(&self.under_way));
        if let Some(known) = self.settler.unwritten_result(message.message_id, message.attempt_n) {
            self.settler.settle_known(known, slot);
            return;
        }
        self.propagate(&mut message);
        // Now, not when the task makes the call: the next look must not count this call's place as free.
        let begun = post.destination.gate.started();
        if post.add(Work { message, begun, slot }) {
            let mut tasks = self.tasks();
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
    pub async fn attempt(
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

    /// Prolongs the lease until its call is `over`, where calls may outlast it. A lost lease does not stop the call:
    /// its settlement will be fenced. What is being written is awaited to its end: a cancelled statement could leave a
    /// connection in the middle of it.
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
