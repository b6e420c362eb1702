//! The reasons why the store did not do what it was asked, sorted by what the caller can do about it.

use super::error::DbError;
use super::error::Verdict;

/// Reason why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database is away, busy or full: answer 503, back off, try again.
    #[error("database is not available for `{op}`: {source}")]
    Unavailable {
        /// Name of the operation.
        op: &'static str,
        /// Words of the database or of its driver.
        source: DbError,
    },
    /// The transaction was given up for another one's sake (a deadlock, say), and left nothing: the same may work at
    /// once.
    #[error("database gave up `{op}` for another transaction: {source}")]
    Conflict {
        /// Name of the operation.
        op: &'static str,
        /// Words of the database.
        source: DbError,
    },
    /// Another transaction held a row for longer than we wait, and nothing was done.
    #[error("another transaction is in the way of `{op}`: {source}")]
    Locked {
        /// Name of the operation.
        op: &'static str,
        /// Words of the database.
        source: DbError,
    },
    /// The database refused the statement: trying the same again is no use.
    #[error("database refused `{op}`: {source}")]
    Query {
        /// Name of the operation.
        op: &'static str,
        /// Words of the database.
        source: DbError,
    },
    /// Somebody deleted a row that was there a moment ago, and nothing was done.
    #[error("a row that `{op}` needs was deleted in between")]
    Vanished {
        /// Name of the operation.
        op: &'static str,
    },
    /// The connection was lost before the commit was confirmed; it may have happened.
    #[error("commit was not confirmed: {source}")]
    CommitUnknown {
        /// Words of the database or of its driver.
        source: DbError,
    },
    /// A row holds what no version of ours writes.
    #[error("`{table}` row `{id}` holds an impossible `{column}`")]
    Inconsistent {
        /// Name of the table.
        table: &'static str,
        /// Name of the column.
        column: &'static str,
        /// Key of the row.
        id: String,
    },
    /// The database is not one that can be trusted with money; the remedy is in the text.
    #[error("{0}")]
    Refused(String),
}

impl StoreError {
    /// Returns what a statement of `op` that failed means for its caller.
    pub(in crate::store) fn from_db(op: &'static str, source: DbError) -> Self {
        match source.verdict() {
            Verdict::Refused => Self::Query { op, source },
            Verdict::Conflict => Self::Conflict { op, source },
            Verdict::Locked => Self::Locked { op, source },
            Verdict::Vanished => Self::Vanished { op },
            Verdict::Away => Self::Unavailable { op, source },
        }
    }

    /// Nothing came within `limit`; what was asked may have happened.
    pub(in crate::store) fn silent(op: &'static str, limit: std::time::Duration) -> Self {
        Self::Unavailable { op, source: DbError::no_answer(limit) }
    }

    /// A failed COMMIT, or a statement that commits by itself: not done, or not known.
    pub(in crate::store) fn from_commit(source: DbError) -> Self {
        match Self::from_db("commit", source) {
            Self::Unavailable { source, .. } => Self::CommitUnknown { source },
            not_done => not_done,
        }
    }

    /// True when its connection is as good as before.
    pub(in crate::store) fn is_verdict(&self) -> bool {
        match self {
            Self::Unavailable { source, .. }
            | Self::Conflict { source, .. }
            | Self::Locked { source, .. }
            | Self::Query { source, .. } => source.is_verdict(),
            Self::CommitUnknown { .. } => false,
            Self::Vanished { .. } | Self::Inconsistent { .. } | Self::Refused(_) => true,
        }
    }

    /// True when a row holds what no version writes; its text says which row and which column.
    pub fn is_damaged_row(&self) -> bool {
        matches!(self, Self::Query { source, .. } if source.is_damage())
    }

    /// True when a savepoint was asked for that is not there, because its transaction has ended.
    pub(crate) fn is_of_no_transaction(&self) -> bool {
        matches!(self, Self::Query { source, .. } if source.is_of_no_transaction())
    }

    pub(in crate::store) fn inconsistent(table: &'static str, column: &'static str, id: &str) -> Self {
        Self::Inconsistent { table, column, id: id.to_owned() }
    }
}

#[cfg(test)]
impl StoreError {
    /// One of each sort whose source does not matter: conflict, locked, refused, away.
    pub(crate) fn examples() -> [Self; 4] {
        let (op, source) = ("x", DbError::vanished);
        [
            Self::Conflict { op, source: source() },
            Self::Locked { op, source: source() },
            Self::Query { op, source: source() },
            Self::Unavailable { op, source: source() },
        ]
    }
}
