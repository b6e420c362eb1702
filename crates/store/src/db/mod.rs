//! The only code that knows a driver: connections, transactions, statements, limits, migrations. What is above it
//! writes SQL in PostgreSQL's words, and sees values, rows and errors that are the same for both databases.
//!
//! In reading order:
//!
//! 1. `value.rs` and `error.rs`: what goes into a statement and comes out of it, with errors sorted by what a caller can
//!    do about them.
//! 2. `executor.rs`: one connection of either database, for statements that are put into the words of each. `tx.rs` is an
//!    open transaction, as a transactional handler gets it, and one for a trial that never stands.
//! 3. `pool.rs`: connections. One whose state is not known is closed. `limit.rs`: each operation runs
//!    to its end in a task of its own, within a limit.
//! 4. `postgres/` and `sqlite/`: the two databases. PostgreSQL's sessions are sqlx's, and `warnings.rs` reads the
//!    warnings of a COMMIT; each connection of SQLite has a thread of its own, and what goes there is one hop, whatever
//!    it does.
//! 5. `backend.rs`: the database, whichever it is. `opening.rs`, `migrations.rs` and
//!    `program_migrations.rs`: how it is opened and brought up to date.
//!
//! No statement about events or messages is here: those are above, each with its noun.

mod backend;
mod error;
mod executor;
pub(crate) mod limit;
pub(crate) mod migrations;
mod opening;
pub(crate) mod pool;
pub(crate) mod postgres;
mod program_migrations;
pub(crate) mod sqlite;
mod tx;
mod value;
pub(crate) mod warnings;

pub(crate) use backend::{Backend, Purpose, Working};
pub(crate) use error::DbResult;
pub use error::{DbError, StoreError};
pub(crate) use executor::Executor;
pub(crate) use migrations::Migration;
pub use opening::waiting;
pub use opening::{Pooling, PostgresSettings, SchemaState, StoreSettings};
pub(crate) use pool::PlacesUsed;
pub use program_migrations::{MigrationStep, ProgramMigrationError};
pub use sqlite::{FileKey, copy_file, sqlite_path};
pub(crate) use sqlite::{WitnessTurn, Witnessed};
pub use tx::Tx;
pub use value::{Row, Value};
