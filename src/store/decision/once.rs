//! One decision: its key is taken, it is carried out, its answer and its records are kept, all in one transaction.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::keys::{self, TakenKey};
use super::types::{Answered, Deciding, Refusal};
use crate::store::audit::append;
use crate::store::db::{DbResult, Door, StoreError, Tx, Working, limit};
use crate::store::handle::Store;

/// What a decision comes to, or why it was not carried out.
pub(in crate::store) type Verdict<T> = Result<T, Refusal>;

/// Carries out a decision once, records it, and keeps its answer, all in one transaction. What was refused leaves no
/// trace, and its key may be used again.
pub(in crate::store) async fn once<T>(
    store: &Store,
    op: &'static str,
    mut deciding: Deciding,
    work: impl for<'a> FnOnce(Door<'a>, &'a mut Deciding) -> Working<'a, DbResult<Verdict<T>>> + Send + 'static,
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
    work: impl for<'a> FnOnce(Door<'a>, &'a mut Deciding) -> Working<'a, DbResult<Verdict<T>>>,
) -> DbResult<Verdict<Answered<T>>> {
    let claim = match keys::take(&mut tx.door()?, deciding, kept_ms).await? {
        Ok(TakenKey::Claimed(claim)) => claim,
        Ok(TakenKey::Answered(value)) => return Ok(Ok(Answered { value, is_again: true })),
        Err(refusal) => return Ok(Err(refusal)),
    };
    let value = match work(tx.door()?, deciding).await? {
        Ok(value) => value,
        Err(refusal) => return Ok(Err(refusal)),
    };
    keys::keep(&mut tx.door()?, &claim, &value).await?;
    append(&mut tx.door()?, deciding.now_ms, &deciding.records).await?;
    Ok(Ok(Answered { value, is_again: false }))
}
