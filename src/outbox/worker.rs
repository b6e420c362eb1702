//! The loop: takes what is due, as much as each destination has free slots for, and lets each message go its
//! way in a task of its own.
//!
//! A slot is free again when its result is written, so what is held in memory is bounded: by the configured
//! concurrency, or a few times that where calls are quick (`gate.rs`). It looks when it is told of new messages, when a
//! slot is free that may find more, when a message it put back is due, when a rate or a breaker lets through more, and
//! every `poll_ms` for what it cannot know of. Nothing here decides about a message: see `attempt.rs`.

use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{error, info, warn};

use super::attempt::Stops;
use super::destinations::Destination;
use super::handover::{Handed, Load, Slot};
use super::node::{CUT_TIMEOUT, Shared, want};
use super::settle::{self, Settler};
use crate::store::{LeaseWant, LeasedMessage, LostClaims, SettleTo, StoreError};
use crate::types::Name;

/// How often a stopping worker looks whether admission has given back its slots. Milliseconds.
const SLOT_CHECK_MS: u64 = 20;
/// Shortest wait before a look that a due time asks for: what is due together is taken together. Milliseconds.
const LOOK_EVERY_MS: i64 = 5;
/// How long claims are looked for whose answer was lost: the database may still be at work on them. Milliseconds.
const LOST_FOR_MS: i64 = 60_000;
/// Most looks whose claims are looked for.
const LOST_N_MAX: usize = 1_000;

/// The state of [`Outbox::run`].
pub(super) struct Worker {
    shared: Arc<Shared>,
    stops: Stops,
    settler: Settler,
    handed: mpsc::UnboundedReceiver<Handed>,
    tasks: JoinSet<()>,
    failures_n: u32,
    /// Looks whose answer was lost: what they claimed as, and when. By the node's ticks.
    lost: VecDeque<(String, i64)>,
    /// Our clock and our ticks at the last look.
    seen_ms: (i64, i64),
}

impl Worker {
    pub(super) fn new(
        shared: Arc<Shared>,
        stops: Stops,
        handed: mpsc::UnboundedReceiver<Handed>,
        settler: Settler,
    ) -> Self {
        let seen_ms = (shared.clock.steady_ms(), shared.clock.ticks_ms());
        let (tasks, lost) = (JoinSet::new(), VecDeque::new());
        Self { shared, stops, settler, handed, tasks, failures_n: 0, lost, seen_ms }
    }

    /// Works until the stop. A panic in here costs what was being looked for, which is released, and nobody else.
    pub(super) async fn work(&mut self) {
        let mut panics_n = 0;
        while AssertUnwindSafe(self.work_once()).catch_unwind().await.is_err() {
            settle::panicked("worker", &self.shared.is_well);
            panics_n += 1;
            settle::pause(panics_n).await;
        }
    }

    async fn work_once(&mut self) {
        let mut stopping = self.stops.stopping.clone();
        let (mut is_look_due, mut may_be_more) = (true, false);
        let mut next_look = Instant::now();
        while !*stopping.borrow() {
            while let Some(ended) = self.tasks.try_join_next() {
                self.report_panic(ended);
            }
            // What is known must be written before more is taken: a lease of ours that ended meanwhile would
            // otherwise be taken again and its call repeated.
            if is_look_due || self.look_at(next_look) <= Instant::now() {
                // Once they are written, slots are free that may find more.
                may_be_more = self.settler.is_behind() || self.look().await;
                // After a failure, however much admission hands over meanwhile.
                next_look = Instant::now()
                    + match self.failures_n {
                        0 => settle::jittered(self.shared.config.poll_ms),
                        failures_n => settle::pause_for(failures_n),
                    };
            }
            is_look_due = true;
            let at = self.look_at(next_look);
            let shared = Arc::clone(&self.shared);
            tokio::select! {
                _ = stopping.wait_for(|is_stopping| *is_stopping) => return,
                () = shared.wake.notified(), if self.failures_n == 0 => {}
                // Something is due sooner than was thought: no look before that.
                () = shared.replan.notified() => is_look_due = false,
                Some((message, slot)) = self.handed.recv() => {
                    self.start(message, slot);
                    self.start_handed();
                    // Nothing new is in the database: no look.
                    is_look_due = false;
                }
                () = until(at) => {}
                Some(ended) = self.tasks.join_next(), if may_be_more => self.report_panic(ended),
            }
        }
    }

    /// Takes what is due and starts it. Whether a slot that becomes free may find more.
    async fn look(&mut self) -> bool {
        let wants: Vec<LeaseWant> =
            self.shared.destinations.values().map(|one| want(one, self.free_n(one))).collect();
        let wanted_n: BTreeMap<Name, u32> =
            wants.iter().map(|one| (one.destination.clone(), one.free_n)).collect();
        self.shared.forget_due();
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

    /// Claims what is due, after what an earlier look may have claimed was given back: nobody has it, and nothing
    /// of it was sent, but when its lease ends its outcome would count as unknown.
    async fn claim(&mut self, wants: &[LeaseWant]) -> Result<Vec<LeasedMessage>, StoreError> {
        match self.release().await {
            // Somebody keeps one of them locked, which is no reason to take nothing else.
            Err(error @ StoreError::Locked { .. }) => warn!(%error, "could not give back lost claims"),
            released => released?,
        }
        self.notice_clock().await?;
        let holder = self.shared.holder();
        // Noted before: a panic, too, may lose the answer.
        self.lost.push_back((holder.clone(), self.shared.clock.ticks_ms()));
        let leased = self.shared.lease(wants, &holder).await;
        if leased.is_ok() {
            self.lost.pop_back();
        } else if self.lost.len() > LOST_N_MAX {
            self.lost.pop_front();
        }
        leased
    }

    /// Where our clock tells the database the time: keeps what is under way when somebody sets it forward.
    async fn notice_clock(&mut self) -> Result<(), StoreError> {
        let clock = &self.shared.clock;
        let now_ms = (clock.steady_ms(), clock.ticks_ms());
        let set_ms = (now_ms.0 - self.seen_ms.0).saturating_sub(now_ms.1 - self.seen_ms.1);
        if set_ms > settle::CLOCK_SET_MS && !self.shared.store.is_own_clock() {
            self.shared.extend_all().await?;
        }
        self.seen_ms = now_ms;
        Ok(())
    }

    async fn release(&mut self) -> Result<(), StoreError> {
        let now_ms = self.shared.clock.ticks_ms();
        let Some((_, first_ms)) = self.lost.front() else { return Ok(()) };
        let lost = LostClaims {
            holders: self.lost.iter().map(|(holder, _)| holder.clone()).collect(),
            destinations: self.shared.destinations.keys().cloned().collect(),
            age_ms: now_ms.saturating_sub(*first_ms),
        };
        let released_n = self.shared.store.message_release(&lost, self.shared.clock.steady_ms()).await?;
        if released_n > 0 {
            info!(messages_n = released_n, "gave back messages whose claim was not answered; none was sent");
        }
        self.lost.retain(|(_, at_ms)| now_ms.saturating_sub(*at_ms) < LOST_FOR_MS);
        Ok(())
    }

    /// The earlier of `next_look` and of when something is known to be due or to be let through; after a failure, not
    /// before its pause is over.
    fn look_at(&self, next_look: Instant) -> Instant {
        if self.failures_n > 0 {
            return next_look;
        }
        let ticks_ms = self.shared.clock.ticks_ms();
        let gates = self.shared.destinations.values().filter_map(|one| one.gate.opens_in_ms(ticks_ms));
        let Some(wait_ms) = gates.chain(self.shared.next_due_in_ms()).min() else { return next_look };
        let wait_ms = u64::try_from(wait_ms.max(LOOK_EVERY_MS)).unwrap_or(u64::MAX);
        Instant::now().checked_add(Duration::from_millis(wait_ms)).map_or(next_look, |at| at.min(next_look))
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
        destination.gate.allowed_n(slots_n, self.shared.clock.ticks_ms())
    }

    fn start(&mut self, message: LeasedMessage, slot: Slot) {
        // Now, not when the task first runs: the next look must not count this call's place as free.
        let begun = self.shared.destinations.get(&message.destination).map(|one| one.gate.started());
        let in_hand = self.shared.hold(&message);
        let known = self.settler.known(message.message_id, message.attempt_n);
        let (shared, settler, stops) = (Arc::clone(&self.shared), self.settler.clone(), self.stops.clone());
        self.tasks.spawn(async move {
            let settled = match known {
                Some(settled) => {
                    drop(begun);
                    Some(settled)
                }
                None => shared.attempt(&message, stops, begun).await,
            };
            if let Some(settled) = settled {
                let back_for_ms = match settled.settlement.to {
                    SettleTo::Ready { visible_at_ms } => {
                        Some(visible_at_ms.saturating_sub(settled.settlement.settled_at_ms))
                    }
                    _ => None,
                };
                settler.settle(settled).await;
                if let Some(back_for_ms) = back_for_ms {
                    shared.remember_due(back_for_ms);
                }
            }
            drop((in_hand, slot));
            if message.lane.is_some() {
                // The next of its lane may be due now.
                shared.wake.notify_one();
            }
        });
    }

    pub(super) async fn finish(&mut self, cut: &watch::Sender<bool>) {
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

    fn report_panic(&self, ended: Result<(), tokio::task::JoinError>) {
        if let Err(error) = ended {
            settle::panicked("attempt", &self.shared.is_well);
            error!(%error, "an attempt ended badly; its lease will end and its outcome count as unknown");
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
                Some(ended) = self.tasks.join_next() => self.report_panic(ended),
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
