//! The doctor: what only a live system shows, as findings that name the figure, the bound, what it means and the
//! remedy.
//!
//! Data in, findings out, and the judgement is here alone: the API returns the findings, `hooklatch doctor` prints
//! them. `check.rs` is the list of checks; `node.rs` examines a running node, `database.rs` with `server.rs` a database
//! whether a server runs or not, `senders.rs` the providers and `destinations.rs` where calls go; `probe.rs` is the way
//! to the receiver, seen from outside, and `probe_findings.rs` judges it. The doctor changes nothing, and every query
//! has a time limit.

pub mod check;
mod database;
mod destinations;
mod node;
mod probe;
mod probe_findings;
mod senders;
mod server;

pub use check::{CONFIG, PLAIN, REACHED, SERVER, in_order};
pub(crate) use check::{DESTINATIONS, LOOK_LIMIT, SECRETS, bounded};
pub use database::database;
pub(crate) use destinations::destinations;
pub use node::{DoctorParts, FileFacts, NodeDoctor, days_left, warnings};
pub(crate) use probe::{AnswerKey, PROBE_HEADER, probe_answer, probe_token};
pub use probe::{ProbeKey, ProbeRequest, plan};
pub use probe_findings::{ProbeResponse, judge};
pub(crate) use senders::{paths, senders};
