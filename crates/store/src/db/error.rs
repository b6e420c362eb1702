//! The errors of a database or its driver, without the driver's types.
//!
//! The errors of the store, classified by what the caller can do about them.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use hooklatch_core::seal::SealError;

/// Reason why a statement, or a connection, did not do what it was asked. `Display` is what the database or
/// its driver says.
#[derive(Debug)]
pub struct DbError {
    kind: ErrorKind,
    /// SQLSTATE, or SQLite's extended result code as a number.
    code: Option<String>,
    source: Box<dyn Error + Send + Sync>,
}

/// Result of what a database was asked.
pub(crate) type DbResult<T> = Result<T, DbError>;

/// Sorted by what is known of the connection, and by whether the same may work later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ErrorKind {
    /// An error that the database reported for a statement; its code says which.
    Answer,
    /// A row that must be there is not.
    Vanished,
    /// The answer is not the one that was expected.
    Odd,
    /// A cell holds what no version writes there: its row is damaged.
    Damaged,
    /// The question could not be put to it.
    Unsaid,
    /// A transaction that must be open is not.
    NoTransaction,
    /// The state of the connection is not known, or there is no connection.
    Lost,
}

/// Meaning of an error for the statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The database refused this very statement.
    Refused,
    /// It was given up for another transaction.
    Conflict,
    /// It waited too long for another transaction.
    Locked,
    /// A row that must be there is not: another transaction deleted it in between.
    Vanished,
    /// It may work later; when is not known.
    Away,
}

impl DbError {
    /// There was no response within `limit`.
    pub(crate) fn no_answer(limit: Duration) -> Self {
        Self::lost(format!("no answer within {} s", limit.as_secs()))
    }

    /// The row that must be there is not.
    pub(crate) fn vanished() -> Self {
        Self::of(ErrorKind::Vanished, "a row that must be there is not")
    }

    /// A cell holds what no version writes there.
    pub(crate) fn decode(column: &str, value: impl fmt::Display) -> Self {
        Self::of(ErrorKind::Damaged, format!("column `{column}` holds {value}"))
    }

    /// A row has no column of this name: the statement is wrong, not the row.
    pub(crate) fn no_column(column: &str) -> Self {
        Self::of(ErrorKind::Odd, format!("the row has no column `{column}`"))
    }

    /// True when a row cannot be read although the database gave it: no other row of its table is concerned.
    pub(crate) fn is_damage(&self) -> bool {
        self.kind == ErrorKind::Damaged
    }

    /// True when SQLite cannot read the pages of its file.
    pub(crate) fn is_corruption(&self) -> bool {
        // The primary codes CORRUPT and NOTADB.
        self.code().and_then(of_sqlite).is_some_and(|number| matches!(number & 0xff, 11 | 26))
    }

    /// Adds the table and the key of its row to an error about damage.
    pub(crate) fn of_row(self, table: &str, key: &str) -> Self {
        if self.is_damage() {
            Self::of(ErrorKind::Damaged, format!("`{table}` row `{key}`: {self}"))
        } else {
            self
        }
    }

    /// The connection can only be closed, or there is no connection.
    pub(crate) fn lost(why: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::of(ErrorKind::Lost, why)
    }

    /// No transaction is open where one must be.
    pub(crate) fn no_transaction() -> Self {
        Self::of(ErrorKind::NoTransaction, "the transaction has ended already")
    }

    /// The database does not understand the statement, or its values do not fit.
    pub(crate) fn unsaid(why: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::of(ErrorKind::Unsaid, why)
    }

    fn of(kind: ErrorKind, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind, code: None, source: source.into() }
    }

    /// SQLSTATE of PostgreSQL (five characters), or SQLite's extended result code (one to four digits); `None` when it
    /// was not the database that spoke.
    pub fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    /// True when it is about a transaction that has ended, or a savepoint of one.
    pub(crate) fn is_of_no_transaction(&self) -> bool {
        // SQLite has one code for every statement that makes no sense.
        self.kind == ErrorKind::NoTransaction || matches!(self.code(), Some("25P01" | "3B001" | "1"))
    }

    /// True when it is the database's verdict on a statement, or on what it answered, after which its
    /// connection is as good as before. Not so: no answer, a server that stops or only reads, a disk that
    /// fails.
    pub(crate) fn is_server_error(&self) -> bool {
        let Some(code) = self.code() else {
            return matches!(
                self.kind,
                ErrorKind::Vanished | ErrorKind::Odd | ErrorKind::Damaged | ErrorKind::NoTransaction
            );
        };
        if let Some(number) = of_sqlite(code) {
            // NOMEM, READONLY, INTERRUPT, IOERR, CORRUPT, FULL, CANTOPEN, PROTOCOL, NOTADB.
            return !matches!(number & 0xff, 7..=11 | 13..=15 | 26);
        }
        // PostgreSQL's classes: connection, operator intervention, system error, internal error. Then read-only, and
        // time-outs that end a session.
        let classes = ["08", "57", "58", "XX"];
        // The last two mean that the session has other prepared statements than the driver thinks.
        let codes = ["25006", "25P03", "40003", "26000", "42P05"];
        !classes.iter().any(|class| code.starts_with(class)) && !codes.contains(&code)
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let Some(code) = self.code() else {
            return match self.kind {
                ErrorKind::Vanished => Verdict::Vanished,
                ErrorKind::Odd | ErrorKind::Damaged | ErrorKind::Unsaid | ErrorKind::NoTransaction => {
                    Verdict::Refused
                }
                ErrorKind::Answer | ErrorKind::Lost => Verdict::Away,
            };
        };
        match of_sqlite(code) {
            // The primary code: BUSY, LOCKED, READONLY, INTERRUPT, IOERR, FULL, CANTOPEN.
            Some(number) => match number & 0xff {
                5 | 6 | 8 | 9 | 10 | 13 | 14 => Verdict::Away,
                _ => Verdict::Refused,
            },
            None => of_sqlstate(code),
        }
    }
}

/// The error of a cell that holds what no version writes there.
pub fn decode_error(column: &str, value: impl fmt::Display) -> DbError {
    DbError::decode(column, value)
}

/// SQLite's codes have at most four digits; PostgreSQL's have five characters.
fn of_sqlite(code: &str) -> Option<u32> {
    code.parse().ok().filter(|_| code.len() < 5)
}

/// Sorts PostgreSQL's codes, which have five characters.
fn of_sqlstate(code: &str) -> Verdict {
    match code {
        "40001" | "40P01" => Verdict::Conflict,
        "55P03" => Verdict::Locked,
        // The message is larger than the protocol takes: that counts as too large, whatever the class says.
        "08P01" => Verdict::Refused,
        "25006" | "25P03" | "40003" => Verdict::Away,
        _ if ["08", "53", "57", "58"].iter().any(|class| code.starts_with(class)) => Verdict::Away,
        _ => Verdict::Refused,
    }
}

impl fmt::Display for DbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.source, f)
    }
}

impl Error for DbError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.source()
    }
}

impl From<SealError> for DbError {
    fn from(error: SealError) -> Self {
        Self::unsaid(error)
    }
}

impl From<sqlx::Error> for DbError {
    fn from(error: sqlx::Error) -> Self {
        let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
        if let Some(code) = code.map(std::borrow::Cow::into_owned) {
            return Self { kind: ErrorKind::Answer, code: Some(code), source: error.into() };
        }
        let kind = match &error {
            sqlx::Error::RowNotFound => ErrorKind::Vanished,
            sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::ColumnIndexOutOfBounds { .. }
            | sqlx::Error::ColumnNotFound(_)
            | sqlx::Error::Decode(_) => ErrorKind::Odd,
            sqlx::Error::Encode(_) | sqlx::Error::InvalidArgument(_) => ErrorKind::Unsaid,
            _ => ErrorKind::Lost,
        };
        Self::of(kind, error)
    }
}

impl From<rusqlite::Error> for DbError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::Error as E;
        let kind = match &error {
            E::SqliteFailure(code, _) | E::SqlInputError { error: code, .. } => {
                let code = Some(code.extended_code.to_string());
                return Self { kind: ErrorKind::Answer, code, source: error.into() };
            }
            E::QueryReturnedNoRows => ErrorKind::Vanished,
            E::FromSqlConversionFailure(..)
            | E::IntegralValueOutOfRange(..)
            | E::Utf8Error(..)
            | E::InvalidColumnIndex(_)
            | E::InvalidColumnName(_)
            | E::InvalidColumnType(..)
            | E::QueryReturnedMoreThanOneRow
            | E::StatementChangedRows(_)
            | E::ExecuteReturnedResults => ErrorKind::Odd,
            E::NulError(_)
            | E::InvalidParameterName(_)
            | E::ToSqlConversionFailure(_)
            | E::InvalidQuery
            | E::MultipleStatement
            | E::InvalidParameterCount(..) => ErrorKind::Unsaid,
            _ => ErrorKind::Lost,
        };
        Self::of(kind, error)
    }
}

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
    /// Another transaction deleted a row that was there a moment ago, and nothing was done.
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
    pub(crate) fn from_db(op: &'static str, source: DbError) -> Self {
        match source.verdict() {
            Verdict::Refused => Self::Query { op, source },
            Verdict::Conflict => Self::Conflict { op, source },
            Verdict::Locked => Self::Locked { op, source },
            Verdict::Vanished => Self::Vanished { op },
            Verdict::Away => Self::Unavailable { op, source },
        }
    }

    /// There was no response within `limit`; the operation may have been carried out.
    pub fn silent(op: &'static str, limit: std::time::Duration) -> Self {
        Self::Unavailable { op, source: DbError::no_answer(limit) }
    }

    /// A failed COMMIT, or a statement that commits by itself: not done, or not known.
    pub(crate) fn from_commit(source: DbError) -> Self {
        match Self::from_db("commit", source) {
            Self::Unavailable { source, .. } => Self::CommitUnknown { source },
            not_done => not_done,
        }
    }

    /// True when its connection is as good as before.
    pub(crate) fn is_server_error(&self) -> bool {
        match self {
            Self::Unavailable { source, .. }
            | Self::Conflict { source, .. }
            | Self::Locked { source, .. }
            | Self::Query { source, .. } => source.is_server_error(),
            Self::CommitUnknown { .. } => false,
            Self::Vanished { .. } | Self::Inconsistent { .. } | Self::Refused(_) => true,
        }
    }

    /// True when this server does not know what a statement asks for, or our role may not ask it.
    pub(crate) fn is_unasked(&self) -> bool {
        let code = if let Self::Query { source, .. } = self { source.code() } else { None };
        code.is_some_and(|code| code.starts_with("42") || code.starts_with("0A"))
    }

    /// True when a row holds what no version writes; its text says which row and which column.
    pub fn is_damaged_row(&self) -> bool {
        matches!(self, Self::Query { source, .. } if source.is_damage())
    }

    /// True when a savepoint was asked for that is not there, because its transaction has ended.
    pub fn is_of_no_transaction(&self) -> bool {
        matches!(self, Self::Query { source, .. } if source.is_of_no_transaction())
    }

    pub(crate) fn inconsistent(table: &'static str, column: &'static str, id: &str) -> Self {
        Self::Inconsistent { table, column, id: id.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coded(code: &str) -> DbError {
        DbError { kind: ErrorKind::Answer, code: Some(code.to_owned()), source: "x".into() }
    }

    #[test]
    fn an_error_is_sorted_by_what_it_says_of_statement_and_connection() {
        for (code, verdict, is_server_error) in [
            ("1", Verdict::Refused, true),
            ("5", Verdict::Away, true),
            ("8", Verdict::Away, false),
            ("9", Verdict::Away, false),
            ("13", Verdict::Away, false),
            ("2067", Verdict::Refused, true),
            ("266", Verdict::Away, false),
            ("23505", Verdict::Refused, true),
            ("40001", Verdict::Conflict, true),
            ("40P01", Verdict::Conflict, true),
            ("55P03", Verdict::Locked, true),
            ("08006", Verdict::Away, false),
            ("57P01", Verdict::Away, false),
            ("53300", Verdict::Away, true),
            ("25006", Verdict::Away, false),
            ("26000", Verdict::Refused, false),
            ("08P01", Verdict::Refused, false),
        ] {
            let error = coded(code);
            assert_eq!((error.verdict(), error.is_server_error()), (verdict, is_server_error), "{code}");
        }
        let uncoded = [
            (DbError::vanished(), Verdict::Vanished, true),
            (DbError::decode("state", "`x`"), Verdict::Refused, true),
            (DbError::no_answer(Duration::from_secs(5)), Verdict::Away, false),
            (DbError::no_transaction(), Verdict::Refused, true),
            (sqlx::Error::RowNotFound.into(), Verdict::Vanished, true),
            (sqlx::Error::PoolClosed.into(), Verdict::Away, false),
            (rusqlite::Error::QueryReturnedNoRows.into(), Verdict::Vanished, true),
        ];
        for (error, verdict, is_server_error) in uncoded {
            assert_eq!((error.verdict(), error.is_server_error()), (verdict, is_server_error), "{error}");
        }
    }
}
