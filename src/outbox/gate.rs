//! How much of a destination's work may start now: its rate limit and its circuit breaker. Per node, in
//! memory, by the ticks that callers bring: nobody who sets a clock opens or closes anything.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tracing::{info, warn};

use crate::config::{DestinationConfig, UnknownPolicy};
use crate::types::{AttemptResult, Name};

/// Calls that take no longer than this are quick, in milliseconds: far below any lease.
const QUICK_MS: i64 = 100;
/// How many times the calls under way may be in hand when calls are quick.
const AHEAD: u32 = 4;

/// Part of a second whose calls are let through together, where a rate holds them back.
const REFILLS_PER_S: i64 = 20;

/// The gate of one destination.
pub(super) struct Gate {
    name: Name,
    /// Calls a second; 0: as many as there are.
    rate_per_s: u32,
    /// Failures in a row that open the breaker; 0: never.
    failures_n_max: u32,
    open_ms: i64,
    state: Arc<Mutex<State>>,
    /// One permit for each call under way.
    calls: Semaphore,
    concurrency_n: u32,
    /// How many times that many may be in hand. With `hold`, whatever a dead worker had in hand is a person's to
    /// decide, sent or not: so no more than may be under way.
    ahead: u32,
}

#[derive(Debug, Default)]
struct State {
    failures_n: u32,
    /// While the breaker is open: when one call may probe.
    probe_at_ms: Option<i64>,
    /// One call probes now: [`Begun`] takes it back, however that call ends.
    is_probing: bool,
    /// A look might have taken a call to probe with, and found none: time alone brings no other.
    is_probe_offered: bool,
    /// Calls that the rate allows now, in thousandths.
    budget: i64,
    filled_at_ms: i64,
    /// The last look might have taken more, had the rate allowed it.
    is_short: bool,
    /// How long calls take, lately, while they succeed.
    call_ms: Option<i64>,
}

/// A call that has started. Dropping it, in a panic as well, lets another one probe if this one did.
#[must_use]
pub(super) struct Begun(Option<Arc<Mutex<State>>>);

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(state) = &self.0 {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            (state.is_probing, state.is_probe_offered) = (false, false);
        }
    }
}

impl Gate {
    pub(super) fn new(name: Name, config: &DestinationConfig) -> Self {
        Self {
            name,
            rate_per_s: config.rate_per_s,
            failures_n_max: config.breaker_failures_n,
            open_ms: i64::try_from(config.breaker_open_ms).unwrap_or(i64::MAX),
            state: Arc::default(),
            calls: Semaphore::new(config.concurrency_n as usize),
            concurrency_n: config.concurrency_n,
            ahead: if config.unknown == UnknownPolicy::Hold { 1 } else { AHEAD },
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Plain numbers: a panic elsewhere cannot leave them half-written.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many messages may be in hand: as many as calls may be under way, and more where calls are quick, so
    /// that a call need not wait for the lease before it or the settlement after it.
    pub(super) fn in_hand_n(&self) -> u32 {
        let is_quick = self.state().call_ms.is_some_and(|call_ms| call_ms <= QUICK_MS);
        self.concurrency_n.saturating_mul(if is_quick { self.ahead } else { 1 })
    }

    /// Waits for the turn to call. The permit is for the call alone, not for what is written about it.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.calls.acquire().await.ok()
    }

    /// Of `free_n` slots, how many may be used now.
    pub(super) fn allowed_n(&self, free_n: u32, now_ms: i64) -> u32 {
        let mut state = self.state();
        let allowed_n = match state.probe_at_ms {
            Some(probe_at_ms) if now_ms < probe_at_ms || state.is_probing => 0,
            Some(_) => free_n.min(1),
            None => free_n,
        };
        let allowed_n = self.allowed_by_rate_n(&mut state, allowed_n, now_ms);
        state.is_probe_offered |= state.probe_at_ms.is_some() && allowed_n > 0;
        allowed_n
    }

    /// Of `allowed_n` calls, how many the rate lets through now.
    fn allowed_by_rate_n(&self, state: &mut State, allowed_n: u32, now_ms: i64) -> u32 {
        if self.rate_per_s == 0 {
            return allowed_n;
        }
        // At most a second's worth is saved up.
        let per_s = i64::from(self.rate_per_s) * 1_000;
        let passed_ms = now_ms.saturating_sub(state.filled_at_ms).clamp(0, 1_000);
        state.budget = (state.budget + i64::from(self.rate_per_s) * passed_ms).min(per_s);
        state.filled_at_ms = now_ms;
        let budget_n = u32::try_from(state.budget / 1_000).unwrap_or(0);
        state.is_short = budget_n < allowed_n;
        allowed_n.min(budget_n)
    }

    /// How long until more may start than now: a breaker's probe, or what the rate lets through. `None`: it does
    /// not depend on time, or what there was has been looked for. Milliseconds; not above 0 when it is so already.
    pub(super) fn opens_in_ms(&self, now_ms: i64) -> Option<i64> {
        let state = self.state();
        // While one probes, its answer decides.
        if state.probe_at_ms.is_some() && (state.is_probing || state.is_probe_offered) {
            return None;
        }
        let probe_in_ms = state.probe_at_ms.map(|at_ms| at_ms.saturating_sub(now_ms));
        let rate_per_s = i64::from(self.rate_per_s);
        // What the last look left of the rate, it had no use for.
        let is_used_up = state.is_short && rate_per_s > 0 && state.budget < 1_000;
        let filled_in_ms = is_used_up.then(|| {
            let missing = (rate_per_s / REFILLS_PER_S).max(1) * 1_000 - state.budget;
            let filled_in_ms = (missing + rate_per_s - 1) / rate_per_s;
            state.filled_at_ms.saturating_add(filled_in_ms).saturating_sub(now_ms)
        });
        // An option that is none is below any other.
        probe_in_ms.max(filled_in_ms)
    }

    /// Whether its breaker is open.
    pub(super) fn is_open(&self) -> bool {
        self.state().probe_at_ms.is_some()
    }

    /// Whether calls may start without being counted first: no rate, no open breaker.
    pub(super) fn is_wide_open(&self) -> bool {
        self.rate_per_s == 0 && self.state().probe_at_ms.is_none()
    }

    /// A call starts.
    pub(super) fn started(&self) -> Begun {
        let mut state = self.state();
        if self.rate_per_s > 0 {
            state.budget -= 1_000;
        }
        let is_probe = state.probe_at_ms.is_some() && !state.is_probing;
        state.is_probing |= is_probe;
        Begun(is_probe.then(|| Arc::clone(&self.state)))
    }

    /// An attempt ended; `took` is how long its call did, `None` when nothing was sent and so nothing was learnt.
    pub(super) fn ended(&self, result: AttemptResult, took: Option<Duration>, now_ms: i64) {
        let mut state = self.state();
        let Some(took) = took else { return };
        let took_ms = i64::try_from(took.as_millis()).unwrap_or(i64::MAX);
        let is_good = result == AttemptResult::Done;
        state.call_ms =
            is_good.then(|| state.call_ms.map_or(took_ms, |lately_ms| (lately_ms * 7 + took_ms) / 8));
        if self.failures_n_max == 0 {
            return;
        }
        match result {
            AttemptResult::Done | AttemptResult::Refused => {
                if state.probe_at_ms.is_some() {
                    info!(destination = %self.name, "far side answers again; its breaker is closed");
                }
                state.failures_n = 0;
                state.probe_at_ms = None;
            }
            AttemptResult::Retry | AttemptResult::Unknown => {
                state.failures_n = state.failures_n.saturating_add(1);
                let was_open = state.probe_at_ms.is_some();
                if was_open || state.failures_n >= self.failures_n_max {
                    state.probe_at_ms = Some(now_ms.saturating_add(self.open_ms));
                    state.is_probe_offered = false;
                }
                if !was_open && state.probe_at_ms.is_some() {
                    warn!(destination = %self.name, failures_n = state.failures_n, "too many failures in a row; its breaker is open");
                }
            }
            AttemptResult::Released => {}
        }
        let is_open = f64::from(u8::from(state.probe_at_ms.is_some()));
        metrics::gauge!("hooklatch_breaker_open", "destination" => self.name.to_string()).set(is_open);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::policy::tests::config;

    fn gate(rate_per_s: u32, breaker_failures_n: u32) -> Gate {
        let config = DestinationConfig {
            rate_per_s,
            breaker_failures_n,
            breaker_open_ms: 500,
            ..config(UnknownPolicy::Retry)
        };
        Gate::new(Name::parse("far").expect("a name"), &config)
    }

    fn start(gate: &Gate, n: u32) {
        (0..n).for_each(|_| drop(gate.started()));
    }

    #[test]
    fn a_rate_limit_lets_through_a_seconds_worth_at_most() {
        let gate = gate(10, 0);
        assert_eq!(gate.allowed_n(100, 1_000_000), 10, "after a long rest");
        start(&gate, 10);
        assert_eq!(gate.allowed_n(100, 1_000_000), 0);
        assert_eq!(gate.allowed_n(100, 1_000_099), 0);
        assert_eq!(gate.allowed_n(100, 1_000_250), 2);
        start(&gate, 2);
        assert_eq!(gate.allowed_n(100, 1_000_200), 0, "a clock that goes back gives nothing");
        assert_eq!(gate.allowed_n(3, 1_009_000), 3, "never more than slots are free");
    }

    #[test]
    fn a_breaker_opens_after_failures_in_a_row_and_probes_with_one_call() {
        let gate = gate(0, 3);
        for result in
            [AttemptResult::Retry, AttemptResult::Unknown, AttemptResult::Done, AttemptResult::Retry]
        {
            gate.ended(result, Some(Duration::ZERO), 1_000);
        }
        assert_eq!(gate.allowed_n(8, 1_000), 8, "not in a row");
        gate.ended(AttemptResult::Retry, Some(Duration::ZERO), 1_000);
        gate.ended(AttemptResult::Unknown, Some(Duration::ZERO), 1_000);
        assert_eq!(gate.allowed_n(8, 1_499), 0);
        assert_eq!(gate.allowed_n(8, 1_500), 1, "one probe");
        let probe = gate.started();
        assert_eq!(gate.allowed_n(8, 1_600), 0, "and no second one");
        assert_eq!(gate.opens_in_ms(1_600), None, "its answer decides");
        gate.ended(AttemptResult::Retry, Some(Duration::ZERO), 1_700);
        drop(probe);
        assert_eq!(gate.opens_in_ms(1_700), Some(500));
        assert_eq!(gate.allowed_n(8, 2_199), 0, "open again");
        assert_eq!(gate.allowed_n(8, 2_200), 1);
        let probe = gate.started();
        gate.ended(AttemptResult::Unknown, None, 2_300);
        drop(probe);
        assert_eq!(gate.allowed_n(8, 2_300), 1, "a probe that was handed back is another one's turn");
        let probe = gate.started();
        gate.ended(AttemptResult::Refused, Some(Duration::ZERO), 2_400);
        drop(probe);
        assert_eq!(gate.allowed_n(8, 2_400), 8, "whoever refuses is there");
    }

    #[test]
    fn a_panic_while_probing_is_another_ones_turn() {
        let gate = gate(0, 1);
        gate.ended(AttemptResult::Retry, Some(Duration::ZERO), 1_000);
        assert_eq!(gate.allowed_n(8, 1_500), 1);
        let begun = gate.started();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _begun = begun;
            panic!("inside an attempt");
        }));
        assert!(panicked.is_err());
        assert_eq!(gate.allowed_n(8, 1_500), 1, "it probes again");
        // One that began before the breaker opened is no probe, and its end is not the probe's.
        let probe = gate.started();
        drop(gate.started());
        assert_eq!(gate.allowed_n(8, 1_500), 0);
        drop(probe);
        assert_eq!(gate.allowed_n(8, 1_500), 1);
    }

    #[test]
    fn it_says_when_more_may_start() {
        let gate = gate(100, 0);
        assert_eq!(gate.opens_in_ms(1_000_000), None);
        assert_eq!(gate.allowed_n(500, 1_000_000), 100);
        start(&gate, 100);
        assert_eq!(gate.opens_in_ms(1_000_000), Some(50), "a few together");
        assert_eq!(gate.opens_in_ms(1_000_060), Some(-10));
        assert_eq!(gate.allowed_n(500, 1_000_060), 6);
        start(&gate, 6);
        assert_eq!(gate.allowed_n(0, 1_000_060), 0);
        assert_eq!(gate.opens_in_ms(1_000_060), None, "nobody waits for the rate");
    }

    #[test]
    fn nobody_looks_again_for_what_was_not_there() {
        let gate = gate(5, 1);
        assert_eq!(gate.allowed_n(8, 1_000_000), 5);
        assert_eq!(gate.opens_in_ms(1_000_000), None, "the look found nothing to use the rate for");
        start(&gate, 5);
        assert_eq!(gate.opens_in_ms(1_000_000), Some(200), "it took all that it might");
        assert_eq!(gate.allowed_n(8, 1_000_200), 1);
        assert_eq!(gate.opens_in_ms(1_000_200), None);
        gate.ended(AttemptResult::Retry, Some(Duration::ZERO), 1_000_200);
        assert_eq!(gate.opens_in_ms(1_000_200), Some(500));
        assert_eq!(gate.allowed_n(0, 1_000_700), 0);
        assert_eq!(gate.opens_in_ms(1_000_700), Some(0), "no slot was free to look with");
        assert_eq!(gate.allowed_n(8, 1_000_700), 1);
        assert_eq!(gate.opens_in_ms(1_000_700), None, "no message to probe with");
        let probe = gate.started();
        drop(probe);
        assert_eq!(gate.opens_in_ms(1_000_700), Some(0), "it was handed back: another one's turn");
    }

    #[test]
    fn more_is_in_hand_only_while_calls_are_quick() {
        let gate = gate(0, 0);
        assert_eq!(gate.in_hand_n(), 4, "nobody knows yet");
        gate.ended(AttemptResult::Done, Some(Duration::from_millis(2)), 1_000);
        assert_eq!(gate.in_hand_n(), 16);
        gate.ended(AttemptResult::Unknown, Some(Duration::from_secs(10)), 1_000);
        assert_eq!(gate.in_hand_n(), 4, "a failure ends it");
        gate.ended(AttemptResult::Done, Some(Duration::from_millis(200)), 1_000);
        assert_eq!(gate.in_hand_n(), 4, "slow");
    }
}
