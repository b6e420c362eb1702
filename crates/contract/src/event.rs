//! Events, their messages with the attempts, and all that is known of one.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::judgement::Judgement;
use super::message_judgement::MessageFacts;
use super::order::{EventAct, MessageAct};
use super::page::DamagedRow;
use super::provider::PolicyView;
use super::server::AuditView;
use hooklatch_core::types::{
    AttemptResult, DeliveryState, EventState, MessageId, MessageState, SentUnder, UnknownWord,
};

/// An event: what happened at a sender.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventView {
    /// Name of the provider that sent it.
    pub provider: String,
    /// Id of the event, as its sender has it.
    pub event_id: String,
    /// The texts of the sender that `event_id` is composed of; absent where it is the sender's own id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
    /// Type of the event, in the sender's words.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Result of its dispatch: `handled` does not mean delivered; `delivery` is the state of its calls.
    pub state: EventState,
    /// True for a test event, which an operator made; nothing that a sender sends is one.
    #[serde(default)]
    pub synthetic: bool,
    /// Object that it is about, where its kind names one.
    pub object: Option<String>,
    /// Version of that object.
    pub version: Option<i64>,
    /// Rule that identified it, with the version of the rule: `sender/1`, `content/1`, `signal/1`.
    pub identity: String,
    /// Time when Hooklatch received its first copy.
    pub received_at_ms: i64,
    /// Time when it happened at the sender, where the sender gives it.
    pub created_at_ms: Option<i64>,
    /// Time when its state was decided, where that was not at admission.
    pub processed_at_ms: Option<i64>,
    /// Time when it is dispatched again; with `retry` alone.
    pub due_at_ms: Option<i64>,
    /// Number of times that it was dispatched.
    pub attempts_n: u32,
    /// Number of deliberate re-runs.
    pub generation: u32,
    /// Number of further copies that Hooklatch received and that changed nothing; counted now and then.
    pub copies_n: u64,
    /// Reason why it stands there.
    pub error: Option<String>,
    /// State of its calls.
    pub delivery: DeliveryView,
}

/// State of the calls of an event: of its newest run, and of those of earlier runs that are not finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeliveryView {
    /// State after the worst call. `state` of the event is the result of its handler, this the result of its calls.
    pub state: DeliveryState,
    /// Number of calls that are known.
    pub messages_n: u32,
    /// Number of those that their destinations confirmed.
    pub delivered_n: u32,
    /// Number of those that are still to be sent.
    pub open_n: u32,
    /// Number of those that are on hold until someone decides.
    pub held_n: u32,
    /// Number of those that were given up.
    pub dead_n: u32,
    /// Number of those that someone discarded.
    pub discarded_n: u32,
    /// Number of those that an operator settled as done, without a confirmation of their destinations.
    #[serde(default)]
    pub settled_n: u32,
    /// Number of open, held and dead ones that were never sent.
    pub unsent_n: u32,
    /// Number of calls of any run that are known and were sent at least once.
    pub sent_n: u32,
    /// An error of the worst calls; `null` where there is none, or it is of a destination out of the token's reach.
    pub error: Option<String>,
    /// Deliberate re-runs before the newest run that left calls; `null` where no calls are known.
    #[serde(default)]
    pub generation: Option<u32>,
    /// All known calls of the runs before that one, finished ones included; absent where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<CallCounts>,
}

/// Numbers of calls by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallCounts {
    /// Number of calls that are known.
    pub messages_n: u32,
    /// Number of those that their destinations confirmed.
    pub delivered_n: u32,
    /// Number of those that are still to be sent.
    pub open_n: u32,
    /// Number of those that are on hold until someone decides.
    pub held_n: u32,
    /// Number of those that were given up.
    pub dead_n: u32,
    /// Number of those that someone discarded.
    pub discarded_n: u32,
    /// Number of those that an operator settled as done.
    pub settled_n: u32,
}

impl CallCounts {
    /// State of an event that has these calls, by the worst of them; `None` where there are none.
    pub fn worst(&self) -> Option<DeliveryState> {
        [
            (self.held_n, DeliveryState::Held),
            (self.dead_n, DeliveryState::Dead),
            (self.discarded_n, DeliveryState::Discarded),
            (self.open_n, DeliveryState::Open),
            (self.settled_n, DeliveryState::Settled),
            (self.delivered_n, DeliveryState::Delivered),
        ]
        .into_iter()
        .find_map(|(calls_n, state)| (calls_n > 0).then_some(state))
    }
}

impl DeliveryView {
    /// Calls of the newest run that left some.
    pub fn newest(&self) -> CallCounts {
        // Of earlier runs, the unfinished ones are counted here too.
        let earlier = self.earlier.unwrap_or_default();
        let unfinished_n = earlier.open_n + earlier.held_n + earlier.dead_n;
        CallCounts {
            messages_n: self.messages_n.saturating_sub(unfinished_n),
            delivered_n: self.delivered_n,
            open_n: self.open_n.saturating_sub(earlier.open_n),
            held_n: self.held_n.saturating_sub(earlier.held_n),
            dead_n: self.dead_n.saturating_sub(earlier.dead_n),
            discarded_n: self.discarded_n,
            settled_n: self.settled_n,
        }
    }

    /// Number of calls that are neither confirmed nor discarded.
    pub fn unfinished_n(&self) -> u32 {
        self.open_n.saturating_add(self.held_n).saturating_add(self.dead_n)
    }
}

impl Default for DeliveryView {
    /// Of an event whose calls are not loaded.
    fn default() -> Self {
        Self {
            state: DeliveryState::NoLongerKnown,
            messages_n: 0,
            delivered_n: 0,
            open_n: 0,
            held_n: 0,
            dead_n: 0,
            discarded_n: 0,
            settled_n: 0,
            unsent_n: 0,
            sent_n: 0,
            error: None,
            generation: None,
            earlier: None,
        }
    }
}

/// What was received, for those who may see contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContentView {
    /// Headers of the request, secrets and signatures blanked.
    pub headers: BTreeMap<String, Vec<String>>,
    /// The body as text; what is no UTF-8 is replaced. At most 64 KiB.
    pub body: String,
    /// Length of the whole body, also where it does not open. Bytes.
    pub body_bytes_n: u64,
    /// True when bytes of the body are no UTF-8: `body` has U+FFFD in their places.
    #[serde(default)]
    pub is_lossy: bool,
    /// True when the body is stored under a key.
    #[serde(default)]
    pub is_encrypted: bool,
    /// The reason why headers and body are empty here although they are kept: they do not open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unopened: Option<String>,
    /// Number of values that were replaced before the body was stored; `null`: it is stored as received.
    #[serde(default)]
    pub redacted_n: Option<u32>,
}

/// One thing that happened to an event, for the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerEntry {
    /// Time when it happened.
    pub at_ms: i64,
    /// The thing that happened.
    #[serde(flatten)]
    pub what: LedgerWhat,
}

/// The thing that happened to an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum LedgerWhat {
    /// The first copy was received and verified.
    Received {
        /// Length of its body, also of one that is stored encrypted; `null` when the bytes are no longer kept.
        body_bytes_n: Option<u64>,
        /// Place of the secret that matched in today's configuration, 1 for the newest; `null` where no secret was
        /// used, it is configured no longer, or the bytes are no longer kept.
        secret_position: Option<u32>,
        /// Fingerprint of that secret.
        secret_fingerprint: Option<String>,
    },
    /// Its key was inserted: from here on it is admitted once.
    Latched {
        /// SHA-256 of its content, in hexadecimal.
        digest: String,
        /// Rule that identified it.
        identity: String,
    },
    /// Further copies were received and changed nothing. The time is that of the last one.
    Duplicates {
        /// Number of further copies.
        copies_n: u64,
        /// Time when the first of them was received, where that is known.
        first_at_ms: Option<i64>,
    },
    /// Other content was received under its id and was kept beside it.
    Conflict {
        /// The event that was kept.
        event: EventView,
        /// SHA-256 of its content, in hexadecimal.
        digest: String,
    },
    /// The same signed text was received under another id.
    Replayed {
        /// The event that was kept.
        event: EventView,
    },
    /// Its handler answered, at admission or in a later dispatch.
    Handled {
        /// State that followed from its answer.
        state: EventState,
        /// Number of dispatches so far.
        attempts_n: u32,
        /// Reason, where there is one.
        error: Option<String>,
    },
    /// An effect was written down as a message.
    Effect {
        /// The message as it stands.
        message: MessageView,
    },
    /// An attempt of a message began.
    Attempt {
        /// Id of the message.
        message_id: String,
        /// Name of the effect.
        effect_name: String,
        /// The attempt and its answer.
        attempt: AttemptView,
    },
    /// A person decided. Views of its content stand in the audit log alone.
    Decision {
        /// The decision, as the audit log has it.
        decision: AuditView,
    },
}

/// All that is known of one event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerView {
    /// The event as it stands.
    pub event: EventView,
    /// What happened to it and what it means, and the acts that are possible with what each risks.
    pub judgement: Judgement<EventAct>,
    /// What was received; `null` when it is no longer kept or the token may not see contents.
    pub content: Option<ContentView>,
    /// The reason why `content` is `null`: `pruned` or `role`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_missing: Option<String>,
    /// Id of the event beside which this one was kept, because it is other content under that id; until it is
    /// dispatched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside_event_id: Option<String>,
    /// Id of its trace, in hexadecimal, where the node that answers traces; a deliberate re-run has another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// True when that trace is one of those that are recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_trace_recorded: Option<bool>,
    /// Everything that happened, in order of time.
    pub entries: Vec<LedgerEntry>,
    /// Other contents that were received under its id and were not kept, copies included.
    pub conflicts_unkept_n: u64,
    /// Messages that go to destinations out of the token's scope.
    pub hidden_messages_n: u64,
    /// True when the oldest entries were left out: at most 1,000 are listed.
    pub is_cut: bool,
    /// Rows that belong to it and cannot be read: messages, attempts, copies or decisions that are missing here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<DamagedRow>,
}

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
    /// `restored`: a call may have been made in a time that a restore took away. `null`: there was no such call, or its
    /// destination confirmed it.
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
    /// The sentence that stands where its attempts would; `None` where some are shown, or named as damaged.
    pub fn no_attempts(&self) -> Option<&'static str> {
        let is_empty = self.attempts.is_empty() && self.damaged.is_empty();
        is_empty.then(|| MessageFacts::of(&self.message, 0).no_attempts())
    }

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
