//! The client of most calls: HTTP/1.1 on connections of our own, without a proxy.
//!
//! `caller.rs` makes a call: on an idle connection if there is one (`pool.rs`), else on a new one (`connect.rs`), to an
//! address that was looked up and checked a moment ago. `link.rs` is one connection that speaks HTTP/1.1, `wire.rs` the
//! socket below it, which knows whether a byte has left. `handshake.rs` connects for the doctor alone, and hangs up. It follows nothing, inflates nothing and repeats nothing.

mod caller;
mod connect;
#[cfg(test)]
mod destination_for_tests;
mod handshake;
mod link;
mod pool;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tls_tests;
mod wire;

pub(super) use caller::{Lean, LeanOptions, LeanStop};
