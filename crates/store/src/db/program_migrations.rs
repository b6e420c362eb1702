//! Migrations of the embedding program: its own tables, in our database.
//!
//! They are applied after ours, in the program's order, each in one transaction together with the row that records it.
//! That row holds a digest of the text, so that a text changed after it was applied is detected. One node applies them,
//! under the lock of our own migrations; the others wait and find them applied.

use std::time::Instant;

use sha2::{Digest, Sha256};

use super::backend::{Backend, Purpose};
use super::error::{DbError, DbResult, StoreError};
use super::executor::Executor;
use super::migrations::{in_transaction, is_to_be_waited_for, on_writer, table_is_there};
use super::pool::Session;
use super::postgres::Postgres;
use hooklatch_core::types::Clock;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS hooklatch_program_migrations (
    program TEXT NOT NULL,
    step TEXT NOT NULL,
    text_sha256 TEXT NOT NULL,
    applied_at_ms BIGINT NOT NULL,
    PRIMARY KEY (program, step)
)";
const TABLE_NAME: &str = "hooklatch_program_migrations";

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
                Self::Sqlite(db) => on_writer(db, async |session| apply(session, program, step).await).await,
                Self::Postgres(db) => apply_on_postgres(db, program, step).await,
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
                Box::pin(async move { state(&mut executor, &name, &one).await })
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
async fn apply_on_postgres(db: &Postgres, program: &str, step: &MigrationStep) -> DbResult<Applied> {
    let started = Instant::now();
    loop {
        let mut session = db.alone().await?;
        match apply(&mut session, program, step).await {
            Err(error) if is_to_be_waited_for(&error, started) => {}
            done => {
                Session::close(session).await;
                return done;
            }
        }
    }
}

/// Applies one step unless it is; says how far it was before.
async fn apply<S: Session>(session: &mut S, program: &str, step: &MigrationStep) -> DbResult<Applied> {
    let mut has_ended = false;
    let done = in_transaction(session, async |executor| {
        // Another node may have been first.
        let before = state(executor, program, step).await?;
        if matches!(before, Applied::No) {
            let text = step.text(executor.is_postgres());
            executor.batch(TABLE).await?;
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

async fn state(executor: &mut Executor<'_>, program: &str, step: &MigrationStep) -> DbResult<Applied> {
    if !table_is_there(executor, TABLE_NAME).await? {
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
