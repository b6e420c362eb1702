//! Statements by name, for tests that look at their plans. Those that operators use are in `queries/`.

use super::{admission, db, decision, event, fetched_key, lane, look, message, operations, rhythm};

/// The statements of the hot operations on PostgreSQL.
pub fn statements() -> Vec<(&'static str, &'static str)> {
    [admission::STATEMENTS, message::STATEMENTS].concat()
}

/// Returns the statements that outbox, lanes, retries and operations need beside the hot ones, in the dialects of both
/// databases: `{clock_ms}` is the database's clock.
pub fn rare_statements() -> Vec<(&'static str, &'static str)> {
    [
        message::RARE_STATEMENTS,
        lane::STATEMENTS,
        event::DUE_STATEMENTS,
        event::PARTS_STATEMENTS,
        operations::BATCH_STATEMENTS,
        decision::STATEMENTS,
        fetched_key::STATEMENTS,
    ]
    .concat()
}

/// Returns a statement as SQLite gets it.
pub fn statement_for_sqlite(sql: &str) -> String {
    db::to_sqlite(sql)
}

/// Returns the statements that only `/metrics` uses, and that of the looks, in the dialects of both databases.
pub fn meter_statements() -> Vec<(&'static str, &'static str)> {
    [rhythm::statements(), look::STATEMENTS.to_vec()].concat()
}
