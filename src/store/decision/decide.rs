//! One decision: its key is taken, it is carried out, its record and its answer are kept.

use super::types::{Act, Decided, Decision, DecisionReply, DecisionTarget, KeptDecision};
use super::{events, messages};
use crate::store::audit::{AuditEntry, append};
use crate::store::db::{DbError, DbResult, Door, StoreError, limit};
use crate::store::handle::Store;
use crate::store::idempotency::{KeyReply, KeyState, NewAnswer, idempotency_begin, idempotency_finish};
use crate::types::Name;

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
            let mut tx = store.parts.backend.begin("message_decide", purpose!(deciding)).await?;
            let kept_ms = store.answers_kept_ms();
            match in_tx!(tx, message_decide(&chosen, act, &decision, kept_ms)) {
                Ok(reply @ DecisionReply::New(Decided::Changed { .. })) => tx.end(Ok(reply)).await,
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
    kept_ms: i64,
) -> DbResult<DecisionReply> {
    let claim = match idempotency_begin(db, &decision.key_request(kept_ms)).await? {
        KeyReply::Claimed(claim) => claim,
        KeyReply::Answered(kept) => {
            let body = kept.answer.body.unwrap_or_default();
            let decided = serde_json::from_slice(&body)
                .map_err(|_| DbError::decode("body", "what no version writes"))?;
            return Ok(DecisionReply::Again(decided));
        }
        KeyReply::Reused { .. } | KeyReply::InProgress { .. } => return Ok(DecisionReply::KeyReused),
    };
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
        let body = serde_json::to_vec(&decided).unwrap_or_default();
        let (state, headers) = (KeyState::Succeeded, "[]".to_owned());
        let answer = NewAnswer { state, status: 200, headers, body: Some(body) };
        idempotency_finish(db, &claim, &answer).await?;
    }
    Ok(DecisionReply::New(decided))
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
    let entry =
        AuditEntry { actor: decision.actor.clone(), action: act.audited(), detail, ..AuditEntry::default() };
    append(db, decision.now_ms, &[entry]).await?;
    Ok(Decided::Changed { messages_n: 0 })
}
