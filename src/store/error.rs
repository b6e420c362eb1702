//! Why the store did not do what it was asked, sorted by what the caller can do about it.

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database is away, busy or full: answer 503, back off, try again.
    #[error("database is not available for `{op}`: {source}")]
    Unavailable {
        /// Which operation.
        op: &'static str,
        /// What the driver says.
        source: sqlx::Error,
    },
    /// The transaction was given up for another one's sake (a deadlock, say), and left nothing: the same may work at
    /// once.
    #[error("database gave up `{op}` for another transaction: {source}")]
    Conflict {
        /// Which operation.
        op: &'static str,
        /// What the driver says.
        source: sqlx::Error,
    },
    /// Another transaction held a row for longer than we wait, and nothing was done.
    #[error("another transaction is in the way of `{op}`: {source}")]
    Locked {
        /// Which operation.
        op: &'static str,
        /// What the driver says.
        source: sqlx::Error,
    },
    /// The database refused the statement: trying the same again is no use.
    #[error("database refused `{op}`: {source}")]
    Query {
        /// Which operation.
        op: &'static str,
        /// What the driver says.
        source: sqlx::Error,
    },
    /// The connection was lost before the commit was confirmed; it may have happened.
    #[error("commit was not confirmed: {source}")]
    CommitUnknown {
        /// What the driver says.
        source: sqlx::Error,
    },
    /// A row holds what no version of ours writes.
    #[error("`{table}` row `{id}` holds an impossible `{column}`")]
    Inconsistent {
        /// Which table.
        table: &'static str,
        /// Which column.
        column: &'static str,
        /// Which row.
        id: String,
    },
    /// The database is not one that can be trusted with money; the remedy is in the text.
    #[error("{0}")]
    Refused(String),
}

impl StoreError {
    pub(super) fn from_sqlx(op: &'static str, source: sqlx::Error) -> Self {
        match verdict(&source) {
            Verdict::Refused => Self::Query { op, source },
            Verdict::Conflict => Self::Conflict { op, source },
            Verdict::Locked => Self::Locked { op, source },
            Verdict::Away => Self::Unavailable { op, source },
        }
    }

    /// Nothing came within `limit`; what was asked may have happened.
    pub(super) fn silent(op: &'static str, limit: std::time::Duration) -> Self {
        Self::Unavailable { op, source: super::limit::no_answer(limit) }
    }

    /// A failed COMMIT, or a statement that commits by itself: not done, or not known.
    pub(super) fn from_commit(source: sqlx::Error) -> Self {
        match Self::from_sqlx("commit", source) {
            Self::Unavailable { source, .. } => Self::CommitUnknown { source },
            not_done => not_done,
        }
    }

    /// Whether a savepoint was asked for that is not there, because its transaction has ended.
    pub(crate) fn is_of_no_transaction(&self) -> bool {
        let Self::Query { source, .. } = self else { return false };
        let code = source.as_database_error().and_then(sqlx::error::DatabaseError::code);
        // SQLite has one code for every statement that makes no sense.
        code.is_some_and(|code| matches!(code.as_ref(), "25P01" | "3B001" | "1"))
    }

    pub(super) fn inconsistent(table: &'static str, column: &'static str, id: &str) -> Self {
        Self::Inconsistent { table, column, id: id.to_owned() }
    }
}

/// What an error says about the statement.
enum Verdict {
    /// The database refused this very statement.
    Refused,
    /// It was given up for another transaction.
    Conflict,
    /// It waited too long for another transaction.
    Locked,
    /// It may work later, and nobody can say when.
    Away,
}

fn verdict(error: &sqlx::Error) -> Verdict {
    let Some(code) = error.as_database_error().and_then(sqlx::error::DatabaseError::code) else {
        return match error {
            sqlx::Error::RowNotFound
            | sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::ColumnNotFound(_)
            | sqlx::Error::Encode(_)
            | sqlx::Error::Decode(_) => Verdict::Refused,
            _ => Verdict::Away,
        };
    };
    match code.parse::<u32>() {
        // SQLite's primary result code: BUSY, LOCKED, READONLY, IOERR, FULL, CANTOPEN. Its codes have at
        // most four digits; PostgreSQL's have five characters.
        Ok(number) if code.len() < 5 => match number & 0xff {
            5 | 6 | 8 | 10 | 13 | 14 => Verdict::Away,
            _ => Verdict::Refused,
        },
        _ => of_sqlstate(&code),
    }
}

/// PostgreSQL's five characters.
fn of_sqlstate(code: &str) -> Verdict {
    match code {
        "40001" | "40P01" => Verdict::Conflict,
        "55P03" => Verdict::Locked,
        // A message beyond what the protocol takes: too large, whatever the class says.
        "08P01" => Verdict::Refused,
        "25006" | "25P03" | "40003" => Verdict::Away,
        _ if ["08", "53", "57", "58"].iter().any(|class| code.starts_with(class)) => Verdict::Away,
        _ => Verdict::Refused,
    }
}

#[cfg(test)]
impl StoreError {
    /// One of each sort whose source does not matter: conflict, locked, refused, away.
    pub(crate) fn examples() -> [Self; 4] {
        let (op, source) = ("x", || sqlx::Error::PoolClosed);
        [
            Self::Conflict { op, source: source() },
            Self::Locked { op, source: source() },
            Self::Query { op, source: source() },
            Self::Unavailable { op, source: source() },
        ]
    }
}
