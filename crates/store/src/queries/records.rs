//! Records for admins and operators: tokens, which admins list, create and revoke within their own scope, and the audit
//! log.

use std::collections::BTreeSet;

use super::{OperatorError, OperatorQueries, any_of};
use crate::audit::{AuditEntry, append};
use crate::damaged::{IntactRows, intact};
use crate::db::{DbResult, Executor, Row, Value};
use crate::token::{TOKENS_GOOD_N_MAX, TokenRow, reach_text, token_row, token_rows, tokens_sql};
use hooklatch_contract::{AuditView, Page};
use hooklatch_core::types::{MessageId, Name, Principal, Reach, Role, UnixMs};

/// Time for which a token that is no longer valid is still listed. Milliseconds.
const LISTED_MS: i64 = 90 * 86_400_000;
/// Rows of the audit log that one page looks at, at most: those out of scope are not shown.
const LOOKED_N: i64 = 10_000;

/// Rows of the newest `$2` up to the number `$1`.
const AUDIT: &str = "/* operator_audit */ SELECT a.audit_seq, a.at_ms, a.actor, a.action, a.provider, a.event_id,
        a.message_id, a.operation_id, a.detail
    FROM (SELECT * FROM audit_log WHERE audit_seq <= $1 ORDER BY audit_seq DESC LIMIT $2) a
    WHERE (CAST($3 AS BIGINT) = 0 OR a.provider = ANY($4))
      AND (CAST($5 AS BIGINT) = 0 OR (a.message_id IS NOT NULL
           AND COALESCE((SELECT q.destination FROM outbox_queue q WHERE q.message_id = a.message_id),
                        (SELECT f.destination FROM outbox_finished f WHERE f.message_id = a.message_id)) = ANY($6)))
    ORDER BY a.audit_seq DESC LIMIT $7";
/// The last of these `$2` rows, where there are so many.
const AUDIT_END: &str = "/* operator_audit */ SELECT a.audit_seq, a.at_ms FROM audit_log a
    WHERE a.audit_seq = (SELECT MIN(w.audit_seq) FROM (SELECT audit_seq FROM audit_log
        WHERE audit_seq <= $1 ORDER BY audit_seq DESC LIMIT $2) w HAVING COUNT(*) >= $2)";
const OF_MESSAGE: &str =
    "/* operator_decisions */ SELECT * FROM (SELECT audit_seq, at_ms, actor, action, provider, event_id, message_id,
            operation_id, detail
        FROM audit_log WHERE message_id = $1 AND message_id IS NOT NULL ORDER BY audit_seq DESC LIMIT 10000) a
    WHERE a.action <> 'answer_read' ORDER BY a.audit_seq DESC LIMIT 100";

/// The statements by name, for tests that look at their plans.
#[cfg(any(test, feature = "testing"))]
pub(super) fn statements() -> Vec<super::NamedStatement> {
    vec![
        ("audit log", AUDIT.to_owned()),
        ("end of the audit log", AUDIT_END.to_owned()),
        ("decisions about a message", OF_MESSAGE.to_owned()),
    ]
}

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

impl OperatorQueries {
    /// Tokens within the caller's scope, the newest first, older than the one with the id `before`; and the id to go
    /// on from.
    pub async fn token_list(
        &self,
        before: Option<&str>,
        limit: u32,
    ) -> Result<(Vec<TokenRow>, Option<String>), OperatorError> {
        self.needs(Role::Admin)?;
        let values = [before.into(), limit.into()];
        let mut rows = alone!(self.store, operators, "token_list", |db| {
            let rest = "WHERE CAST($1 AS TEXT) IS NULL OR token_id < $1 ORDER BY token_id DESC LIMIT $2";
            token_rows(&db.fetch(tokens_sql("token_list", rest), &values).await?)
        })?;
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
    ) -> Result<TokenMaking, OperatorError> {
        self.needs(Role::Admin)?;
        if !self.principal.covers(&new.principal) {
            return Ok(TokenMaking::TooWide);
        }
        if reserved.contains(&new.principal.name) {
            return Ok(TokenMaking::NameTaken);
        }
        let detail = format!(
            "{}: {}, {}, until {}: {}",
            new.principal.name,
            new.principal.role.as_str(),
            scope_text(&new.principal),
            new.expires_at_ms,
            new.reason
        );
        let (created_by, entry) = (self.principal.name.to_string(), self.entry("token_make", detail));
        Ok(together!(self.store, deciding, "token_make", |db| token_make(db, new, created_by, entry).await)?)
    }

    /// Revokes a token within the caller's scope; one that is no longer valid stays as it is.
    pub async fn token_revoke(
        &self,
        token_id: &str,
        reason: &str,
        now_ms: UnixMs,
    ) -> Result<TokenRow, OperatorError> {
        self.needs(Role::Admin)?;
        let (token_id, who) = (token_id.to_owned(), self.principal.clone());
        let mut entry = self.entry("token_revoke", reason);
        together!(self.store, deciding, "token_revoke", |db| {
            let sql = tokens_sql("token_revoke", "WHERE token_id = $1 FOR UPDATE");
            let Some(row) = db.fetch_optional(sql, &[(&token_id).into()]).await? else { return Ok(None) };
            let row = token_row(&row)?;
            if !who.covers(&row.principal) {
                return Ok(None);
            }
            if !row.is_good(now_ms) {
                return Ok(Some(row));
            }
            let sql = "/* token_revoke */ UPDATE operator_tokens SET revoked_at_ms = $2 WHERE token_id = $1";
            db.execute(sql, &[token_id.into(), now_ms.into()]).await?;
            entry.detail = format!("{}: {}", row.principal.name, entry.detail);
            append(db, now_ms, &[entry]).await?;
            Ok(Some(TokenRow { revoked_at_ms: Some(now_ms), ..row }))
        })?
        .ok_or(OperatorError::NotFound)
    }

    /// The audit log, the newest first, before the row with the number `before`; for operators. A token for some
    /// providers sees rows about those alone; one for some destinations, rows about messages to those.
    pub async fn audit(&self, before: Option<i64>, limit: u32) -> Result<Page<AuditView>, OperatorError> {
        self.needs(Role::Operator)?;
        let newest = before.map_or(i64::MAX, |before| before.saturating_sub(1));
        let mut values: Vec<Value> = vec![newest.into(), LOOKED_N.into()];
        values.extend(any_of(self.principal.providers.names()));
        values.extend(any_of(self.principal.destinations.names()));
        values.push(limit.into());
        Ok(alone!(self.store, operators, "operator_audit", |db| {
            let rows = db.fetch(AUDIT, &values).await?;
            let found = audit_rows(&rows)?;
            let mut page = Page { damaged: found.damaged, ..Page::whole(found.rows) };
            if rows.len() == limit as usize {
                page.next = rows.last().map(|last| last.key_text("audit_seq"));
            } else if let Some(end) = db.fetch_optional(AUDIT_END, &[newest.into(), LOOKED_N.into()]).await? {
                page.next = Some(end.key_text("audit_seq"));
                page.looked_back_to_ms = Some(end.int("at_ms")?);
            }
            Ok(page)
        })?)
    }
}

async fn token_make(
    db: &mut Executor<'_>,
    new: NewToken,
    created_by: String,
    entry: AuditEntry,
) -> DbResult<TokenMaking> {
    let now_ms = new.now_ms;
    let sql = "/* token_make */ DELETE FROM operator_tokens WHERE expires_at_ms < $1 OR revoked_at_ms < $1";
    db.execute(sql, &[now_ms.saturating_sub(LISTED_MS).into()]).await?;
    let by_key = tokens_sql("token_make", "WHERE created_by = $1 AND idempotency_key = $2");
    let key: [Value; 2] = [(&created_by).into(), (&new.idempotency_key).into()];
    if let Some(row) = db.fetch_optional(by_key.clone(), &key).await? {
        return Ok(TokenMaking::MadeBefore(token_row(&row)?));
    }
    let name = new.principal.name.as_str();
    // The name of one that has expired may be given again.
    let sql = "/* token_make */ UPDATE operator_tokens SET revoked_at_ms = expires_at_ms
               WHERE name = $1 AND revoked_at_ms IS NULL AND expires_at_ms <= $2";
    db.execute(sql, &[name.into(), now_ms.into()]).await?;
    let sql = "/* token_make */ SELECT COUNT(*) AS n FROM operator_tokens
               WHERE revoked_at_ms IS NULL AND expires_at_ms > $1";
    if db.fetch_one(sql, &[now_ms.into()]).await?.int("n")? >= i64::from(TOKENS_GOOD_N_MAX) {
        return Ok(TokenMaking::TooMany);
    }
    let sql = "/* token_make */ INSERT INTO operator_tokens (created_by, idempotency_key, token_id, name, role, providers,
                   destinations, digest, created_at_ms, expires_at_ms)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING";
    let token_id = uuid::Uuid::now_v7().to_string();
    let mut values = key.to_vec();
    values.extend([
        (&token_id).into(),
        name.into(),
        new.principal.role.as_str().into(),
        reach_text(&new.principal.providers).into(),
        reach_text(&new.principal.destinations).into(),
        new.digest.as_slice().into(),
        now_ms.into(),
        new.expires_at_ms.into(),
    ]);
    if db.execute(sql, &values).await? == 0 {
        // There is one of its name, or of the same request at the same moment.
        let made = db.fetch_optional(by_key, &key).await?;
        return made.map_or(Ok(TokenMaking::NameTaken), |row| Ok(TokenMaking::MadeBefore(token_row(&row)?)));
    }
    append(db, now_ms, &[entry]).await?;
    Ok(TokenMaking::Made(TokenRow {
        token_id,
        principal: new.principal,
        digest: new.digest,
        created_by,
        created_at_ms: now_ms,
        expires_at_ms: new.expires_at_ms,
        revoked_at_ms: None,
        last_used_at_ms: None,
    }))
}

/// The scope of a token in words.
fn scope_text(principal: &Principal) -> String {
    let one = |what: &str, reach: &Reach| match reach.names() {
        None => format!("all {what}"),
        Some(names) if names.is_empty() => format!("no {what}"),
        Some(names) => format!("{what} {}", names.join(" ")),
    };
    format!("{}, {}", one("providers", &principal.providers), one("destinations", &principal.destinations))
}

/// The newest decisions about a message, at most 100. Views of a response are in the audit log alone.
pub(super) async fn message_decisions(
    db: &mut Executor<'_>,
    message_id: MessageId,
) -> DbResult<Vec<AuditView>> {
    let rows = db.fetch(OF_MESSAGE, &[message_id.number().into()]).await?;
    Ok(audit_rows(&rows)?.rows)
}

/// Rows with all columns of the log, those that are damaged apart.
pub(super) fn audit_rows(rows: &[Row]) -> DbResult<IntactRows<AuditView>> {
    intact("audit_log", "audit_seq", rows, |row| {
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
    })
}
