//! The operators' contract: what the API under `/v1` takes and returns, as types.
//!
//! One definition for three users: the HTTP handlers answer with views and read orders, the commands and the console
//! read views and write orders, and `openapi.json` is made of them. Times are unix milliseconds (`*_at_ms`); states
//! and outcomes are the words of the tables. Fields may be added; none changes its meaning.
//!
//! In reading order: `page.rs` is common to all lists; `event.rs`, `provider.rs` and `server.rs` are the views;
//! `order.rs` and `operation.rs` the orders, on one and on many; `judgement.rs` the risk of an act, and with
//! `message_judgement/` and `judged_event/` the sentences about it; `etag.rs` the version that a decision is about;
//! `diagnosis.rs` what changes nothing and shows what is or would be. `routes.rs` is the list of routes, and
//! `document.rs` makes `openapi.json` of it. Nothing here reads a database or a socket.

mod diagnosis;
mod document;
mod etag;
mod event;
mod judged_event;
mod judgement;
mod message_judgement;
mod operation;
mod order;
mod page;
mod provider;
mod routes;
mod server;

pub use diagnosis::*;
pub use document::document;
pub use etag::*;
pub use event::*;
pub use judged_event::*;
pub use judgement::*;
pub use message_judgement::*;
pub use operation::*;
pub use order::*;
pub use page::*;
pub use provider::*;
pub use routes::*;
pub use server::*;
