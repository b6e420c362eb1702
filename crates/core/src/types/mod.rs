//! The words every layer shares: names, states, outcomes, times.
//!
//! Nothing here does I/O, reads a clock (but for `clock.rs`, which is the clock) or knows a format. A value that exists
//! has been checked; no layer above checks it again. To read it: `name.rs`, `event.rs`, `type_pattern.rs`,
//! `words.rs`, `message_id.rs`, `idempotency_key.rs`, `client_certificate.rs`, `access.rs` (who asks) and
//! `token_text.rs` (by which token), `session_text.rs` (in which browser), `span_context.rs`, then `clock.rs` and `text.rs`.

mod access;
mod client_certificate;
mod clock;
mod event;
mod id_parts;
mod idempotency_key;
mod message_id;
mod mood;
mod name;
mod session_text;
mod span_context;
mod text;
mod token_text;
mod type_pattern;
mod words;

pub use access::{Principal, Reach, Role, TYPED_BY, TypedBy};
pub use client_certificate::ClientCertificate;
pub use clock::{Clock, UnixMs};
pub use event::WANTING;
pub use event::{
    BodyDigest, EventKey, IncomingEvent, ObjectVersion, OnConflict, RedactedBody, Renderings, TEST_EVENT,
};
pub use id_parts::{id_parts, readable_id};
pub use idempotency_key::{IdempotencyKey, KeyMistake};
pub use message_id::{InvalidMessageId, MESSAGES_N_MAX, MessageId, idempotency_key};
pub use mood::Mood;
pub use name::{InvalidName, Name};
pub use session_text::SessionText;
pub use span_context::SpanContext;
pub use text::{SEARCH_CHARS_MIN, folded_id, is_media_type, media_type};
pub use text::{TEXT_BYTES_MAX, stored_text};
pub use token_text::TokenText;
pub use token_text::token_digest;
pub use type_pattern::TypePattern;
pub use words::key_used_for_ms;
pub use words::{
    AttemptResult, DeliveryFilter, DeliveryState, EventState, MessageState, Outcome, ProblemCode, Repeat,
    SentUnder, UnknownWord,
};
