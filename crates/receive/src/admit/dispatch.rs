//! Runs the handlers of one event: plain ones as they are, transactional ones inside a transaction that may be rolled
//! back. Whatever a handler does, it is an error of its own event alone.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::failures::{contained, with_panic_counted};
use crate::handler::{Handled, HandlerError, Handlers, NoAnswer, RawEvent, panic_text};
use hooklatch_store::{self as store, StoreError};

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
