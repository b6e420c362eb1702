//! The operators' API under `/v1`: shows events and messages, and takes a person's decisions about them.
//!
//! Every request needs a bearer token; deciding needs the role `operator` and an `Idempotency-Key`. In reading order:
//! `routes.rs` is the list of what there is; `order.rs` reads what a POST asks for and `shape.rs` holds it against its schema, `decide.rs` takes a decision, `decisions.rs` has the
//! routes of those about one subject and `operations.rs` of those about many; `events.rs`, `messages.rs`,
//! `lanes.rs`, `destinations.rs`, `requests.rs`, `providers.rs`, `backlog.rs`, `search.rs`, `settings.rs`, `statistics.rs`, `activity.rs`,
//! `doctor.rs`, `tokens.rs`, `test_events.rs`, `what_if.rs` and `explain.rs` have a subject each; `judged.rs` judges messages; `query.rs` reads what a list
//! is asked for; `asking.rs` is who asks, `state.rs` what all of them need. It decides nothing itself: what a decision does is written in
//! `store`.

mod activity;
mod asking;
mod audit;
mod backlog;
mod decide;
mod decisions;
mod destinations;
mod doctor;
mod events;
mod explain;
mod judged;
mod lanes;
mod me;
mod messages;
mod operations;
mod order;
mod providers;
mod query;
mod requests;
mod routes;
mod search;
mod settings;
mod shape;
mod state;
mod statistics;
mod test_events;
mod tokens;
mod what_if;

pub(crate) use routes::{inner_router, router};
pub(crate) use state::{ApiState, DestinationFacts, NodeActivity, ProbeFacts, ProviderFacts};
