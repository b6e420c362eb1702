//! The outbox: leases due messages, makes their calls, settles the results.
//!
//! In reading order:
//!
//! 1. `policy/` decides, and is pure; `destinations/` makes calls; `attempt.rs` joins the two for one message.
//!    `pause.rs` says how long to wait after a failure.
//! 2. `post.rs` has what this node does for one destination: its slots, the messages in them and the tasks that make
//!    their calls (`calls.rs`), `meters.rs` and `call_times.rs` what is counted of them. `gate/` says how many calls
//!    may start now, `under_way.rs` which messages this node has.
//! 3. `settler.rs` is the queue of results, and `writer.rs` writes them under the fencing token.
//! 4. `worker.rs` is the loop that looks for more work, `due.rs` knows when what was put back is due, and `handover.rs`
//!    is the short way from admission.
//! 5. `node.rs` starts and stops all of it; `state.rs` is what the parts share, `spans.rs` what an attempt is called in
//!    traces; `watch.rs` looks after clocks, and after messages that no worker takes. Start at [`Outbox`].
//!
//! No transaction is open while a call is under way, and a written result is never preceded by a second call. What a
//! row looks like is not known here: that is `crates/store/src/message/`.

mod attempt;
mod call_times;
mod calls;
mod destinations;
mod due;
mod gate;
mod handover;
mod handshakes;
mod meters;
mod node;
mod pause;
mod policy;
mod post;
mod settler;
mod spans;
mod state;
#[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "without an exporter nothing reads them"))]
pub mod traces;
mod under_way;
mod watch;
mod worker;
mod writer;

pub use destinations::{BareCalls, DestinationError};
pub use destinations::{
    Handshake, HandshakeEnd, Handshakes, http_client, http_client_believing, parse_destination,
    silent_log_targets,
};
pub use handover::Handover;
pub use node::ReadyDestinations;
pub use node::{NodeCalls, Outbox, Waker};
pub use watch::ClockOffset;
pub use watch::clock_offset_ms_max;
