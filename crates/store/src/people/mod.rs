//! The store as people see it: every read and every decision of theirs, checked against who asks.
//!
//! The API holds a [`PeopleDoor`] and no store: whatever a route forgets, nothing is read or changed that the token's
//! role and scope do not cover. What is out of scope is answered as if it were not there.
//!
//! To read it: `person.rs` (who asks, the checks, and what a list may show), then a file for each subject. Of events:
//! `events.rs` lists them, `activity.rs` has what the nodes counted, `walk.rs` finds pages and numbers of a time and counts them, `ledger.rs` has all that is known
//! of one, `search.rs` finds what an id leads to. `messages.rs`, `destinations.rs` (with lanes, and what judgements of
//! messages need), `providers.rs` (with rejected requests and test events) and `tokens.rs` (with the audit log) are the
//! rest; `decisions.rs` is what people order.

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

/// The statements of what people look at, in the words of both databases, by name.
pub fn people_statements() -> Vec<(&'static str, &'static str)> {
    let fixed = [destinations::STATEMENTS, providers::STATEMENTS, tokens::STATEMENTS].concat();
    leaked(messages::statements()).chain(fixed).collect()
}

/// The statements of what people read of events, likewise.
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
