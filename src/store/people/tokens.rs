//! Tokens: who has one, who gets one, who loses it. For admins, and for what is within their own scope.

use std::collections::BTreeSet;

use super::person::{People, PeopleError};
use crate::store::audit::{AuditEntry, append};
use crate::store::db::{DbResult, Door};
use crate::store::token::{TOKENS_GOOD_N_MAX, TokenRow, reach_text, token_columns, token_row, token_rows};
use crate::types::{Name, Principal, Reach, Role, UnixMs};

/// Time for which a token that is good no more is still listed. Milliseconds.
const LISTED_MS: i64 = 90 * 86_400_000;

/// The token that a request has made.
const BY_KEY: &str = concat!(
    "/* token_make */ SELECT ",
    token_columns!(),
    " FROM operator_tokens WHERE created_by = $1 AND idempotency_key = $2"
);

/// A token that is to be made.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// Its holder, with role and scope.
    pub principal: Principal,
    /// SHA-256 of the token.
    pub digest: [u8; 32],
    /// Time until which it is good.
    pub expires_at_ms: UnixMs,
    /// The request's own `Idempotency-Key`.
    pub idempotency_key: String,
    /// The reason, for the audit log.
    pub reason: String,
    /// Time of the request.
    pub now_ms: UnixMs,
}

/// Outcome of a request for a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenMaking {
    /// The token was made.
    Made(TokenRow),
    /// The request with this key has made one before, which was shown then.
    MadeBefore(TokenRow),
    /// Another token that is good has this name.
    NameTaken,
    /// As many tokens are good as may be.
    TooMany,
    /// It would do or see what its maker may not.
    TooWide,
}

impl People {
    /// Tokens within the scope of who asks, the newest first, older than the one with the id `before`; and the id to go
    /// on from.
    pub async fn token_list(
        &self,
        before: Option<&str>,
        limit: u32,
    ) -> Result<(Vec<TokenRow>, Option<String>), PeopleError> {
        self.needs(Role::Admin)?;
        let (store, before) = (&self.store, before.map(str::to_owned));
        let mut rows = alone!(store.people.token_list(before, limit))?;
        let is_full = rows.len() >= limit as usize;
        let next = rows.last().filter(|_| is_full).map(|last| last.token_id.clone());
        rows.retain(|row| self.principal.covers(&row.principal));
        Ok((rows, next))
    }

    /// Makes a token, whose name is none of `reserved`, once for each key.
    pub async fn token_make(
        &self,
        new: NewToken,
        reserved: &BTreeSet<Name>,
    ) -> Result<TokenMaking, PeopleError> {
        self.needs(Role::Admin)?;
        if !self.principal.covers(&new.principal) {
            return Ok(TokenMaking::TooWide);
        }
        if reserved.contains(&new.principal.name) {
            return Ok(TokenMaking::NameTaken);
        }
        let (store, actor) = (&self.store, (self.principal.name.to_string(), self.actor()));
        Ok(together!(store.deciding.token_make(&actor, &new))?)
    }

    /// Revokes a token within the scope of who asks; one that is good no more stays as it is.
    pub async fn token_revoke(
        &self,
        token_id: &str,
        reason: &str,
        now_ms: UnixMs,
    ) -> Result<TokenRow, PeopleError> {
        self.needs(Role::Admin)?;
        let (store, token_id, reason) = (&self.store, token_id.to_owned(), reason.to_owned());
        let actor = (self.principal.clone(), self.actor());
        together!(store.deciding.token_revoke(&actor, &token_id, &reason, now_ms))?
            .ok_or(PeopleError::NotFound)
    }
}

async fn token_list(db: &mut Door<'_>, before: Option<String>, limit: u32) -> DbResult<Vec<TokenRow>> {
    let sql = concat!(
        "/* token_list */ SELECT ",
        token_columns!(),
        " FROM operator_tokens WHERE CAST($1 AS TEXT) IS NULL OR token_id < $1 ORDER BY token_id DESC LIMIT $2"
    );
    token_rows(&db.fetch(sql, &[before.into(), limit.into()]).await?)
}

async fn token_make(
    db: &mut Door<'_>,
    (name_of_actor, actor): &(String, String),
    new: &NewToken,
) -> DbResult<TokenMaking> {
    let sql = "/* token_make */ DELETE FROM operator_tokens WHERE expires_at_ms < $1 OR revoked_at_ms < $1";
    db.execute(sql, &[new.now_ms.saturating_sub(LISTED_MS).into()]).await?;
    let key = [name_of_actor.as_str().into(), new.idempotency_key.as_str().into()];
    if let Some(row) = db.fetch_optional(BY_KEY, &key).await? {
        return Ok(TokenMaking::MadeBefore(token_row(&row)?));
    }
    let name = new.principal.name.as_str();
    // The name of one that has expired may be given again.
    let sql = "/* token_make */ UPDATE operator_tokens SET revoked_at_ms = expires_at_ms
               WHERE name = $1 AND revoked_at_ms IS NULL AND expires_at_ms <= $2";
    db.execute(sql, &[name.into(), new.now_ms.into()]).await?;
    let sql = "/* token_make */ SELECT COUNT(*) AS n FROM operator_tokens
               WHERE revoked_at_ms IS NULL AND expires_at_ms > $1";
    if db.fetch_one(sql, &[new.now_ms.into()]).await?.int("n")? >= i64::from(TOKENS_GOOD_N_MAX) {
        return Ok(TokenMaking::TooMany);
    }
    let row = TokenRow {
        token_id: uuid::Uuid::now_v7().to_string(),
        principal: new.principal.clone(),
        digest: new.digest,
        created_by: name_of_actor.clone(),
        created_at_ms: new.now_ms,
        expires_at_ms: new.expires_at_ms,
        revoked_at_ms: None,
        last_used_at_ms: None,
    };
    if !token_insert(db, &row, &new.idempotency_key).await? {
        // By name, or by the same request at the same moment.
        let made = db.fetch_optional(BY_KEY, &key).await?;
        return made.map_or(Ok(TokenMaking::NameTaken), |row| Ok(TokenMaking::MadeBefore(token_row(&row)?)));
    }
    let detail = format!(
        "{name}: {}, {}, until {}: {}",
        new.principal.role.as_str(),
        scope_text(&new.principal),
        new.expires_at_ms,
        new.reason
    );
    let entry = AuditEntry { actor: actor.clone(), action: "token_make", detail, ..AuditEntry::default() };
    append(db, new.now_ms, &[entry]).await?;
    Ok(TokenMaking::Made(row))
}

/// Inserts it; false when there is one of its name or of its request.
async fn token_insert(db: &mut Door<'_>, row: &TokenRow, idempotency_key: &str) -> DbResult<bool> {
    let sql = "/* token_make */ INSERT INTO operator_tokens (token_id, name, role, providers, destinations, digest, created_by,
                   idempotency_key, created_at_ms, expires_at_ms)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING";
    let values = [
        row.token_id.as_str().into(),
        row.principal.name.as_str().into(),
        row.principal.role.as_str().into(),
        reach_text(&row.principal.providers).into(),
        reach_text(&row.principal.destinations).into(),
        row.digest.as_slice().into(),
        row.created_by.as_str().into(),
        idempotency_key.into(),
        row.created_at_ms.into(),
        row.expires_at_ms.into(),
    ];
    Ok(db.execute(sql, &values).await? == 1)
}

async fn token_revoke(
    db: &mut Door<'_>,
    (who, actor): &(Principal, String),
    token_id: &str,
    reason: &str,
    now_ms: UnixMs,
) -> DbResult<Option<TokenRow>> {
    let sql = concat!(
        "/* token_revoke */ SELECT ",
        token_columns!(),
        " FROM operator_tokens WHERE token_id = $1 FOR UPDATE"
    );
    let Some(row) = db.fetch_optional(sql, &[token_id.into()]).await? else { return Ok(None) };
    let row = token_row(&row)?;
    if !who.covers(&row.principal) {
        return Ok(None);
    }
    if !row.is_good(now_ms) {
        return Ok(Some(row));
    }
    let sql = "/* token_revoke */ UPDATE operator_tokens SET revoked_at_ms = $2 WHERE token_id = $1";
    db.execute(sql, &[token_id.into(), now_ms.into()]).await?;
    let detail = format!("{}: {reason}", row.principal.name);
    let entry = AuditEntry { actor: actor.clone(), action: "token_revoke", detail, ..AuditEntry::default() };
    append(db, now_ms, &[entry]).await?;
    Ok(Some(TokenRow { revoked_at_ms: Some(now_ms), ..row }))
}

/// What a token reaches, for people.
fn scope_text(principal: &Principal) -> String {
    let one = |what: &str, reach: &Reach| match reach.names() {
        None => format!("all {what}"),
        Some(names) if names.is_empty() => format!("no {what}"),
        Some(names) => format!("{what} {}", names.join(" ")),
    };
    format!("{}, {}", one("providers", &principal.providers), one("destinations", &principal.destinations))
}
