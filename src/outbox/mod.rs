//! The outbox: leases due messages, makes their calls, settles what came of them.
//!
//! `policy/` decides (pure), `destinations/` calls, `attempt.rs` joins the two for one message, `writer.rs` writes
//! results under the fencing token. `post.rs` has what this node does for one destination: its slots, the messages in
//! them and the tasks that make their calls (`calls.rs`). `worker.rs` is the loop that looks for more, `handover.rs`
//! the short way from admission, `state.rs` what they share, `watch.rs` an eye on clocks and on messages that nobody
//! takes. No transaction is open while a call is under way, and a written result is never preceded by a second call.
//! Start at [`Outbox`].

mod attempt;
mod calls;
mod destinations;
mod due;
mod gate;
mod handover;
mod node;
mod pause;
mod policy;
mod post;
mod settler;
mod state;
mod under_way;
mod watch;
mod worker;
mod writer;

pub use destinations::{BareCalls, DestinationError};
pub(crate) use destinations::{http_client, parse_destination, silent_log_targets};
pub use handover::Handover;
pub use node::{Outbox, Waker};
pub use watch::clock_offset_ms_max;
