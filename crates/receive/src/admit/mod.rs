//! Admission: from read events to one commit, and the answer that it allows.
//!
//! A request hands its events to a queue and awaits a one-shot answer; it never touches the database itself, because a
//! client that hangs up cancels it. P1 (a 2xx only after the commit) and P2 (one effect for any number of copies) are
//! kept here.
//!
//! Reading order:
//!
//! - `admitter.rs` is the entrance; `submission.rs` is one request on its way, and `admitted.rs` the answer to it;
//! - `committer.rs` commits what waits, together: `batch.rs` says how much, `commit.rs` is one pass;
//! - `transactional.rs` admits events whose handlers write in the same transaction, each request in one of its own, by
//!   turns (`fair.rs`); `retry.rs` dispatches again what failed for now, and what waited while its provider was paused
//!   (`pauses.rs`);
//! - what all three share: `decision.rs` and `plan.rs` decide, without I/O, what becomes of an event
//!   (`dispatched.rs`; `restored.rs` after a restore); `dispatch.rs` runs
//!   handlers and `failures.rs` contains them; `slots.rs` and `handover.rs` start calls right after the commit;
//! - `what_if/` runs handlers on stored events without writing, for people who want to know before they deploy;
//! - what they stand on: `context.rs`, `entry.rs` (one provider), `room.rs` (memory), `templates.rs`, `unreadable.rs`,
//!   `under_way.rs`.
//!
//! Not here: what a statement looks like (`store/`), and how a message is sent (`outbox/`).

mod admitted;
mod admitter;
mod batch;
mod commit;
mod committer;
mod context;
mod decision;
mod dispatch;
mod dispatched;
mod entry;
mod failures;
mod fair;
mod handover;
mod large;
mod large_places;
mod pauses;
mod plan;
mod restored;
mod retry;
mod room;
mod slots;
mod submission;
mod templates;
mod transactional;
mod under_way;
mod unreadable;
mod what_if;

pub use admitted::{AdmitError, AdmittedEvents};
pub use admitter::{AdmitTasks, Admitter, admitter};
pub use context::AdmitContext;
pub use entry::{CallerRules, ProviderEntry, ProviderTable, Providers};
pub use pauses::{load_pauses, run_pauses};
pub use plan::Planner;
pub use retry::run_retries;
pub use room::{HeldMemory, LARGE_BYTES, MemoryRoom};
pub use slots::{StartCall, TakeSlot};
pub use templates::{TemplateError, Templates};
pub use under_way::UnderWay;
pub use unreadable::Unreadable;
pub use what_if::{ShownBytes, WhatIf, WhatIfParts};
