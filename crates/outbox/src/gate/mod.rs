//! The gate of a destination decides how much of its work may start now: its rate limit, its circuit breaker and how
//! many calls it bears at once (`window.rs`). Per node, in memory, by the ticks that callers pass: setting a clock
//! opens or closes nothing.

mod window;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tracing::{info, warn};

use crate::locked;
use hooklatch_core::config::{DestinationConfig, UnknownPolicy};
use hooklatch_core::types::{AttemptResult, Name};
use window::Window;

/// Calls that take no longer than this are quick, in milliseconds: far below any lease.
const QUICK_MS: i64 = 100;
/// Calls that take no longer than this are very quick, in milliseconds.
const VERY_QUICK_MS: i64 = 10;
/// Slots for each call that may be under way, when calls are quick.
const AHEAD: u32 = 4;
/// And when they are very quick: no message waits longer for its call than with slower calls and fewer slots, and claims
/// and settlements are of more messages each.
const FAR_AHEAD: u32 = 16;

/// Shortest time without a probe after which a breaker closes, in milliseconds.
const QUIET_MS_MIN: u64 = 600_000;

/// Part of a second whose calls are let through together, where a rate holds them back.
const REFILLS_PER_S: i64 = 20;

/// The gate of one destination.
pub(crate) struct CallGate {
    name: Name,
    /// Calls a second; 0: as many as there are.
    rate_per_s: u32,
    /// Failures in a row that open the breaker; 0: never.
    failures_n_max: u32,
    open_ms: i64,
    /// When a breaker could have been probed for so long, no message is left whose attempt failed: the longest delay
    /// before another attempt.
    quiet_ms: i64,
    state: Arc<Mutex<GateState>>,
    /// One permit for each call that may be under way.
    pub(crate) calls: Semaphore,
    /// Most slots for each permit. With `hold` it is 1: an operator has to decide about every message that a dead worker
    /// had taken, sent or not, so no more are taken than may be under way. With `query` each of them is asked about.
    ahead_max: u32,
}

#[derive(Debug, Default)]
pub(crate) struct GateState {
    pub(crate) window: Window,
    /// Permits too many since the window shrank: calls under way have them, and do not give them back.
    owed_n: u32,
    failures_n: u32,
    /// While the breaker is open: when one call may probe.
    probe_at_ms: Option<i64>,
    /// One call probes now: [`BegunCall`] takes it back, however that call ends.
    is_probing: bool,
    /// A look might have taken a call to probe with, and found none or no free slot: time alone brings no other.
    is_probe_offered: bool,
    /// Calls that the rate allows now, in thousandths.
    budget: i64,
    filled_at_ms: i64,
    /// The last look might have taken more, had the rate allowed it.
    is_short: bool,
    /// Time for which calls take, lately, while they succeed.
    call_ms: Option<i64>,
    /// State of the breaker and size of the window that the gauges show.
    published: (Option<bool>, Option<u32>),
}

/// A call's place among those under way, free again when dropped.
#[must_use]
pub(crate) struct CallTurn<'a> {
    gate: &'a CallGate,
    permit: Option<SemaphorePermit<'a>>,
}

impl Drop for CallTurn<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.state();
        if state.owed_n > 0
            && let Some(permit) = self.permit.take()
        {
            state.owed_n -= 1;
            permit.forget();
        }
    }
}

/// A call that has started. Dropping it, in a panic as well, lets another one probe if this one did.
#[must_use]
pub(crate) struct BegunCall(Option<Arc<Mutex<GateState>>>);

impl Drop for BegunCall {
    fn drop(&mut self) {
        if let Some(state) = &self.0 {
            let mut state = locked(state);
            (state.is_probing, state.is_probe_offered) = (false, false);
        }
    }
}

impl CallGate {
    pub(crate) fn new(name: Name, config: &DestinationConfig) -> Self {
        let window = Window::new(config);
        Self {
            name,
            rate_per_s: config.rate_per_s,
            failures_n_max: config.breaker_failures_n,
            open_ms: i64::try_from(config.breaker_open_ms).unwrap_or(i64::MAX),
            quiet_ms: i64::try_from(config.retry.max_ms.max(config.retry_after_max_ms).max(QUIET_MS_MIN))
                .unwrap_or(i64::MAX),
            calls: Semaphore::new(window.n() as usize),
            state: Arc::new(Mutex::new(GateState { window, ..GateState::default() })),
            ahead_max: match config.unknown {
                UnknownPolicy::Hold => 1,
                UnknownPolicy::Query(_) => AHEAD,
                UnknownPolicy::Retry => FAR_AHEAD,
            },
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, GateState> {
        locked(&self.state)
    }

    /// Returns how many slots there are: as many as calls may be under way, and more where calls are
    /// quick, so that a call need not wait for the lease before it or the settlement after it.
    pub(crate) fn slots_n(&self) -> u32 {
        let state = self.state();
        let ahead = match state.call_ms {
            Some(call_ms) if call_ms <= VERY_QUICK_MS => FAR_AHEAD,
            Some(call_ms) if call_ms <= QUICK_MS => AHEAD,
            _ => 1,
        };
        state.window.n().saturating_mul(ahead.min(self.ahead_max))
    }

    /// Waits for the turn to call. It is for the call alone, not for what is written about it.
    pub(crate) async fn turn(&self) -> CallTurn<'_> {
        let turn = CallTurn { gate: self, permit: self.calls.acquire().await.ok() };
        if self.calls.available_permits() == 0 {
            self.state().window.is_used_up();
        }
        turn
    }

    /// Number of the `free_n` slots that may be used now.
    pub(crate) fn allowed_n(&self, free_n: u32, now_ms: i64) -> u32 {
        let mut state = self.state();
        self.close_if_quiet(&mut state, now_ms);
        let is_probe_due = state.probe_at_ms.is_some_and(|at_ms| now_ms >= at_ms) && !state.is_probing;
        let allowed_n = match state.probe_at_ms {
            Some(_) if !is_probe_due => 0,
            Some(_) => free_n.min(1),
            None => free_n,
        };
        let allowed_n = self.allowed_by_rate_n(&mut state, allowed_n, now_ms);
        // When no slot is free, waiting for a time does not help: giving one back wakes the worker.
        state.is_probe_offered |= is_probe_due && (allowed_n > 0 || free_n == 0);
        allowed_n
    }

    /// Closes a breaker that nothing is left to probe with. The count of failures stays: the next one opens it again.
    fn close_if_quiet(&self, state: &mut GateState, now_ms: i64) {
        let is_quiet = state.probe_at_ms.is_some_and(|at_ms| now_ms.saturating_sub(at_ms) >= self.quiet_ms);
        if is_quiet && !state.is_probing {
            info!(destination = %self.name, "nothing was left to probe with; breaker closed");
            state.probe_at_ms = None;
            self.publish_gauges(state);
        }
    }

    /// Number of the `allowed_n` calls that the rate lets through now.
    fn allowed_by_rate_n(&self, state: &mut GateState, allowed_n: u32, now_ms: i64) -> u32 {
        if self.rate_per_s == 0 {
            return allowed_n;
        }
        // Unused calls of at most one second are saved up.
        let per_s = i64::from(self.rate_per_s) * 1_000;
        let passed_ms = now_ms.saturating_sub(state.filled_at_ms).clamp(0, 1_000);
        state.budget = (state.budget + i64::from(self.rate_per_s) * passed_ms).min(per_s);
        state.filled_at_ms = now_ms;
        let budget_n = u32::try_from(state.budget / 1_000).unwrap_or(0);
        state.is_short = budget_n < allowed_n;
        allowed_n.min(budget_n)
    }

    /// Returns how long until more may start than now: a breaker's probe, or what the rate lets through.
    /// `None`: it does not depend on time, or what there was has been looked for. Milliseconds; not above 0
    /// when it is so already.
    pub(crate) fn opens_in_ms(&self, now_ms: i64) -> Option<i64> {
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
        // `None` is less than any `Some`.
        probe_in_ms.max(filled_in_ms)
    }

    /// True when its breaker is open.
    pub(crate) fn is_open(&self) -> bool {
        self.state().probe_at_ms.is_some()
    }

    /// How its breaker stands: `closed`, `open`, or `half_open` while one call probes or may probe.
    pub(crate) fn breaker(&self, now_ms: i64) -> &'static str {
        let state = self.state();
        match state.probe_at_ms {
            None => "closed",
            Some(at_ms) if state.is_probing || now_ms >= at_ms => "half_open",
            Some(_) => "open",
        }
    }

    /// True when calls may start without being counted first: no rate, no open breaker.
    pub(crate) fn is_wide_open(&self) -> bool {
        self.rate_per_s == 0 && self.state().probe_at_ms.is_none()
    }

    /// Notes that a call starts.
    pub(crate) fn started(&self) -> BegunCall {
        let mut state = self.state();
        if self.rate_per_s > 0 {
            state.budget -= 1_000;
        }
        let is_probe = state.probe_at_ms.is_some() && !state.is_probing;
        state.is_probing |= is_probe;
        BegunCall(is_probe.then(|| Arc::clone(&self.state)))
    }

    /// An attempt ended, with this status if there was one; `took` is how long its call did, `None` when nothing was
    /// sent and so nothing was learnt.
    pub(crate) fn ended(
        &self,
        result: AttemptResult,
        http_status: Option<u16>,
        took: Option<Duration>,
        now_ms: i64,
    ) {
        let Some(took) = took else { return };
        let mut state = self.state();
        let took_ms = i64::try_from(took.as_millis()).unwrap_or(i64::MAX);
        let is_good = result == AttemptResult::Done;
        state.call_ms =
            is_good.then(|| state.call_ms.map_or(took_ms, |lately_ms| (lately_ms * 7 + took_ms) / 8));
        let before_n = state.window.n();
        if is_overload(result, http_status) {
            state.window.was_too_much(took, now_ms);
        } else if is_good {
            state.window.went_well(took, now_ms);
        }
        self.update_permits(&mut state, before_n);
        if self.failures_n_max > 0 {
            self.update_breaker(&mut state, result, now_ms);
        }
        self.publish_gauges(&mut state);
    }

    /// Adds permits, or takes them back, after the window has changed.
    fn update_permits(&self, state: &mut GateState, before_n: u32) {
        let now_n = state.window.n();
        let (more_n, less_n) = (now_n.saturating_sub(before_n), before_n.saturating_sub(now_n));
        let kept_n = more_n.min(state.owed_n);
        state.owed_n -= kept_n;
        self.calls.add_permits((more_n - kept_n) as usize);
        let taken_n = self.calls.forget_permits(less_n as usize);
        state.owed_n += less_n.saturating_sub(u32::try_from(taken_n).unwrap_or(u32::MAX));
    }

    /// Opens the breaker, or closes it.
    fn update_breaker(&self, state: &mut GateState, result: AttemptResult, now_ms: i64) {
        match result {
            AttemptResult::Done | AttemptResult::Refused => {
                if state.probe_at_ms.is_some() {
                    info!(destination = %self.name, "destination answers again; its breaker is closed");
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
    }

    /// Updates the gauges, where anything has changed.
    fn publish_gauges(&self, state: &mut GateState) {
        let (is_open, concurrency_n) = (state.probe_at_ms.is_some(), state.window.n());
        let (published_open, published_n) = state.published;
        state.published = (Some(is_open), Some(concurrency_n));
        if published_open != Some(is_open) && self.failures_n_max > 0 {
            let gauge = metrics::gauge!("hooklatch_breaker_open", "destination" => self.name.to_string());
            gauge.set(f64::from(u8::from(is_open)));
        }
        if published_n != Some(concurrency_n) {
            let gauge = metrics::gauge!("hooklatch_concurrency", "destination" => self.name.to_string());
            gauge.set(f64::from(concurrency_n));
        }
    }
}

/// True when the destination, or what is in front of it, could not bear the call: a status that says so, no
/// answer in time, no connection.
fn is_overload(result: AttemptResult, http_status: Option<u16>) -> bool {
    matches!(result, AttemptResult::Retry | AttemptResult::Unknown)
        && matches!(http_status, None | Some(408 | 429 | 503 | 504))
}

#[cfg(test)]
mod tests;
