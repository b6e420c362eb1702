//! Statements of lists by name, for tests that look at their plans.

use super::{activity, audit, destinations, lanes, message_sources, providers, rejected};
use super::{causes, events, ledger_rows, search_rows, statistics, surroundings, walk};
use crate::store::event::DELIVERY_STATEMENTS;
use crate::store::operations;

/// The statements of what people look at, in the words of both databases, by name.
pub fn people_statements() -> Vec<(&'static str, &'static str)> {
    [
        message_sources::STATEMENTS,
        lanes::STATEMENTS,
        destinations::STATEMENTS,
        providers::STATEMENTS,
        rejected::STATEMENTS,
        audit::STATEMENTS,
        surroundings::STATEMENTS,
    ]
    .concat()
}

/// The statements of what people read of events, likewise.
pub fn read_statements() -> Vec<(&'static str, &'static str)> {
    let [sets, previews, orders] = operations::STATEMENTS;
    [
        sets,
        previews,
        orders,
        walk::STATEMENTS,
        events::STATEMENTS,
        activity::STATEMENTS,
        statistics::STATEMENTS,
        ledger_rows::STATEMENTS,
        search_rows::STATEMENTS,
        DELIVERY_STATEMENTS,
        causes::STATEMENTS,
    ]
    .concat()
}
