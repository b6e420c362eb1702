//! What `/metrics` says of this node: what it counts itself, what only the tables know, and what the system says.
//!
//! A scrape asks nobody: it sets what stands in memory and writes all down. What the tables know is counted in the
//! background (`counting.rs`), bounded by indexes and in time, and `hooklatch_counted_timestamp_seconds` says when.
//!
//! `recorder.rs` is where all that is counted arrives; `live.rs` is what is read at each scrape; `counts.rs` publishes what
//! was counted, `rhythms.rs` how often senders send, `activity.rs` is what `/v1/activity` reads, `system.rs` files and disk; `told.rs` is the build and the configuration. `numbers.rs`
//! says all of it as Prometheus wants it.

mod activity;
mod counting;
mod counts;
mod live;
mod numbers;
mod recorder;
mod rhythms;
mod system;
mod told;

pub(super) use activity::NodeActivity;
pub(super) use counting::Counting;
pub(super) use counts::Counts;
pub(super) use live::LiveGauges;
pub(super) use recorder::metrics_handle;
pub(super) use rhythms::Rhythms;
pub(super) use told::{take_back, tell};
