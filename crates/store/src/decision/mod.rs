//! Decisions of operators about messages, events, destinations and providers: each in one transaction with its audit
//! record and with the response to its request. The same request again gets the same response and decides nothing.
//!
//! Reading order: `types.rs` (common to all), then `messages.rs`, `events.rs` (with erasures) and `pauses.rs`. The
//! checks who may decide are in `people/`; a decision about many at once is an operation (`operations/`).

mod events;
mod messages;
mod pauses;
mod types;

pub(super) use events::{decide as event_decide, out_of_reach};
pub(super) use messages::{
    STATEMENTS as MESSAGE_STATEMENTS, act_on as messages_act_on, decide as message_decide,
};
pub(super) use pauses::{Pausable, pause_decide};
pub use pauses::{PausesEnded, ProviderPause};
pub use types::{Answered, Decision, Ordered, Refusal, Routed};
pub(crate) use types::{Deciding, Verdict, once};
