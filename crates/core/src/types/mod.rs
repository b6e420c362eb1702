//! The words every layer shares: names, states, outcomes, times.
//!
//! Nothing here does I/O, reads a clock (but for `clock.rs`, which is the clock) or knows a format. A value that exists
//! has been checked; no layer above checks it again. To read it: `text.rs`, `event.rs`, `words.rs`, `access.rs` (who
//! asks), `headers.rs`, then `clock.rs`.

mod access;
mod clock;
mod event;
mod headers;
mod text;
mod words;

pub use access::{
    ClientCertificate, Principal, Reach, Role, SessionText, TYPED_BY, TokenText, TypedBy, token_digest,
};
pub use clock::{Clock, UnixMs};
pub use event::{
    BodyDigest, EventKey, IncomingEvent, InvalidMessageId, MESSAGES_N_MAX, MessageId, ObjectVersion,
    OnConflict, RedactedBody, Renderings, TEST_EVENT, WANTING, idempotency_key,
};
pub use headers::{IdempotencyKey, KeyMistake, SpanContext};
pub use text::{
    InvalidName, Name, SEARCH_CHARS_MIN, TEXT_BYTES_MAX, TypePattern, folded_id, id_parts, is_media_type,
    media_type, no_provider, readable_id, stored_text,
};
pub use words::{
    AttemptResult, DeliveryFilter, DeliveryState, EventState, MessageState, Mood, Outcome, ProblemCode,
    Repeat, SentUnder, UnknownWord, key_used_for_ms,
};
