//! Sessions of people at the console: made with a token, good while that token is, kept as digests.

use super::audit::{AuditEntry, append};
use super::damaged::intact;
use super::db::{DbError, DbResult, Door, Row, StoreError};
use super::token::TokenBook;
use crate::types::{Name, UnixMs};

/// Most sessions of one token; the oldest go when there are more.
const SESSIONS_N_MAX: i64 = 100;

/// A session, without itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorSession {
    /// SHA-256 of the session.
    pub digest: [u8; 32],
    /// Name of the token that it was made with.
    pub token_name: Name,
    /// What is kept of that token, for who has the session.
    pub token_bound: [u8; 32],
    /// Time when it was made.
    pub created_at_ms: UnixMs,
    /// Time until which it is good, unless it ends before.
    pub expires_at_ms: UnixMs,
}

impl TokenBook {
    /// Keeps a new session of somebody who comes `from` there.
    pub async fn session_make(&self, session: OperatorSession, from: String) -> Result<(), StoreError> {
        let store = self.store();
        together!(store.deciding.session_make(&session, from.as_str()))
    }

    /// Returns those of these sessions that there are.
    pub async fn sessions_known(&self, digests: Vec<[u8; 32]>) -> Result<Vec<OperatorSession>, StoreError> {
        let (store, digests) = (self.store(), digests.iter().map(hex::encode).collect());
        alone!(store.reader.sessions_known(digests))
    }

    /// Ends the session of this digest.
    pub async fn session_end(&self, digest: [u8; 32]) -> Result<(), StoreError> {
        let store = self.store();
        alone!(store.deciding.session_end(digest))
    }

    /// Ends all sessions of the token of this name, for its holder who comes `from` there; how many those were.
    pub async fn sessions_end(&self, name: Name, from: String, now_ms: UnixMs) -> Result<u64, StoreError> {
        let store = self.store();
        together!(store.deciding.sessions_end(name.as_str(), from.as_str(), now_ms))
    }
}

async fn session_make(db: &mut Door<'_>, session: &OperatorSession, from: &str) -> DbResult<()> {
    let (name, now_ms) = (session.token_name.as_str(), session.created_at_ms);
    let sql = "/* session_make */ DELETE FROM operator_sessions WHERE expires_at_ms <= $1";
    db.execute(sql, &[now_ms.into()]).await?;
    let sql = "/* session_make */ DELETE FROM operator_sessions WHERE token_name = $1 AND digest NOT IN (
                   SELECT digest FROM operator_sessions WHERE token_name = $1
                   ORDER BY created_at_ms DESC, digest LIMIT $2)";
    db.execute(sql, &[name.into(), (SESSIONS_N_MAX - 1).into()]).await?;
    let sql = "/* session_make */ INSERT INTO operator_sessions (digest, token_name, token_bound, created_at_ms, expires_at_ms)
               VALUES ($1, $2, $3, $4, $5)";
    let values = [
        hex::encode(session.digest).into(),
        name.into(),
        session.token_bound.as_slice().into(),
        now_ms.into(),
        session.expires_at_ms.into(),
    ];
    db.execute(sql, &values).await?;
    append(db, now_ms, &[entry(name, "sign_in", format!("from {from}"))]).await
}

async fn sessions_known(db: &mut Door<'_>, digests: Vec<String>) -> DbResult<Vec<OperatorSession>> {
    let sql = "/* sessions_known */ SELECT digest, token_name, token_bound, created_at_ms, expires_at_ms
               FROM operator_sessions WHERE digest = ANY($1)";
    let rows = db.fetch(sql, &[digests.into()]).await?;
    Ok(intact("operator_sessions", "token_name", &rows, session_row)?.rows)
}

async fn session_end(db: &mut Door<'_>, digest: [u8; 32]) -> DbResult<()> {
    let sql = "/* session_end */ DELETE FROM operator_sessions WHERE digest = $1";
    db.execute(sql, &[hex::encode(digest).into()]).await.map(drop)
}

async fn sessions_end(db: &mut Door<'_>, name: &str, from: &str, now_ms: UnixMs) -> DbResult<u64> {
    let sql = "/* sessions_end */ DELETE FROM operator_sessions WHERE token_name = $1";
    let ended_n = db.execute(sql, &[name.into()]).await?;
    let detail = format!("from {from}, of {ended_n} sessions");
    append(db, now_ms, &[entry(name, "sign_out_everywhere", detail)]).await?;
    Ok(ended_n)
}

fn entry(name: &str, action: &'static str, detail: String) -> AuditEntry {
    AuditEntry { actor: name.to_owned(), action, detail, ..AuditEntry::default() }
}

fn session_row(row: &Row) -> DbResult<OperatorSession> {
    let name = row.text("token_name")?;
    let no_digest = |column: &'static str| DbError::decode(column, "no SHA-256");
    let digest = hex::decode(row.text("digest")?).map_err(|_| no_digest("digest"))?;
    Ok(OperatorSession {
        digest: digest.try_into().map_err(|_| no_digest("digest"))?,
        token_name: Name::parse(&name).map_err(|error| DbError::decode("token_name", error))?,
        token_bound: row.bytes("token_bound")?.try_into().map_err(|_| no_digest("token_bound"))?,
        created_at_ms: row.int("created_at_ms")?,
        expires_at_ms: row.int("expires_at_ms")?,
    })
}
