//! The metrics of this node in `/metrics`: its own counters, counts from the tables, and values of the system.
//!
//! A scrape queries nothing: it sets the gauges that are in memory and renders all metrics. What needs the database is
//! counted in the background (`counting.rs`), bounded by indexes and in time; `hooklatch_counted_timestamp_seconds`
//! says when.
//!
//! `recorder.rs` installs the recorder that all counters reach; `live.rs` is read at each scrape; `counts.rs` publishes
//! the background counts, `rhythms.rs` how often senders send, `info.rs` the build and the configuration, `system.rs`
//! files and disk; `activity.rs` feeds `/v1/activity`. `numbers.rs` converts values to what Prometheus expects.

mod activity;
mod counting;
mod counts;
mod info;
mod live;
mod numbers;
mod recorder;
mod rhythms;
mod system;

pub(super) use activity::NodeActivity;
pub(super) use counting::Counting;
pub(super) use counts::Counts;
pub(super) use info::{publish_info, withdraw_info};
pub(super) use live::LiveGauges;
pub(super) use recorder::metrics_handle;
pub(super) use rhythms::Rhythms;
