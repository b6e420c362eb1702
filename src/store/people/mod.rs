//! The store as people see it: every read and every decision of theirs, checked against who asks.
//!
//! The API holds a [`PeopleDoor`] and no store: whatever a route forgets, nothing is read or changed that the token's
//! role and scope do not cover. What is out of scope is answered as if it were not there.
//!
//! To read it: `person.rs` (who asks, and the checks), then a file for each subject: `decisions.rs` and
//! `operations.rs` are what people order.

mod decisions;
mod operations;
mod person;

pub use person::{People, PeopleDoor, PeopleError};
