//! The two listeners: the receiver for providers, the operator side for people and monitors.
//!
//! The only module with HTTP servers. Every bound that protects the process from a client is here. In reading
//! order:
//!
//! 1. `listener.rs` accepts connections and serves them, behind a TLS `handshake.rs` if so configured; `room/` limits
//!    their number, and evicts the one that has to go.
//! 2. `edge.rs` takes each request of a connection: its framing (`framing.rs`), the rate of its body and the end of its
//!    connection; `origin.rs` finds the client address; `stream.rs` bounds how long an answer is written,
//!    `patience.rs` how long headers are waited for.
//! 3. `receiver.rs` takes webhooks: it caps a body and hands it to `receive`.
//! 4. `operator.rs` has `/livez`, `/readyz` and `/metrics`; `api/` has `/v1`; `guard.rs`, `auth.rs`, `token_gate/`
//!    and `throttle.rs` decide who has access, `keys.rs` what is carried out once; `prefix.rs` removes what a proxy
//!    puts before their paths, `random.rs` makes random bytes.
//! 5. `error.rs` and `reply.rs` write answers; `extensions.rs` is what a request carries through these files;
//!    `files.rs` counts open files; `probe.rs` answers the doctor's requests; `echo.rs` is the destination of `serve --dev`.
//!
//! Requests are verified and admitted elsewhere (`receive`, `admit`), and this module makes no calls of its own.

pub mod api;
mod auth;
pub mod echo;
mod edge;
mod error;
mod extensions;
pub mod files;
mod framing;
pub mod guard;
mod handshake;
pub mod keys;
mod listener;
pub mod operator;
mod origin;
mod patience;
mod prefix;
mod probe;
mod random;
pub mod receiver;
mod reply;
mod room;
mod stream;
mod throttle;
pub mod token_gate;

pub use edge::{Front, Routes};
pub use extensions::{KnownCaller, Peer};
pub use listener::{Limits, Listener, listen, serve};
pub use origin::OriginRule;
pub use prefix::below;
