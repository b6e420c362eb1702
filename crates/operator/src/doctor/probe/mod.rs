//! A request that takes the path of a sender's and makes no event: the receiver answers with what arrived of it.
//!
//! `key.rs` makes tokens that any node of the installation can check without storing them; `arrival.rs` is what the
//! receiver answers; `plan.rs` is which requests are sent, and `judge.rs` turns their results into findings. The client
//! that sends them is in `src/cli/doctor.rs`.

mod arrival;
mod judge;
mod key;
mod plan;

pub use arrival::{PROBE_HEADER, probe_answer, probe_token};
pub use judge::{ProbeHeard, judge};
pub use key::{AnswerKey, ProbeKey};
pub use plan::{ProbeRequest, plan};
