//! What operators and operating systems use: listeners and `/v1`, loading of a configuration, `doctor`, service
//! manager.
//!
//! `load/` makes a configuration with ready providers of an operator's text, and `setup.rs` opens its database. `http/`
//! has both listeners: `listener.rs`, `connection.rs` and `room.rs` hold connections, `edge.rs` takes each request,
//! `receiver.rs` the webhooks, `operator.rs` with `guard.rs`, `token_gate/` and `api/` the operators' side. `doctor/`
//! checks a live system; `service.rs` is the service manager that started the process.

pub mod doctor;
pub mod http;
pub mod load;
pub mod service;
pub mod setup;
