//! Statements of lists by name, for tests that look at their plans.

use super::{audit, destinations, lanes, message_sources, providers, rejected};

/// The statements of what people look at, in the words of both databases, by name.
pub fn people_statements() -> Vec<(&'static str, &'static str)> {
    [
        message_sources::STATEMENTS,
        lanes::STATEMENTS,
        destinations::STATEMENTS,
        providers::STATEMENTS,
        rejected::STATEMENTS,
        audit::STATEMENTS,
    ]
    .concat()
}
