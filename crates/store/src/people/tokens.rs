//! Tokens: list, create and revoke them. For admins, within their own scope.
//!
//! The audit log as an operator sees it.

use std::collections::BTreeSet;

use super::person::{People, PeopleError};
use crate::audit::{AuditEntry, append};
use crate::damaged::{IntactRows, intact};
use crate::db::{DbResult, Executor, Row, Value};
use crate::token::{TOKENS_GOOD_N_MAX, TokenRow, reach_text, token_columns, token_row, token_rows};
use hooklatch_contract::{AuditView, Page};
use hooklatch_core::types::{MessageId, Name, Principal, Reach, Role, UnixMs};

/// Time for which a token that is no longer valid is still listed. Milliseconds.
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
    /// Tokens within the caller's scope, the newest first, older than the one with the id `before`; and the id to go
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

    /// Creates a token, whose name is none of `reserved`, once for each key.
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

    /// Revokes a token within the caller's scope; one that is no longer valid stays as it is.
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

async fn token_list(db: &mut Executor<'_>, before: Option<String>, limit: u32) -> DbResult<Vec<TokenRow>> {
    let sql = concat!(
        "/* token_list */ SELECT ",
        token_columns!(),
        " FROM operator_tokens WHERE CAST($1 AS TEXT) IS NULL OR token_id < $1 ORDER BY token_id DESC LIMIT $2"
    );
    token_rows(&db.fetch(sql, &[before.into(), limit.into()]).await?)
}

async fn token_make(
    db: &mut Executor<'_>,
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
async fn token_insert(db: &mut Executor<'_>, row: &TokenRow, idempotency_key: &str) -> DbResult<bool> {
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
    db: &mut Executor<'_>,
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

/// Rows that one page looks at, at most: those out of scope are not shown.
const LOOKED_N: i64 = 10_000;

/// So many numbers are so many rows at most.
const AUDIT: &str = "/* people_audit */ SELECT a.audit_seq, a.at_ms, a.actor, a.action, a.provider, a.event_id,
        a.message_id, a.operation_id, a.detail
    FROM audit_log a
    WHERE a.audit_seq < $1 AND a.audit_seq >= $2
      AND (CAST($3 AS BIGINT) = 0 OR a.provider = ANY($4))
      AND (CAST($5 AS BIGINT) = 0 OR (a.message_id IS NOT NULL
           AND COALESCE((SELECT q.destination FROM outbox_queue q WHERE q.message_id = a.message_id),
                        (SELECT f.destination FROM outbox_finished f WHERE f.message_id = a.message_id)) = ANY($6)))
    ORDER BY a.audit_seq DESC LIMIT $7";
const OF_MESSAGE: &str =
    "/* people_decisions */ SELECT * FROM (SELECT audit_seq, at_ms, actor, action, provider, event_id, message_id,
            operation_id, detail
        FROM audit_log WHERE message_id = $1 AND message_id IS NOT NULL ORDER BY audit_seq DESC LIMIT 10000) a
    WHERE a.action <> 'answer_read' ORDER BY a.audit_seq DESC LIMIT 100";

/// The statements by name, for tests that look at their plans.
pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("audit log", AUDIT), ("decisions about a message", OF_MESSAGE)];

impl People {
    /// The audit log, the newest first, before the row with the number `before`; for operators. Who reaches some providers
    /// alone sees rows about those alone; who reaches some destinations alone, rows about messages to those.
    pub async fn audit(&self, before: Option<i64>, limit: u32) -> Result<Page<AuditView>, PeopleError> {
        self.needs(Role::Operator)?;
        let (store, principal) = (&self.store, self.principal.clone());
        Ok(alone!(store.people.people_audit(&principal, before, limit))?)
    }
}

async fn people_audit(
    db: &mut Executor<'_>,
    principal: &Principal,
    before: Option<i64>,
    limit: u32,
) -> DbResult<Page<AuditView>> {
    let sql = "/* people_audit */ SELECT COALESCE(MAX(audit_seq), 0) AS highest FROM audit_log";
    let highest = db.fetch_one(sql, &[]).await?.int("highest")?;
    let before = before.unwrap_or(i64::MAX).min(highest.saturating_add(1));
    let from = before.saturating_sub(LOOKED_N).max(0);
    let listed = |names: Option<Vec<String>>| -> [Value; 2] {
        [i64::from(names.is_some()).into(), names.unwrap_or_default().into()]
    };
    let mut values: Vec<Value> = vec![before.into(), from.into()];
    values.extend(listed(principal.providers.names()));
    values.extend(listed(principal.destinations.names()));
    values.push(limit.into());
    let rows = db.fetch(AUDIT, &values).await?;
    let found = audit_rows(&rows)?;
    let mut page = Page { damaged: found.damaged, ..Page::whole(found.rows) };
    if rows.len() == limit as usize {
        page.next = rows.last().map(|last| last.key_text("audit_seq"));
    } else if from > 1 {
        page.next = Some(from.to_string());
        page.looked_back_to_ms = at_ms(db, from).await?;
    }
    Ok(page)
}

/// The time of the row of this number, or of the next one.
async fn at_ms(db: &mut Executor<'_>, audit_seq: i64) -> DbResult<Option<UnixMs>> {
    let sql =
        "/* people_audit */ SELECT at_ms FROM audit_log WHERE audit_seq >= $1 ORDER BY audit_seq LIMIT 1";
    db.fetch_optional(sql, &[audit_seq.into()]).await?.map(|row| row.int("at_ms")).transpose()
}

/// The newest decisions about a message, at most 100. Views of a response are in the audit log alone.
pub(super) async fn people_decisions(
    db: &mut Executor<'_>,
    message_id: MessageId,
) -> DbResult<Vec<AuditView>> {
    let rows = db.fetch(OF_MESSAGE, &[message_id.number().into()]).await?;
    Ok(audit_rows(&rows)?.rows)
}

/// Rows with all columns of the log, those that are damaged apart.
pub(super) fn audit_rows(rows: &[Row]) -> DbResult<IntactRows<AuditView>> {
    intact("audit_log", "audit_seq", rows, audit_view)
}

fn audit_view(row: &Row) -> DbResult<AuditView> {
    Ok(AuditView {
        audit_seq: row.int("audit_seq")?,
        at_ms: row.int("at_ms")?,
        actor: row.text("actor")?,
        action: row.text("action")?,
        provider: row.text_or_null("provider")?,
        event_id: row.text_or_null("event_id")?,
        message_id: row.int_or_null("message_id")?.map(|number| number.to_string()),
        operation_id: row.text_or_null("operation_id")?,
        detail: row.text("detail")?,
    })
}
