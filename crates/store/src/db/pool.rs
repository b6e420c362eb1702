//! The connections to one database, and the one rule about them: a connection is returned to the pool only by an
//! operation that knows its state. After anything else (a limit, a failed COMMIT or ROLLBACK, a caller that goes away)
//! it is closed, and so is every older connection: the same fault would affect them.
//!
//! Why not the driver's pool: it checks each returned connection without a time limit and keeps its permit meanwhile,
//! so that a server that stops responding takes the permits one after another
//! (`docs/adr/0034-a-connection-belongs-to-one-operation.md`).
//!
//! [`Session`] is what a pool needs to know of a connection.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::error::{DbError, DbResult, StoreError};
use super::executor::Executor;
use super::limit::limited;
use hooklatch_core::stop::ignore_result;

/// Time for which an operation waits for a place, and then for a new connection.
const TAKE_LIMIT: Duration = Duration::from_secs(5);
/// Time limit for closing a connection cleanly.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Older connections are closed instead of used, so that a server's new settings and addresses are found.
const AGE_MAX: Duration = Duration::from_mins(30);

type Connecting<S> = Pin<Box<dyn Future<Output = DbResult<S>> + Send>>;

/// Opens one connection, ready to be used.
pub(crate) type Connect<S> = Box<dyn Fn() -> Connecting<S> + Send + Sync>;

/// The health of a database as seen by all its connections together.
#[derive(Default)]
pub(crate) struct PoolHealth {
    /// Raised when a connection had to be closed: those of earlier generations are no longer used.
    generation: AtomicU64,
    /// True when something went wrong since a write was last seen to work.
    is_suspect: AtomicBool,
    /// Why it is not the database that was opened, once that was seen.
    replaced: OnceLock<String>,
}

impl PoolHealth {
    /// Makes sure that no connection that is open now is used again.
    pub(crate) fn invalidate_all(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
        self.is_suspect.store(true, Ordering::Relaxed);
    }

    /// Records that a write failed.
    pub(crate) fn mark_suspect(&self) {
        self.is_suspect.store(true, Ordering::Relaxed);
    }

    /// True when a write has to succeed before the database counts as writable again.
    pub(crate) fn is_suspect(&self) -> bool {
        self.is_suspect.load(Ordering::Relaxed)
    }

    /// Records that a write succeeded.
    pub(crate) fn mark_healthy(&self) {
        self.is_suspect.store(false, Ordering::Relaxed);
    }

    /// Records that another database, or an earlier state of it, is there now: no connection is opened before a
    /// restart. True the first time.
    pub(crate) fn replace(&self, what: &str) -> bool {
        self.is_suspect.store(true, Ordering::Relaxed);
        self.replaced.set(what.to_owned()).is_ok()
    }

    /// Why it is not the database that was opened, if that was seen.
    pub(crate) fn replaced(&self) -> Option<&str> {
        self.replaced.get().map(String::as_str)
    }
}

/// Usage of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolUsage {
    /// Purpose of its connections, in one word.
    pub pool: &'static str,
    /// Connections that operations hold.
    pub in_use_n: u32,
    /// Most connections that there may be.
    pub places_n: u32,
}

/// Connections to one database, up to a maximum. Cloning is cheap and shares them.
pub(crate) struct SessionPool<S: Session>(Arc<PoolShared<S>>);

impl<S: Session> Clone for SessionPool<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

struct PoolShared<S> {
    connect: Connect<S>,
    places: Arc<Semaphore>,
    places_n: u32,
    turns: Arc<Semaphore>,
    idle: Mutex<Vec<OpenConnection<S>>>,
    health: Arc<PoolHealth>,
    waited: metrics::Histogram,
}

struct OpenConnection<S> {
    session: S,
    generation: u64,
    opened: Instant,
}

impl<S: Session> SessionPool<S> {
    /// Creates a pool, which opens no connection yet.
    pub(crate) fn new(places_n: u32, health: Arc<PoolHealth>, connect: Connect<S>) -> Self {
        let places = Arc::new(Semaphore::new(places_n as usize));
        let waited = metrics::histogram!("hooklatch_db_wait_seconds");
        let (turns, idle) = (Arc::new(Semaphore::new(1)), Mutex::default());
        Self(Arc::new(PoolShared { connect, places, places_n, turns, idle, health, waited }))
    }

    pub(crate) fn health(&self) -> &PoolHealth {
        &self.0.health
    }

    /// Number of connections that operations hold, and their maximum, labelled with the purpose of the pool.
    pub(crate) fn used(&self, pool: &'static str) -> PoolUsage {
        let free_n = u32::try_from(self.0.places.available_permits()).unwrap_or(u32::MAX);
        PoolUsage { pool, in_use_n: self.0.places_n.saturating_sub(free_n), places_n: self.0.places_n }
    }

    /// The turn of an operation that no sender waits for. Of those one at a time asks for a connection, so that who has
    /// a sender waiting waits for one of them at most.
    pub(crate) async fn turn(&self) -> DbResult<OwnedSemaphorePermit> {
        self.permit(&self.0.turns).await
    }

    async fn permit(&self, of: &Arc<Semaphore>) -> DbResult<OwnedSemaphorePermit> {
        let since = Instant::now();
        let permit = timeout(TAKE_LIMIT, Arc::clone(of).acquire_owned()).await;
        self.0.waited.record(since.elapsed().as_secs_f64());
        let permit = permit.map_err(|_| DbError::lost("every connection is taken, for seconds"))?;
        permit.map_err(|_| DbError::lost("the store is closed"))
    }

    /// A connection for one operation, the one that was used last or a new one.
    pub(crate) async fn take(&self) -> DbResult<HeldSession<S>> {
        if let Some(what) = self.0.health.replaced() {
            return Err(DbError::lost(format!("{what}; nothing is written to it before a restart")));
        }
        let place = self.permit(&self.0.places).await?;
        let generation = self.0.health.generation.load(Ordering::Relaxed);
        loop {
            let Some(open) = self.idle().pop() else { break };
            if open.generation == generation && open.opened.elapsed() < AGE_MAX {
                return Ok(HeldSession { open: Some(open), shared: Arc::clone(&self.0), _place: place });
            }
            // Its place is ours already, and its answer changes nothing.
            drop(open);
        }
        let session = timeout(TAKE_LIMIT, (self.0.connect)()).await;
        let session = session.unwrap_or_else(|_| Err(DbError::no_answer(TAKE_LIMIT)));
        let open = session.map(|session| OpenConnection { session, generation, opened: Instant::now() });
        let open = open.inspect_err(|_| self.0.health.mark_suspect())?;
        Ok(HeldSession { open: Some(open), shared: Arc::clone(&self.0), _place: place })
    }

    /// Replaces each connection that no operation holds now. The new one is open before the old one is closed, so that
    /// the last one of a database is never closed.
    pub(crate) async fn renew_idle(&self) {
        if self.0.health.replaced().is_some() {
            return;
        }
        let idle_n = self.idle().len();
        for _ in 0..idle_n {
            let Ok(_place) = Arc::clone(&self.0.places).try_acquire_owned() else { return };
            let Some(old) = self.oldest_idle() else { return };
            let generation = self.0.health.generation.load(Ordering::Relaxed);
            let Ok(session) = (self.0.connect)().await else {
                // The next work on it finds what is wrong.
                self.idle().insert(0, old);
                return;
            };
            self.idle().push(OpenConnection { session, generation, opened: Instant::now() });
            ignore_result(timeout(CLOSE_TIMEOUT, old.session.close())).await;
        }
    }

    /// The one that was not used for longest: the one that was used last is at the end.
    fn oldest_idle(&self) -> Option<OpenConnection<S>> {
        let mut idle = self.idle();
        (!idle.is_empty()).then(|| idle.remove(0))
    }

    /// Takes a connection and opens a transaction in it. A connection that cannot even begin is closed, and another
    /// one tried: nothing has been asked yet, so nothing can happen twice.
    pub(crate) async fn begin(&self) -> DbResult<HeldSession<S>> {
        let mut held = self.take().await?;
        match held.begin().await {
            Ok(()) => return Ok(held),
            // Another connection may be writing just now: this one is as good as before.
            Err(error) if error.is_server_error() => {
                held.give_back();
                return Err(error);
            }
            Err(_) => drop(held),
        }
        let mut held = self.take().await?;
        held.begin().await?;
        Ok(held)
    }

    /// Closes the pool: hands out no more connections, waits at most `bound` for those in use, and closes all.
    pub(crate) async fn close(&self, bound: Duration) {
        // An error means that the time is over: an operation that still has a connection will close it.
        ignore_result(timeout(bound, self.0.places.acquire_many(self.0.places_n))).await;
        self.0.places.close();
        let idle = std::mem::take(&mut *self.idle());
        for open in idle {
            ignore_result(timeout(CLOSE_TIMEOUT, open.session.close())).await;
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<OpenConnection<S>>> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection held by one operation. Dropping it closes it.
pub(crate) struct HeldSession<S: Session> {
    /// `None` once it was given back.
    open: Option<OpenConnection<S>>,
    shared: Arc<PoolShared<S>>,
    _place: OwnedSemaphorePermit,
}

impl<S: Session> HeldSession<S> {
    /// The pool that it is of.
    pub(crate) fn pool(&self) -> SessionPool<S> {
        SessionPool(Arc::clone(&self.shared))
    }

    pub(crate) fn session(&mut self) -> DbResult<&mut S> {
        // Only the functions that take `self` take it out.
        self.open
            .as_mut()
            .map(|open| &mut open.session)
            .ok_or_else(|| DbError::lost("the connection is closed"))
    }

    /// Returns an executor for statements that both databases know.
    pub(crate) fn executor(&mut self) -> DbResult<Executor<'_>> {
        self.session().map(S::executor)
    }

    /// Returns it to the pool; no response is pending on it. Where a transaction is still open, it is closed.
    pub(crate) fn give_back(mut self) {
        let Some(open) = self.open.take() else { return };
        if !open.session.is_in_transaction() && !open.session.is_lost() {
            self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner).push(open);
        }
    }

    /// Returns it to the pool after a single statement, unless the result leaves its state unknown.
    pub(crate) fn give_back_after<T>(self, answer: DbResult<T>) -> DbResult<T> {
        if answer.as_ref().err().is_none_or(DbError::is_server_error) {
            self.give_back();
        }
        answer
    }

    /// Returns it to the pool after a whole operation, unless the result leaves its state unknown.
    pub(crate) fn give_back_after_all<T>(self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        if answer.as_ref().err().is_none_or(StoreError::is_server_error) {
            self.give_back();
        }
        answer
    }

    pub(crate) async fn begin(&mut self) -> DbResult<()> {
        limited(self.session()?.begin()).await
    }

    /// True when a transaction is open in it, as far as is known.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.session.is_in_transaction())
    }

    /// Commits; [`HeldSession::end`] must follow.
    pub(crate) async fn commit(&mut self) -> DbResult<()> {
        limited(self.session()?.commit()).await
    }

    /// Rolls back; [`HeldSession::end`] must follow.
    pub(crate) async fn roll_back(&mut self) -> DbResult<()> {
        limited(self.session()?.roll_back()).await
    }

    /// Rolls back, so that its locks are released, and closes the connection.
    pub(crate) async fn roll_back_and_close(mut self) -> DbResult<()> {
        let answer = self.roll_back().await;
        self.close();
        answer
    }

    /// Closes it; other connections stay valid.
    pub(crate) fn close(&mut self) {
        drop(self.open.take());
    }

    /// Returns the connection after a commit or a rollback with the result `answer`. After any error the connection is
    /// closed, and the transaction with it.
    pub(crate) fn end(mut self, answer: DbResult<()>) -> DbResult<()> {
        match &answer {
            Ok(()) if self.is_in_transaction() => {
                self.close();
                return Err(DbError::lost("another transaction than ours has ended"));
            }
            Ok(()) => self.give_back(),
            // The driver may still count a transaction that the database has ended, so this connection is of no use any
            // more. Other connections are as good as before.
            Err(error) if error.is_server_error() => self.close(),
            Err(_) => drop(self),
        }
        answer
    }
}

impl<S: Session> Drop for HeldSession<S> {
    fn drop(&mut self) {
        if self.open.is_some() {
            self.shared.health.invalidate_all();
        }
    }
}

/// One connection to a database. Dropping it closes it, and interrupts what still runs in it.
pub(crate) trait Session: Sized + Send + 'static {
    /// Opens a transaction that may write, where this connection may.
    fn begin(&mut self) -> impl Future<Output = DbResult<()>> + Send;

    /// Commits. An error unless the transaction was open and the database confirmed it without a warning.
    fn commit(&mut self) -> impl Future<Output = DbResult<()>> + Send;

    /// Rolls back; works on a connection whose statement was interrupted, too.
    fn roll_back(&mut self) -> impl Future<Output = DbResult<()>> + Send;

    /// True when a transaction is open in it, as far as is known.
    fn is_in_transaction(&self) -> bool;

    /// True when a statement was given up in the middle: it can only be closed.
    fn is_lost(&self) -> bool;

    /// Closes the session and the connection cleanly.
    fn close(self) -> impl Future<Output = ()> + Send;

    /// Returns an executor for statements that both databases know.
    fn executor(&mut self) -> Executor<'_>;
}
