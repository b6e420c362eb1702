//! Logs and counts events whose dispatch failed, and panics in parts of admission. The sender's answer does not mention
//! them: it did nothing wrong.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tracing::{error, warn};

use crate::handler::{Handled, HandlerError, NO_MATCH, NoAnswer, panic_text};
use hooklatch_core::logging::Lines;
use hooklatch_core::types::EventState;
use hooklatch_store::EventUpdate;

/// Logs committed rows of events that were not dispatched as they should have been, and counts those that their
/// handlers or the `when` of their routes left out.
pub(super) fn log_undone(lines: &Lines, updates: &[EventUpdate]) {
    // Test events must not raise an alert.
    let is_real = |update: &&EventUpdate| !update.key.is_synthetic();
    for update in updates.iter().filter(is_real).filter(|update| update.state == EventState::Ignored) {
        let provider = update.key.provider.to_string();
        let reason = if update.error.as_deref() == Some(NO_MATCH) { "filter" } else { "handler" };
        metrics::counter!("hooklatch_ignored_total", "provider" => provider, "reason" => reason).increment(1);
    }
    for update in updates.iter().filter(|update| is_failure(update)) {
        let provider = &update.key.provider;
        if is_real(&update) {
            metrics::counter!(
                "hooklatch_dispatch_failures_total",
                "provider" => provider.to_string(),
                "state" => update.state.as_str(),
            )
            .increment(1);
        }
        let Some(left_out_n) = lines.may_write(provider, update.state.as_str()) else { continue };
        warn!(
            provider.name = %provider,
            event.id = update.key.event_id,
            state = update.state.as_str(),
            attempts_n = update.attempts_n,
            due_at_ms = update.due_at_ms,
            reason = update.error.as_deref().unwrap_or_default(),
            left_out_n,
            "an event was kept, but its dispatch failed"
        );
    }
}

/// True when a row says that nothing was done: the dispatch failed, or a handler ignored the event.
pub(super) fn is_undone(update: &EventUpdate) -> bool {
    is_failure(update) || update.state == EventState::Ignored
}

/// True when a row says that a dispatch failed; one that was never tried waits for the end of its provider's pause.
pub(crate) fn is_failure(update: &EventUpdate) -> bool {
    update.state == EventState::Failed || update.state == EventState::Retry && update.attempts_n > 0
}

/// Runs what is done about one event; a panic is an error of that event.
pub(super) fn contained(part: &'static str, run: impl FnOnce() -> Handled) -> Handled {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(panicked(part, panic.as_ref())))
}

/// Counts a panic in a part of admission, and makes it an error of the event that it was about.
pub(super) fn panicked(part: &'static str, panic: &(dyn Any + Send)) -> HandlerError {
    HandlerError::Retry(anyhow::anyhow!("{}", record_panic(part, panic)))
}

/// Counts a panic in a part of admission. Returns its message.
pub(super) fn record_panic(part: &'static str, panic: &(dyn Any + Send)) -> String {
    let what = format!("{part} panicked: {}", panic_text(panic));
    count_panic(part, &what);
    what
}

/// Counts the panic of a handler, if that is why there is no answer; gives the answer back.
pub(super) fn with_panic_counted(handled: Handled) -> Handled {
    if let Err(HandlerError::Retry(error)) = &handled
        && let Some(why @ NoAnswer::Panicked(_)) = error.downcast_ref()
    {
        count_panic("handler", &why.to_string());
    }
    handled
}

fn count_panic(part: &'static str, reason: &str) {
    metrics::counter!("hooklatch_panics_total", "part" => part).increment(1);
    error!(part, reason, "contained a panic");
}
