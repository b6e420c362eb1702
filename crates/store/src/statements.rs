//! Statements by name, for tests that look at their plans.

use super::{admission, decision, event, fetched_key, lane, look, message, operations, rhythm};

/// The statements of the hot operations on PostgreSQL, by name, for tests that look at their plans.
pub fn statements() -> Vec<(&'static str, &'static str)> {
    [admission::STATEMENTS, message::STATEMENTS].concat()
}

/// Returns the statements of lists for operators, in the dialects of both databases.
pub fn list_statements() -> &'static [(&'static str, &'static str)] {
    look::STATEMENTS
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
        decision::MESSAGE_STATEMENTS,
        fetched_key::STATEMENTS,
    ]
    .concat()
}

/// Returns the statements that only `/metrics` uses, in the dialects of both databases.
pub fn meter_statements() -> Vec<(&'static str, &'static str)> {
    rhythm::statements()
}
