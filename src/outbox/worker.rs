//! The loop: leases at most as many messages as there are free slots, calls, hands outcomes to `settle.rs`.
//!
//! Polling with jitter is the truth; the waker only saves the wait. A store error never ends the loop.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tracing::{debug, error, warn};

use super::destinations::{Destination, Happened};
use super::policy::{self, Answer, Decision, Facts, Step};
use super::settle::{self, Outcome};
use super::{Outbox, Waker};
use crate::backoff;
use crate::config::UnknownPolicy;
use crate::store::{LeaseWant, LeasedMessage, SettleTo, Settlement};
use crate::types::{AttemptResult, Clock, Name};

/// What must be left of a lease beyond the call's timeout when the call starts: time to write its outcome.
const MARGIN_MS: i64 = 250;
/// Outcomes that may wait to be written before callers wait too.
const OUTCOMES_N_MAX: usize = 1_024;

impl Outbox {
    /// Runs until `stop` turns true, then finishes what is under way, up to the stop timeout.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>) {
        let (outcomes, waiting) = mpsc::channel(OUTCOMES_N_MAX);
        let mut settler = JoinSet::new();
        settler.spawn(settle::run(self.store.clone(), self.clock.clone(), waiting));
        let mut calls = Calls::new(&self, outcomes);
        let waker = self.waker.clone();
        while !*stop.borrow() {
            if let Ok(leased) = self.lease(&calls.wants(&self)).await {
                calls.start_all(&self, leased);
            }
            self.wait(&waker, &mut calls, &mut stop).await;
            calls.collect();
        }
        let stop_timeout = Duration::from_millis(self.config.stop_timeout_ms);
        if tokio::time::timeout(stop_timeout, calls.finish()).await.is_err() {
            warn!("stopped with calls still under way; their outcome is unknown until their leases end");
        }
        drop(calls);
        while settler.join_next().await.is_some() {}
    }

    async fn lease(&self, wants: &[LeaseWant]) -> Result<Vec<LeasedMessage>, ()> {
        let lease_ms = i64::try_from(self.config.lease_ms).unwrap_or(i64::MAX / 2);
        let leased = self.store.message_lease(wants, self.clock.now_ms(), lease_ms, &self.node).await;
        leased.map_err(|error| warn!(%error, "could not look for due messages"))
    }

    /// Until there may be something to do: a wake-up, a free slot, a stop, or the next poll.
    async fn wait(&self, waker: &Waker, calls: &mut Calls, stop: &mut watch::Receiver<bool>) {
        let poll_ms = self.config.poll_ms / 2 + fastrand::u64(0..=self.config.poll_ms / 2);
        // A freed slot matters only to a destination that had none.
        let is_full = self.destinations.values().any(|destination| calls.free_n(destination) == 0);
        tokio::select! {
            () = waker.0.notified() => {}
            () = calls.next_end(), if is_full => {}
            _ = stop.changed() => {}
            () = tokio::time::sleep(Duration::from_millis(poll_ms.max(1))) => {}
        }
    }
}

/// The calls under way, and how many of each destination.
struct Calls {
    running: JoinSet<Name>,
    by_destination: HashMap<Name, u32>,
    outcomes: mpsc::Sender<Outcome>,
}

impl Calls {
    fn new(outbox: &Outbox, outcomes: mpsc::Sender<Outcome>) -> Self {
        let by_destination = outbox.destinations.keys().map(|name| (name.clone(), 0)).collect();
        Self { running: JoinSet::new(), by_destination, outcomes }
    }

    fn free_n(&self, destination: &Destination) -> u32 {
        let running_n = self.by_destination.get(&destination.name).copied().unwrap_or(0);
        destination.config.concurrency_n.saturating_sub(running_n)
    }

    fn wants(&self, outbox: &Outbox) -> Vec<LeaseWant> {
        outbox.destinations.values().map(|destination| destination.want(self.free_n(destination))).collect()
    }

    fn start_all(&mut self, outbox: &Outbox, leased: Vec<LeasedMessage>) {
        for message in leased {
            let Some(destination) = outbox.destinations.get(&message.destination) else { continue };
            *self.by_destination.entry(destination.name.clone()).or_default() += 1;
            let call = Call {
                destination: Arc::clone(destination),
                clock: outbox.clock.clone(),
                outcomes: self.outcomes.clone(),
            };
            self.running.spawn(async move {
                let name = call.destination.name.clone();
                call.run(message).await;
                name
            });
        }
    }

    /// Waits until a call ends; for ever when none is under way.
    async fn next_end(&mut self) {
        match self.running.join_next().await {
            Some(ended) => self.ended(ended),
            None => std::future::pending().await,
        }
    }

    /// Takes note of all calls that have ended.
    fn collect(&mut self) {
        while let Some(ended) = self.running.try_join_next() {
            self.ended(ended);
        }
    }

    async fn finish(&mut self) {
        while let Some(ended) = self.running.join_next().await {
            self.ended(ended);
        }
    }

    fn ended(&mut self, ended: Result<Name, tokio::task::JoinError>) {
        match ended {
            Ok(name) => {
                if let Some(running_n) = self.by_destination.get_mut(&name) {
                    *running_n = running_n.saturating_sub(1);
                }
            }
            // Its slot stays taken until a restart; its lease ends by itself.
            Err(error) => error!(%error, "a call ended badly; its outcome is unknown until its lease ends"),
        }
    }
}

/// One call of one message.
struct Call {
    destination: Arc<Destination>,
    clock: Clock,
    outcomes: mpsc::Sender<Outcome>,
}

impl Call {
    async fn run(&self, message: LeasedMessage) {
        let started = tokio::time::Instant::now();
        let decision = self.decide(&message).await;
        let labels =
            [("destination", self.destination.name.to_string()), ("result", decision.result.to_string())];
        metrics::counter!("hooklatch_attempts_total", &labels).increment(1);
        metrics::histogram!("hooklatch_attempt_seconds", "destination" => self.destination.name.to_string())
            .record(started.elapsed().as_secs_f64());
        self.log(&message, &decision);
        let outcome = Outcome {
            destination: self.destination.name.clone(),
            lease_until_ms: message.lease_until_ms,
            settlement: Settlement {
                message_id: message.message_id,
                attempt_n: message.attempt_n,
                to: match decision.step {
                    Step::Done => SettleTo::Done,
                    Step::RetryAt { at_ms } => SettleTo::Ready { visible_at_ms: at_ms },
                    Step::Dead => SettleTo::Dead,
                    Step::Held => SettleTo::Held,
                },
                result: decision.result,
                http_status: decision.http_status,
                error: decision.error,
                settled_at_ms: self.clock.now_ms(),
            },
        };
        if self.outcomes.send(outcome).await.is_err() {
            error!("nobody writes outcomes any more; this one is unknown until its lease ends");
        }
    }

    /// Sends, unless that would be wrong, and decides what came of it.
    async fn decide(&self, message: &LeasedMessage) -> Decision {
        let unknown = &self.destination.config.unknown;
        let is_open = message.is_previous_unsettled || message.is_previous_unknown;
        let open_result = if is_open { AttemptResult::Unknown } else { AttemptResult::Released };
        let plain = |step, result, error| Decision { step, result, http_status: None, error: Some(error) };
        if let Err(why) = policy::may_send(&self.facts(message), is_open, unknown) {
            return plain(Step::Held, open_result, why);
        }
        if is_open && matches!(unknown, UnknownPolicy::Query(_)) {
            match self.destination.ask(message).await {
                Happened::Yes => {
                    return plain(
                        Step::Done,
                        AttemptResult::Done,
                        "the far side says that it happened".to_owned(),
                    );
                }
                Happened::No => {}
                Happened::Unclear(why) => return self.next(message, &Answer::Unknown { why }),
            }
        }
        // Re-checked right before the first byte: a paused process must not send under a lost lease.
        let timeout_ms = i64::try_from(self.destination.config.timeout_ms).unwrap_or(i64::MAX / 2);
        let now_ms = self.clock.now_ms();
        if message.lease_until_ms.saturating_sub(now_ms) < timeout_ms.saturating_add(MARGIN_MS) {
            let at_ms =
                now_ms.saturating_add(backoff::delay_ms(&self.destination.config.retry, 1, fastrand::f64()));
            let why = "too little of the lease was left for a call".to_owned();
            return plain(Step::RetryAt { at_ms }, open_result, why);
        }
        let answer = self.destination.send(message, &self.clock).await;
        self.next(message, &answer)
    }

    fn next(&self, message: &LeasedMessage, answer: &Answer) -> Decision {
        policy::next_step(answer, &self.facts(message), &self.destination.rules())
    }

    fn facts(&self, message: &LeasedMessage) -> Facts {
        Facts {
            attempt_n: message.attempt_n,
            first_sent_at_ms: message.first_sent_at_ms,
            key_valid_until_ms: message.key_valid_until_ms,
            now_ms: self.clock.now_ms(),
            jitter: fastrand::f64(),
        }
    }

    fn log(&self, message: &LeasedMessage, decision: &Decision) {
        let error = decision.error.as_deref().unwrap_or_default();
        if decision.step == Step::Done {
            debug!(message.id = message.message_id, destination = %self.destination.name, event.id = message.key.event_id, attempt_n = message.attempt_n, "sent a message");
        } else {
            warn!(message.id = message.message_id, destination = %self.destination.name, event.id = message.key.event_id, attempt_n = message.attempt_n, result = %decision.result, error, "a message did not get through");
        }
    }
}
