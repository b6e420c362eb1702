//! The store as people see it: every read and every decision of theirs, checked against who asks.
//!
//! The API holds a [`PeopleDoor`] and no store: whatever a route forgets, nothing is read or changed that the token's
//! role and scope do not cover. What is out of scope is answered as if it were not there.
//!
//! To read it: `person.rs` (who asks, and the checks), `choice.rs` (what a list may show), then a file for each subject.
//! `causes.rs` counts failures by their error. Of events: `events.rs` lists them, with `cursor.rs` (where a page begins) and `walk.rs` (which numbers a time has),
//! `statistics.rs` counts them, `ledger.rs` tells all that is known of one, from the rows of `ledger_rows.rs`, and
//! `search.rs` finds what an id leads to, with `search_rows.rs`. Of the rest:
//! `message_sources.rs` (where messages are looked for, and how far), `messages.rs`, `message.rs`, `surroundings.rs` (what judgements of messages need), `lanes.rs`,
//! `destinations.rs`, `providers.rs`, `rejected.rs`, `audit.rs`, `tokens.rs`, `test_events.rs`, `what_if.rs`, `known.rs`; `decisions.rs` and
//! `operations.rs` are what they order. `statements.rs` lists statements for tests.
//!
//! Statements of lists by name, for tests that look at their plans.

mod decisions;
mod destinations;
mod events;
mod ledger;
mod messages;
mod person;
mod providers;
mod search;
mod tokens;
mod walk;

use super::event::DELIVERY_STATEMENTS;
use super::operations;

pub use destinations::{DestinationStanding, LanePlace, Surroundings};
pub use events::EventQuery;
pub(in crate::store) use messages::{message_view, open_destinations};
pub use person::{People, PeopleDoor, PeopleError};
pub use providers::{ProviderStanding, RejectedQuery, WaitingEvents};
pub use search::Unsearched;
pub use tokens::{NewToken, TokenMaking};
pub use walk::EventPlace;

/// The statements of what people look at, in the words of both databases, by name.
pub fn people_statements() -> Vec<(&'static str, &'static str)> {
    [messages::STATEMENTS, destinations::STATEMENTS, providers::STATEMENTS, tokens::STATEMENTS].concat()
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
        ledger::STATEMENTS,
        search::STATEMENTS,
        DELIVERY_STATEMENTS,
    ]
    .concat()
}
