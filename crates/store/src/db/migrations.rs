//! Applies migrations: ours, and those of the embedding program. The list of ours, and how to add one, is in
//! `crates/store/src/migrations.rs`.
//!
//! Each of ours is one transaction, all or nothing. A statement that cannot run in a transaction (`CREATE INDEX
//! CONCURRENTLY`) is a migration of its own, [`Migration::outside`]. A change to every row of a large table is a
//! [`Migration::filling`] after a migration that expands: a statement for some rows at a time, each in a transaction of
//! its own, while others write.
//!
//! A program's steps create its own tables in our database. They are applied after ours, in the program's order, each
//! in one transaction together with the row that records it. That row holds a digest of the text, so that a text
//! changed after it was applied is detected. One node applies them, under the lock of our migrations; the others wait
//! and find them applied.

use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use tracing::info;

use super::backend::{Backend, Purpose};
use super::error::{DbError, DbResult, StoreError};
use super::executor::Executor;
use super::pool::Session;
use super::postgres::Postgres;
use super::sqlite::{Sqlite, SqliteSession};
use hooklatch_core::stop::ignore_result;
use hooklatch_core::types::Clock;

/// One step of the schema.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Migration {
    version: i64,
    name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
    is_outside: bool,
    filling: Option<&'static str>,
}

/// Held by the node that migrates, until its transaction ends. Any number that has no other use in this database.
const LOCK: i64 = 0x686f_6f6b_6c61_7463;
/// Time for which a node waits for another one's migration, or for a locked table. Each try waits as long as the
/// session's `lock_timeout` lets it.
const WAIT_MAX: Duration = Duration::from_mins(5);
/// Most rows of one transaction of a filling.
const FILLED_N_MAX: i64 = 1_000;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS hooklatch_migrations (
    version BIGINT PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at_ms BIGINT NOT NULL,
    filled_at_ms BIGINT
)";

impl Migration {
    /// `version` is one more than that of the one before.
    pub(crate) const fn new(
        version: i64,
        name: &'static str,
        sqlite: &'static str,
        postgres: &'static str,
    ) -> Self {
        Self { version, name, sqlite, postgres, is_outside: false, filling: None }
    }

    /// Text of the step for one of the databases.
    pub(crate) fn text_for(&self, is_postgres: bool) -> &'static str {
        if is_postgres { self.postgres } else { self.sqlite }
    }

    /// Outside of any transaction, statement by statement; each ends with `;` at the end of a line. Whatever happens in
    /// the middle, all of it is done again, so each has to bear that: `DROP INDEX CONCURRENTLY IF EXISTS` comes before
    /// `CREATE INDEX CONCURRENTLY`.
    #[must_use]
    pub(crate) const fn outside(mut self) -> Self {
        self.is_outside = true;
        self
    }

    /// After it, `sql` (for both databases, `$1` is how many rows at most) is repeated until it changes nothing, each
    /// time in a transaction of its own.
    #[must_use]
    pub(crate) const fn filling(mut self, sql: &'static str) -> Self {
        self.filling = Some(sql);
        self
    }
}

/// The last version in `all`; 0 is an empty database.
pub(crate) fn latest(all: &[Migration]) -> i64 {
    all.last().map_or(0, |last| last.version)
}

/// Applies what is missing. Has no time limit. It gives the only writer back between the parts of a filling, so that
/// others wait for one part at most.
pub(crate) async fn on_sqlite(db: &Sqlite, all: &[Migration]) -> DbResult<()> {
    for one in all {
        let state = on_writer(db, async |session| apply(session, None, one).await).await?;
        let Some(sql) = one.filling.filter(|_| state != MigrationState::Done) else { continue };
        let (mut filled_n, started) = (0, Instant::now());
        loop {
            let changed_n = on_writer(db, async |session| fill_some(session, sql).await).await?;
            filled_n += changed_n;
            if is_filled(changed_n) {
                break;
            }
        }
        on_writer(db, async |session| filled(&mut session.executor(), one, filled_n, started).await).await?;
    }
    Ok(())
}

async fn on_writer<T>(db: &Sqlite, work: impl AsyncFnOnce(&mut SqliteSession) -> DbResult<T>) -> DbResult<T> {
    let mut held = db.writer.take().await?;
    let answer = match held.session() {
        Ok(session) => work(session).await,
        Err(error) => Err(error),
    };
    held.give_back_after(answer)
}

/// Applies what is missing. One node does it; the others wait and find it done.
pub(crate) async fn on_postgres(db: &Postgres, all: &[Migration]) -> DbResult<()> {
    let started = Instant::now();
    loop {
        match on_postgres_once(db, all).await {
            Err(error) if is_to_be_waited_for(&error, started) => {}
            done => return done,
        }
    }
}

/// True while another session holds a lock that a migration that was `started` then needs: it is to be retried. Logs
/// it.
fn is_to_be_waited_for(error: &DbError, started: Instant) -> bool {
    let is_busy = matches!(error.code(), Some("55P03" | "40P01")) && started.elapsed() < WAIT_MAX;
    if is_busy {
        info!(
            waited_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or_default(),
            waits_max_ms = u64::try_from(WAIT_MAX.as_millis()).unwrap_or_default(),
            "another node migrates the database, or another session holds its tables; waiting"
        );
    }
    is_busy
}

async fn on_postgres_once(db: &Postgres, all: &[Migration]) -> DbResult<()> {
    // It has a connection of its own, which is closed afterwards in any case: a migration takes longer than any other
    // statement.
    let mut session = db.alone().await?;
    let found = schema_version(&mut session.executor()).await?;
    let is_guarded = all.iter().any(|one| one.is_outside && one.version > found);
    let mut guard = if is_guarded { Some(db.alone().await?) } else { None };
    apply_all(&mut session, guard.as_mut(), all).await?;
    Session::close(session).await;
    Ok(())
}

async fn apply_all<S: Session>(
    session: &mut S,
    mut guard: Option<&mut S>,
    all: &[Migration],
) -> DbResult<()> {
    for one in all {
        let state = apply(session, guard.as_deref_mut(), one).await?;
        if let (Some(sql), MigrationState::Missing | MigrationState::Unfilled) = (one.filling, state) {
            fill(session, one, sql).await?;
        }
    }
    Ok(())
}

/// Says how far it was before. With `guard`, a second session that holds the lock where `session` is outside of a
/// transaction; SQLite's only writer needs none.
async fn apply<S: Session>(
    session: &mut S,
    guard: Option<&mut S>,
    one: &Migration,
) -> DbResult<MigrationState> {
    let state = state(&mut session.executor(), one).await?;
    if state != MigrationState::Missing {
        return Ok(state);
    }
    match (guard, one.is_outside) {
        (_, false) => in_transaction(session, async |executor| within(executor, one).await).await?,
        (None, true) => outside(&mut session.executor(), one).await?,
        (Some(guard), true) => {
            let work = async |executor: &mut Executor<'_>| {
                // This connection is idle for as long as the other one works.
                executor.batch("SET LOCAL idle_in_transaction_session_timeout = 0").await?;
                match self::state(executor, one).await? {
                    MigrationState::Missing => outside(&mut session.executor(), one).await,
                    MigrationState::Unfilled | MigrationState::Done => Ok(()),
                }
            };
            in_transaction(guard, work).await?;
        }
    }
    Ok(state)
}

/// Runs `work` in a transaction that excludes all other migrations.
async fn in_transaction<S: Session, T>(
    session: &mut S,
    work: impl AsyncFnOnce(&mut Executor<'_>) -> DbResult<T>,
) -> DbResult<T> {
    session.begin().await?;
    let mut executor = session.executor();
    let locked = if executor.is_postgres() {
        executor.fetch("SELECT pg_advisory_xact_lock($1)", &[LOCK.into()]).await.map(drop)
    } else {
        Ok(())
    };
    let answer = match locked {
        Ok(()) => work(&mut executor).await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(value) => session.commit().await.map(|()| value),
        Err(error) => {
            // The error of the work is the one to report.
            ignore_result(session.roll_back()).await;
            Err(error)
        }
    }
}

async fn within(executor: &mut Executor<'_>, one: &Migration) -> DbResult<()> {
    // Another node may have been first.
    if state(executor, one).await? != MigrationState::Missing {
        return Ok(());
    }
    executor.batch(one.text_for(executor.is_postgres())).await?;
    note(executor, one).await
}

async fn outside(executor: &mut Executor<'_>, one: &Migration) -> DbResult<()> {
    for statement in one.text_for(executor.is_postgres()).split(";\n") {
        executor.batch(statement).await?;
    }
    note(executor, one).await
}

async fn fill<S: Session>(session: &mut S, one: &Migration, sql: &'static str) -> DbResult<()> {
    let (mut filled_n, started) = (0, Instant::now());
    loop {
        let changed_n = fill_some(session, sql).await?;
        filled_n += changed_n;
        if is_filled(changed_n) {
            break;
        }
    }
    filled(&mut session.executor(), one, filled_n, started).await
}

/// True when so few rows changed that older binaries may have written them meanwhile: those come in ones and
/// twos, without end.
fn is_filled(changed_n: u64) -> bool {
    changed_n < FILLED_N_MAX.unsigned_abs()
}

async fn fill_some<S: Session>(session: &mut S, sql: &'static str) -> DbResult<u64> {
    in_transaction(session, async |executor| executor.execute(sql, &[FILLED_N_MAX.into()]).await).await
}

async fn filled(
    executor: &mut Executor<'_>,
    one: &Migration,
    filled_n: u64,
    started: Instant,
) -> DbResult<()> {
    executor
        .execute(
            "UPDATE hooklatch_migrations SET filled_at_ms = applied_at_ms WHERE version = $1",
            &[one.version.into()],
        )
        .await?;
    let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or_default();
    info!(version = one.version, rows = filled_n, took_ms, "filled the rows of a migration");
    Ok(())
}

/// Keeps in mind that it was applied.
async fn note(executor: &mut Executor<'_>, one: &Migration) -> DbResult<()> {
    let now = if executor.is_postgres() {
        "SELECT {clock_ms} AS now_ms"
    } else {
        "SELECT CAST(strftime('%s', 'now') AS INTEGER) * 1000 AS now_ms"
    };
    let now_ms = executor.fetch_one(now, &[]).await?.int("now_ms")?;
    let filled_at_ms = one.filling.is_none().then_some(now_ms);
    let values = [one.version.into(), one.name.into(), now_ms.into(), filled_at_ms.into()];
    let sql = "INSERT INTO hooklatch_migrations (version, name, applied_at_ms, filled_at_ms)
               VALUES ($1, $2, $3, $4) ON CONFLICT (version) DO NOTHING";
    executor.batch(TABLE).await?;
    executor.execute(sql, &values).await.map(drop)
}

/// Progress of one migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MigrationState {
    Missing,
    Unfilled,
    Done,
}

async fn state(executor: &mut Executor<'_>, one: &Migration) -> DbResult<MigrationState> {
    if !table_is_there(executor, "hooklatch_migrations").await? {
        return Ok(MigrationState::Missing);
    }
    let sql = "SELECT filled_at_ms FROM hooklatch_migrations WHERE version = $1";
    Ok(match executor.fetch_optional(sql, &[one.version.into()]).await? {
        None => MigrationState::Missing,
        Some(row) if one.filling.is_some() && row.int_or_null("filled_at_ms")?.is_none() => {
            MigrationState::Unfilled
        }
        Some(_) => MigrationState::Done,
    })
}

async fn table_is_there(executor: &mut Executor<'_>, table: &'static str) -> DbResult<bool> {
    let sql = if executor.is_postgres() {
        // `to_regclass` would not do: it may still remember from before the lock that there was no such table.
        "SELECT COUNT(*) AS is_there FROM pg_catalog.pg_tables
         WHERE tablename = $1 AND schemaname = ANY (current_schemas(false))"
    } else {
        "SELECT COUNT(*) AS is_there FROM sqlite_schema WHERE name = $1"
    };
    executor.fetch_one(sql, &[table.into()]).await?.is_true("is_there")
}

/// True when tables of ours are there that these migrations did not make: those of another layout.
pub(super) async fn is_of_another_layout(executor: &mut Executor<'_>) -> DbResult<bool> {
    // The order matters: a node that migrates at this moment commits both at once.
    Ok(table_is_there(executor, "processed_webhook_events").await?
        && !table_is_there(executor, "hooklatch_migrations").await?)
}

/// The newest migration that was applied; 0 when there is none.
pub(crate) async fn schema_version(executor: &mut Executor<'_>) -> DbResult<i64> {
    if !table_is_there(executor, "hooklatch_migrations").await? {
        return Ok(0);
    }
    let sql = "SELECT COALESCE(MAX(version), 0) AS version FROM hooklatch_migrations";
    executor.fetch_one(sql, &[]).await?.int("version")
}

/// The oldest version that a binary may want; `None` in an empty database.
pub(super) async fn schema_floor(executor: &mut Executor<'_>) -> DbResult<Option<i64>> {
    if !table_is_there(executor, "schema_floor").await? {
        return Ok(None);
    }
    let row = executor.fetch_optional("SELECT version FROM schema_floor", &[]).await?;
    row.map(|row| row.int("version")).transpose()
}

const PROGRAM_TABLE: &str = "CREATE TABLE IF NOT EXISTS hooklatch_program_migrations (
    program TEXT NOT NULL,
    step TEXT NOT NULL,
    text_sha256 TEXT NOT NULL,
    applied_at_ms BIGINT NOT NULL,
    PRIMARY KEY (program, step)
)";

/// One step of a program's own tables: a name, and SQL that is run once.
///
/// A pair of two texts is one, `("0001_ledger", "CREATE TABLE …")`; its SQL must be understood by the database that is
/// used.
#[derive(Debug, Clone, Copy)]
pub struct MigrationStep {
    name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
}

impl MigrationStep {
    /// A step whose SQL is another one on each database.
    pub const fn on_each(name: &'static str, sqlite: &'static str, postgres: &'static str) -> Self {
        Self { name, sqlite, postgres }
    }

    /// Name of the step, unique within its program.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    fn text(&self, is_postgres: bool) -> &'static str {
        if is_postgres { self.postgres } else { self.sqlite }
    }
}

impl From<(&'static str, &'static str)> for MigrationStep {
    fn from((name, sql): (&'static str, &'static str)) -> Self {
        Self::on_each(name, sql, sql)
    }
}

/// The reason why a program's own migrations were not applied. Nothing of the step that it names is left.
#[derive(Debug, thiserror::Error)]
pub enum ProgramMigrationError {
    /// The SQL of a step does not work.
    #[error("migration `{step}` of `{program}` failed and left nothing: {why}")]
    Failed {
        /// Name that the program gave its migrations.
        program: String,
        /// Name of the step.
        step: &'static str,
        /// Answer of the database.
        why: DbError,
    },
    /// A step ended the transaction that it runs in.
    #[error(
        "migration `{step}` of `{program}` ended the transaction that it runs in, and is not noted as applied: what it \
         did before may be there; undo that by hand, and take BEGIN, COMMIT and ROLLBACK out of its text"
    )]
    EndedTransaction {
        /// Name that the program gave its migrations.
        program: String,
        /// Name of the step.
        step: &'static str,
    },
    /// A step was applied with another text than it has now.
    #[error(
        "migration `{step}` of `{program}` has another text than the one that was applied: put the old text back, and \
         write what is new into a further step"
    )]
    Changed {
        /// Name that the program gave its migrations.
        program: String,
        /// Name of the step.
        step: &'static str,
    },
    /// A step stands before one that was applied already.
    #[error(
        "migration `{step}` of `{program}` stands before `{applied}`, which was applied already: put it behind the \
         steps that there were"
    )]
    Misplaced {
        /// Name that the program gave its migrations.
        program: String,
        /// Name of the step.
        step: &'static str,
        /// Name of the step that was applied.
        applied: &'static str,
    },
    /// A step is to be applied by another node, or by hand.
    #[error(
        "migration `{step}` of `{program}` is missing: run this program's `migrate`, or set database.migrate = true"
    )]
    Missing {
        /// Name that the program gave its migrations.
        program: String,
        /// Name of the step.
        step: &'static str,
    },
    /// The database could not be asked.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The state of a step in the database.
enum Applied {
    No,
    Yes,
    OtherText,
    /// The step ended the transaction that it ran in.
    Ended,
}

impl Backend {
    /// Applies what is missing; gives back the names of the steps that were applied now.
    pub(crate) async fn program_migrate(
        &self,
        program: &str,
        steps: &[MigrationStep],
    ) -> Result<Vec<&'static str>, ProgramMigrationError> {
        self.program_check_all(program, steps).await?;
        let mut applied = Vec::new();
        for step in steps {
            let done = match self {
                Self::Sqlite(db) => {
                    on_writer(db, async |session| apply_step(session, program, step).await).await
                }
                Self::Postgres(db) => apply_step_on_postgres(db, program, step).await,
            };
            let failed =
                |why| ProgramMigrationError::Failed { program: program.to_owned(), step: step.name, why };
            match done.map_err(failed)? {
                Applied::No => applied.push(step.name),
                Applied::Yes => {}
                Applied::OtherText => return Err(changed(program, step)),
                Applied::Ended => {
                    let program = program.to_owned();
                    return Err(ProgramMigrationError::EndedTransaction { program, step: step.name });
                }
            }
        }
        Ok(applied)
    }

    /// Reports which steps are missing or were changed, and changes nothing.
    pub(crate) async fn program_check(
        &self,
        program: &str,
        steps: &[MigrationStep],
    ) -> Result<(), ProgramMigrationError> {
        match self.program_check_all(program, steps).await? {
            None => Ok(()),
            Some(step) => Err(ProgramMigrationError::Missing { program: program.to_owned(), step }),
        }
    }

    /// The first step that is missing. Changed and misplaced steps are errors.
    async fn program_check_all(
        &self,
        program: &str,
        steps: &[MigrationStep],
    ) -> Result<Option<&'static str>, ProgramMigrationError> {
        let (mut missing, mut applied) = (None, None);
        // The last one first: another node may be applying them, in their order, meanwhile.
        for step in steps.iter().rev() {
            let (name, one) = (program.to_owned(), *step);
            let state = self.alone("program_migrations", Purpose::Writer, move |mut executor| {
                Box::pin(async move { step_state(&mut executor, &name, &one).await })
            });
            match (state.await?, applied) {
                (Applied::OtherText, _) => return Err(changed(program, step)),
                (Applied::No, None) => missing = Some(step.name),
                (Applied::No, Some(applied)) => {
                    let program = program.to_owned();
                    return Err(ProgramMigrationError::Misplaced { program, step: step.name, applied });
                }
                (Applied::Yes, _) => applied = Some(step.name),
                (Applied::Ended, _) => {}
            }
        }
        Ok(missing)
    }
}

fn changed(program: &str, step: &MigrationStep) -> ProgramMigrationError {
    ProgramMigrationError::Changed { program: program.to_owned(), step: step.name }
}

/// Applies one step on a connection of its own, without a time limit, while no other session migrates.
async fn apply_step_on_postgres(db: &Postgres, program: &str, step: &MigrationStep) -> DbResult<Applied> {
    let started = Instant::now();
    loop {
        let mut session = db.alone().await?;
        match apply_step(&mut session, program, step).await {
            Err(error) if is_to_be_waited_for(&error, started) => {}
            done => {
                Session::close(session).await;
                return done;
            }
        }
    }
}

/// Applies one step unless it is; says how far it was before.
async fn apply_step<S: Session>(session: &mut S, program: &str, step: &MigrationStep) -> DbResult<Applied> {
    let mut has_ended = false;
    let done = in_transaction(session, async |executor| {
        // Another node may have been first.
        let before = step_state(executor, program, step).await?;
        if matches!(before, Applied::No) {
            let text = step.text(executor.is_postgres());
            executor.batch(PROGRAM_TABLE).await?;
            has_ended = is_ended_by(executor, text).await?;
            if has_ended {
                return Err(DbError::no_transaction());
            }
            let now_ms = Clock::system().now_ms();
            let sql = "INSERT INTO hooklatch_program_migrations (program, step, text_sha256, applied_at_ms)
                       VALUES ($1, $2, $3, $4)";
            executor
                .execute(sql, &[program.into(), step.name.into(), digest(text).into(), now_ms.into()])
                .await?;
        }
        Ok(before)
    })
    .await;
    if has_ended { Ok(Applied::Ended) } else { done }
}

/// Runs a step's text; true when the text itself ended the transaction, so that what it did before cannot be taken back
/// and no row may say that it was applied. A savepoint shows it: it is gone with its transaction.
async fn is_ended_by(executor: &mut Executor<'_>, text: &'static str) -> DbResult<bool> {
    executor.batch("SAVEPOINT hooklatch_step").await?;
    let ran = executor.batch(text).await;
    // A full disk or a lost connection ends a transaction, too; then nothing of it is left.
    if let Err(error) = ran.as_ref()
        && !error.is_server_error()
    {
        return ran.map(|()| false);
    }
    let back =
        if ran.is_ok() { "RELEASE SAVEPOINT hooklatch_step" } else { "ROLLBACK TO SAVEPOINT hooklatch_step" };
    match executor.batch(back).await {
        Err(error) if error.is_of_no_transaction() => Ok(true),
        done => ran.and(done).map(|()| false),
    }
}

async fn step_state(executor: &mut Executor<'_>, program: &str, step: &MigrationStep) -> DbResult<Applied> {
    if !table_is_there(executor, "hooklatch_program_migrations").await? {
        return Ok(Applied::No);
    }
    let sql = "SELECT text_sha256 FROM hooklatch_program_migrations WHERE program = $1 AND step = $2";
    Ok(match executor.fetch_optional(sql, &[program.into(), step.name.into()]).await? {
        None => Applied::No,
        Some(row) if row.text("text_sha256")? == digest(step.text(executor.is_postgres())) => Applied::Yes,
        Some(_) => Applied::OtherText,
    })
}

fn digest(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::sqlite::opened;

    const TABLE: &str = "CREATE TABLE t (n BIGINT, doubled BIGINT);
        WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 2500) INSERT INTO t (n) SELECT n FROM c;";
    const FIRST: Migration = Migration::new(1, "first", TABLE, "");
    const SECOND: Migration =
        Migration::new(2, "second", "CREATE INDEX i ON t (n);\n-- done\n", "").outside();
    const THIRD: Migration = Migration::new(3, "third", "SELECT 1", "")
        .filling("UPDATE t SET doubled = 2 * n WHERE n IN (SELECT n FROM t WHERE doubled IS NULL LIMIT $1)");
    const BROKEN: Migration = Migration::new(4, "broken", "CREATE TABLE u (n BIGINT); NONSENSE", "");

    async fn number(db: &Sqlite, sql: &'static str) -> i64 {
        let mut held = db.reader.take().await.unwrap();
        let row = held.executor().unwrap().fetch_one(sql, &[]).await;
        held.give_back_after(row).unwrap().int("n").unwrap()
    }

    #[tokio::test]
    async fn what_is_missing_is_applied_once_and_all_or_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let db = opened(&folder).await;
        for all in [&[FIRST][..], &[FIRST, SECOND, THIRD], &[FIRST, SECOND, THIRD]] {
            on_sqlite(&db, all).await.unwrap();
            assert_eq!(number(&db, "SELECT MAX(version) AS n FROM hooklatch_migrations").await, latest(all));
        }
        assert_eq!(number(&db, "SELECT COUNT(*) AS n FROM t WHERE doubled = 2 * n").await, 2_500);
        assert_eq!(
            number(&db, "SELECT COUNT(*) AS n FROM hooklatch_migrations WHERE filled_at_ms IS NULL").await,
            0
        );
        on_sqlite(&db, &[FIRST, SECOND, THIRD, BROKEN]).await.unwrap_err();
        assert_eq!(number(&db, "SELECT COUNT(*) AS n FROM sqlite_schema WHERE name = 'u'").await, 0);
        assert_eq!(number(&db, "SELECT COUNT(*) AS n FROM hooklatch_migrations").await, 3);
    }

    #[tokio::test]
    async fn a_filling_that_was_cut_off_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let db = opened(&folder).await;
        on_sqlite(&db, &[FIRST, SECOND, THIRD]).await.unwrap();
        let mut held = db.writer.take().await.unwrap();
        let cut = "UPDATE t SET doubled = NULL WHERE n > 2000; UPDATE hooklatch_migrations SET filled_at_ms = NULL WHERE version = 3";
        held.executor().unwrap().batch(cut).await.unwrap();
        held.give_back();
        on_sqlite(&db, &[FIRST, SECOND, THIRD]).await.unwrap();
        assert_eq!(number(&db, "SELECT COUNT(*) AS n FROM t WHERE doubled IS NULL").await, 0);
    }
}
