//! Requests that were not believed, as a person may see them: at most 100 of each provider are kept.

use std::collections::BTreeMap;

use super::choice::within;
use super::message::people_told;
use super::person::{People, PeopleError};
use crate::api::{Page, RejectedGroup, RejectedView};
use crate::figures::plural;
use crate::store::audit::AuditEntry;
use crate::store::damaged::{Intact, intact};
use crate::store::db::{DbResult, Door, Row};
use crate::types::{Name, UnixMs};

const REJECTED: &str =
    "/* people_rejected */ SELECT rejection_id, provider, received_at_ms, step, reason, detail,
        headers, body_digest, body_bytes_n, client_address
    FROM rejected_requests
    WHERE rejection_id < $1 AND (CAST($2 AS BIGINT) = 0 OR provider = ANY($3))
        AND (CAST($5 AS TEXT) IS NULL OR reason = $5)
    ORDER BY rejection_id DESC LIMIT $4";
const REJECTED_OF_ONE: &str =
    "/* people_rejected */ SELECT rejection_id, provider, received_at_ms, step, reason,
        detail, headers, body_digest, body_bytes_n, client_address
    FROM rejected_requests WHERE provider = $2 AND rejection_id < $1 AND (CAST($4 AS TEXT) IS NULL OR reason = $4)
    ORDER BY rejection_id DESC LIMIT $3";
/// At most 100 rows of each provider are kept, so all of them are read.
const GROUPS: &str = "/* people_rejected_groups */ SELECT provider, reason, client, COUNT(*) AS requests_n, \
        MAX(received_at_ms) AS last_at_ms
    FROM (SELECT provider, reason, received_at_ms,
              CASE WHEN CAST($3 AS BIGINT) = 1 THEN client_address END AS client
          FROM rejected_requests WHERE CAST($1 AS BIGINT) = 0 OR provider = ANY($2)) r
    GROUP BY provider, reason, client ORDER BY requests_n DESC, last_at_ms DESC LIMIT 50";

/// The statements by name, for tests that look at their plans.
pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("rejected requests", REJECTED),
    ("rejected requests of one provider", REJECTED_OF_ONE),
    ("rejected requests by reason", GROUPS),
];

/// Comes after every id of a rejection: those are of hexadecimal digits.
const AFTER_ALL: &str = "~";

/// Which refused requests are wanted.
#[derive(Debug, Clone, Default)]
pub struct RejectedQuery {
    /// Of this provider alone.
    pub provider: Option<Name>,
    /// For this reason alone.
    pub reason: Option<String>,
    /// Before the one with this id.
    pub before: Option<String>,
    /// Most rows.
    pub limit: u32,
}

impl People {
    /// The newest refused requests; their headers are for those who may see contents, and that they see them is on record before they do.
    pub async fn rejected(
        &self,
        query: RejectedQuery,
        now_ms: UnixMs,
    ) -> Result<Page<RejectedView>, PeopleError> {
        let names = within(&self.principal.providers, query.provider.as_ref().map(Name::as_str));
        let store = &self.store;
        let mut page = alone!(store.people.people_rejected(names, query))?;
        if !self.may_see_contents() {
            for one in &mut page.items {
                one.headers.clear();
                one.client_address = None;
            }
        }
        self.headers_read(&page.items, now_ms).await?;
        Ok(page)
    }

    /// The requests that were refused, counted by provider, reason and, for those who may see contents, client.
    pub async fn rejected_groups(&self) -> Result<Vec<RejectedGroup>, PeopleError> {
        let (names, with_clients) = (within(&self.principal.providers, None), self.may_see_contents());
        let store = &self.store;
        Ok(alone!(store.people.people_rejected_groups(names, with_clients))?)
    }

    /// Says in the audit log whose headers are about to be shown: a row for each provider.
    pub(super) async fn headers_read(
        &self,
        shown: &[RejectedView],
        now_ms: UnixMs,
    ) -> Result<(), PeopleError> {
        let mut requests_n: BTreeMap<&str, u32> = BTreeMap::new();
        for one in shown.iter().filter(|one| !one.headers.is_empty()) {
            *requests_n.entry(&one.provider).or_default() += 1;
        }
        let told = |(provider, requests_n): (&str, u32)| AuditEntry {
            actor: self.actor(),
            action: "headers_read",
            provider: Some(provider.to_owned()),
            detail: plural(requests_n.into(), "refused request"),
            ..AuditEntry::default()
        };
        let told: Vec<AuditEntry> = requests_n.into_iter().map(told).collect();
        if told.is_empty() {
            return Ok(());
        }
        let store = &self.store;
        Ok(together!(store.deciding.people_told(&told, now_ms))?)
    }
}

async fn people_rejected(
    db: &mut Door<'_>,
    names: Option<Vec<String>>,
    query: RejectedQuery,
) -> DbResult<Page<RejectedView>> {
    let before = query.before.unwrap_or_else(|| AFTER_ALL.to_owned());
    let (limit, reason) = (query.limit, query.reason);
    let rows = if let Some([one]) = names.as_deref() {
        db.fetch(REJECTED_OF_ONE, &[before.into(), one.into(), limit.into(), reason.into()]).await?
    } else {
        let is_some = i64::from(names.is_some());
        let names = names.unwrap_or_default().into();
        db.fetch(REJECTED, &[before.into(), is_some.into(), names, limit.into(), reason.into()]).await?
    };
    let found = rejected_rows(&rows)?;
    let last = rows.last().filter(|_| rows.len() == limit as usize);
    let next = last.and_then(|_| rows.iter().rev().find_map(|row| row.text("rejection_id").ok()));
    Ok(Page { next, damaged: found.damaged, ..Page::whole(found.rows) })
}

async fn people_rejected_groups(
    db: &mut Door<'_>,
    names: Option<Vec<String>>,
    with_clients: bool,
) -> DbResult<Vec<RejectedGroup>> {
    let is_some = i64::from(names.is_some());
    let values = [is_some.into(), names.unwrap_or_default().into(), i64::from(with_clients).into()];
    let group = |row: &Row| {
        Ok(RejectedGroup {
            provider: row.text("provider")?,
            reason: row.text("reason")?,
            client_address: row.text_or_null("client")?,
            requests_n: row.int("requests_n")?.unsigned_abs(),
            last_at_ms: row.int("last_at_ms")?,
        })
    };
    Ok(intact("rejected_requests", "provider", &db.fetch(GROUPS, &values).await?, group)?.rows)
}

/// Refusals, those whose rows are damaged apart.
pub(super) fn rejected_rows(rows: &[Row]) -> DbResult<Intact<RejectedView>> {
    intact("rejected_requests", "rejection_id", rows, rejected_view)
}

/// A refusal as those see it who may see contents.
fn rejected_view(row: &Row) -> DbResult<RejectedView> {
    Ok(RejectedView {
        rejection_id: row.text("rejection_id")?,
        provider: row.text("provider")?,
        received_at_ms: row.int("received_at_ms")?,
        step: row.text("step")?,
        reason: row.text("reason")?,
        detail: row.text("detail")?,
        headers: headers_of(&row.text("headers")?),
        body_digest: hex::encode(row.bytes("body_digest")?),
        body_bytes_n: row.int("body_bytes_n")?.unsigned_abs(),
        client_address: row.text_or_null("client_address")?,
    })
}

/// Kept headers by name. What cannot be read is none.
pub(super) fn headers_of(json: &str) -> BTreeMap<String, Vec<String>> {
    let found: BTreeMap<String, serde_json::Value> = serde_json::from_str(json).unwrap_or_default();
    let texts = |value: serde_json::Value| match value {
        serde_json::Value::Array(all) => {
            all.into_iter().map(|one| one.as_str().unwrap_or_default().to_owned()).collect()
        }
        serde_json::Value::String(one) => vec![one],
        _ => Vec::new(),
    };
    found.into_iter().map(|(name, value)| (name, texts(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_headers_are_read_with_one_value_or_with_several() {
        let found = headers_of(r#"{"a":"1","b":["2","3"],"c":7}"#);
        let values: Vec<(&str, String)> =
            found.iter().map(|(name, values)| (name.as_str(), values.join("|"))).collect();
        assert_eq!(values, [("a", "1".to_owned()), ("b", "2|3".to_owned()), ("c", String::new())]);
        assert!(headers_of("no JSON").is_empty());
    }
}
