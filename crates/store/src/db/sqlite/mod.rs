//! SQLite: one writer, several readers, WAL, every commit flushed. Each connection has its own thread.
//!
//! Reading order: `pools.rs` (the purpose of each connection, and the requirements on a file), `session.rs` (a
//! connection and its thread), `statement.rs` (statements and transactions on it), `file.rs` (the file itself),
//! `identity.rs` (that it is still the one at its path, and the witness by which an older copy is detected), `copy.rs`
//! (a backup of it).

mod copy;
mod file;
mod identity;
mod pools;
mod session;
pub(crate) mod statement;
#[cfg(test)]
mod tests;

pub use copy::{FileKey, copy_file};
pub use file::path as sqlite_path;
pub(crate) use identity::{WitnessTurn, Witnessed};
pub(crate) use pools::Sqlite;
pub(crate) use pools::open;
#[cfg(test)]
pub(crate) use pools::opened;
pub(crate) use session::SqliteSession;
