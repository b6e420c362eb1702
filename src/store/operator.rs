//! What people see of messages and decide about them.

use sha2::{Digest, Sha256};

use super::tx::TxKind;
use super::{Backend, MessageRow, Store, StoreError, Tx, limit, postgres, sqlite, warnings};
use crate::types::{EventKey, MessageState, Name, UnixMs};

/// Most messages that one decision changes.
pub const DECISION_N_MAX: u32 = 1_000;

/// What a person wants done with a message.
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
            _ => None,
        }
    }

    /// The word in `audit_log.action`.
    pub(super) fn audited(self) -> &'static str {
        match self {
            Self::Send => "message_send",
            Self::Done => "message_done",
            Self::Discard => "message_discard",
            Self::Pause => "destination_pause",
            Self::Resume => "destination_resume",
            Self::Rerun => "event_rerun",
            Self::Dispatch => "event_dispatch",
            Self::Dismiss => "event_dismiss",
        }
    }
}

/// Which messages; what is `None` does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Where they stand.
    pub state: Option<MessageState>,
    /// Where they go.
    pub destination: Option<Name>,
    /// Where their event came from.
    pub provider: Option<Name>,
}

/// Which messages a decision is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    /// One.
    One(String),
    /// Those that a filter finds, which must be as many as were counted before; at most
    /// [`DECISION_N_MAX`], the oldest first.
    All(Filter, u64),
    /// A destination, for [`Act::Pause`] and [`Act::Resume`] alone.
    Destination(Name),
    /// An event, for [`Act::Rerun`], [`Act::Dispatch`] and [`Act::Dismiss`] alone.
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
    /// There is no such message.
    NotFound,
    /// A message in this state cannot be decided about so.
    NotAllowed {
        /// Where it stands.
        state: String,
    },
    /// The filter finds another number than was said.
    OtherCount {
        /// How many it finds.
        messages_n: u64,
    },
}

/// A decision's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decree {
    /// Decided now.
    New(Decided),
    /// Decided before, by the same request.
    Again(Decided),
    /// The key was used for another request.
    KeyReused,
}

/// One attempt of a message, for people.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct AttemptRow {
    /// 1 for the first.
    pub attempt_n: u32,
    /// Who made it.
    pub node: String,
    /// When it was claimed.
    pub started_at_ms: UnixMs,
    /// When it was settled.
    pub finished_at_ms: Option<UnixMs>,
    /// How it ended.
    pub result: Option<String>,
    /// The HTTP status, if one came.
    pub http_status: Option<i64>,
    /// Why it did not end done.
    pub error: Option<String>,
    /// The piece of the answer that was kept.
    pub response: Option<String>,
}

/// A paused destination, for people.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PauseRow {
    /// Which.
    pub destination: String,
    /// Who paused it.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// When.
    pub paused_at_ms: UnixMs,
}

/// One decision about a message, for people.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct AuditRow {
    /// When.
    pub at_ms: UnixMs,
    /// Who.
    pub actor: String,
    /// What.
    pub action: String,
    /// Why.
    pub detail: String,
}

/// A [`Decision`] that outlives the request it came with.
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

    fn decision(&self) -> Decision<'_> {
        Decision {
            actor: &self.actor,
            idempotency_key: &self.idempotency_key,
            digest: self.digest,
            reason: &self.reason,
            now_ms: self.now_ms,
        }
    }
}

/// Lanes first, messages after them, as everywhere.
async fn act_on(tx: &mut Tx, ids: &[String], act: Act, decision: &Decision<'_>) -> Result<u64, StoreError> {
    in_tx!(tx, lanes_lock(ids))?;
    let changed_n = in_tx!(tx, messages_act(ids, act, decision))?;
    in_tx!(tx, lanes_advance(ids, decision.now_ms))?;
    Ok(changed_n)
}

/// Carries out a decision in its transaction.
async fn decided(
    tx: &mut Tx,
    chosen: &Chosen,
    act: Act,
    decision: &Decision<'_>,
) -> Result<Decree, StoreError> {
    if let Some((digest, answer)) = in_tx!(tx, idempotency_take(decision))? {
        if digest != decision.digest {
            return Ok(Decree::KeyReused);
        }
        let decided = serde_json::from_str(&answer)
            .map_err(|_| StoreError::inconsistent("idempotency_keys", "answer", decision.idempotency_key))?;
        return Ok(Decree::Again(decided));
    }
    let decided = match chosen {
        Chosen::One(id) => match in_tx!(tx, message_state(id))? {
            None => Decided::NotFound,
            Some(state) => match act_on(tx, std::slice::from_ref(id), act, decision).await? {
                0 => Decided::NotAllowed { state },
                messages_n => Decided::Changed { messages_n },
            },
        },
        Chosen::Destination(name) => {
            let is_paused = act == Act::Pause;
            match in_tx!(tx, destination_pause(name, is_paused, decision))? {
                0 => Decided::NotAllowed { state: if is_paused { "paused" } else { "running" }.to_owned() },
                _ => Decided::Changed { messages_n: 0 },
            }
        }
        Chosen::Event(key) => match in_tx!(tx, event_state(key))? {
            None => Decided::NotFound,
            Some(state) => match in_tx!(tx, event_act(key, act, decision))? {
                0 => Decided::NotAllowed { state },
                _ => Decided::Changed { messages_n: 0 },
            },
        },
        Chosen::All(filter, counted_n) => {
            let ids = in_tx!(tx, message_ids(filter, i64::from(DECISION_N_MAX)))?;
            let found_n = u64::try_from(ids.len()).unwrap_or(u64::MAX);
            let is_as_counted = found_n == (*counted_n).min(u64::from(DECISION_N_MAX));
            let messages_n = if is_as_counted { act_on(tx, &ids, act, decision).await? } else { found_n };
            // Some may have moved on since they were found.
            if is_as_counted && messages_n == found_n {
                Decided::Changed { messages_n }
            } else {
                Decided::OtherCount { messages_n }
            }
        }
    };
    // What changed nothing leaves no trace, and its key may be used again.
    if !matches!(decided, Decided::Changed { .. }) {
        return Ok(Decree::New(decided));
    }
    let answer = serde_json::to_string(&decided).unwrap_or_default();
    in_tx!(tx, idempotency_answer(decision, &answer))?;
    Ok(Decree::New(decided))
}

impl Store {
    /// Carries out a decision once, records it, and keeps its answer, all in one transaction.
    pub async fn message_decide(
        &self,
        chosen: &Chosen,
        act: Act,
        decision: &Decision<'_>,
    ) -> Result<Decree, StoreError> {
        let (store, chosen, kept) = (self.clone(), chosen.clone(), KeptDecision::of(decision));
        limit::whole("message_decide", limit::OPERATION_LIMIT, async move {
            let mut tx = store.begin_deciding("message_decide").await?;
            match decided(&mut tx, &chosen, act, &kept.decision()).await {
                Ok(decree @ Decree::New(Decided::Changed { .. })) => tx.end(Ok(decree)).await,
                other => {
                    tx.roll_back().await?;
                    other
                }
            }
        })
        .await
    }

    /// One message.
    pub async fn message_get(&self, message_id: &str) -> Result<Option<MessageRow>, StoreError> {
        let message_id = message_id.to_owned();
        alone!(self.people.message_get(&message_id))
    }

    /// The newest messages that `filter` finds, older than the one with the id `before`.
    pub async fn message_list(
        &self,
        filter: &Filter,
        before: Option<&str>,
        limit: u32,
    ) -> Result<Vec<MessageRow>, StoreError> {
        let (filter, before) = (filter.clone(), before.map(str::to_owned));
        alone!(self.people.message_list(&filter, before.as_deref(), i64::from(limit)))
    }

    /// How many messages `filter` finds; its state must be set.
    pub async fn message_count(&self, filter: &Filter) -> Result<u64, StoreError> {
        let filter = filter.clone();
        alone!(self.people.message_count(&filter)).map(i64::unsigned_abs)
    }

    /// The newest attempts of a message, at most 100.
    pub async fn attempt_list(&self, message_id: &str) -> Result<Vec<AttemptRow>, StoreError> {
        let message_id = message_id.to_owned();
        alone!(self.people.attempt_list(&message_id))
    }

    /// The destinations that are paused.
    pub async fn pause_list(&self) -> Result<Vec<PauseRow>, StoreError> {
        alone!(self.people.pause_list())
    }

    /// The newest decisions about a message, at most 100.
    pub async fn audit_list(&self, message_id: &str) -> Result<Vec<AuditRow>, StoreError> {
        let message_id = message_id.to_owned();
        alone!(self.people.audit_list(&message_id))
    }

    /// Forgets the answers to operators' requests from before `before_ms`; says how many.
    pub async fn idempotency_prune(&self, before_ms: UnixMs) -> Result<u64, StoreError> {
        alone!(self.writer.idempotency_prune(before_ms))
    }
}
