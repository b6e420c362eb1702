//! What every list answers, and every error; and the search by whatever id a person holds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::event::{EventView, MessageView};
use super::provider::RejectedView;
use hooklatch_core::types::ProblemCode;

/// Default of `limit`, in rows.
pub const PAGE_N_DEFAULT: u32 = 50;
/// Largest `limit`, in rows.
pub const PAGE_N_MAX: u32 = 500;

/// One page of a list.
///
/// Rows that arrive meanwhile move no row from one page to another. A cursor is opaque: clients pass it back unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "{T}Page")]
pub struct Page<T> {
    /// The rows, the newest first unless the list says otherwise. At most `limit`; a page may hold fewer, even none,
    /// and still have a next one: a filter that finds little stops after so many rows were looked at.
    pub items: Vec<T>,
    /// The value of `cursor` for the rows that come after these; `null` when there are none.
    pub next: Option<String>,
    /// The value of `since` for the rows that arrive after these, where the list has that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// With a page that was cut short by the bound on rows looked at: every row that is newer than this time has been
    /// looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked_back_to_ms: Option<i64>,
    /// Rows that belong here and cannot be read, because a value of theirs is damaged. They are in no list until they are
    /// repaired; the pages of the other rows are complete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<DamagedRow>,
}

/// A row of the database that cannot be read: one of its values is none that Hooklatch writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DamagedRow {
    /// Name of its table or view.
    pub table: String,
    /// Its key: of events and messages, their number.
    pub key: String,
    /// The column that cannot be read, and what it holds.
    pub why: String,
}

impl DamagedRow {
    /// The row in one sentence, and what to do about it.
    pub fn sentence(&self) -> String {
        format!(
            "A row is damaged and is not shown: `{}` `{}`, {}. Repair it (docs/runbooks/row-damaged.md).",
            self.table, self.key, self.why
        )
    }
}

impl<T> Page<T> {
    /// A page that is the whole list.
    pub fn whole(items: Vec<T>) -> Self {
        Self { items, next: None, since: None, looked_back_to_ms: None, damaged: Vec::new() }
    }
}

/// An error of the API: `application/problem+json`, RFC 9457.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemView {
    /// Always `about:blank`: `code` identifies the problem.
    #[serde(rename = "type")]
    pub kind: String,
    /// Status of the answer, 400 to 599.
    #[schemars(range(min = 400, max = 599))]
    pub status: u16,
    /// Stable word for programs, such as `idempotency_key_reused`. A text here, so that a client of this version reads
    /// the problems of a newer server.
    #[schemars(with = "ProblemCode")]
    pub code: String,
    /// The phrase of the status, such as `Not Found`.
    pub title: String,
    /// One sentence for people: what is wrong, in which field or parameter, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub detail: Option<String>,
    /// State in which the subject stands, where that is why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Number that was counted, where that is why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_n: Option<u64>,
    /// Id of the operation that is in the way, where that is why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// Rows that are why, at most ten: of a refused operation those that are new, gone or changed since its preview, or those
    /// that the other operation is about, too. Ids of messages, or provider and id of events, such as `stripe/evt_1`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<String>,
    /// Number of all of these rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_n: Option<u64>,
}

impl ProblemView {
    /// The most exact sentence that there is.
    pub fn sentence(&self) -> &str {
        self.detail.as_deref().unwrap_or(&self.title)
    }
}

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
