//! The tokens of operators created at run time, and console sessions, which are created with a token, are valid while
//! that token is, and are kept as digests.

use std::collections::BTreeSet;

use super::audit::{AuditEntry, append};
use super::damaged::intact;
use super::db::{DbError, DbResult, Row, StoreError};
use super::handle::Store;
use hooklatch_core::types::{Name, Principal, Reach, Role, UnixMs};

/// Most tokens that are good at once.
pub(crate) const TOKENS_GOOD_N_MAX: u32 = 1_000;
/// Most sessions of one token; the oldest go when there are more.
const SESSIONS_N_MAX: i64 = 100;
/// Most tokens that a node caches: the valid ones, and the newest of those that are no longer valid.
const TOKENS_CACHED_N_MAX: u32 = 2_000;

/// A token, without itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRow {
    /// Id of the token.
    pub token_id: String,
    /// Its holder, with role and scope.
    pub principal: Principal,
    /// SHA-256 of the token.
    pub digest: [u8; 32],
    /// Name of the token that made it.
    pub created_by: String,
    /// Time when it was made.
    pub created_at_ms: UnixMs,
    /// Time until which it is good.
    pub expires_at_ms: UnixMs,
    /// Time when it was revoked.
    pub revoked_at_ms: Option<UnixMs>,
    /// Time when it was last used, to a minute or so.
    pub last_used_at_ms: Option<UnixMs>,
}

impl TokenRow {
    /// True when it is good at `now_ms`.
    pub fn is_good(&self, now_ms: UnixMs) -> bool {
        self.revoked_at_ms.is_none() && now_ms < self.expires_at_ms
    }
}

/// Columns of [`token_row`], then what follows.
pub(super) fn tokens_sql(op: &str, rest: &str) -> String {
    format!(
        "/* {op} */ SELECT token_id, name, role, providers, destinations, digest, created_by, created_at_ms,
             expires_at_ms, revoked_at_ms, last_used_at_ms FROM operator_tokens {rest}"
    )
}

/// Reads a row of `operator_tokens`. What no version writes is an error, never a wider scope.
pub(super) fn token_row(row: &Row) -> DbResult<TokenRow> {
    let (name, role) = (row.text("name")?, row.text("role")?);
    let digest = row.bytes("digest")?;
    let principal = Principal {
        name: Name::parse(&name).map_err(|error| DbError::decode("name", error))?,
        role: Role::parse(&role).ok_or_else(|| DbError::decode("role", format_args!("`{role}`")))?,
        providers: reach(row, "providers")?,
        destinations: reach(row, "destinations")?,
    };
    Ok(TokenRow {
        token_id: row.text("token_id")?,
        principal,
        digest: digest.try_into().map_err(|_| DbError::decode("digest", "no SHA-256"))?,
        created_by: row.text("created_by")?,
        created_at_ms: row.int("created_at_ms")?,
        expires_at_ms: row.int("expires_at_ms")?,
        revoked_at_ms: row.int_or_null("revoked_at_ms")?,
        last_used_at_ms: row.int_or_null("last_used_at_ms")?,
    })
}

/// Rows of `operator_tokens`; a damaged one is no valid token.
pub(super) fn token_rows(rows: &[Row]) -> DbResult<Vec<TokenRow>> {
    Ok(intact("operator_tokens", "token_id", rows, token_row)?.rows)
}

fn reach(row: &Row, column: &str) -> DbResult<Reach> {
    let Some(text) = row.text_or_null(column)? else { return Ok(Reach::All) };
    let names: Option<BTreeSet<Name>> = serde_json::from_str::<Vec<String>>(&text)
        .ok()
        .and_then(|names| names.iter().map(|name| Name::parse(name).ok()).collect());
    names.map(Reach::These).ok_or_else(|| DbError::decode(column, "no list of names"))
}

/// The list of a reach, as its column holds it.
pub(super) fn reach_text(reach: &Reach) -> Option<String> {
    reach.names().map(|names| serde_json::Value::from(names).to_string())
}

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

/// The tokens, for the code that authenticates requests: it reads them and records their use, and nothing else.
#[derive(Clone)]
pub struct TokenBook(Store);

impl TokenBook {
    /// The tokens of this store.
    pub fn new(store: Store) -> Self {
        Self(store)
    }

    pub fn store(&self) -> &Store {
        &self.0
    }

    /// Returns the tokens that are good, and the newest of those that are no more, at most 2,000 of both.
    pub async fn tokens_known(&self) -> Result<Vec<TokenRow>, StoreError> {
        alone!(self.0, reader, "tokens_known", |db| {
            let rest = "ORDER BY CASE WHEN revoked_at_ms IS NULL THEN 0 ELSE 1 END, expires_at_ms DESC, token_id LIMIT $1";
            token_rows(&db.fetch(tokens_sql("tokens_known", rest), &[TOKENS_CACHED_N_MAX.into()]).await?)
        })
    }

    /// Notes that these tokens were used.
    pub async fn tokens_used(&self, token_ids: Vec<String>, now_ms: UnixMs) -> Result<(), StoreError> {
        alone!(self.0, writer, "tokens_used", |db| {
            let sql = "/* tokens_used */ UPDATE operator_tokens SET last_used_at_ms = $2
                       WHERE token_id = ANY($1) AND COALESCE(last_used_at_ms, 0) < $2";
            db.execute(sql, &[token_ids.into(), now_ms.into()]).await.map(drop)
        })
    }

    /// Inserts a new session of an operator who signed in `from` there.
    pub async fn session_make(&self, session: OperatorSession, from: String) -> Result<(), StoreError> {
        together!(self.0, deciding, "session_make", |db| {
            let (name, now_ms) = (session.token_name.as_str(), session.created_at_ms);
            let sql = "/* session_make */ DELETE FROM operator_sessions WHERE expires_at_ms <= $1";
            db.execute(sql, &[now_ms.into()]).await?;
            let sql =
                "/* session_make */ DELETE FROM operator_sessions WHERE token_name = $1 AND digest NOT IN (
                           SELECT digest FROM operator_sessions WHERE token_name = $1
                           ORDER BY created_at_ms DESC, digest LIMIT $2)";
            db.execute(sql, &[name.into(), (SESSIONS_N_MAX - 1).into()]).await?;
            let sql = "/* session_make */ INSERT INTO operator_sessions
                           (digest, token_name, token_bound, created_at_ms, expires_at_ms)
                       VALUES ($1, $2, $3, $4, $5)";
            let (digest, bound) = (hex::encode(session.digest).into(), session.token_bound.as_slice().into());
            db.execute(sql, &[digest, name.into(), bound, now_ms.into(), session.expires_at_ms.into()])
                .await?;
            append(db, now_ms, &[AuditEntry::new(name, "sign_in", format!("from {from}"))]).await
        })
    }

    /// Returns those of these sessions that there are.
    pub async fn sessions_known(&self, digests: Vec<[u8; 32]>) -> Result<Vec<OperatorSession>, StoreError> {
        let digests: Vec<String> = digests.iter().map(hex::encode).collect();
        alone!(self.0, reader, "sessions_known", |db| {
            let sql =
                "/* sessions_known */ SELECT digest, token_name, token_bound, created_at_ms, expires_at_ms
                       FROM operator_sessions WHERE digest = ANY($1)";
            let rows = db.fetch(sql, &[digests.into()]).await?;
            Ok(intact("operator_sessions", "token_name", &rows, session_row)?.rows)
        })
    }

    /// Ends the session of this digest.
    pub async fn session_end(&self, digest: [u8; 32]) -> Result<(), StoreError> {
        alone!(self.0, deciding, "session_end", |db| {
            let sql = "/* session_end */ DELETE FROM operator_sessions WHERE digest = $1";
            db.execute(sql, &[hex::encode(digest).into()]).await.map(drop)
        })
    }

    /// Ends all sessions of the token of this name, for its holder at the address `from`. Returns their number.
    pub async fn sessions_end(&self, name: Name, from: String, now_ms: UnixMs) -> Result<u64, StoreError> {
        together!(self.0, deciding, "sessions_end", |db| {
            let sql = "/* sessions_end */ DELETE FROM operator_sessions WHERE token_name = $1";
            let ended_n = db.execute(sql, &[name.as_str().into()]).await?;
            let detail = format!("from {from}, of {ended_n} sessions");
            append(db, now_ms, &[AuditEntry::new(name.as_str(), "sign_out_everywhere", detail)]).await?;
            Ok(ended_n)
        })
    }
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
