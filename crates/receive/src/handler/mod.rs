//! Handlers, which users write: from an event to effects.
//!
//! A plain handler does no I/O (its signature has no `async`): it runs between two statements of the
//! transaction that admits the event. A transactional handler gets that transaction, in one of its own.
//!
//! In reading order: [`Event`] (`event.rs`) goes in; [`Effects`] (`effects.rs`) or a [`HandlerError`] (`answer.rs`)
//! come out. `texts.rs` is what routes read of it. `function.rs` brings each function of a user to one shape, `handlers.rs` keeps all of one provider and
//! gives an event to them, `dispatch.rs` adds up what they answer.
//!
//! Nothing here opens or ends a transaction, and nothing is retried here: that is `admit`.

mod answer;
mod dispatch;
mod effects;
mod event;
mod function;
mod handlers;
mod texts;

pub use answer::{Handled, HandlerError, ignore, refuse};
pub(crate) use dispatch::NO_MATCH;
pub use effects::{Effects, Message};
pub use event::ParsedAhead;
pub use event::{Envelope, Event, Headers};
pub use event::{EventContent, RawEvent};
pub use function::TxHandler;
pub use function::{NoAnswer, panic_text};
pub use handlers::Handlers;
pub use hooklatch_core::types::Name;
pub use hooklatch_store::{DbError, Row, Tx, Value};
pub use texts::EventTexts;
