//! An operator's decision, its subject, and its result.
//!
//! The idempotency key of the request: claimed first, answered last, both in the decision's transaction.
//!
//! A decision claims its key, is carried out, and stores its response and its records, all in one transaction.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::pauses::{Pausable, action};
use crate::audit::{AuditEntry, append};
use crate::db::{BoxedWork, DbError, DbResult, Executor, StoreError, Tx, limit};
use crate::handle::Store;
use crate::idempotency::{
    KeyClaim, KeyReply, KeyRequest, KeyState, NewAnswer, idempotency_begin, idempotency_finish,
};
use hooklatch_contract::{ChangedRows, EventAct, IfMatch, MessageAct, PauseAct};
use hooklatch_core::types::{EventKey, MessageId, Name, Principal, UnixMs};

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
            Self::Message { id, act } => (act.audit_action(), format!("message {id}")),
            Self::Event { key, act } => {
                (act.audit_action(), format!("event {} {}", key.provider, key.event_id))
            }
            Self::Destination { name, act, .. } => {
                (action(Pausable::Destination, *act), format!("destination {name}"))
            }
            Self::Provider { name, act, .. } => {
                (action(Pausable::Provider, *act), format!("provider {name}"))
            }
        }
    }
}

/// The value of `audit_log.action` for an act.
pub(crate) trait AuditAction {
    /// The value; it never changes, since rows hold it.
    fn audit_action(self) -> &'static str;
}

impl AuditAction for MessageAct {
    fn audit_action(self) -> &'static str {
        match self {
            Self::Send => "message_send",
            Self::Done => "message_done",
            Self::Discard => "message_discard",
        }
    }
}

impl AuditAction for EventAct {
    fn audit_action(self) -> &'static str {
        match self {
            Self::Rerun => "event_rerun",
            Self::Dispatch => "event_dispatch",
            Self::Dismiss => "event_dismiss",
            Self::Erase | Self::EraseAndDiscard => "event_erase",
        }
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
    /// Another operation with the same act and filter, or on some of the same rows and to the same effect, is unfinished
    /// or ended a moment ago.
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
pub struct Deciding {
    pub who: Principal,
    /// The same as the audit log has it.
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
    /// A decision that a request of `who` carries.
    pub fn new(who: &Principal, decision: &Decision<'_>) -> Self {
        Self {
            who: who.clone(),
            actor: who.name.to_string(),
            idempotency_key: decision.idempotency_key.to_owned(),
            digest: decision.digest,
            reason: decision.reason.to_owned(),
            if_match: decision.if_match.clone(),
            now_ms: decision.now_ms,
            operation_id: None,
            routed: None,
            records: Vec::new(),
        }
    }

    /// The same, with who acts as the audit log is to have it.
    pub fn by(self, actor: String) -> Self {
        Self { actor, ..self }
    }

    /// The same, with what the configuration says of where events go.
    pub fn routed(self, routed: Option<Routed>) -> Self {
        Self { routed, ..self }
    }

    /// A decision that is part of an operation: no request carries it, and no version was said.
    pub fn within(operation_id: &str, who: Principal, reason: &str, now_ms: UnixMs) -> Self {
        Self {
            actor: who.name.to_string(),
            who,
            idempotency_key: String::new(),
            digest: [0; 32],
            reason: reason.to_owned(),
            if_match: IfMatch::Unsaid,
            now_ms,
            operation_id: Some(operation_id.to_owned()),
            routed: None,
            records: Vec::new(),
        }
    }

    /// A record of this decision, about nothing yet.
    pub fn record(&self, action: &'static str) -> AuditEntry {
        AuditEntry {
            actor: self.actor.clone(),
            action,
            operation_id: self.operation_id.clone(),
            detail: self.reason.clone(),
            ..AuditEntry::default()
        }
    }
}

/// A key that was asked for: it is this decision's, or its request was answered before.
pub(super) enum KeyClaimResult<T> {
    /// The decision is to be carried out, and answered with this.
    Claimed(KeyClaim),
    /// The answer that was given.
    Answered(T),
}

/// Claims the key for this request, whose answer is kept for `kept_ms`. Another request under way with this key is
/// waited for.
pub(crate) async fn take<T: DeserializeOwned>(
    db: &mut Executor<'_>,
    deciding: &Deciding,
    kept_ms: i64,
) -> DbResult<Result<KeyClaimResult<T>, Refusal>> {
    let request = KeyRequest {
        principal: format!("operator:{}", deciding.who.key_owner()),
        key: deciding.idempotency_key.clone(),
        fingerprint: deciding.digest,
        now_ms: deciding.now_ms,
        // Its row is seen by others only with its answer.
        lock_ms: 0,
        kept_ms,
    };
    match idempotency_begin(db, &request).await? {
        KeyReply::Claimed(claim) => Ok(Ok(KeyClaimResult::Claimed(claim))),
        KeyReply::Answered(kept) => {
            let body = kept.answer.body.unwrap_or_default();
            let value = serde_json::from_slice(&body)
                .map_err(|_| DbError::decode("body", "what no version writes"))?;
            Ok(Ok(KeyClaimResult::Answered(value)))
        }
        KeyReply::Reused { .. } | KeyReply::InProgress { .. } => Ok(Err(Refusal::KeyReused)),
    }
}

/// Keeps the answer, as JSON.
pub(crate) async fn keep(db: &mut Executor<'_>, claim: &KeyClaim, value: &impl Serialize) -> DbResult<()> {
    let body = serde_json::to_vec(value).unwrap_or_default();
    let answer =
        NewAnswer { state: KeyState::Succeeded, status: 200, headers: "[]".to_owned(), body: Some(body) };
    idempotency_finish(db, claim, &answer).await.map(drop)
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
    let claim = match take(&mut tx.executor()?, deciding, kept_ms).await? {
        Ok(KeyClaimResult::Claimed(claim)) => claim,
        Ok(KeyClaimResult::Answered(value)) => return Ok(Ok(Answered { value, is_again: true })),
        Err(refusal) => return Ok(Err(refusal)),
    };
    let value = match work(tx.executor()?, deciding).await? {
        Ok(value) => value,
        Err(refusal) => return Ok(Err(refusal)),
    };
    keep(&mut tx.executor()?, &claim, &value).await?;
    append(&mut tx.executor()?, deciding.now_ms, &deciding.records).await?;
    Ok(Ok(Answered { value, is_again: false }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_act_has_its_record() {
        let messages =
            [MessageAct::Send, MessageAct::Done, MessageAct::Discard].map(AuditAction::audit_action);
        assert_eq!(messages, ["message_send", "message_done", "message_discard"]);
        let events = [EventAct::Rerun, EventAct::Dispatch, EventAct::Dismiss, EventAct::Erase];
        let events = events.map(AuditAction::audit_action);
        assert_eq!(events, ["event_rerun", "event_dispatch", "event_dismiss", "event_erase"]);
        assert_eq!(EventAct::EraseAndDiscard.audit_action(), "event_erase");
    }
}
