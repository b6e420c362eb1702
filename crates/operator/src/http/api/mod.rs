//! The operators' API under `/v1`: shows events and messages, and takes a person's decisions about them.
//!
//! Every request needs a bearer token; deciding needs the role `operator` and an `Idempotency-Key`. In reading order:
//! `routes.rs` is the list of routes; `state.rs` what all of them need, and the caller; `query.rs` parses the query of
//! a list; `decide.rs` parses the body of a POST, which `shape.rs` checks against its schema, and takes decisions about
//! one subject, `operations.rs` those about many. `events.rs`, `messages.rs` (with lanes and judgements),
//! `destinations.rs`, `providers.rs`, `figures.rs`, `records.rs`, `questions.rs`, `doctor.rs`, `tokens.rs` and
//! `test_events.rs` have the other routes. It decides nothing itself: the effect of a decision is written in `store`.

mod decide;
mod destinations;
mod doctor;
mod events;
mod figures;
mod messages;
mod operations;
mod providers;
mod query;
mod questions;
mod records;
mod routes;
mod shape;
mod state;
mod test_events;
mod tokens;

pub use routes::{inner_router, router};
pub use state::{ApiState, DestinationFacts, ProbeFacts, ProviderFacts};
