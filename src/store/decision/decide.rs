//! One decision: its key is taken, it is carried out, its record and its answer are kept.

use super::types::{Act, Decided, Decision, DecisionReply, DecisionTarget, KeptDecision};
use super::{events, messages};
use crate::store::audit::{AuditEntry, append};
use crate::store::db::{DbError, DbResult, Door, StoreError, limit};
use crate::store::handle::Store;
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
            match in_tx!(tx, message_decide(&chosen, act, &decision)) {
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
    let entry =
        AuditEntry { actor: decision.actor.clone(), action: act.audited(), detail, ..AuditEntry::default() };
    append(db, decision.now_ms, &[entry]).await?;
    Ok(Decided::Changed { messages_n: 0 })
}
