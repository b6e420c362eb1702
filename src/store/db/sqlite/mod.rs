//! SQLite: one writer, several readers, WAL, every commit flushed. Each connection has a thread of its own.
//!
//! To read it: `pools.rs` (what each connection is for, and what a file must be like), `session.rs` (a connection and
//! its thread), `statement.rs` (statements and transactions on it), `file.rs` (the file itself), `identity.rs` (that it is
//! still the one at its path, and what is kept beside it to know an older copy by), `copy.rs` (a backup of it).

mod copy;
mod file;
mod identity;
mod pools;
mod session;
pub(in crate::store::db) mod statement;
#[cfg(test)]
mod tests;

pub(crate) use copy::{FileKey, copy_file};
pub(crate) use file::path as sqlite_path;
pub(in crate::store) use identity::{WitnessTurn, Witnessed};
pub(in crate::store) use pools::Sqlite;
pub(super) use pools::open;
#[cfg(test)]
pub(in crate::store::db) use pools::opened;
pub(in crate::store) use session::SqliteSession;
