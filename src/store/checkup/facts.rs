//! What a database says about itself.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// Parts of the schema that are not as the migrations make them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SchemaParts {
    /// Number of parts that are as they should be.
    pub fine_n: usize,
    /// Tables that are not there.
    pub tables_missing: Vec<String>,
    /// Triggers that are not there, or are turned off.
    pub triggers_missing: Vec<String>,
    /// Indexes that are not there, with whether they are unique.
    pub indexes_missing: Vec<(String, bool)>,
    /// Indexes that the database does not use because they were not finished, with whether they are unique.
    pub indexes_unfinished: Vec<(String, bool)>,
    /// Indexes on our tables that are not ours, with whether they are unique.
    pub indexes_others: Vec<(String, bool)>,
}

/// State of a database beside its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseState {
    /// The file of SQLite.
    File(FileState),
    /// A server, with our tables.
    Server(Box<ServerState>),
}

/// State of SQLite's file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileState {
    /// Path of the file.
    pub path: PathBuf,
    /// `wal`, as it should be.
    pub journal: String,
    /// 2 (`FULL`) or more, as it should be.
    pub synchronous: i64,
    /// Length of the file. Bytes.
    pub bytes: i64,
    /// The part of it in which nothing is. Bytes.
    pub free_bytes: i64,
}

/// State of a PostgreSQL server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerState {
    /// Settings by name, as our session has them.
    pub settings: BTreeMap<String, String>,
    /// Settings by name, as a session has them that begins now, where that is known.
    pub coming: BTreeMap<String, String>,
    /// Sessions of clients that are open.
    pub clients_n: i64,
    /// Number of standbys that follow.
    pub standbys_n: i64,
    /// Those of them that a commit waits for.
    pub standbys_sync_n: i64,
    /// Those of them of which our role may not know that.
    pub standbys_hidden_n: i64,
    /// Age of the oldest transaction id in the database.
    pub ids_n: i64,
    /// Age of the oldest open transaction that our role may see. Seconds.
    pub oldest_s: i64,
    /// Prepared transactions that are older than five minutes.
    pub prepared_n: i64,
    /// WAL that replication slots hold which nobody reads. Bytes.
    pub held_bytes: i64,
    /// True when our role may do anything.
    pub is_superuser: bool,
    /// True when our session is encrypted.
    pub is_encrypted: bool,
    /// True when the server is on this machine.
    pub is_local: bool,
    /// Tables in our schema.
    pub tables: Vec<TableState>,
}

/// State of one table of PostgreSQL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableState {
    /// Name of the table.
    pub name: String,
    /// Rows, as the server guesses.
    pub live_n: i64,
    /// Rows that nobody sees any more.
    pub dead_n: i64,
    /// True when autovacuum is turned off for this table.
    pub is_without_vacuum: bool,
    /// Length without what is kept beside it. Bytes.
    pub bytes: i64,
    /// Time since the last vacuum. Seconds.
    pub vacuumed_s: Option<i64>,
}

impl ServerState {
    /// The value of a setting; empty when the server has none of that name.
    pub fn setting(&self, name: &str) -> &str {
        self.settings.get(name).map_or("", String::as_str)
    }

    /// The value of a setting that is a number; 0 when there is none.
    pub fn number(&self, name: &str) -> i64 {
        self.setting(name).parse().unwrap_or_default()
    }
}
