//! Statements by name, for tests that look at their plans.

use super::{admission, look, message};

/// The statements of the hot operations on PostgreSQL, by name, for tests that look at their plans.
#[doc(hidden)]
pub fn statements() -> Vec<(&'static str, &'static str)> {
    [admission::STATEMENTS, message::STATEMENTS].concat()
}

/// Those of lists that people look at, in the words of both databases, likewise.
#[doc(hidden)]
pub fn list_statements() -> &'static [(&'static str, &'static str)] {
    look::STATEMENTS
}
