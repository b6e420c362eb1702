//! Handlers, which users write: from an event to effects.
//!
//! A plain handler does no I/O (its signature has no `async`): it runs between two statements of the transaction that
//! admits the event. A transactional handler gets that transaction, in one of its own.
//!
//! An [`Event`] goes in; [`Effects`] or a [`HandlerError`] come out.

#[doc(inline)]
pub use hooklatch_receive::handler::{
    DbError, Effects, Envelope, Event, Handled, HandlerError, Headers, Message, Name, Row, Tx, Value, ignore,
    refuse,
};
