//! The doctor: what only a live system shows, as findings that name the figure, the bound, what it means and the remedy.
//!
//! Data in, findings out, and the judgement is here alone: the API returns the findings, `hooklatch doctor` prints
//! them.
//!
//! In reading order: `check.rs` is the list of checks; `bounded.rs` gives each check its own time limit. `server.rs`
//! judges PostgreSQL, `tables.rs` its tables, `file.rs` and `witness.rs` SQLite, `schema.rs` the schema of either;
//! `clocks.rs`, `senders.rs`, `destinations.rs`, `handshakes.rs` and `node.rs` judge their subject. `database.rs`
//! examines a database whether a server runs or not, `examine.rs` a running node. `probe/` is the way to the receiver,
//! seen from outside.
//!
//! The doctor changes nothing, and every query has a time limit.

mod bounded;
pub mod check;
mod clocks;
mod database;
mod destinations;
mod examine;
mod file;
mod handshakes;
mod node;
mod probe;
mod schema;
mod senders;
mod server;
mod tables;
mod witness;

pub use bounded::{LOOK_LIMIT, bounded};
pub use check::{CONFIG, DESTINATIONS, PLAIN, REACHED, SECRETS, SERVER, in_order};
pub use database::database;
pub use destinations::destinations;
pub use examine::{DoctorParts, NodeDoctor};
pub use node::{FileFacts, days_left, warnings};
pub use probe::{
    AnswerKey, PROBE_HEADER, ProbeHeard, ProbeKey, ProbeRequest, judge, plan, probe_answer, probe_token,
};
pub use senders::{paths, senders};
