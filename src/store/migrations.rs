//! The embedded migrations: equal numbers and names for both databases, forward only.
//!
//! To add one: a file of the next number in both folders of `migrations/`, and one line here. One that only expands
//! (new tables, columns that are null or have a default) lets older binaries run beside it. One that takes away what an
//! older binary uses says so in its own text: `UPDATE schema_floor SET version = N`.

use uuid::Uuid;

use super::db::{Migration, SchemaState, StoreError};
use super::handle::Store;
use super::installation::installation_create;

/// All of them, in order.
pub(super) const ALL: &[Migration] = &[Migration::new(
    1,
    "hooklatch",
    include_str!("../../migrations/sqlite/0001_hooklatch.sql"),
    include_str!("../../migrations/postgres/0001_hooklatch.sql"),
)];

/// Texts of all of them, in order, for one of the databases.
pub(super) fn texts(is_postgres: bool) -> impl Iterator<Item = &'static str> {
    ALL.iter().map(move |migration| migration.text_for(is_postgres))
}

/// Version of the schema that this binary wants.
pub(super) fn latest() -> i64 {
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
        alone!(self.writer.installation_create(&id))?;
        Ok(applied)
    }

    /// Tells if this binary may run on the schema.
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
