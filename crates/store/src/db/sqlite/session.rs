//! One connection to SQLite on its own thread: callers send work to it and await the result.
//!
//! SQLite's library blocks the calling thread: for a statement, for another connection's lock, for the disk at each
//! COMMIT. On a runtime thread that would stop other tasks, so each connection has its own thread, and only one of them
//! writes. A writer sends a closure that holds a whole transaction; it runs from `BEGIN IMMEDIATE` to `COMMIT` in one
//! piece, so the only writer is never blocked while a caller decides what to do next. One round trip to the thread, for
//! a batch of any size. (An open transaction, for handlers that write, is the exception: a round trip for each
//! statement.)
//!
//! A caller that waits may go away. Work without a waiting caller is interrupted (`lose`: an interrupt for the running
//! statement, and a check in the progress handler for those that follow), and its connection is closed, so it never
//! keeps the writer's lock. Just before COMMIT both sides set the same [`Stage`]: if the caller gave up first, the
//! thread rolls back; if the thread was first, the outcome of the commit is unknown to the caller. A panic in a
//! transaction rolls it back; one in other work ends the connection and nothing else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, InterruptHandle, Statement};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::FileChanges;
use super::identity::{DatabaseFile, FileId};
use crate::db::error::{DbError, DbResult, StoreError};
use crate::db::executor::Executor;
use crate::db::limit::{STATEMENT_LIMIT, count_panic};
use crate::db::pool::Session;
use crate::db::value::{Cell, Row, Value};
use hooklatch_core::stop::ignore_result;

/// Steps of a statement between two checks whether its caller still waits: some tens of microseconds.
const STEPS_N: i32 = 5_000;

/// The PRAGMAs that handlers may use: all others change the connection, the file or the whole process for longer than a
/// transaction.
const PRAGMAS: [&str; 11] = [
    "database_list",
    "defer_foreign_keys",
    "foreign_key_check",
    "foreign_key_list",
    "function_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "table_info",
    "table_list",
    "table_xinfo",
];

/// An order to a connection's thread.
enum Job {
    /// Returns whether the thread goes on.
    Work(Box<dyn FnOnce(&mut Connection) -> bool + Send>),
    /// Close the connection; drop this then.
    Close(oneshot::Sender<()>),
}

/// One connection. Dropping it closes it.
pub(crate) struct SqliteSession {
    jobs: Sender<Job>,
    shared: Arc<SessionShared>,
    begin: &'static str,
    /// The file that it is open on, and the log that it has.
    file: (Arc<DatabaseFile>, Option<FileId>),
    /// Notified when rows were changed here; `None` for a connection that only reads.
    changes: Option<Arc<FileChanges>>,
}

/// State that both sides know: the caller and the thread.
struct SessionShared {
    interrupt: InterruptHandle,
    /// True when work was given up: its effects are unknown, and what follows is not to be done.
    is_lost: AtomicBool,
    /// True when a transaction was open after the last work.
    is_in_transaction: AtomicBool,
    /// True while a handler has it, whose statements may not change what outlives their transaction.
    is_handlers: AtomicBool,
}

impl SessionShared {
    /// Interrupts the running work and marks the connection as lost.
    fn lose(&self) {
        self.is_lost.store(true, Ordering::SeqCst);
        self.interrupt.interrupt();
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::SeqCst)
    }
}

/// Loses the connection unless it has answered.
struct LoseGuard<'a> {
    shared: &'a SessionShared,
    is_answered: bool,
}

impl Drop for LoseGuard<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.shared.lose();
        }
    }
}

/// Values of [`Stage`]. Both sides may leave the first one; the side that leaves it first decides how it ends.
const WORKING: u8 = 0;
const COMMITTING: u8 = 1;
const GIVEN_UP: u8 = 2;

/// The progress of one transaction. The caller may give it up, and its thread checks that before the COMMIT.
struct Stage(AtomicU8);

impl Stage {
    fn advance(&self, to: u8) -> bool {
        self.0.compare_exchange(WORKING, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

/// Gives a transaction up when it is dropped: then no caller waits for the transaction any more.
struct GiveUpGuard(Arc<Stage>);

impl Drop for GiveUpGuard {
    fn drop(&mut self) {
        self.0.advance(GIVEN_UP);
    }
}

impl SqliteSession {
    /// A connection to `file` as `open` makes it, on its own thread, called `name`; `begin` is how its transactions
    /// begin.
    pub(crate) async fn open(
        name: &str,
        begin: &'static str,
        file: Arc<DatabaseFile>,
        open: impl FnOnce(&Path) -> DbResult<Connection> + Send + 'static,
    ) -> DbResult<Self> {
        let (jobs, work) = channel::<Job>();
        let (reply, opening) = oneshot::channel();
        let held = Arc::clone(&file);
        let body = move || {
            let opened = catch_unwind(AssertUnwindSafe(|| {
                let (db, log) = held.connect(open)?;
                Ok((watched(&db), db, log))
            }));
            match opened {
                Ok(Ok((shared, db, log))) => {
                    // When the caller is gone, no work follows either.
                    drop(reply.send(shared.map(|shared| (shared, log))));
                    serve(db, &work, held);
                }
                Ok(Err(error)) => drop(reply.send(Err(error))),
                Err(_) => {}
            }
        };
        std::thread::Builder::new().name(name.to_owned()).spawn(body).map_err(DbError::lost)?;
        let (shared, log) = opening.await.unwrap_or_else(|_| Err(ended()))?;
        Ok(Self { jobs, shared, begin, file: (file, log), changes: None })
    }

    /// Counts the changes of this connection, and looks after its commits for the file at its path.
    pub(crate) fn counting(self, changes: Option<Arc<FileChanges>>) -> Self {
        Self { changes, ..self }
    }

    /// Runs `work` on the connection's thread: one hop, whatever it does there. It must not leave a statement open; a
    /// transaction that it leaves open is seen by [`Session::is_in_transaction`].
    ///
    /// When this is dropped, or its time is over, before the answer is there, what runs is interrupted and the
    /// connection lost: nothing else will be done in it, and its transaction is rolled back with it.
    pub(crate) async fn run<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Connection) -> DbResult<T> + Send + 'static,
    ) -> DbResult<T> {
        if self.shared.is_lost() {
            return Err(DbError::lost("a statement was given up in the middle, and its connection with it"));
        }
        self.file.0.check_known()?;
        self.hop(work).await
    }

    /// To be called before a handler has it.
    pub(crate) fn handler_begins(&self) {
        self.shared.is_handlers.store(true, Ordering::SeqCst);
    }

    /// To be called when a handler had it, before anything else is written: runs `sql`, and drops what is temporary.
    pub(crate) async fn handler_ended(&mut self, sql: String) -> DbResult<()> {
        self.shared.is_handlers.store(false, Ordering::SeqCst);
        self.run(move |db| {
            db.execute_batch(&sql)?;
            without_temporary(db)
        })
        .await
    }

    /// One whole transaction in one hop, for [`STATEMENT_LIMIT`] at most: BEGIN IMMEDIATE, `work`, COMMIT, or ROLLBACK
    /// when `work` fails. Given up before its COMMIT it leaves nothing, and its error says so; after that it is
    /// [`StoreError::CommitUnknown`].
    pub(crate) async fn transact<T: Send + 'static>(
        &mut self,
        op: &'static str,
        work: impl FnOnce(&mut Connection) -> DbResult<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let stage = Arc::new(Stage(AtomicU8::new(WORKING)));
        let waits = GiveUpGuard(Arc::clone(&stage));
        let begin = self.begin;
        let whole = self.run(move |db| Ok(transaction(db, op, begin, &stage, work)));
        match timeout(STATEMENT_LIMIT, whole).await {
            Ok(Ok(answer)) => answer,
            // Its thread is gone, perhaps in the middle of the COMMIT.
            Ok(Err(error)) if waits.0.advance(GIVEN_UP) => Err(StoreError::from_db(op, error)),
            Ok(Err(error)) => Err(StoreError::from_commit(error)),
            Err(_) if waits.0.advance(GIVEN_UP) => Err(StoreError::silent(op, STATEMENT_LIMIT)),
            Err(_) => Err(StoreError::CommitUnknown { source: DbError::no_answer(STATEMENT_LIMIT) }),
        }
    }

    pub(crate) async fn hop<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Connection) -> DbResult<T> + Send + 'static,
    ) -> DbResult<T> {
        let (answer, awaited) = oneshot::channel();
        let (shared, changes, file) = (Arc::clone(&self.shared), self.changes.clone(), self.file.clone());
        let job = Job::Work(Box::new(move |db| {
            let before_n = db.total_changes();
            let mut done = catch_unwind(AssertUnwindSafe(|| work(db)));
            if let Some(changes) = changes {
                if db.total_changes() != before_n {
                    changes.note();
                }
                // Before any answer goes out: a commit to a file that is not at its path is none, and one to an earlier
                // state admits what was admitted before.
                if db.is_autocommit()
                    && matches!(done, Ok(Ok(_)))
                    && let Err(moved) = file.0.check(file.1).and_then(|()| file.0.check_state(db))
                {
                    done = Ok(Err(moved));
                }
            }
            shared.is_in_transaction.store(!db.is_autocommit(), Ordering::SeqCst);
            let goes_on = done.is_ok();
            if !goes_on {
                shared.is_lost.store(true, Ordering::SeqCst);
            }
            // The caller may have gone away.
            drop(answer.send(done.unwrap_or_else(|_| {
                count_panic();
                Err(DbError::lost("work on a connection panicked"))
            })));
            goes_on
        }));
        self.jobs.send(job).map_err(|_| ended())?;
        let mut lose_guard = LoseGuard { shared: &self.shared, is_answered: false };
        let done = awaited.await;
        lose_guard.is_answered = true;
        done.unwrap_or_else(|_| Err(ended()))
    }
}

fn ended() -> DbError {
    DbError::lost("the thread of a connection has ended")
}

/// Serves the connection on its thread until all senders of work are dropped.
fn serve(mut db: Connection, jobs: &Receiver<Job>, file: Arc<DatabaseFile>) {
    let mut close_guard = None;
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Work(work) => {
                if !work(&mut db) {
                    break;
                }
            }
            Job::Close(guard) => {
                close_guard = Some(guard);
                break;
            }
        }
    }
    // A transaction that is open in it is rolled back.
    file.close(db);
    drop(close_guard);
}

/// Makes statements of a connection end when no caller waits for them any more.
fn watched(db: &Connection) -> DbResult<Arc<SessionShared>> {
    let shared = Arc::new(SessionShared {
        interrupt: db.get_interrupt_handle(),
        is_lost: AtomicBool::new(false),
        is_in_transaction: AtomicBool::new(false),
        is_handlers: AtomicBool::new(false),
    });
    // An interrupt between two statements of one piece of work would end neither of them. SQLite asks this handler
    // again and again, and its answer ends the work.
    let watch = Arc::clone(&shared);
    db.progress_handler(STEPS_N, Some(move || watch.is_lost()))?;
    let guard = Arc::clone(&shared);
    db.authorizer(Some(move |context: AuthContext<'_>| {
        let is_allowed = !guard.is_handlers.load(Ordering::SeqCst) || is_of_handlers(context.action);
        if is_allowed { Authorization::Allow } else { Authorization::Deny }
    }))?;
    Ok(shared)
}

/// True for what a handler may do: nothing that stays with the connection, or with the process, after its transaction.
fn is_of_handlers(action: AuthAction<'_>) -> bool {
    match action {
        AuthAction::Pragma { pragma_name, .. } => {
            PRAGMAS.iter().any(|one| one.eq_ignore_ascii_case(pragma_name))
        }
        AuthAction::Attach { .. } | AuthAction::Detach { .. } => false,
        _ => true,
    }
}

/// Drops the temporary tables, views and triggers of a handler: a name means them before it means ours.
fn without_temporary(db: &Connection) -> DbResult<()> {
    const SQL: &str = "SELECT type, name FROM temp.sqlite_schema WHERE type <> 'index' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
        ORDER BY CASE type WHEN 'trigger' THEN 1 WHEN 'view' THEN 2 ELSE 3 END";
    let all: Vec<(String, String)> = db
        .prepare_cached(SQL)?
        .query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    if !all.is_empty() {
        // Until the COMMIT, and in whatever order they refer to each other: each one is emptied before it goes. Not to
        // be turned off again, which would forgive what is broken.
        db.execute_batch("PRAGMA defer_foreign_keys = ON")?;
    }
    for (kind, name) in all {
        let name = name.replace('"', "\"\"");
        db.execute_batch(&format!("DROP {kind} IF EXISTS temp.\"{name}\""))?;
    }
    Ok(())
}

/// Runs one transaction on the connection's thread.
fn transaction<T>(
    db: &mut Connection,
    op: &'static str,
    begin: &'static str,
    stage: &Stage,
    work: impl FnOnce(&mut Connection) -> DbResult<T>,
) -> Result<T, StoreError> {
    let failed = |error: DbError| StoreError::from_db(op, error);
    db.execute_batch(begin).map_err(|error| failed(error.into()))?;
    let answer = catch_unwind(AssertUnwindSafe(|| work(db)));
    // It is the work that is at fault, not the database: a batch is halved until the event is found.
    let answer = answer.unwrap_or_else(|_| {
        count_panic();
        Err(DbError::unsaid("work in a transaction panicked"))
    });
    let answer = match answer {
        Ok(value) if stage.advance(COMMITTING) => {
            let committed =
                db.execute_batch("COMMIT").map_err(DbError::from).map_err(StoreError::from_commit);
            committed.map(|()| value)
        }
        Ok(_) => Err(StoreError::silent(op, STATEMENT_LIMIT)),
        Err(error) => Err(failed(error)),
    };
    if answer.is_err() && !db.is_autocommit() {
        // If that fails, the transaction is found to be open, and its connection is closed.
        drop(db.execute_batch("ROLLBACK"));
    }
    answer
}

/// All rows that `sql` gives back.
pub(crate) fn fetch(db: &Connection, sql: &str, values: &[Value]) -> DbResult<Vec<Row>> {
    let mut statement = db.prepare_cached(sql)?;
    bind(&mut statement, values)?;
    let columns: Arc<[String]> = statement.column_names().into_iter().map(str::to_owned).collect();
    let mut found = Vec::new();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        let cells = (0..columns.len()).map(|n| row.get_ref(n).map_err(DbError::from).map(cell));
        found.push(Row::new(Arc::clone(&columns), cells.collect::<DbResult<_>>()?));
    }
    Ok(found)
}

/// Returns how many rows `sql` changed. Rows that it gives back are left.
pub(crate) fn execute(db: &Connection, sql: &str, values: &[Value]) -> DbResult<u64> {
    let mut statement = db.prepare_cached(sql)?;
    bind(&mut statement, values)?;
    let before = db.total_changes();
    let mut rows = statement.raw_query();
    while rows.next()?.is_some() {}
    // Changes by triggers and foreign keys do not count as the statement's own.
    Ok(if db.total_changes() == before { 0 } else { db.changes() })
}

/// `$3` and `?3` are the third value, whatever comes first in the text; `?` is the next one.
fn bind(statement: &mut Statement<'_>, values: &[Value]) -> DbResult<()> {
    for place in 1..=statement.parameter_count() {
        let number = match statement.parameter_name(place) {
            Some(name) => name.get(1..).and_then(|number| number.parse().ok()),
            None => Some(place),
        };
        let value = number.and_then(|number: usize| values.get(number.checked_sub(1)?));
        let Some(value) = value else {
            let name = statement.parameter_name(place).unwrap_or("?").to_owned();
            return Err(DbError::unsaid(format!("`{name}` has no value: {} are given", values.len())));
        };
        match value {
            Value::Int(number) => statement.raw_bind_parameter(place, number)?,
            Value::Text(text) => statement.raw_bind_parameter(place, text)?,
            Value::Bytes(bytes) => statement.raw_bind_parameter(place, bytes)?,
            Value::Texts(texts) => statement.raw_bind_parameter(place, list(texts)?)?,
            Value::Ints(numbers) => statement.raw_bind_parameter(place, list(numbers)?)?,
        }
    }
    Ok(())
}

/// Writes a list as `json_each` reads it.
fn list<T: serde::Serialize>(all: &[T]) -> DbResult<String> {
    serde_json::to_string(all).map_err(DbError::unsaid)
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(number) => Cell::Int(number),
        // One such cell leaves the other cells and rows readable.
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).map_or_else(
            |_| Cell::Other("TEXT that is not UTF-8".to_owned()),
            |text| Cell::Text(text.to_owned()),
        ),
        ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_vec()),
        ValueRef::Real(_) => Cell::Other("REAL".to_owned()),
    }
}

impl Session for SqliteSession {
    async fn begin(&mut self) -> DbResult<()> {
        let begin = self.begin;
        self.run(move |db| Ok(db.execute_batch(begin)?)).await
    }

    async fn commit(&mut self) -> DbResult<()> {
        self.shared.is_handlers.store(false, Ordering::SeqCst);
        self.run(|db| {
            if db.is_autocommit() {
                return Err(DbError::no_transaction());
            }
            Ok(db.execute_batch("COMMIT")?)
        })
        .await
    }

    async fn roll_back(&mut self) -> DbResult<()> {
        self.shared.is_handlers.store(false, Ordering::SeqCst);
        // Work that was given up comes first in the queue; it was interrupted, so it ends soon.
        self.hop(|db| {
            if db.is_autocommit() {
                return Err(DbError::no_transaction());
            }
            Ok(db.execute_batch("ROLLBACK")?)
        })
        .await
    }

    fn is_in_transaction(&self) -> bool {
        self.shared.is_in_transaction.load(Ordering::SeqCst)
    }

    fn is_lost(&self) -> bool {
        self.shared.is_lost()
    }

    async fn close(self) {
        let (guard, closed) = oneshot::channel();
        if self.jobs.send(Job::Close(guard)).is_ok() {
            // Waiting always ends with an error: nothing is sent, and the other end is dropped.
            ignore_result(closed).await;
        }
    }

    fn executor(&mut self) -> Executor<'_> {
        Executor::Sqlite(self)
    }
}
