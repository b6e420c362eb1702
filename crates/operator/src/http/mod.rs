//! The two listeners: the receiver for providers, the operator side for people and monitors.
//!
//! The only module with HTTP servers. Every bound that protects the process from a client is here. In reading
//! order:
//!
//! 1. `listener.rs` accepts connections and serves them; `connection.rs` bounds their handshakes and writes in
//!    time; `room.rs` limits their number, and evicts the one that has to go.
//! 2. `edge.rs` takes each request of a connection: its framing, the rate of its body and the end of its connection;
//!    `origin.rs` finds the client address.
//! 3. `receiver.rs` takes webhooks: it caps a body and hands it to `receive`.
//! 4. `operator.rs` has `/livez`, `/readyz` and `/metrics`; `api/` has `/v1`; `guard.rs` and `token_gate/` decide who
//!    has access.
//! 5. `error.rs` writes answers; `echo.rs` is the destination of `serve --dev`.
//!
//! Requests are verified and admitted elsewhere (`receive`, `admit`), and this module makes no calls of its own.

pub mod api;
mod connection;
pub mod echo;
mod edge;
mod error;
pub mod guard;
mod listener;
pub mod operator;
mod origin;
pub mod receiver;
mod room;
pub mod token_gate;

pub use edge::{KnownCaller, Peer, Routes};
pub use listener::{Limits, Listener, OpenFiles, connections_n, fit_n, listen, serve};
pub use operator::below;
pub use origin::OriginRule;
