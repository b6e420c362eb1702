//! The outbox: claims due messages, makes their calls, settles the results.
//!
//! In reading order:
//!
//! 1. `policy/` decides, and is pure; `destinations/` makes calls; `attempt.rs` joins the two for one message.
//! 2. `post.rs` has what this node does for one destination: its slots, the messages in them and the tasks that make
//!    their calls; `meters.rs` what is counted of them. `gate/` limits how many calls may start now.
//! 3. `settler.rs` queues results and writes them under the fencing token.
//! 4. `worker.rs` is the loop that looks for more work; `timing.rs` has pauses, and the due times of what was put back.
//! 5. `node.rs` starts and stops all of it, and takes new messages over from admission; `state.rs` is what the parts
//!    share; `watch.rs` compares clocks and ends pauses. Start at [`Outbox`].
//!
//! No transaction is open while a call is under way, and a written result is never preceded by a second call. What a
//! row looks like is the matter of `crates/store/src/message/`.

mod attempt;
mod destinations;
mod gate;
mod meters;
mod node;
mod policy;
mod post;
mod settler;
mod state;
mod timing;
#[cfg_attr(not(feature = "otel"), expect(dead_code, reason = "without an exporter nothing reads them"))]
pub mod traces;
mod watch;
mod worker;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use destinations::{
    BareCalls, DestinationError, Handshake, HandshakeEnd, Handshakes, http_client, http_client_trusting,
    parse_destination, silent_log_targets,
};
pub use node::{Handover, NodeCalls, Outbox, ReadyDestinations, Waker};
pub use watch::{ClockOffset, clock_offset_ms_max};

/// Locks a value of which a panic elsewhere leaves no part half changed.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
