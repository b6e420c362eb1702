//! [`IdempotencyClaim`]: the effect and its answer in one commit.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, Limited};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::warn;

use super::answers::{BODY_BYTES_MAX, kept, state_after};
use super::problem::{in_use, problem, unavailable};
use hooklatch_core::types::ProblemCode;
use hooklatch_store::{KeyClaim, Store, Tx, roll_back};

/// The right to carry out the request that has it as an extension: `Extension(claim): Extension<IdempotencyClaim>`.
///
/// A handler that writes its effect with [`begin`](Self::begin) and [`commit`](Self::commit) takes effect exactly once:
/// whatever is killed, effect and answer are both there or neither is, and who lost its claim commits nothing.
#[derive(Clone)]
pub struct IdempotencyClaim(Arc<HeldClaim>);

struct HeldClaim {
    store: Store,
    claim: KeyClaim,
    transactions: Arc<Semaphore>,
    /// Its transaction's place, given back with the request.
    place: Mutex<Option<OwnedSemaphorePermit>>,
}

/// Marks an answer that was kept with its effect.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommittedAnswer;

impl IdempotencyClaim {
    pub(crate) fn new(store: Store, claim: KeyClaim, transactions: Arc<Semaphore>) -> Self {
        Self(Arc::new(HeldClaim { store, claim, transactions, place: Mutex::new(None) }))
    }

    /// Opens a transaction on the database of Hooklatch. Dropping it rolls it back. Be quick: on SQLite nothing else is
    /// written meanwhile, not even events.
    pub async fn begin(&self) -> anyhow::Result<Tx> {
        let place = Arc::clone(&self.0.transactions).acquire_owned().await?;
        let tx = self.0.store.idempotency_tx(&self.0.claim).await?;
        *self.0.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
        Ok(tx)
    }

    /// Commits what was written through `tx` together with the answer, and gives the answer back: return it. An answer
    /// that is not kept (5xx, 408, …) rolls back instead.
    ///
    /// When nothing could be committed the answer is another one: 409 where another process has taken over, 503 where
    /// the database did not confirm.
    pub async fn commit(&self, tx: Tx, answer: impl IntoResponse) -> Response {
        let (parts, body) = answer.into_response().into_parts();
        let Some(state) = state_after(parts.status) else {
            if let Err(error) = roll_back(tx).await {
                warn!(%error, "could not roll back a request that came to nothing");
            }
            return Response::from_parts(parts, body);
        };
        let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
            // Nothing was committed, so nothing is lost.
            let sentence =
                "an answer that is kept with its effect has 64 KiB at most, and is there as a whole";
            return problem(500, ProblemCode::IdempotencyAnswerUnusable, sentence, &[]);
        };
        let body = body.to_bytes();
        let answer = kept(state, parts.status, &parts.headers, Some(&body));
        match self.0.store.idempotency_commit(tx, &self.0.claim, &answer).await {
            Ok(true) => {
                let mut response = Response::from_parts(parts, Body::from(body));
                response.extensions_mut().insert(CommittedAnswer);
                response
            }
            Ok(false) => in_use(1),
            Err(error) => {
                warn!(%error, "could not commit a request with its answer");
                unavailable()
            }
        }
    }
}
