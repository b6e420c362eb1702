//! The store as operators see it: every read and every decision of theirs, checked against their role and scope.
//!
//! The API holds a [`PeopleDoor`] and no store: even if a route forgets a check, nothing is read or changed that the
//! token's role and scope do not cover. What is out of scope is answered as if it did not exist.
//!
//! Reading order: `person.rs` (the operator, the checks, and what a list may show), then a file for each subject. Of
//! events: `events.rs` lists them, `activity.rs` has the counts of the nodes, `walk.rs` finds and counts pages and
//! numbers of a time, `ledger.rs` has all that is known of one, `search.rs` finds what an id leads to. `messages.rs`,
//! `destinations.rs` (with lanes, and facts for judgements of messages), `providers.rs` (with rejected requests and
//! test events) and `tokens.rs` (with the audit log) are the rest; `decisions.rs` has decisions and orders.

mod activity;
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

pub use activity::{ActivityCounts, ActivityQuery, ActivitySubject};
pub use destinations::{DestinationStanding, LanePlace, Surroundings};
pub use events::EventQuery;
pub(crate) use messages::{message_view, open_destinations};
pub use person::{People, PeopleDoor, PeopleError};
pub use providers::{ProviderStanding, RejectedQuery, WaitingEvents};
pub use search::Unsearched;
pub use tokens::{NewToken, TokenMaking};
pub use walk::EventPlace;

/// The statements of the views of operators, in the dialects of both databases, by name.
pub fn people_statements() -> Vec<(&'static str, &'static str)> {
    let fixed = [destinations::STATEMENTS, providers::STATEMENTS, tokens::STATEMENTS].concat();
    leaked(messages::statements()).chain(fixed).collect()
}

/// The statements of what operators read of events, likewise.
pub fn read_statements() -> Vec<(&'static str, &'static str)> {
    let [sets, previews, orders] = operations::STATEMENTS;
    let fixed = [
        sets,
        previews,
        orders,
        walk::STATEMENTS,
        activity::STATEMENTS,
        ledger::STATEMENTS,
        search::STATEMENTS,
        DELIVERY_STATEMENTS,
    ]
    .concat();
    leaked(events::statements()).chain(fixed).collect()
}

/// Statements that were built, as tests hold them.
fn leaked(built: Vec<(&'static str, String)>) -> impl Iterator<Item = (&'static str, &'static str)> {
    built.into_iter().map(|(name, sql)| (name, &*sql.leak()))
}
