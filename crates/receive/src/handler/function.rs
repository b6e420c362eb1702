//! The functions that users write, each brought to one shape whatever its payload is.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::answer::{Handled, HandlerError};
use super::event::{Event, RawEvent};
use hooklatch_store::Tx;

/// A plain handler, whatever its payload is.
pub(super) type PlainFn = Arc<dyn Fn(&RawEvent) -> Handled + Send + Sync>;
/// Parses an event for a transactional handler, before its transaction begins.
pub(super) type ParseFn = Arc<dyn Fn(&RawEvent) + Send + Sync>;
/// The answer of a transactional handler, to be waited for.
pub(super) type TxFuture<'a> = Pin<Box<dyn Future<Output = Handled> + Send + 'a>>;
/// A transactional handler, whatever its payload is.
pub(super) type TxFn = Arc<dyn for<'a> Fn(&'a mut Tx, &RawEvent) -> TxFuture<'a> + Send + Sync>;

/// An `async fn(&mut Tx, Event<T>) -> Handled`. Implemented for every such function; not for users to implement.
pub trait TxHandler<'a, T>: Send + Sync {
    /// The future that the function returns.
    type Output: Future<Output = Handled> + Send + 'a;
    /// Calls the function with its transaction.
    fn call(&self, tx: &'a mut Tx, event: Event<T>) -> Self::Output;
}

impl<'a, F, A, T> TxHandler<'a, T> for F
where
    F: Fn(&'a mut Tx, Event<T>) -> A + Send + Sync,
    A: Future<Output = Handled> + Send + 'a,
{
    type Output = A;
    fn call(&self, tx: &'a mut Tx, event: Event<T>) -> A {
        self(tx, event)
    }
}

/// The reason why a handler gave no answer. The event is dispatched again later.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// A handler panicked, with these words.
    #[error("handler panicked: {0}")]
    Panicked(String),
    /// A handler was given up after so long.
    #[error("handler took longer than {0:?}")]
    TookTooLong(Duration),
}

impl From<NoAnswer> for HandlerError {
    fn from(why: NoAnswer) -> Self {
        Self::Retry(anyhow::Error::new(why))
    }
}

/// Runs a plain handler. A panic of it is an error of this event alone.
pub(super) fn run_contained(call: &PlainFn, event: &RawEvent) -> Handled {
    catch_unwind(AssertUnwindSafe(|| call(event)))
        .unwrap_or_else(|panic| Err(NoAnswer::Panicked(panic_text(panic.as_ref()).to_owned()).into()))
}

/// The words of a panic, for the event's `error` column.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
