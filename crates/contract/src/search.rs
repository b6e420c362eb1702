//! Search by whatever id a person holds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::event::EventView;
use super::message::MessageView;
use super::provider::RejectedView;

/// Everything that an id leads to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SearchView {
    /// The text that was looked for.
    pub query: String,
    /// The result, in one or two sentences.
    pub headline: String,
    /// True when more matches than are listed: at most 50 of each kind are.
    #[serde(default)]
    pub is_cut: bool,
    /// True when ids inside events were not searched, because the token lacks the role `reader`: an empty result then
    /// does not show that the event was never received.
    #[serde(default)]
    pub skips_ids_inside: bool,
    /// Finds, at most 50 of each kind, the most telling first.
    pub found: Vec<SearchHit>,
    /// With no find, or with one that may surprise: what else is known, one sentence each.
    pub notes: Vec<String>,
}

/// One find, by what the text is an id of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum SearchHit {
    /// It is the id of an event, or ids of events begin with it.
    EventId {
        /// The event of this id.
        event: EventView,
    },
    /// It is an id inside an event, where its kind names one, or a part of the event's composed id; or such an id begins
    /// with it.
    SearchId {
        /// The event that has it.
        event: EventView,
    },
    /// It is an object of events.
    Object {
        /// An event about it.
        event: EventView,
    },
    /// It is the id of a message.
    MessageId {
        /// The message that it names.
        message: MessageView,
    },
    /// It is the idempotency key of a message.
    IdempotencyKey {
        /// The message that it names.
        message: MessageView,
    },
    /// It is the name of an effect, of open messages.
    EffectName {
        /// A message of that effect.
        message: MessageView,
    },
    /// It stands in a request that was refused.
    Rejected {
        /// The rejected request.
        rejected: RejectedView,
    },
}
