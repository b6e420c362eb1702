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
use tokio::task::JoinHandle;
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

/// Whether an operation committed (`false`: perhaps), and what gives its caller the answer.
type Done = (Option<bool>, Box<dyn FnOnce() + Send>);

/// Runs `work`, and after it what was to be done once it has committed.
async fn committed(work: BoxFuture<'static, Done>) -> Box<dyn FnOnce() + Send> {
    let work = async {
        let (commit, give) = work.await;
        let actions = AFTER_COMMIT.with(RefCell::take);
        if let Some(is_known) = commit {
            for action in actions {
                action(is_known);
            }
        }
        give
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
    let work = async move {
        let answer = work.await;
        let commit = match &answer {
            Ok(_) => Some(true),
            Err(StoreError::CommitUnknown { .. }) => Some(false),
            Err(_) => None,
        };
        // The caller may be gone.
        let give: Box<dyn FnOnce() + Send> = Box::new(move || drop(sender.send(answer)));
        (commit, give)
    };
    let task = spawned(limit, Box::pin(work));
    match answer.await {
        Ok(answer) => answer,
        Err(_) => Err(unanswered(op, limit, task).await),
    }
}

/// Why an operation gave no answer: it was given up, or it ended badly.
fn unanswered(op: &'static str, limit: Duration, task: JoinHandle<()>) -> BoxFuture<'static, StoreError> {
    Box::pin(async move {
        let Err(error) = task.await else { return StoreError::silent(op, limit) };
        if error.is_panic() {
            count_panic();
        }
        let why = format!("operation ended badly: {error}");
        StoreError::Unavailable { op, source: DbError::lost(why) }
    })
}

/// An operation panicked, and its connection is closed.
pub(crate) fn count_panic() {
    metrics::counter!("hooklatch_panics_total", "part" => "store").increment(1);
}

/// A task of one type for all operations: a task for each type of operation is code that is compiled 150 times.
#[expect(clippy::disallowed_methods, reason = "ends by itself within its limit, also without its caller")]
fn spawned(limit: Duration, work: BoxFuture<'static, Done>) -> JoinHandle<()> {
    tokio::spawn(async move {
        if let Ok(give) = timeout(limit, committed(work)).await {
            give();
        }
    })
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
