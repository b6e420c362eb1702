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

mod audit;
mod causes;
mod choice;
mod cursor;
mod decisions;
mod destinations;
mod events;
mod known;
mod lanes;
mod ledger;
mod ledger_rows;
mod message;
mod message_sources;
mod messages;
mod operations;
mod person;
mod providers;
mod rejected;
mod search;
mod search_rows;
mod statements;
mod statistics;
mod surroundings;
mod test_events;
mod tokens;
mod walk;
mod what_if;

pub use cursor::EventPlace;
pub use destinations::DestinationStanding;
pub use events::EventQuery;
pub use lanes::LanePlace;
pub(in crate::store) use message_sources::open_destinations;
pub(in crate::store) use messages::message_view;
pub use person::{People, PeopleDoor, PeopleError};
pub use providers::{ProviderStanding, WaitingEvents};
pub use rejected::RejectedQuery;
pub use search::Unsearched;
pub use statements::{people_statements, read_statements};
pub use surroundings::Surroundings;
pub use tokens::{NewToken, TokenMaking};
