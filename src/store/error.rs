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
        if is_passing(&source) { Self::Unavailable { op, source } } else { Self::Query { op, source } }
    }

    /// Nothing came within `limit`; what was asked may have happened.
    pub(super) fn silent(op: &'static str, limit: std::time::Duration) -> Self {
        Self::Unavailable { op, source: super::limit::no_answer(limit) }
    }

    /// A failed COMMIT: refused by the database, or not known.
    pub(super) fn from_commit(source: sqlx::Error) -> Self {
        if is_passing(&source) {
            Self::CommitUnknown { source }
        } else {
            Self::Query { op: "commit", source }
        }
    }

    pub(super) fn inconsistent(table: &'static str, column: &'static str, id: &str) -> Self {
        Self::Inconsistent { table, column, id: id.to_owned() }
    }
}

/// Whether the same statement may work later: everything but the database's own verdict on it.
fn is_passing(error: &sqlx::Error) -> bool {
    let Some(code) = error.as_database_error().and_then(sqlx::error::DatabaseError::code) else {
        return !matches!(
            error,
            sqlx::Error::RowNotFound
                | sqlx::Error::ColumnDecode { .. }
                | sqlx::Error::ColumnNotFound(_)
                | sqlx::Error::Encode(_)
                | sqlx::Error::Decode(_)
        );
    };
    match code.parse::<u32>() {
        // SQLite's primary result code: BUSY, LOCKED, READONLY, IOERR, FULL, CANTOPEN. Its codes have at
        // most four digits; PostgreSQL's have five characters.
        Ok(number) if code.len() < 5 => matches!(number & 0xff, 5 | 6 | 8 | 10 | 13 | 14),
        _ => {
            let classes = ["08", "53", "57", "58"];
            let codes = ["55P03", "40001", "40P01", "25006", "25P03", "40003"];
            classes.iter().any(|class| code.starts_with(class)) || codes.contains(&code.as_ref())
        }
    }
}
