//! Handlers, which users write: from an event to effects.
//!
//! A plain handler does no I/O (its signature has no `async`): it runs between two statements of the
//! transaction that admits the event. A transactional handler gets that transaction, in one of its own.
//!
//! [`Event`] goes in; [`Effects`] or a [`HandlerError`] is the answer; `handlers.rs` keeps the functions and routes of
//! one provider, and gives an event to them. Nothing here opens or ends a transaction, and nothing is retried here:
//! that is `admit`.

mod effects;
mod event;
mod handlers;

pub use effects::{Effects, Handled, HandlerError, Message, ignore, lane_of, refuse};
pub use event::{Envelope, Event, EventContent, EventTexts, Headers, ParsedAhead, RawEvent};
pub(crate) use handlers::NO_MATCH;
pub use handlers::{Handlers, NoAnswer, TxHandler, panic_text};
pub use hooklatch_core::types::Name;
pub use hooklatch_store::{DbError, Row, Tx, Value};
