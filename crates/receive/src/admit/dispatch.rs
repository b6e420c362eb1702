//! Runs the handlers of one event: plain ones as they are, transactional ones inside a transaction that may be rolled
//! back. Whatever a handler does, it is an error of its own event alone; failures and panics are logged and counted
//! here. The sender's answer does not mention them: it did nothing wrong.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::runtime::{Handle, RuntimeFlavor};
use tracing::{error, warn};

use super::templates::Rendering;
use crate::handler::{
    EventContent, Handled, HandlerError, Handlers, NO_MATCH, NoAnswer, ParsedAhead, RawEvent, panic_text,
};
use hooklatch_core::logging::Lines;
use hooklatch_core::types::{EventKey, EventState, IncomingEvent, UnixMs};
use hooklatch_store::{self as store, EventUpdate, StoreError};

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

/// An event that was dispatched, and how often.
pub struct Dispatched<'a> {
    pub key: &'a EventKey,
    pub event_seq: i64,
    /// First place that no message of the event has.
    pub next_place: u16,
    pub received_at_ms: UnixMs,
    /// Time from which its age counts.
    pub counted_from_ms: UnixMs,
    /// When it happened at the sender, where that is known here.
    pub created_at_ms: Option<UnixMs>,
    /// Number of dispatches, this one included.
    pub attempts_n: u32,
    /// Number of deliberate re-runs: part of every key.
    pub generation: i32,
    /// True when its row says something else than that it was dispatched: an earlier dispatch failed.
    pub is_again: bool,
    /// How the templates of its messages are filled in.
    pub(super) rendering: Rendering,
}

impl<'a> Dispatched<'a> {
    /// An event that is dispatched for the first time.
    pub fn first(event: &'a IncomingEvent, event_seq: i64) -> Self {
        Self { attempts_n: 1, ..Self::never(event, event_seq) }
    }

    /// An event that is not dispatched.
    pub(crate) fn never(event: &'a IncomingEvent, event_seq: i64) -> Self {
        Self {
            key: &event.key,
            event_seq,
            next_place: 0,
            received_at_ms: event.received_at_ms,
            counted_from_ms: event.received_at_ms,
            created_at_ms: event.created_at_ms,
            attempts_n: 0,
            generation: 0,
            is_again: false,
            rendering: Rendering::Shared,
        }
    }

    /// The event as its handlers see it.
    pub fn seen(&self, event_type: &str, content: EventContent) -> RawEvent {
        let EventContent { payload, envelope, headers } = content;
        RawEvent {
            provider: self.key.provider.clone(),
            event_id: self.key.event_id.clone(),
            event_type: event_type.to_owned(),
            payload,
            envelope,
            headers,
            received_at_ms: self.received_at_ms,
            attempt_n: self.attempts_n,
            ahead: ParsedAhead::default(),
        }
    }
}

/// Runs the plain handlers and routes of an event.
pub(crate) fn dispatched(handlers: &Handlers, event: &RawEvent, is_stale: bool) -> Handled {
    with_panic_counted(contained("dispatch", || handlers.dispatch(event, is_stale)))
}

/// The error of a handler that did not leave the transaction as it was given.
#[derive(Debug, thiserror::Error)]
#[error("handler left its transaction broken: {why}")]
struct BrokenTransaction {
    why: String,
    /// True when the handler ended the transaction, so that what it wrote may stand.
    is_ended: bool,
}

/// The error of an event whose handler left its transaction broken.
pub(crate) fn broken(why: &impl ToString) -> HandlerError {
    broken_by(BrokenTransaction { why: why.to_string(), is_ended: false })
}

fn broken_by(broken: BrokenTransaction) -> HandlerError {
    HandlerError::Retry(anyhow::Error::new(broken))
}

/// True when a handler ended the transaction that it was given, so that what it wrote may stand: running it again would
/// write that again.
pub(super) fn is_ended(error: &HandlerError) -> bool {
    let HandlerError::Retry(error) = error else { return false };
    error.downcast_ref().is_some_and(|broken: &BrokenTransaction| broken.is_ended)
}

/// True when a handler left its transaction broken.
pub(crate) fn is_broken(error: &HandlerError) -> bool {
    matches!(error, HandlerError::Retry(error) if error.is::<BrokenTransaction>())
}

/// Plain handlers may block, and one that blocks a worker of the runtime can keep everything else from running.
pub(super) fn off_the_workers<T>(run: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(run),
        _ => run(),
    }
}

/// Runs the handlers of one event inside `tx`; a panic or a time-out is an error of this event alone.
pub(super) async fn handled_in_tx(
    handlers: &Handlers,
    limit: Duration,
    tx: &mut store::Tx,
    event: &RawEvent,
    is_stale: bool,
) -> Handled {
    if !handlers.needs_transaction(&event.event_type) {
        return off_the_workers(|| handlers.dispatch(event, is_stale));
    }
    let broken = |error: StoreError| {
        broken_by(BrokenTransaction { is_ended: error.is_of_no_transaction(), why: error.to_string() })
    };
    store::handler_begins(tx).await.map_err(broken)?;
    let run = AssertUnwindSafe(handlers.dispatch_in_tx(tx, event, is_stale)).catch_unwind();
    match tokio::time::timeout(limit, run).await {
        Ok(Ok(Err(error))) if !matches!(error, HandlerError::Ignore(_)) => Err(error),
        // What follows is written where its event was, or not at all.
        Ok(Ok(handled)) => store::handler_ended(tx).await.map_err(broken).and(handled),
        Ok(Err(panic)) => {
            store::handler_abandoned(tx);
            Err(NoAnswer::Panicked(panic_text(panic.as_ref()).to_owned()).into())
        }
        Err(_) => {
            store::handler_abandoned(tx);
            Err(NoAnswer::TookTooLong(limit).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_handler_that_ended_its_transaction_is_not_run_again() {
        let by = |is_ended| broken_by(BrokenTransaction { why: "x".to_owned(), is_ended });
        assert!(is_ended(&by(true)) && !is_ended(&by(false)) && !is_ended(&broken(&"x")));
        assert_eq!(broken(&"x").to_string(), by(true).to_string(), "one text for both");
        let plain = || HandlerError::Retry(anyhow::anyhow!("x"));
        assert!(is_broken(&by(false)) && !is_broken(&plain()) && !is_ended(&plain()));
        assert!(!is_broken(&HandlerError::Refused("x".to_owned())));
    }
}
