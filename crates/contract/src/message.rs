//! Messages, their attempts, and lanes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::audit::AuditView;
use super::destination::PolicyView;
use super::judgement::Judgement;
use super::message_judgement::MessageFacts;
use super::order::MessageAct;
use super::page::DamagedRow;
use hooklatch_core::types::{AttemptResult, MessageId, MessageState, SentUnder, UnknownWord};

/// A message: one call to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageView {
    /// Id of the message; sent to destinations as `Hooklatch-Message-Id`.
    pub message_id: MessageId,
    /// Name of the provider that sent its event.
    pub provider: String,
    /// Id of its event.
    pub event_id: String,
    /// Type of its event.
    #[serde(rename = "type")]
    pub event_type: String,
    /// True when its event is a test event: the call has the header `Hooklatch-Synthetic: true`.
    #[serde(default)]
    pub synthetic: bool,
    /// Name of the effect within the event.
    pub effect_name: String,
    /// Key that goes with every attempt.
    pub idempotency_key: String,
    /// Name of the destination that it goes to.
    pub destination: String,
    /// State in which it stands.
    pub state: MessageState,
    /// Lane that it is in, if it is in one.
    pub lane: Option<String>,
    /// Number of claims so far.
    pub attempts_n: u32,
    /// Number of deliberate re-runs of its event before it.
    pub generation: u32,
    /// Due time when ready, end of the lease when leased, time since when it is so when held or dead.
    pub visible_at_ms: i64,
    /// Time when it was written.
    pub created_at_ms: i64,
    /// Time when the first attempt was claimed.
    pub first_sent_at_ms: Option<i64>,
    /// Time past which nothing is sent by itself: the destination may have forgotten its key. Whether sending it again
    /// is safe depends on more than that: `judgement` says so.
    pub key_valid_until_ms: Option<i64>,
    /// Time when it was done or discarded.
    pub finished_at_ms: Option<i64>,
    /// Word for how the last attempt ended.
    pub last_result: Option<AttemptResult>,
    /// Reason why the last attempt did not end done.
    pub last_error: Option<String>,
    /// The `unknown` of its destination when a call was made that may have taken effect, the strictest of them;
    /// `restored`: a call may have been made in a time that a restore took away. `null`: there was no such call, or it is
    /// finished.
    #[serde(default)]
    pub sent_under: Option<SentUnder>,
    /// What happened, and what each possible act risks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Judgement<MessageAct>")]
    pub judgement: Option<Judgement<MessageAct>>,
}

/// One attempt of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptView {
    /// 1 for the first.
    pub attempt_n: u32,
    /// Name of the node that made it.
    pub node: String,
    /// Time when it was claimed.
    pub started_at_ms: i64,
    /// Time when it was settled; `null` while it is under way.
    pub finished_at_ms: Option<i64>,
    /// Word for how it ended; `null` while it is under way.
    pub result: Option<AttemptResult>,
    /// HTTP status of the response, if there was one.
    pub http_status: Option<u16>,
    /// Reason why it did not end done.
    pub error: Option<String>,
    /// The piece of the answer that was kept; `null` also for tokens that may not see contents.
    pub response: Option<String>,
}

/// One message with all that is known of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageDetail {
    /// The message as it stands.
    pub message: MessageView,
    /// Its newest attempts, at most 100, the newest first.
    pub attempts: Vec<AttemptView>,
    /// The newest decisions about it, at most 100, the newest first.
    pub decisions: Vec<AuditView>,
    /// How its destination is called and when calls are repeated, by the configuration of the node that answers; `null`
    /// where it has no such destination.
    #[serde(default)]
    pub policy: Option<PolicyView>,
    /// Attempts of it that cannot be read, and are missing here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<DamagedRow>,
}

impl MessageDetail {
    /// Time until which its destination recognises its key; `None` where a key protects from nothing, also because a
    /// call was made when the destination did not honour keys.
    pub fn key_known_until_ms(&self) -> Option<i64> {
        let is_honoured = self.policy.as_ref().is_some_and(|policy| policy.unknown == UnknownWord::Retry);
        let was_honoured = !matches!(self.message.sent_under, Some(SentUnder::Hold | SentUnder::Query));
        let facts = MessageFacts {
            policy: self.policy.as_ref().map(PolicyView::repeat),
            ..MessageFacts::of(&self.message, 0)
        };
        facts.safe_until_ms().filter(|_| is_honoured && was_honoured && self.message.finished_at_ms.is_none())
    }
}

/// Number of rows that a filter finds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CountView {
    /// The number, among the newest 100,000 rows that may be what is looked for.
    pub counted_n: u64,
    /// True when the bound was reached, of those found or of those looked at: there may be more then.
    pub is_more: bool,
}

/// A lane with messages in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LaneView {
    /// Name of the destination.
    pub destination: String,
    /// Key of the lane.
    pub lane: String,
    /// The message at its head: the one that the others wait for.
    pub head: MessageView,
    /// Number of open messages, the head included, at most 1,000.
    pub depth_n: u64,
    /// Reason why it does not move, if it does not: `held` or `dead` (its head waits for a person), `not_configured` (the
    /// node that answers does not have the destination), `paused`, `unreadable` (the body of its head is gone or sealed),
    /// `breaker_open`, `lease_ended` (the node that was sending its head did not record an answer), `backing_off` (its
    /// head failed and is due later). `null`: its head is being sent or is due.
    pub blocked_by: Option<String>,
    /// Time when its head was written.
    pub since_ms: i64,
}
