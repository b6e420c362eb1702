//! The embedded migrations: equal numbers and names for both databases, forward only.
//!
//! To add one: a file of the next number in both folders of `migrations/`, and one line here. One that only expands
//! (new tables, columns that are null or have a default) lets older binaries run beside it. One that removes what an
//! older binary uses declares it in its own text: `UPDATE schema_floor SET version = N`.
//!
//! The id of this installation: created once, by the first migration, and part of every idempotency key.
//!
//! The migrations of the embedding program: a name, and steps in their order.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::db::{Migration, MigrationStep, ProgramMigrationError, SchemaState, StoreError};
use super::handle::Store;
use hooklatch_core::types::{Clock, Name};

/// All of them, in order.
pub(crate) const ALL: &[Migration] = &[Migration::new(
    1,
    "hooklatch",
    include_str!("../migrations/sqlite/0001_hooklatch.sql"),
    include_str!("../migrations/postgres/0001_hooklatch.sql"),
)];

/// Texts of all of them, in order, for one of the databases.
pub(crate) fn texts(is_postgres: bool) -> impl Iterator<Item = &'static str> {
    ALL.iter().map(move |migration| migration.text_for(is_postgres))
}

/// Version of the schema that this binary wants.
pub(crate) fn latest() -> i64 {
    super::db::migrations::latest(ALL)
}

/// A step beyond those, for tests that show what one costs beside traffic.
#[derive(Debug, Clone, Copy)]
pub struct FurtherStep {
    /// Number; one more than that of the one before.
    pub version: i64,
    /// Text of the step for SQLite.
    pub sqlite: &'static str,
    /// Text of the step for PostgreSQL.
    pub postgres: &'static str,
    /// True when it is outside of any transaction.
    pub is_outside: bool,
    /// Statement that is repeated for some rows at a time after the step.
    pub filling: Option<&'static str>,
}

impl Store {
    /// Brings the schema up to date; gives back the versions that were applied now.
    pub async fn migrate(&self) -> Result<Vec<i64>, StoreError> {
        let applied = self.parts.backend.migrate(ALL).await?;
        let id = Uuid::new_v4().to_string();
        alone!(self, writer, "installation_create", |db| {
            let sql =
                "/* installation_create */ INSERT INTO installation (one, installation_id, created_at_ms)
                VALUES (1, $1, $2) ON CONFLICT DO NOTHING";
            db.execute(sql, &[id.into(), Clock::system().now_ms().into()]).await.map(drop)
        })?;
        Ok(applied)
    }

    /// Returns whether this binary may run on the schema.
    pub async fn schema_state(&self) -> Result<SchemaState, StoreError> {
        self.parts.backend.schema_state(ALL).await
    }

    /// Brings the schema further than this binary wants it, as a later one would.
    pub async fn migrate_further(&self, steps: &[FurtherStep]) -> Result<Vec<i64>, StoreError> {
        let further = steps.iter().map(|step| {
            let mut one = Migration::new(step.version, "further", step.sqlite, step.postgres);
            if step.is_outside {
                one = one.outside();
            }
            if let Some(sql) = step.filling {
                one = one.filling(sql);
            }
            one
        });
        let all: Vec<Migration> = ALL.iter().copied().chain(further).collect();
        self.parts.backend.migrate(&all).await
    }
}

impl Store {
    /// Returns what this installation is called in idempotency keys; made by the first migration.
    pub async fn installation_id(&self) -> Result<Uuid, StoreError> {
        if let Some(id) = self.parts.installation.get() {
            return Ok(*id);
        }
        let text: String = alone!(self, reader, "installation_text", |db| {
            let sql = "/* installation_id */ SELECT installation_id FROM installation";
            db.fetch_one(sql, &[]).await?.text("installation_id")
        })?;
        let id = Uuid::parse_str(&text)
            .map_err(|_| StoreError::inconsistent("installation", "installation_id", "1"))?;
        Ok(*self.parts.installation.get_or_init(|| id))
    }
}

/// The steps of a program's own tables.
#[derive(Debug, Clone)]
pub struct ProgramMigrations {
    program: String,
    steps: Vec<MigrationStep>,
}

impl ProgramMigrations {
    /// Adds steps in the order in which they are applied.
    pub fn new(program: &str, steps: Vec<MigrationStep>) -> Self {
        Self { program: program.to_owned(), steps }
    }

    /// Name that the program gave them.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// The errors in the names of these lists; empty where they can be applied.
    pub fn mistakes(all: &[Self]) -> Vec<String> {
        let mut mistakes: Vec<String> = all.iter().filter_map(Self::mistake).collect();
        let mut seen = BTreeSet::new();
        let again: BTreeSet<&str> =
            all.iter().map(Self::program).filter(|name| !seen.insert(*name)).collect();
        mistakes.extend(again.into_iter().map(|name| {
            format!("two lists of migrations are called `{name}`: give each its own name, or make one list of them")
        }));
        mistakes
    }

    /// The mistake in these names, if there is one.
    fn mistake(&self) -> Option<String> {
        if let Err(error) = Name::parse(&self.program) {
            return Some(format!("migrations cannot be called so: {error}"));
        }
        let twice = self.steps.iter().enumerate().find_map(|(n, step)| {
            self.steps.iter().take(n).any(|before| before.name() == step.name()).then_some(step.name())
        });
        if let Some(step) = twice {
            return Some(format!(
                "two migrations of `{}` are called `{step}`: give each its own name",
                self.program
            ));
        }
        if self.steps.iter().any(|step| step.name().is_empty()) {
            return Some(format!(
                "a migration of `{}` has no name: give it one, such as `0001_first`",
                self.program
            ));
        }
        let odd = self.steps.iter().find(|step| step.name().chars().any(char::is_control))?;
        Some(format!(
            "migration `{}` of `{}` has a control character in its name: leave it out",
            odd.name().escape_debug(),
            self.program
        ))
    }
}

impl Store {
    /// Applies the steps that are missing, each in a transaction; gives back the names of those that were applied now.
    /// One node does it; the others wait and find it done.
    pub async fn program_migrate(
        &self,
        all: &ProgramMigrations,
    ) -> Result<Vec<&'static str>, ProgramMigrationError> {
        self.parts.backend.program_migrate(&all.program, &all.steps).await
    }

    /// Changes nothing; an error when a step is missing or has another text than the one that was applied.
    pub async fn program_check(&self, all: &ProgramMigrations) -> Result<(), ProgramMigrationError> {
        self.parts.backend.program_check(&all.program, &all.steps).await
    }
}
