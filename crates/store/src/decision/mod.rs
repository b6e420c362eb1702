//! Decisions of people about messages, events, destinations and providers: each one in one transaction with its record
//! and with the answer to the request that carried it. The same request again is answered the same and decides nothing.
//!
//! To read it: `types.rs` (what is common to all), then what is particular to `messages.rs`, `events.rs` (with erasures)
//! and `pauses.rs`. Who may decide what is said in `people/`; what is decided about many at once is an operation
//! (`operations/`).

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
