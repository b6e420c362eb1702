//! The key of the request that carries a decision: taken first, answered last, both in the decision's transaction.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::types::{Deciding, Refusal};
use crate::store::db::{DbError, DbResult, Door};
use crate::store::idempotency::{
    KeyClaim, KeyReply, KeyRequest, KeyState, NewAnswer, idempotency_begin, idempotency_finish,
};

/// A key that was asked for: it is this decision's, or its request was answered before.
pub(super) enum TakenKey<T> {
    /// The decision is to be carried out, and answered with this.
    Claimed(KeyClaim),
    /// The answer that was given.
    Answered(T),
}

/// Takes the key for this request, whose answer is kept for `kept_ms`. Another request under way with this key is
/// waited for.
pub(super) async fn take<T: DeserializeOwned>(
    db: &mut Door<'_>,
    deciding: &Deciding,
    kept_ms: i64,
) -> DbResult<Result<TakenKey<T>, Refusal>> {
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
        KeyReply::Claimed(claim) => Ok(Ok(TakenKey::Claimed(claim))),
        KeyReply::Answered(kept) => {
            let body = kept.answer.body.unwrap_or_default();
            let value = serde_json::from_slice(&body)
                .map_err(|_| DbError::decode("body", "what no version writes"))?;
            Ok(Ok(TakenKey::Answered(value)))
        }
        KeyReply::Reused { .. } | KeyReply::InProgress { .. } => Ok(Err(Refusal::KeyReused)),
    }
}

/// Keeps the answer, as JSON.
pub(super) async fn keep(db: &mut Door<'_>, claim: &KeyClaim, value: &impl Serialize) -> DbResult<()> {
    let body = serde_json::to_vec(value).unwrap_or_default();
    let answer =
        NewAnswer { state: KeyState::Succeeded, status: 200, headers: "[]".to_owned(), body: Some(body) };
    idempotency_finish(db, claim, &answer).await.map(drop)
}
