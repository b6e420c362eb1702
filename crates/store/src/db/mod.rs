//! The only code that uses a driver: connections, transactions, statements, limits, migrations. The code above it
//! writes PostgreSQL's SQL, and sees values, rows and errors that are the same for both databases.
//!
//! In reading order:
//!
//! 1. `value.rs` and `error.rs`: parameters and rows of statements, and errors, classified by what a caller can do
//!    about them.
//! 2. `executor.rs`: one connection of either database, for statements that are translated for each. `tx.rs` is an
//!    open transaction, as a transactional handler gets it, and one for a trial that is always rolled back.
//! 3. `pool.rs`: connections. One in an unknown state is closed. `limit.rs`: each operation runs to its end in a task
//!    of its own, within a time limit.
//! 4. `postgres/` and `sqlite/`: the two databases. PostgreSQL's sessions are sqlx's, and `warnings.rs` detects the
//!    warnings of a commit; each connection of SQLite has its own thread, and each piece of work is one round trip to
//!    it.
//! 5. `backend.rs`: the database, whichever it is. `opening.rs` and `migrations.rs`: how it is opened and
//!    migrated. `rules.rs`: what settings a database must have.
//!
//! It has no statement about events or messages: those are in the modules above it, one for each noun.

mod backend;
mod error;
mod executor;
pub(crate) mod limit;
pub(crate) mod migrations;
mod opening;
pub(crate) mod pool;
pub(crate) mod postgres;
mod rules;
pub(crate) mod sqlite;
mod tx;
mod value;
pub(crate) mod warnings;

pub(crate) use backend::{Backend, BoxedWork, Purpose};
pub(crate) use error::DbResult;
pub use error::{DbError, StoreError, decode_error};
#[cfg(any(test, feature = "testing"))]
pub(crate) use executor::to_sqlite;
pub(crate) use executor::{Executor, postgres as in_postgres};
pub(crate) use migrations::Migration;
pub use migrations::{MigrationStep, ProgramMigrationError};
pub use opening::waiting;
pub use opening::{Pooling, PostgresSettings, SchemaState, StoreSettings};
pub(crate) use pool::PoolUsage;
pub(crate) use postgres::IS_WRITABLE;
pub use rules::{BrokenRule, broken_pragmas, broken_settings};
pub use sqlite::{FileKey, copy_file, sqlite_path};
pub(crate) use sqlite::{WitnessTurn, Witnessed};
pub use tx::{Tx, handler_abandoned, handler_begins, handler_ended, roll_back, trial_ends, tx_dialect};
pub use value::{Row, Value};
