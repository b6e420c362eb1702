//! Each operation runs to its end in a task of its own, within a time limit.
//!
//! A caller may go away at any time: a client that disconnects, an operator's curl that is stopped, a timeout. The
//! operation goes on. An operation that the database does not answer in time is given up here, in one place, and its
//! connection is closed (`pool.rs`).

use std::cell::RefCell;
use std::future::Future;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;

use super::error::{DbError, DbResult, StoreError};

/// Time that a statement may take: above PostgreSQL's `lock_timeout` and SQLite's `busy_timeout` (2 s
/// each), below a third of the 15 s within which a database that fell silent has to be found again.
pub(crate) const STATEMENT_LIMIT: Duration = Duration::from_secs(5);
/// Time that a whole operation may take: a place, a connection and its statements.
pub(crate) const OPERATION_LIMIT: Duration = Duration::from_secs(12);
/// Time that the probe of writes may take; a failing node is distinguished from a healthy one within 5 s.
pub(crate) const PROBE_LIMIT: Duration = Duration::from_secs(2);

tokio::task_local! {
    /// What the operation under way does once it has committed.
    static AFTER_COMMIT: RefCell<Vec<Box<dyn FnOnce(bool) + Send>>>;
}

/// Runs `action` once the operation under way has committed: with `false` when the database did not confirm the commit
/// and may have carried it out. Never, when nothing was committed.
pub(crate) fn after_commit(action: impl FnOnce(bool) + Send + 'static) {
    // Without an operation, as in tests of a statement, nothing commits.
    AFTER_COMMIT.try_with(|actions| actions.borrow_mut().push(Box::new(action))).unwrap_or_default();
}

/// Runs `work`, and after it what was to be done once it has committed.
async fn committed<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let work = async {
        let answer = work.await;
        let actions = AFTER_COMMIT.with(RefCell::take);
        if matches!(answer, Ok(_) | Err(StoreError::CommitUnknown { .. })) {
            for action in actions {
                action(answer.is_ok());
            }
        }
        answer
    };
    AFTER_COMMIT.scope(RefCell::default(), work).await
}

/// Runs `work` in a task of its own, for `limit` at most. What fails is rolled back.
pub(crate) async fn whole<T: Send + 'static>(
    op: &'static str,
    limit: Duration,
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    let (sender, answer) = oneshot::channel();
    let task = spawned(Box::pin(async move {
        // The caller may be gone.
        drop(sender.send(timeout(limit, committed(work)).await));
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
pub(crate) fn count_panic() {
    metrics::counter!("hooklatch_panics_total", "part" => "store").increment(1);
}

/// A task of one type for all operations: a task for each type of operation is code that is compiled 150 times.
#[expect(clippy::disallowed_methods, reason = "ends by itself within its limit, also without its caller")]
fn spawned(work: BoxFuture<'static, ()>) -> JoinHandle<()> {
    tokio::spawn(work)
}

/// One statement, for [`STATEMENT_LIMIT`] at most. Its connection must be closed after a time-out.
pub(crate) async fn limited<T>(work: impl Future<Output = DbResult<T>>) -> DbResult<T> {
    timeout(STATEMENT_LIMIT, work).await.unwrap_or_else(|_| Err(DbError::no_answer(STATEMENT_LIMIT)))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;

    /// What an action behind a commit with this answer is given.
    async fn given(answer: Result<(), StoreError>) -> Option<bool> {
        static GIVEN: Mutex<Option<bool>> = Mutex::new(None);
        *GIVEN.lock().unwrap() = None;
        let work = async {
            after_commit(|is_known| *GIVEN.lock().unwrap() = Some(is_known));
            answer
        };
        let answer = whole("test", Duration::from_secs(5), work).await;
        drop(answer);
        GIVEN.lock().unwrap().take()
    }

    #[tokio::test]
    async fn what_waits_for_the_commit_is_done_unless_nothing_was_committed() {
        assert_eq!(given(Ok(())).await, Some(true));
        let unknown = StoreError::from_commit(DbError::lost("a cut line"));
        assert!(matches!(unknown, StoreError::CommitUnknown { .. }), "{unknown}");
        assert_eq!(given(Err(unknown)).await, Some(false));
        assert_eq!(given(Err(StoreError::Refused("no".to_owned()))).await, None);
    }
}
