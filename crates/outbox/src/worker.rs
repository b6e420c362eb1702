//! The loop: takes what is due, as much as each destination has free slots for, and has the calls made (`state.rs`).
//!
//! One task looks for all destinations, and each destination has tasks of its own that call (`post.rs`): a look is one
//! statement however many there are, and a slow destination fills its own slots and delays no other. A slot is free
//! again when the result of its call is *written*, so what is held in memory is bounded: by the configured concurrency,
//! or a few times that where calls are quick (`gate/`), and by the bytes of bodies.
//!
//! A look asks each destination for as many messages as it has free slots. It is made when one of these may find
//! something:
//!
//! - a notification (`wake`): there are new messages, or the head of a lane is done;
//! - a message that this node put back is due, or a rate or a breaker lets through more ([`Worker::look_at`]);
//! - a slot became free, *and* the last look found all that it asked for (`may_be_more`), *and* few of what was taken
//!   still wait for their turn (`is_hungry`): otherwise nothing is left there, or a look for each call that ends would
//!   be one statement for each message;
//! - `poll_ms` are over (`next_look`), and one of the node's looks at the database, which it makes for all its parts at
//!   once, found that something is due ([`Worker::polled_at`]): for what this node cannot know of, such as another
//!   node's messages and leases that ended. Polling is the truth; everything else is only sooner.
//!
//! When `replan` wakes the loop, something is due sooner than was thought: the time of the next look is worked out
//! again, and no look is made (`is_look_due` is false). After a failure nothing but the pause counts, however much
//! admission wakes it. While results cannot be written (`is_behind`) nothing is taken: a lease of ours that ended
//! meanwhile would be taken again, and its call repeated.
//!
//! Nothing here decides about a message: see `attempt.rs`.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{info, warn};

use super::state::{CLOCK_SET_MS, OutboxState};
use crate::locked;
use crate::timing::{jittered, pause, pause_for};
use hooklatch_core::stop::{Stop, Stopper, ignore_result};
use hooklatch_core::types::Name;
use hooklatch_store::{LeaseWant, LeasedMessage, Look, Looks, LostClaims, StoreError, UNASKED_MAX};

/// Time between two looks of a stopping worker whether admission has given back its slots. Milliseconds.
const SLOT_CHECK_MS: u64 = 20;
/// Shortest wait before a look that a due time asks for: what is due together is taken together. Milliseconds.
const LOOK_EVERY_MS: i64 = 5;
/// Time for which claims are looked for whose answer was lost: the database may still be at work on them.
/// Milliseconds.
const LOST_FOR_MS: i64 = 60_000;

/// Time that results may take to be written after the calls were cut off.
pub(crate) const CUT_TIMEOUT: Duration = Duration::from_secs(2);

/// The state of [`Outbox::run`].
pub(crate) struct Worker {
    shared: Arc<OutboxState>,
    stopping: Stop,
    failures_n: u32,
    /// The node's looks at the database, for all its parts.
    looks: Looks,
    /// Our clock and our ticks at the last look.
    seen_ms: (i64, i64),
}

impl Worker {
    pub(crate) fn new(shared: Arc<OutboxState>, stopping: Stop) -> Self {
        let seen_ms = (shared.clock.steady_ms(), shared.clock.ticks_ms());
        let looks = shared.store.node().subscribe();
        Self { shared, stopping, failures_n: 0, looks, seen_ms }
    }

    /// Works until the stop. A panic in here costs what was being looked for, which is released, and nothing else.
    pub(crate) async fn work(&mut self) {
        let mut panics_n = 0;
        while AssertUnwindSafe(self.work_once()).catch_unwind().await.is_err() {
            self.shared.panicked("worker");
            panics_n += 1;
            pause(panics_n).await;
        }
    }

    async fn work_once(&mut self) {
        let mut stopping = self.stopping.clone();
        let (mut is_look_due, mut may_be_more, mut was_behind) = (true, false, false);
        let mut next_look = Instant::now();
        while !stopping.is_set() {
            // Results must be written before more is taken: a lease of ours that ended meanwhile would
            // otherwise be taken again and its call repeated.
            if is_look_due || self.look_at(next_look) <= Instant::now() {
                // Once they are written, slots are free that may find more.
                was_behind = self.shared.settler.is_behind();
                may_be_more = was_behind || self.look().await;
                // After a failure, however much admission hands over meanwhile.
                next_look = Instant::now()
                    + match self.failures_n {
                        0 => jittered(self.shared.config.poll_ms),
                        failures_n => pause_for(failures_n),
                    };
            }
            is_look_due = true;
            let at = self.look_at(next_look);
            let shared = Arc::clone(&self.shared);
            tokio::select! {
                () = stopping.wait() => return,
                () = shared.wake.notified(), if self.failures_n == 0 => {}
                // Something is due sooner than was thought: no look before that.
                () = shared.due.replan.notified() => is_look_due = false,
                () = self.looks.changed() => is_look_due = false,
                () = sleep_until(at) => {}
                () = shared.freed.notified(), if may_be_more => is_look_due = was_behind || shared.is_hungry(),
            }
        }
    }

    /// Takes what is due and starts it. Whether a slot that becomes free may find more.
    async fn look(&mut self) -> bool {
        let ticks_ms = self.shared.clock.ticks_ms();
        let posts = self.shared.posts.get();
        let wants: Vec<LeaseWant> = posts.values().map(|post| post.want(post.free_n(ticks_ms))).collect();
        self.shared.due.forget_until(self.shared.clock.steady_ms());
        // Awaited to its end, never inside a `select!`: a cancelled statement could leave leases behind.
        let leased = match self.claim(&wants).await {
            Ok(leased) => leased,
            Err(error) => {
                self.failures_n = self.failures_n.saturating_add(1);
                warn!(%error, failures_n = self.failures_n, "could not look for due messages");
                return false;
            }
        };
        self.shared.is_well.store(true, Ordering::Relaxed);
        if self.failures_n > 0 {
            info!(failures_n = self.failures_n, "looks for due messages again");
            self.failures_n = 0;
        }
        let mut found: BTreeMap<Name, (u32, u64)> = BTreeMap::new();
        for message in leased {
            let (found_n, bytes_n) = found.entry(message.destination.clone()).or_default();
            *found_n += 1;
            *bytes_n += message.body.len() as u64;
            self.shared.start_claimed(message);
        }
        let mut may_be_more = false;
        for want in &wants {
            // Where bodies took half of the bytes, those that are left may be too large for the rest.
            let is_drained = found
                .get(&want.destination)
                .is_none_or(|(found_n, bytes_n)| *found_n < want.free_n && *bytes_n < want.free_bytes_n / 2);
            let is_more = want.free_n == 0 || !is_drained;
            may_be_more |= is_more;
            if let Some(post) = posts.get(&want.destination) {
                post.may_have_more.store(is_more, Ordering::Relaxed);
            }
            // One that had no slot was not asked about: what it has waiting is as it was.
            if let Some(post) = posts.get(&want.destination).filter(|_| want.free_n > 0) {
                post.is_drained.store(is_drained, Ordering::Relaxed);
            }
        }
        may_be_more
    }

    /// Claims what is due, after what an earlier look may have claimed was given back: no task has it, and nothing of
    /// it was sent, but when its lease ends its outcome would count as unknown.
    async fn claim(&mut self, wants: &[LeaseWant]) -> Result<Vec<LeasedMessage>, StoreError> {
        match self.release().await {
            // Another transaction keeps one of them locked, which is no reason to take nothing else.
            Err(error @ StoreError::Locked { .. }) => warn!(%error, "could not give back lost claims"),
            released => released?,
        }
        self.notice_clock().await?;
        let claims = self.shared.claims();
        let leased = self.shared.lease(wants, &claims.holder).await;
        if leased.is_ok() {
            claims.answered();
        }
        leased
    }

    /// Extends the leases of what is under way when our clock is set forward, where that clock gives the database the
    /// time.
    async fn notice_clock(&mut self) -> Result<(), StoreError> {
        let clock = &self.shared.clock;
        let now_ms = (clock.steady_ms(), clock.ticks_ms());
        let set_ms = (now_ms.0 - self.seen_ms.0).saturating_sub(now_ms.1 - self.seen_ms.1);
        if set_ms > CLOCK_SET_MS && !self.shared.store.is_own_clock() {
            self.shared.extend_all().await?;
        }
        self.seen_ms = now_ms;
        Ok(())
    }

    async fn release(&mut self) -> Result<(), StoreError> {
        let now_ms = self.shared.clock.ticks_ms();
        let lost: Vec<(String, i64)> = locked(&self.shared.lost).iter().cloned().collect();
        let Some((_, first_ms)) = lost.first() else { return Ok(()) };
        let age_ms = now_ms.saturating_sub(*first_ms);
        let lost = LostClaims {
            holders: lost.into_iter().map(|(holder, _)| holder).collect(),
            destinations: self.shared.posts.get().keys().cloned().collect(),
            age_ms,
        };
        let released_n = self.shared.store.message_release(&lost, self.shared.clock.steady_ms()).await?;
        if released_n > 0 {
            info!(messages_n = released_n, "gave back messages whose claim was not answered; none was sent");
        }
        locked(&self.shared.lost).retain(|(_, at_ms)| now_ms.saturating_sub(*at_ms) < LOST_FOR_MS);
        Ok(())
    }

    /// The earlier of `next_look` and of when something is due or to be let through; after a failure, not
    /// before its pause is over.
    fn look_at(&self, next_look: Instant) -> Instant {
        if self.failures_n > 0 {
            return next_look;
        }
        let next_look = self.polled_at(next_look);
        let ticks_ms = self.shared.clock.ticks_ms();
        let due = self.shared.due.next_in_ms(self.shared.clock.steady_ms());
        let posts = self.shared.posts.get();
        let gates = posts.values().filter_map(|post| post.destination.gate.opens_in_ms(ticks_ms));
        let Some(wait_ms) = gates.chain(due).min() else { return next_look };
        let wait_ms = u64::try_from(wait_ms.max(LOOK_EVERY_MS)).unwrap_or(u64::MAX);
        Instant::now().checked_add(Duration::from_millis(wait_ms)).map_or(next_look, |at| at.min(next_look))
    }

    /// When to look for what this node does not know of: not before something of it is due, as its looks have it.
    fn polled_at(&self, next_look: Instant) -> Instant {
        let unasked = next_look + UNASKED_MAX;
        let due = |look: Look| look.message_due.map_or(unasked, |due| due.clamp(next_look, unasked));
        self.looks.latest().map_or(next_look, due)
    }

    /// Gives back claims whose answer was lost, at a stop: as leases that end they would count as perhaps sent.
    pub(crate) async fn give_back(&mut self) {
        match timeout(CUT_TIMEOUT, self.release()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(%error, "could not give back claims that were not answered"),
            Err(_) => warn!(
                "could not give back claims that were not answered: the database did not answer in time"
            ),
        }
    }

    pub(crate) async fn finish(&mut self, cut: &Stopper) {
        self.give_back().await;
        for post in self.shared.posts.get().values() {
            post.is_drained.store(false, Ordering::Relaxed);
        }
        let patience = Duration::from_millis(self.shared.config.stop_timeout_ms);
        if timeout(patience, self.let_go()).await.is_ok() {
            return;
        }
        warn!(calls_n = self.shared.taken_n(), "cut off calls under way: the server is stopping");
        cut.stop();
        if timeout(CUT_TIMEOUT, self.let_go()).await.is_err() {
            warn!(
                calls_n = self.shared.taken_n(),
                "stopped before every result was written; those leases will end by themselves"
            );
        }
    }

    /// Waits until no slot is taken; what admission still hands over is handed back.
    async fn let_go(&self) {
        while self.shared.taken_n() > 0 {
            // A slot that admission gives back unused notifies no task.
            ignore_result(timeout(jittered(SLOT_CHECK_MS), self.shared.freed.notified())).await;
        }
    }
}
