//! What people decide about messages, events and destinations: each decision in one transaction with its record and with
//! the answer to the request that carried it. The same request again is answered the same and decides nothing.

mod events;
mod messages;

use sha2::{Digest, Sha256};

use super::db::{DbError, DbResult, Door, limit};
use super::look::Filter;
use super::{Store, StoreError};
use crate::types::{EventKey, EventState, MessageId, Name, UnixMs};

/// Most messages that one decision changes.
pub const DECISION_N_MAX: u32 = 1_000;

/// What a person wants done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Send it again, under the same key, now; attempts and age count from here.
    Send,
    /// It happened: settle it as done.
    Done,
    /// It shall not be sent.
    Discard,
    /// Take nothing for this destination until it is resumed; what is under way ends as it does.
    Pause,
    /// Go on.
    Resume,
    /// Dispatch an event once more: its messages are new ones, under new keys.
    Rerun,
    /// Dispatch what was kept beside another event, a conflict or a replay: under its own id, and so its own keys.
    Dispatch,
    /// Nothing is to be done about a conflict.
    Dismiss,
    /// Delete an event's bytes and what was made of them; its id, digest and outcome stay.
    Erase,
    /// The same, after its open messages were discarded, and whatever else it waits for.
    EraseAndDiscard,
}

impl Act {
    /// The act that `word` names.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "send" => Some(Self::Send),
            "done" => Some(Self::Done),
            "discard" => Some(Self::Discard),
            "pause" => Some(Self::Pause),
            "resume" => Some(Self::Resume),
            "rerun" => Some(Self::Rerun),
            "dispatch" => Some(Self::Dispatch),
            "dismiss" => Some(Self::Dismiss),
            "erase" => Some(Self::Erase),
            "erase_and_discard" => Some(Self::EraseAndDiscard),
            _ => None,
        }
    }

    /// The word in `audit_log.action`.
    fn audited(self) -> &'static str {
        match self {
            Self::Send => "message_send",
            Self::Done => "message_done",
            Self::Discard => "message_discard",
            Self::Pause => "destination_pause",
            Self::Resume => "destination_resume",
            Self::Rerun => "event_rerun",
            Self::Dispatch => "event_dispatch",
            Self::Dismiss => "event_dismiss",
            Self::Erase | Self::EraseAndDiscard => "event_erase",
        }
    }
}

/// What a decision is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecisionTarget {
    /// One message, for [`Act::Send`], [`Act::Done`] and [`Act::Discard`] alone.
    One(MessageId),
    /// Those that a filter finds, which must be as many as were counted before; at most
    /// [`DECISION_N_MAX`], the oldest first.
    All(Filter, u64),
    /// A destination, for [`Act::Pause`] and [`Act::Resume`] alone.
    Destination(Name),
    /// An event, for the other acts alone.
    Event(EventKey),
}

/// A person's decision, and the request that carries it.
#[derive(Debug, Clone, Copy)]
pub struct Decision<'a> {
    /// The token's name.
    pub actor: &'a str,
    /// Names the request.
    pub idempotency_key: &'a str,
    /// Digest of the request: the same key with another one is refused.
    pub digest: [u8; 32],
    /// For whoever reads the audit log.
    pub reason: &'a str,
    /// When.
    pub now_ms: UnixMs,
}

impl Decision<'_> {
    /// The digest of a request's path and body.
    pub fn digest_of(path: &str, body: &[u8]) -> [u8; 32] {
        Sha256::new().chain_update(path).chain_update([0]).chain_update(body).finalize().into()
    }
}

/// What a decision came to. Stored with its idempotency key and given again.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Decided {
    /// So many messages were changed.
    Changed {
        /// How many.
        messages_n: u64,
    },
    /// There is no such message or event.
    NotFound,
    /// A message or event in this state cannot be decided about so.
    NotAllowed {
        /// Where it stands.
        state: String,
    },
    /// The filter finds another number than was said.
    OtherCount {
        /// How many it finds.
        messages_n: u64,
    },
    /// The event cannot be dispatched: its bytes are no longer kept.
    BodyGone,
    /// The event's bytes are still needed: so many of its messages are neither done nor discarded.
    StillOpen {
        /// How many.
        messages_n: u64,
    },
}

/// A decision's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecisionReply {
    /// Decided now.
    New(Decided),
    /// Decided before, by the same request.
    Again(Decided),
    /// The key was used for another request.
    KeyReused,
}

/// A [`Decision`] that outlives the request it came with.
#[derive(Debug)]
struct KeptDecision {
    actor: String,
    idempotency_key: String,
    digest: [u8; 32],
    reason: String,
    now_ms: UnixMs,
}

impl KeptDecision {
    fn of(decision: &Decision<'_>) -> Self {
        Self {
            actor: decision.actor.to_owned(),
            idempotency_key: decision.idempotency_key.to_owned(),
            digest: decision.digest,
            reason: decision.reason.to_owned(),
            now_ms: decision.now_ms,
        }
    }
}

impl Store {
    /// Carries out a decision once, records it, and keeps its answer, all in one transaction.
    pub async fn message_decide(
        &self,
        chosen: &DecisionTarget,
        act: Act,
        decision: &Decision<'_>,
    ) -> Result<DecisionReply, StoreError> {
        let (store, chosen, decision) = (self.clone(), chosen.clone(), KeptDecision::of(decision));
        limit::whole("message_decide", limit::OPERATION_LIMIT, async move {
            let mut tx = store.0.backend.begin("message_decide", place!(deciding)).await?;
            match in_tx!(tx, message_decide(&chosen, act, &decision)) {
                Ok(decree @ DecisionReply::New(Decided::Changed { .. })) => tx.end(Ok(decree)).await,
                // What changed nothing leaves no trace, and its key may be used again.
                other => {
                    tx.roll_back().await?;
                    other
                }
            }
        })
        .await
    }
}

async fn message_decide(
    db: &mut Door<'_>,
    chosen: &DecisionTarget,
    act: Act,
    decision: &KeptDecision,
) -> DbResult<DecisionReply> {
    if let Some((digest, answer)) = idempotency_take(db, decision).await? {
        if digest != decision.digest {
            return Ok(DecisionReply::KeyReused);
        }
        let decided =
            serde_json::from_str(&answer).map_err(|_| DbError::decode("answer", "what no version writes"))?;
        return Ok(DecisionReply::Again(decided));
    }
    let decided = match chosen {
        DecisionTarget::One(id) => messages::decide_one(db, *id, act, decision).await?,
        DecisionTarget::All(filter, counted_n) => {
            messages::decide_all(db, filter, *counted_n, act, decision).await?
        }
        DecisionTarget::Destination(name) => {
            destination_decide(db, name, act == Act::Pause, decision).await?
        }
        DecisionTarget::Event(key) => events::decide(db, key, act, decision).await?,
    };
    if matches!(decided, Decided::Changed { .. }) {
        let answer = serde_json::to_string(&decided).unwrap_or_default();
        idempotency_answer(db, decision, &answer).await?;
    }
    Ok(DecisionReply::New(decided))
}

/// Takes the key for this request; what the same key was answered before, and to which request. Another request under
/// way with this key is waited for.
async fn idempotency_take(db: &mut Door<'_>, decision: &KeptDecision) -> DbResult<Option<(Vec<u8>, String)>> {
    let taken_n = db
        .execute(
            "/* idempotency_take */ INSERT INTO idempotency_keys (actor, idempotency_key, digest, answer, created_at_ms)
             VALUES ($1, $2, $3, '', $4) ON CONFLICT DO NOTHING",
            &[
                decision.actor.as_str().into(),
                decision.idempotency_key.as_str().into(),
                decision.digest.as_slice().into(),
                decision.now_ms.into(),
            ],
        )
        .await?;
    if taken_n == 1 {
        return Ok(None);
    }
    let row = db
        .fetch_one(
            "/* idempotency_take */ SELECT digest, answer FROM idempotency_keys
             WHERE actor = $1 AND idempotency_key = $2",
            &[decision.actor.as_str().into(), decision.idempotency_key.as_str().into()],
        )
        .await?;
    Ok(Some((row.bytes("digest")?, row.text("answer")?)))
}

async fn idempotency_answer(db: &mut Door<'_>, decision: &KeptDecision, answer: &str) -> DbResult<()> {
    let sql = "/* idempotency_answer */ UPDATE idempotency_keys SET answer = $3
               WHERE actor = $1 AND idempotency_key = $2";
    let key = [decision.actor.as_str().into(), decision.idempotency_key.as_str().into(), answer.into()];
    db.execute(sql, &key).await.map(drop)
}

/// Pauses or resumes a destination and records who did it.
async fn destination_decide(
    db: &mut Door<'_>,
    destination: &Name,
    is_paused: bool,
    decision: &KeptDecision,
) -> DbResult<Decided> {
    let changed_n = if is_paused {
        let sql = "/* destination_pause */ INSERT INTO destination_pauses (destination, actor, reason, paused_at_ms)
                   VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
        let pause = [
            destination.as_str().into(),
            decision.actor.as_str().into(),
            decision.reason.as_str().into(),
            decision.now_ms.into(),
        ];
        db.execute(sql, &pause).await?
    } else {
        let sql = "/* destination_resume */ DELETE FROM destination_pauses WHERE destination = $1";
        db.execute(sql, &[destination.as_str().into()]).await?
    };
    if changed_n == 0 {
        let state = if is_paused { "paused" } else { "running" };
        return Ok(Decided::NotAllowed { state: state.to_owned() });
    }
    let act = if is_paused { Act::Pause } else { Act::Resume };
    let detail = format!("{destination}: {}", decision.reason);
    db.execute(
        "/* audit */ INSERT INTO audit_log (audit_id, at_ms, actor, action, detail) VALUES ($1, $2, $3, $4, $5)",
        &[
            audit_id().into(),
            decision.now_ms.into(),
            decision.actor.as_str().into(),
            act.audited().into(),
            detail.into(),
        ],
    )
    .await?;
    Ok(Decided::Changed { messages_n: 0 })
}

/// Records decisions are found by, in the order of time.
fn audit_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// Where a message or an event stands, as its column says it.
fn stands(state: impl std::fmt::Display) -> Decided {
    Decided::NotAllowed { state: state.to_string() }
}

fn event_state(word: &str) -> DbResult<EventState> {
    EventState::parse(word).ok_or_else(|| DbError::decode("state", format_args!("`{word}`")))
}
