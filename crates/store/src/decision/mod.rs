//! Decisions of operators about messages, events, destinations and providers: each in one transaction with its audit
//! record and with the response to its request. The same request again gets the same response and decides nothing.
//!
//! A decision claims the idempotency key of its request, is carried out, and stores its response and its records.
//! `subjects.rs` has the decisions about messages and events (with erasures), `pauses.rs` those about destinations and
//! providers. The checks who may decide are in `queries/`; a decision about many at once is an operation
//! (`operations/`).

mod pauses;
mod subjects;

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::audit::{AuditEntry, append};
use crate::db::{BoxedWork, DbError, DbResult, Executor, StoreError, Tx, limit};
use crate::handle::Store;
use crate::idempotency::{KeyReply, KeyRequest, KeyState, NewAnswer, idempotency_begin, idempotency_finish};
use hooklatch_contract::{ChangedRows, EventAct, IfMatch, MessageAct, PauseAct};
use hooklatch_core::types::{EventKey, MessageId, Name, Principal, UnixMs};

pub(super) use pauses::{Pausable, pause_decide};
pub use pauses::{PausesEnded, ProviderPause};
#[cfg(any(test, feature = "testing"))]
pub(super) use subjects::STATEMENTS;
pub(super) use subjects::{event_decide, message_decide, messages_act_on, out_of_reach};

/// One message, event, destination or provider, and what an operator wants done with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ordered {
    /// An act on a message.
    Message {
        /// Id of the message.
        id: MessageId,
        /// The act on it.
        act: MessageAct,
    },
    /// An act on an event.
    Event {
        /// Provider and id of the event.
        key: EventKey,
        /// The act on it.
        act: EventAct,
    },
    /// An act on a destination.
    Destination {
        /// Name of the destination.
        name: Name,
        /// The act on it.
        act: PauseAct,
        /// When a pause ends by itself.
        until_ms: Option<UnixMs>,
    },
    /// An act on a provider.
    Provider {
        /// Name of the provider.
        name: Name,
        /// The act on it.
        act: PauseAct,
        /// When a pause ends by itself.
        until_ms: Option<UnixMs>,
    },
}

impl Ordered {
    /// The word of the audit log for the act, and what it is about: `event_rerun`, `event stripe evt_1`.
    pub fn in_words(&self) -> (&'static str, String) {
        match self {
            Self::Message { id, act } => (message_action(*act), format!("message {id}")),
            Self::Event { key, act } => {
                (event_action(*act), format!("event {} {}", key.provider, key.event_id))
            }
            Self::Destination { name, act, .. } => {
                (pauses::action(Pausable::Destination, *act), format!("destination {name}"))
            }
            Self::Provider { name, act, .. } => {
                (pauses::action(Pausable::Provider, *act), format!("provider {name}"))
            }
        }
    }
}

/// The value of `audit_log.action`; it never changes, since rows hold it.
fn message_action(act: MessageAct) -> &'static str {
    match act {
        MessageAct::Send => "message_send",
        MessageAct::Done => "message_done",
        MessageAct::Discard => "message_discard",
    }
}

fn event_action(act: EventAct) -> &'static str {
    match act {
        EventAct::Rerun => "event_rerun",
        EventAct::Dispatch => "event_dispatch",
        EventAct::Dismiss => "event_dismiss",
        EventAct::Erase | EventAct::EraseAndDiscard => "event_erase",
    }
}

/// The request that carries an operator's decision.
#[derive(Debug, Clone, Copy)]
pub struct Decision<'a> {
    /// The request's own `Idempotency-Key`.
    pub idempotency_key: &'a str,
    /// Digest of the request: the same key with another one is refused.
    pub digest: [u8; 32],
    /// The reason, for the audit log.
    pub reason: &'a str,
    /// Versions of the subject that it may act on.
    pub if_match: &'a IfMatch,
    /// Time of the decision.
    pub now_ms: UnixMs,
}

/// Reason why something was not done that an operator ordered. It left no trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is none, or it is out of the token's scope.
    #[error("nothing is here")]
    NotFound,
    /// The subject is not of a version that the request may act on (`If-Match`).
    #[error("it has changed since it was read")]
    Changed,
    /// There is an earlier decision about the subject, and the request names no version of it (`If-Match`).
    #[error("another operator decided about it first, and it is {state}")]
    VersionNeeded {
        /// State in which it stands since.
        state: &'static str,
    },
    /// The key was used for another request.
    #[error("the key was used for another request")]
    KeyReused,
    /// A subject in this state cannot be decided about so.
    #[error("it is {state}")]
    NotAllowed {
        /// State in which it stands.
        state: &'static str,
    },
    /// The event cannot be dispatched: its bytes are no longer kept.
    #[error("its bytes are no longer kept")]
    BodyGone,
    /// The event's bytes are still needed: this many of its messages are neither done nor discarded, or may not be
    /// discarded by the caller.
    #[error("{messages_n} of its messages are open")]
    StillOpen {
        /// Number of messages that are neither done nor discarded.
        messages_n: u64,
    },
    /// The filter finds another number than was counted.
    #[error("{counted_n} are found")]
    OtherCount {
        /// Number that it finds.
        counted_n: u64,
        /// The rows that are new, gone or changed, as far as they are known.
        changed: ChangedRows,
    },
    /// The filter finds more than an operation may act on.
    #[error("more than {rows_n_max} are found")]
    TooMany {
        /// Most rows of an operation.
        rows_n_max: u64,
    },
    /// So many operations run already.
    #[error("{running_n} operations are running")]
    TooManyRunning {
        /// Number of operations that run.
        running_n: u64,
    },
    /// The filter finds as many rows as were counted, and other ones, or one of them was sent or handled since.
    #[error("other rows are found")]
    OtherSet {
        /// The rows that are new, gone or changed, as far as they are known.
        changed: ChangedRows,
    },
    /// It makes calls to destinations that are out of the token's scope.
    #[error("{what}")]
    OutOfReach {
        /// The events whose calls these are, and the destinations in scope.
        what: String,
    },
    /// A test event that was made without calls stays without.
    #[error("it is a test event without calls")]
    TestEvent,
    /// Another operation with the same act and filter, or on some of the same rows and to the same effect, is
    /// unfinished or ended a moment ago.
    #[error("the same operation is there")]
    SameOperation {
        /// Its id, for who may see it.
        operation_id: Option<Uuid>,
        /// The rows that it acts on or acted on, too.
        shared: ChangedRows,
    },
    /// The operator who ordered an operation cannot approve it.
    #[error("who ordered it cannot approve it")]
    OwnOperation,
    /// No row in this state can be acted on so.
    #[error("the act is for no row in that state")]
    NeverAllowed,
    /// The end of a pause is not in the future.
    #[error("its end has passed")]
    EndPassed,
}

/// Result of a request that decided something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered<T> {
    /// Answer to the order.
    pub value: T,
    /// True when the same request decided it before.
    pub is_again: bool,
}

/// Where the configuration of a node sends events of a provider and a type: the destinations of its routes; `None` when
/// code decides, or the destinations are not known.
pub type Routed = Arc<dyn Fn(&str, &str) -> Option<Vec<String>> + Send + Sync>;

/// A decision that is being carried out: who decides and why, and the records that will be written of it.
pub(crate) struct Deciding {
    pub who: Principal,
    /// The actor as recorded in the audit log.
    actor: String,
    pub idempotency_key: String,
    pub digest: [u8; 32],
    pub reason: String,
    pub if_match: IfMatch,
    pub now_ms: UnixMs,
    /// Operation that it is part of.
    pub operation_id: Option<String>,
    pub routed: Option<Routed>,
    /// Records of it, which are written last: who writes records waits for all others who do.
    pub records: Vec<AuditEntry>,
}

impl Deciding {
    /// A decision that a request of `who` carries, with the actor for the audit log and where the configuration sends
    /// events.
    pub(crate) fn new(
        who: &Principal,
        decision: &Decision<'_>,
        actor: String,
        routed: Option<Routed>,
    ) -> Self {
        Self {
            actor,
            idempotency_key: decision.idempotency_key.to_owned(),
            digest: decision.digest,
            if_match: decision.if_match.clone(),
            operation_id: None,
            routed,
            ..Self::within("", who.clone(), decision.reason, decision.now_ms)
        }
    }

    /// A decision that is part of an operation: no request carries it, and no version was named.
    pub(crate) fn within(operation_id: &str, who: Principal, reason: &str, now_ms: UnixMs) -> Self {
        Self {
            actor: who.name.to_string(),
            who,
            idempotency_key: String::new(),
            digest: [0; 32],
            reason: reason.to_owned(),
            if_match: IfMatch::Missing,
            now_ms,
            operation_id: Some(operation_id.to_owned()),
            routed: None,
            records: Vec::new(),
        }
    }

    /// A record of this decision, about nothing yet.
    pub(crate) fn record(&self, action: &'static str) -> AuditEntry {
        AuditEntry {
            operation_id: self.operation_id.clone(),
            ..AuditEntry::new(&self.actor, action, &self.reason)
        }
    }
}

/// The result of a decision, or why it was not carried out.
pub(crate) type Verdict<T> = Result<T, Refusal>;

/// Carries out a decision once, records it, and keeps its answer, all in one transaction. What was refused leaves no
/// trace, and its key may be used again.
pub(crate) async fn once<T>(
    store: &Store,
    op: &'static str,
    mut deciding: Deciding,
    work: impl for<'a> FnOnce(Executor<'a>, &'a mut Deciding) -> BoxedWork<'a, DbResult<Verdict<T>>>
    + Send
    + 'static,
) -> Result<Verdict<Answered<T>>, StoreError>
where
    T: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let store = store.clone();
    limit::whole(op, limit::OPERATION_LIMIT, async move {
        let mut tx = store.parts.backend.begin(op, purpose!(deciding)).await?;
        let answer = decided(&mut tx, &mut deciding, store.answers_kept_ms(), work).await;
        let answer = match tx.noted(op, answer) {
            Ok(Ok(new @ Answered { is_again: false, .. })) => tx.end(Ok(Ok(new))).await,
            other => {
                tx.roll_back().await?;
                other
            }
        };
        store.parts.backend.note(&answer);
        answer
    })
    .await
}

async fn decided<T: Serialize + DeserializeOwned + Send + Sync>(
    tx: &mut Tx,
    deciding: &mut Deciding,
    kept_ms: i64,
    work: impl for<'a> FnOnce(Executor<'a>, &'a mut Deciding) -> BoxedWork<'a, DbResult<Verdict<T>>>,
) -> DbResult<Verdict<Answered<T>>> {
    let request = KeyRequest {
        principal: format!("operator:{}", deciding.who.key_owner()),
        key: deciding.idempotency_key.clone(),
        fingerprint: deciding.digest,
        now_ms: deciding.now_ms,
        // Its row is seen by others only with its answer.
        lock_ms: 0,
        kept_ms,
    };
    let claim = match idempotency_begin(&mut tx.executor()?, &request).await? {
        KeyReply::Claimed(claim) => claim,
        KeyReply::Answered(kept) => {
            let value = serde_json::from_slice(&kept.answer.body.unwrap_or_default())
                .map_err(|_| DbError::decode("body", "what no version writes"))?;
            return Ok(Ok(Answered { value, is_again: true }));
        }
        KeyReply::Reused { .. } | KeyReply::InProgress { .. } => return Ok(Err(Refusal::KeyReused)),
    };
    let value = match work(tx.executor()?, deciding).await? {
        Ok(value) => value,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let body = Some(serde_json::to_vec(&value).unwrap_or_default());
    let answer = NewAnswer { state: KeyState::Succeeded, status: 200, headers: "[]".to_owned(), body };
    idempotency_finish(&mut tx.executor()?, &claim, &answer).await?;
    append(&mut tx.executor()?, deciding.now_ms, &deciding.records).await?;
    Ok(Ok(Answered { value, is_again: false }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_act_has_its_record() {
        let messages = [MessageAct::Send, MessageAct::Done, MessageAct::Discard].map(message_action);
        assert_eq!(messages, ["message_send", "message_done", "message_discard"]);
        let events = [EventAct::Rerun, EventAct::Dispatch, EventAct::Dismiss, EventAct::Erase];
        assert_eq!(
            events.map(event_action),
            ["event_rerun", "event_dispatch", "event_dismiss", "event_erase"]
        );
        assert_eq!(event_action(EventAct::EraseAndDiscard), "event_erase");
    }
}
