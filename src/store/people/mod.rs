//! The store as people see it: every read and every decision of theirs, checked against who asks.
//!
//! The API holds a [`PeopleDoor`] and no store: whatever a route forgets, nothing is read or changed that the token's
//! role and scope do not cover. What is out of scope is answered as if it were not there.
//!
//! To read it: `person.rs` (who asks, and the checks), then a file for each subject: `events.rs` lists events, with
//! `cursor.rs` (where a page begins) and `walk.rs` (which numbers a time has), `statistics.rs` counts them, `ledger.rs`
//! tells all that is known of one, from the rows of `ledger_rows.rs`, and `search.rs` finds what an id leads to, with
//! `search_rows.rs`. `rows.rs` reads what several of them show.

mod cursor;
mod events;
mod ledger;
mod ledger_rows;
mod person;
mod rows;
mod search;
mod search_rows;
mod statistics;
mod walk;

pub use cursor::EventPlace;
pub use events::EventQuery;
pub use person::{People, PeopleDoor, PeopleError};

/// The statements of people's reads by name, for tests that look at their plans.
pub(super) fn statements() -> Vec<(&'static str, &'static str)> {
    [
        walk::STATEMENTS,
        events::STATEMENTS,
        statistics::STATEMENTS,
        ledger_rows::STATEMENTS,
        search_rows::STATEMENTS,
    ]
    .concat()
}
