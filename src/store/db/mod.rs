//! The only code that knows a driver: connections, transactions, statements, limits, migrations. What is above it
//! writes SQL in PostgreSQL's words, and sees values, rows and errors that are the same for both databases.
//!
//! A connection whose state is not known is closed (`pool.rs`); each operation runs to its end in a task of its own,
//! within a limit (`limit.rs`). PostgreSQL's sessions are sqlx's; each of SQLite's connections has a thread of its own
//! (`sqlite/session.rs`), and what goes there is one hop, whatever it does.

mod backend;
mod door;
mod error;
pub(in crate::store) mod limit;
pub(in crate::store) mod migrations;
mod opening;
pub(in crate::store) mod pool;
pub(in crate::store) mod postgres;
mod program_migrations;
mod schema_state;
mod session;
pub(in crate::store) mod sqlite;
mod store_error;
mod translate;
mod tx;
mod value;
pub(in crate::store) mod warnings;

pub(in crate::store) use backend::{Backend, Purpose};
pub(in crate::store) use door::Door;
pub use error::DbError;
pub(in crate::store) use error::DbResult;
pub(in crate::store) use migrations::Migration;
pub(crate) use opening::waiting;
pub use opening::{Pooling, PostgresSettings, StoreSettings};
pub use program_migrations::{MigrationStep, ProgramMigrationError};
pub use schema_state::SchemaState;
pub use store_error::StoreError;
pub use tx::Tx;
pub use value::{Row, Value};
