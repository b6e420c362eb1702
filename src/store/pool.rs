//! The connections to one database, and the one rule about them: a connection is given back only by an operation that
//! knows its state. Whatever else happens to it (a limit, a failed COMMIT or ROLLBACK, a caller that goes away), it is
//! closed, and so is every other one that is older: what one of them met, they will meet.
//!
//! Why not the driver's pool: it asks each connection that comes back whether it is well, without a limit, and keeps
//! its place meanwhile, so that a server which falls silent takes the places one after another
//! (`docs/adr/0034-a-connection-belongs-to-one-operation.md`).

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::{Connection, Database};
use sqlx_core::transaction::TransactionManager;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::limit::{limited, no_answer};
use super::warnings::refused_with_warning;

/// How long an operation waits for a place, and then for a new connection.
pub(super) const TAKE_LIMIT: Duration = Duration::from_secs(5);
/// How long a connection that ends has for its goodbye.
const GOODBYE_LIMIT: Duration = Duration::from_secs(1);
/// Older connections are closed instead of used, so that a server's new settings and addresses are found.
const AGE_MAX: Duration = Duration::from_mins(30);

type Connecting<DB> = Pin<Box<dyn Future<Output = sqlx::Result<<DB as Database>::Connection>> + Send>>;

/// Opens one connection, ready to be used. What it is given says when nobody waits for it any more.
pub(super) type Connect<DB> = Box<dyn Fn(Abandoned) -> Connecting<DB> + Send + Sync>;

/// Whether a connection was given up, perhaps in the middle of a statement: the connection's own end of that.
#[derive(Clone, Default)]
pub(super) struct Abandoned(Arc<AtomicBool>);

impl Abandoned {
    /// What runs in the connection is of no use to anybody.
    pub(super) fn is_so(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The other end. Dropping it gives the connection up.
struct Wanted(Abandoned);

impl Wanted {
    fn give_up(&self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// What is known of a database by all its connections.
#[derive(Default)]
pub(super) struct Trust {
    /// Raised when a connection had to be closed: those of earlier generations are no longer trusted.
    generation: AtomicU64,
    /// Whether something went wrong since a write was last seen to work.
    is_doubted: AtomicBool,
}

impl Trust {
    /// No connection that is open now is to be used again.
    pub(super) fn withdraw(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
        self.is_doubted.store(true, Ordering::Relaxed);
    }

    /// A write did not work.
    pub(super) fn doubt(&self) {
        self.is_doubted.store(true, Ordering::Relaxed);
    }

    /// Whether a write has to be seen to work before it is said that writes work.
    pub(super) fn is_doubted(&self) -> bool {
        self.is_doubted.load(Ordering::Relaxed)
    }

    /// A write was seen to work.
    pub(super) fn restore(&self) {
        self.is_doubted.store(false, Ordering::Relaxed);
    }
}

/// Connections to one database, at most so many. Cloning is cheap and shares them.
pub(super) struct Pool<DB: Database>(Arc<Shared<DB>>);

impl<DB: Database> Clone for Pool<DB> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

struct Shared<DB: Database> {
    connect: Connect<DB>,
    places: Arc<Semaphore>,
    places_n: u32,
    idle: Mutex<Vec<Open<DB>>>,
    trust: Arc<Trust>,
}

struct Open<DB: Database> {
    /// Dropped before the connection: what runs in it has to end first.
    wanted: Wanted,
    connection: DB::Connection,
    generation: u64,
    opened: Instant,
}

impl<DB: Database> Pool<DB> {
    /// Opens nothing yet.
    pub(super) fn new(places_n: u32, trust: Arc<Trust>, connect: Connect<DB>) -> Self {
        let places = Arc::new(Semaphore::new(places_n as usize));
        Self(Arc::new(Shared { connect, places, places_n, idle: Mutex::default(), trust }))
    }

    pub(super) fn trust(&self) -> &Trust {
        &self.0.trust
    }

    /// A connection for one operation, the one that was used last or a new one.
    pub(super) async fn take(&self) -> sqlx::Result<Held<DB>> {
        let place = timeout(TAKE_LIMIT, Arc::clone(&self.0.places).acquire_owned()).await;
        let place = place.map_err(|_| sqlx::Error::PoolTimedOut)?.map_err(|_| sqlx::Error::PoolClosed)?;
        let generation = self.0.trust.generation.load(Ordering::Relaxed);
        loop {
            let Some(open) = self.idle().pop() else { break };
            if open.generation == generation && open.opened.elapsed() < AGE_MAX {
                return Ok(Held { open: Some(open), shared: Arc::clone(&self.0), _place: place });
            }
            // Its place is already ours, and what it has to say interests nobody.
            drop(open);
        }
        let wanted = Wanted(Abandoned::default());
        let connection = timeout(TAKE_LIMIT, (self.0.connect)(wanted.0.clone())).await;
        let connection = connection.unwrap_or_else(|_| Err(no_answer(TAKE_LIMIT)));
        let open =
            connection.map(|connection| Open { wanted, connection, generation, opened: Instant::now() });
        let open = open.inspect_err(|_| self.0.trust.doubt())?;
        Ok(Held { open: Some(open), shared: Arc::clone(&self.0), _place: place })
    }

    /// Takes a connection and opens a transaction in it. A connection that cannot even begin is closed, and another
    /// one tried: nothing has been asked yet, so nothing can happen twice.
    pub(super) async fn begin(&self, statement: Option<&'static str>) -> sqlx::Result<Held<DB>> {
        let mut held = self.take().await?;
        match held.begin(statement).await {
            Ok(()) => return Ok(held),
            // Another connection writes just now, say: this one is as good as before.
            Err(error) if is_verdict(&error) => {
                held.give_back();
                return Err(error);
            }
            Err(_) => drop(held),
        }
        let mut held = self.take().await?;
        held.begin(statement).await?;
        Ok(held)
    }

    /// Gives no more connections, waits for those that are out, and closes all; not for longer than `bound`.
    pub(super) async fn close(&self, bound: Duration) {
        // An error means that the time is over: whoever still has one will close it.
        drop(timeout(bound, self.0.places.acquire_many(self.0.places_n)).await);
        self.0.places.close();
        let idle = std::mem::take(&mut *self.idle());
        for open in idle {
            drop(timeout(GOODBYE_LIMIT, open.connection.close()).await);
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Open<DB>>> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection in the hands of one operation. Dropping it closes it.
pub(super) struct Held<DB: Database> {
    /// `None` once it was given back.
    open: Option<Open<DB>>,
    shared: Arc<Shared<DB>>,
    _place: OwnedSemaphorePermit,
}

impl<DB: Database> Held<DB> {
    pub(super) fn connection(&mut self) -> sqlx::Result<&mut DB::Connection> {
        // Taken out by those functions alone that take `self`.
        self.open.as_mut().map(|open| &mut open.connection).ok_or(sqlx::Error::WorkerCrashed)
    }

    /// Gives it back: no transaction is open in it and no answer is awaited.
    pub(super) fn give_back(mut self) {
        if let Some(open) = self.open.take() {
            let mut idle = self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.push(open);
        }
    }

    /// Gives it back after a statement by itself, unless its answer says nothing about the state it is in.
    pub(super) fn give_back_after<T>(self, answer: sqlx::Result<T>) -> sqlx::Result<T> {
        if answer.as_ref().err().is_none_or(is_verdict) {
            self.give_back();
        }
        answer
    }

    pub(super) async fn begin(&mut self, statement: Option<&'static str>) -> sqlx::Result<()> {
        let statement = statement.map(sqlx::SqlSafeStr::into_sql_str);
        limited(DB::TransactionManager::begin(self.connection()?, statement)).await
    }

    /// How many transactions are open in it, one inside the other, as far as the driver knows.
    pub(super) fn depth(&mut self) -> usize {
        self.connection().map_or(0, |connection| DB::TransactionManager::get_transaction_depth(connection))
    }

    /// Commits; [`Held::end`] must follow.
    pub(super) async fn commit(&mut self) -> sqlx::Result<()> {
        let work = DB::TransactionManager::commit(self.connection()?);
        refused_with_warning(limited(work)).await
    }

    /// Rolls back; [`Held::end`] must follow.
    pub(super) async fn roll_back(&mut self) -> sqlx::Result<()> {
        limited(DB::TransactionManager::rollback(self.connection()?)).await
    }

    /// Rolls back, so that nobody waits for its locks, and closes the connection. A statement that still runs in it is
    /// interrupted, where that can be done.
    pub(super) async fn roll_back_and_close(mut self) -> sqlx::Result<()> {
        if let Some(open) = &self.open {
            open.wanted.give_up();
        }
        let answer = self.roll_back().await;
        self.close();
        answer
    }

    /// Closes it; this says nothing about other connections.
    pub(super) fn close(&mut self) {
        drop(self.open.take());
    }

    /// After a commit or a rollback that came to `answer`. Whatever went wrong, the connection is closed, and the
    /// transaction with it.
    pub(super) fn end(mut self, answer: sqlx::Result<()>) -> sqlx::Result<()> {
        match &answer {
            Ok(()) if self.depth() == 0 => self.give_back(),
            // What ended was a transaction that somebody had opened inside.
            Ok(()) => {
                drop(self.open.take());
                return Err(sqlx::Error::InvalidSavePointStatement);
            }
            // The driver counts a transaction that the database has ended, so this one is of no use any more; what
            // is said of the transaction says nothing about other connections.
            Err(error) if is_verdict(error) => drop(self.open.take()),
            Err(_) => drop(self),
        }
        answer
    }
}

impl<DB: Database> Drop for Held<DB> {
    fn drop(&mut self) {
        if self.open.is_some() {
            self.shared.trust.withdraw();
        }
    }
}

/// Whether an error is the database's verdict on a statement, or on what it answered, after which its connection is as
/// good as before. Not so: no answer, a server that stops or only reads, a disk that fails.
pub(super) fn is_verdict(error: &sqlx::Error) -> bool {
    let Some(code) = error.as_database_error().and_then(sqlx::error::DatabaseError::code) else {
        return matches!(
            error,
            sqlx::Error::RowNotFound
                | sqlx::Error::ColumnDecode { .. }
                | sqlx::Error::ColumnIndexOutOfBounds { .. }
                | sqlx::Error::ColumnNotFound(_)
                | sqlx::Error::Decode(_)
        );
    };
    match code.parse::<u32>() {
        // SQLite: NOMEM, READONLY, IOERR, CORRUPT, FULL, CANTOPEN, PROTOCOL, NOTADB.
        Ok(number) if code.len() < 5 => !matches!(number & 0xff, 7 | 8 | 10 | 11 | 13 | 14 | 15 | 26),
        // PostgreSQL: connection, the operator's doing, its system, a bug of its own; read-only; time-outs that end a session.
        _ => {
            let classes = ["08", "57", "58", "XX"];
            // The last two: the session knows other prepared statements than the driver thinks.
            let codes = ["25006", "25P03", "40003", "26000", "42P05"];
            !classes.iter().any(|class| code.starts_with(class)) && !codes.contains(&code.as_ref())
        }
    }
}
