//! Each operation runs to its end in a task of its own, and not for ever.
//!
//! A caller may go away at any time: a stranger who hangs up, an operator's curl that gives up, a time-out. The
//! operation does not notice. What the database does not answer in time is given up here, in one place, and its
//! connection with it (`pool.rs`).

use std::future::Future;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;

use super::error::{DbError, DbResult};
use super::store_error::StoreError;

/// Time that a statement may take: above PostgreSQL's `lock_timeout` and SQLite's `busy_timeout` (2 s
/// each), below a third of the 15 s within which a database that fell silent has to be found again.
pub(in crate::store) const STATEMENT_LIMIT: Duration = Duration::from_secs(5);
/// Time that a whole operation may take: a place, a connection and its statements.
pub(in crate::store) const OPERATION_LIMIT: Duration = Duration::from_secs(12);
/// Time that the question whether writes work may take; a node is told apart from a healthy one within 5 s.
pub(in crate::store) const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// Runs `work` in a task of its own, for `limit` at most.
pub(in crate::store) async fn whole<T: Send + 'static>(
    op: &'static str,
    limit: Duration,
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    let (told, answer) = oneshot::channel();
    let task = spawned(Box::pin(async move {
        // Whoever asked may have gone.
        drop(told.send(timeout(limit, work).await));
    }));
    match answer.await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(StoreError::silent(op, limit)),
        Err(_) => {
            let error = task.await.err();
            if error.as_ref().is_some_and(JoinError::is_panic) {
                count_panic();
            }
            let error = error.map_or_else(String::new, |error| error.to_string());
            let why = format!("operation ended badly: {error}");
            Err(StoreError::Unavailable { op, source: DbError::lost(why) })
        }
    }
}

/// An operation panicked, and its connection is closed.
pub(super) fn count_panic() {
    metrics::counter!("hooklatch_panics_total", "part" => "store").increment(1);
}

/// A task of one type for all operations: a task for each type of operation is code that is compiled 150 times.
#[expect(clippy::disallowed_methods, reason = "ends by itself within its limit, whoever asked for it")]
fn spawned(work: BoxFuture<'static, ()>) -> JoinHandle<()> {
    tokio::spawn(work)
}

/// One statement, for [`STATEMENT_LIMIT`] at most. Its connection must be closed after a time-out.
pub(in crate::store) async fn limited<T>(work: impl Future<Output = DbResult<T>>) -> DbResult<T> {
    timeout(STATEMENT_LIMIT, work).await.unwrap_or_else(|_| Err(DbError::no_answer(STATEMENT_LIMIT)))
}
