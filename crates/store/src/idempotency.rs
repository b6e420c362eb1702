//! Idempotency keys of requests, and the answers given under them: the holder of its key carries a request out, and the
//! answer is kept for a client that repeats the request.
//!
//! `idempotency_begin` claims a key and `idempotency_finish` writes the answer, both inside a transaction: that of the
//! effect, where the effect is ours (`decision/`, and a claim's own transaction), so that the two are one commit.
//! Elsewhere each is its own transaction, with a lock that expires and a fence that grows with each claim.

use super::db::{DbError, DbResult, Executor, Row, StoreError, Tx};
use super::handle::Store;
use hooklatch_core::types::UnixMs;

/// A request that is to be carried out once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRequest {
    /// Whose key it is: two principals may use the same one.
    pub principal: String,
    /// The key that it was sent with.
    pub key: String,
    /// Digest of the whole request.
    pub fingerprint: [u8; 32],
    /// Time of the request.
    pub now_ms: UnixMs,
    /// Time for which no other process may carry it out. Milliseconds.
    pub lock_ms: i64,
    /// Time for which its answer is kept. Milliseconds.
    pub kept_ms: i64,
}

/// Answer to a request that asked for its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyReply {
    /// The caller is to carry it out now.
    Claimed(KeyClaim),
    /// Another process carries it out.
    InProgress {
        /// Time at which that may be taken over.
        locked_until_ms: UnixMs,
        /// Time by the clock that counts.
        now_ms: UnixMs,
    },
    /// The key was used for another request.
    Reused {
        /// Time from which on it may be used again.
        expires_at_ms: UnixMs,
    },
    /// It was carried out, and this was the answer.
    Answered(KeptAnswer),
}

/// The right to carry a request out and to write its answer, until another process has a later one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyClaim {
    /// Whose key it is.
    pub principal: String,
    /// The key that is held.
    pub key: String,
    /// Number of the claim among those of its key, from 1.
    pub fence: i64,
    /// Time until which the answer is kept.
    pub expires_at_ms: UnixMs,
}

/// States of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// It is being carried out, or its owner died.
    Processing,
    /// Carried out, with a successful response.
    Succeeded,
    /// Refused for good: the same request would be refused again.
    Failed,
    /// It had no lasting effect, and may be tried again.
    Released,
}

impl KeyState {
    /// The value of `idempotency_keys.state`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Processing => "processing",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Released => "released",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Processing, Self::Succeeded, Self::Failed, Self::Released]
            .into_iter()
            .find(|one| one.as_str() == word)
    }
}

/// An answer that is to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAnswer {
    /// State that it leaves its key in: `Succeeded` or `Failed`.
    pub state: KeyState,
    /// HTTP status of the answer.
    pub status: u16,
    /// Headers that are given again, as JSON.
    pub headers: String,
    /// Its body; `None` where it is not kept.
    pub body: Option<Vec<u8>>,
}

/// An answer that was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptAnswer {
    /// The answer as it was given.
    pub answer: NewAnswer,
    /// Time until which it is kept.
    pub expires_at_ms: UnixMs,
}

impl Store {
    /// Claims the key of a request, or returns its state.
    pub async fn idempotency_begin(&self, request: &KeyRequest) -> Result<KeyReply, StoreError> {
        let (mut request, is_own_clock) = (request.clone(), self.is_own_clock());
        together!(self, writer, "idempotency_claim", |db| {
            // As a transaction of its own, by the database's clock where leases go by that.
            if is_own_clock {
                let sql = "/* idempotency_now */ SELECT {clock_ms} AS now_ms";
                request.now_ms = db.fetch_one(sql, &[]).await?.int("now_ms")?;
            }
            idempotency_begin(db, &request).await
        })
    }

    /// Keeps the answer of a request that is held by this claim; `false` when another process has a later one.
    pub async fn idempotency_finish(&self, claim: &KeyClaim, answer: &NewAnswer) -> Result<bool, StoreError> {
        let (claim, answer) = (claim.clone(), answer.clone());
        alone!(self.writer.idempotency_finish(&claim, &answer))
    }

    /// Lets anybody try again, unless the handler committed its transaction itself: its effect stands, and its key is
    /// used. Does nothing when another process has a later claim, or there is an answer.
    pub async fn idempotency_release(&self, claim: &KeyClaim) -> Result<(), StoreError> {
        let claim = claim.clone();
        together!(self, writer, "idempotency_release", |db| {
            if committed_by_handler(db, &claim).await? {
                return Ok(());
            }
            let sql = "/* idempotency_release */ UPDATE idempotency_keys SET state = 'released', locked_until_ms = 0
                WHERE principal = $1 AND idempotency_key = $2 AND fence = $3 AND state = 'processing'";
            db.execute(sql, &claim.values()).await.map(drop)
        })
    }

    /// Opens a transaction for the effect of a request that is held. Dropping it rolls it back.
    pub async fn idempotency_tx(&self, claim: &KeyClaim) -> Result<Tx, StoreError> {
        let mut tx = self.parts.backend.begin("idempotency_tx", purpose!(writer)).await?;
        let begun = match in_tx!(tx, witness_insert(claim)) {
            Ok(()) => crate::db::handler_begins(&mut tx).await,
            Err(error) => Err(error),
        };
        match begun {
            Ok(()) => Ok(tx),
            Err(error) => tx.end(Err(error)).await,
        }
    }

    /// Commits the effect of a request together with its answer. `false`: another process has a later claim, and
    /// nothing was committed.
    pub async fn idempotency_commit(
        &self,
        mut tx: Tx,
        claim: &KeyClaim,
        answer: &NewAnswer,
    ) -> Result<bool, StoreError> {
        crate::db::handler_ended(&mut tx).await?;
        in_tx!(tx, witness_delete(claim))?;
        match in_tx!(tx, idempotency_finish(claim, answer)) {
            Ok(true) => tx.end(Ok(true)).await,
            other => {
                tx.roll_back().await?;
                other
            }
        }
    }
}

/// Claims the key of a request in the caller's transaction, or returns its state. Waits for another claim
/// that is under way in a transaction.
pub(crate) async fn idempotency_begin(db: &mut Executor<'_>, request: &KeyRequest) -> DbResult<KeyReply> {
    if inserted(db, request).await? {
        return Ok(KeyReply::Claimed(request.claim(1)));
    }
    let row = match row_of(db, request).await? {
        Some(row) => row,
        // It was pruned between the two.
        None if inserted(db, request).await? => return Ok(KeyReply::Claimed(request.claim(1))),
        None => row_of(db, request).await?.ok_or_else(DbError::vanished)?,
    };
    if let Some(reply) = reply(&row, request)? {
        return Ok(reply);
    }
    let fence = row.int("fence")?;
    if committed_by_handler(db, &request.claim(fence)).await? {
        let row = row_of(db, request).await?.ok_or_else(DbError::vanished)?;
        return reply(&row, request)?.ok_or_else(DbError::vanished);
    }
    let sql = "/* idempotency_begin */ UPDATE idempotency_keys
               SET fingerprint = $3, state = 'processing', fence = fence + 1, locked_until_ms = $5, created_at_ms = $4,
                   expires_at_ms = $6, status = NULL, headers = NULL, body = NULL
               WHERE principal = $1 AND idempotency_key = $2 AND fence = $7";
    let mut values = request.values();
    values.push(fence.into());
    if db.execute(sql, &values).await? == 1 {
        Ok(KeyReply::Claimed(request.claim(fence + 1)))
    } else {
        Err(DbError::vanished())
    }
}

async fn inserted(db: &mut Executor<'_>, request: &KeyRequest) -> DbResult<bool> {
    let sql = "/* idempotency_begin */ INSERT INTO idempotency_keys
                 (principal, idempotency_key, fingerprint, state, fence, locked_until_ms, created_at_ms, expires_at_ms)
               VALUES ($1, $2, $3, 'processing', 1, $5, $4, $6) ON CONFLICT DO NOTHING";
    Ok(db.execute(sql, &request.values()).await? == 1)
}

async fn row_of(db: &mut Executor<'_>, request: &KeyRequest) -> DbResult<Option<Row>> {
    let sql = "/* idempotency_begin */ SELECT fingerprint, state, fence, locked_until_ms, expires_at_ms, status, headers, body
               FROM idempotency_keys WHERE principal = $1 AND idempotency_key = $2 FOR UPDATE";
    db.fetch_optional(sql, &[request.principal.as_str().into(), request.key.as_str().into()]).await
}

/// What a row says to a request under its key; `None` when the request may be carried out.
fn reply(row: &Row, request: &KeyRequest) -> DbResult<Option<KeyReply>> {
    let word = row.text("state")?;
    let state = KeyState::parse(&word).ok_or_else(|| DbError::decode("state", format_args!("`{word}`")))?;
    let (locked_until_ms, expires_at_ms) = (row.int("locked_until_ms")?, row.int("expires_at_ms")?);
    let is_locked = state == KeyState::Processing && locked_until_ms > request.now_ms;
    if state == KeyState::Released || (expires_at_ms <= request.now_ms && !is_locked) {
        return Ok(None);
    }
    // Before anything else: who waits for another request's answer would get it.
    if row.bytes("fingerprint")? != request.fingerprint {
        return Ok(Some(KeyReply::Reused { expires_at_ms }));
    }
    match state {
        KeyState::Processing if is_locked => {
            Ok(Some(KeyReply::InProgress { locked_until_ms, now_ms: request.now_ms }))
        }
        KeyState::Processing | KeyState::Released => Ok(None),
        KeyState::Succeeded | KeyState::Failed => {
            let status = row.count("status")?;
            let status =
                u16::try_from(status).map_err(|_| DbError::decode("status", format_args!("{status}")))?;
            let (headers, body) = (row.text("headers")?, row.bytes_or_null("body")?);
            let answer = NewAnswer { state, status, headers, body };
            Ok(Some(KeyReply::Answered(KeptAnswer { answer, expires_at_ms })))
        }
    }
}

/// Keeps the answer of a request in the caller's transaction; `false` when the claim is not the newest one any more.
pub(crate) async fn idempotency_finish(
    db: &mut Executor<'_>,
    claim: &KeyClaim,
    answer: &NewAnswer,
) -> DbResult<bool> {
    let sql = "/* idempotency_finish */ UPDATE idempotency_keys SET state = $4, status = $5, headers = $6, body = $7
               WHERE principal = $1 AND idempotency_key = $2 AND fence = $3 AND state = 'processing'";
    let mut values = claim.values();
    values.extend([
        answer.state.as_str().into(),
        i64::from(answer.status).into(),
        answer.headers.as_str().into(),
        answer.body.clone().into(),
    ]);
    Ok(db.execute(sql, &values).await? == 1)
}

/// Inserts a witness row, which is there after a transaction only if the handler committed it instead of us. No request
/// has its key: keys of requests have no spaces.
async fn witness_insert(db: &mut Executor<'_>, claim: &KeyClaim) -> DbResult<()> {
    let sql = "/* idempotency_witness */ INSERT INTO idempotency_keys
                 (principal, idempotency_key, fingerprint, state, fence, locked_until_ms, created_at_ms, expires_at_ms)
               VALUES ($1, $2, $3, 'processing', $4, 0, 0, $5)";
    let key = format!("{} {} {:016x}", claim.key, claim.fence, fastrand::u64(..));
    let values = [
        claim.principal.as_str().into(),
        key.into(),
        [0_u8; 32].as_slice().into(),
        claim.fence.into(),
        claim.expires_at_ms.into(),
    ];
    db.execute(sql, &values).await.map(drop)
}

async fn witness_delete(db: &mut Executor<'_>, claim: &KeyClaim) -> DbResult<()> {
    let sql = "/* idempotency_witness */ DELETE FROM idempotency_keys
               WHERE principal = $1 AND idempotency_key > $2 AND idempotency_key < $3";
    let [first, last] = claim.witnesses();
    db.execute(sql, &[claim.principal.as_str().into(), first.into(), last.into()]).await.map(drop)
}

/// Keeps a key as used, without an answer, if a handler committed the transaction that it was given; `true` then.
async fn committed_by_handler(db: &mut Executor<'_>, claim: &KeyClaim) -> DbResult<bool> {
    let sql = "/* idempotency_witness */ UPDATE idempotency_keys
               SET state = $6, status = 500, headers = '[]', body = NULL
               WHERE principal = $1 AND idempotency_key = $2 AND fence = $3 AND state = 'processing'
                 AND EXISTS (SELECT 1 FROM idempotency_keys witness WHERE witness.principal = $1
                             AND witness.idempotency_key > $4 AND witness.idempotency_key < $5)";
    let mut values = claim.values();
    values.extend(claim.witnesses().map(Into::into));
    values.push(KeyState::Failed.as_str().into());
    Ok(db.execute(sql, &values).await? == 1)
}

impl KeyRequest {
    /// The values of a statement that writes a claim: `$1` to `$6`.
    fn values(&self) -> Vec<crate::Value> {
        let until = |ms: i64| -> UnixMs { self.now_ms.saturating_add(ms) };
        vec![
            self.principal.as_str().into(),
            self.key.as_str().into(),
            self.fingerprint.as_slice().into(),
            self.now_ms.into(),
            until(self.lock_ms).into(),
            until(self.kept_ms).into(),
        ]
    }

    fn claim(&self, fence: i64) -> KeyClaim {
        let expires_at_ms = self.now_ms.saturating_add(self.kept_ms);
        KeyClaim { principal: self.principal.clone(), key: self.key.clone(), fence, expires_at_ms }
    }
}

impl KeyClaim {
    /// The range of keys of the witnesses of its transactions.
    fn witnesses(&self) -> [String; 2] {
        [" ", "!"].map(|end| format!("{} {}{end}", self.key, self.fence))
    }

    fn values(&self) -> Vec<crate::Value> {
        vec![self.principal.as_str().into(), self.key.as_str().into(), self.fence.into()]
    }
}
