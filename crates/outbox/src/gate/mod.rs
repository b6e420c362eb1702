//! The gate of a destination decides how much of its work may start now: `call_gate.rs` has its rate limit, its circuit
//! breaker and its permits, `window.rs` how many calls it bears at once. What is done with the permits: `calls.rs`.

mod call_gate;
#[cfg(test)]
mod tests;
mod window;

pub(crate) use call_gate::{BegunCall, CallGate};
