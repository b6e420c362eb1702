//! The key of the request that carries a decision: taken first, answered last, both in the decision's transaction.

use super::types::Deciding;
use crate::store::db::{DbResult, Door};

/// Takes the key for this request; what the same key was answered before, and to which request. Another request under
/// way with this key is waited for.
pub(super) async fn take(db: &mut Door<'_>, deciding: &Deciding) -> DbResult<Option<(Vec<u8>, String)>> {
    let taken_n = db
        .execute(
            "/* idempotency_take */ INSERT INTO idempotency_keys (actor, idempotency_key, digest, answer, created_at_ms)
             VALUES ($1, $2, $3, '', $4) ON CONFLICT DO NOTHING",
            &[
                deciding.who.name.as_str().into(),
                deciding.idempotency_key.as_str().into(),
                deciding.digest.as_slice().into(),
                deciding.now_ms.into(),
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
            &[deciding.who.name.as_str().into(), deciding.idempotency_key.as_str().into()],
        )
        .await?;
    Ok(Some((row.bytes("digest")?, row.text("answer")?)))
}

/// Keeps the answer, as JSON.
pub(super) async fn keep(db: &mut Door<'_>, deciding: &Deciding, answer: &str) -> DbResult<()> {
    let sql = "/* idempotency_answer */ UPDATE idempotency_keys SET answer = $3
               WHERE actor = $1 AND idempotency_key = $2";
    let (actor, key) = (deciding.who.name.as_str(), deciding.idempotency_key.as_str());
    db.execute(sql, &[actor.into(), key.into(), answer.into()]).await.map(drop)
}
