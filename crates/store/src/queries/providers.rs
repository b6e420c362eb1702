//! Providers as an operator sees them: their newest events, what waits, which secrets still match, the requests that
//! failed verification, of which at most 100 of each provider are kept, and who created test events. The caller adds
//! what the configuration knows of them.

use std::collections::{BTreeMap, BTreeSet};

use super::destinations::pauses;
use super::events::{IS_WAITING, WAITING};
use super::{OperatorError, OperatorQueries, any_of, in_reach, within};
use crate::audit::append;
use crate::damaged::{IntactRows, intact};
use crate::db::{DbResult, Executor, Row};
use crate::event::event_state;
use crate::rejection::{SecretUse, secret_use_list};
use hooklatch_contract::{
    LastEventView, Page, PairingView, PauseView, RejectedGroup, RejectedView, TestEventView, WaitingCount,
};
use hooklatch_core::figures::plural;
use hooklatch_core::types::{EventKey, EventState, Name, Role, UnixMs};

/// Events of all providers among which the newest one of each is looked for, first and at most.
const LAST_LOOKED_N: [i64; 2] = [5_000, 40_000];
/// Most events in each state that are counted.
const COUNTED_N_MAX: i64 = 10_000;
/// Sorts behind every id of a rejection: those are of hexadecimal digits.
const AFTER_ALL: &str = "~";

const EVENTS_TABLE: &str = "processed_webhook_events";
/// The newest event of each provider among so many of all.
const LAST: &str = "/* operator_providers */ SELECT provider, MAX(event_seq) AS event_seq FROM (
        SELECT provider, event_seq, synthetic FROM processed_webhook_events ORDER BY event_seq DESC LIMIT $1) x
    WHERE NOT x.synthetic GROUP BY provider";
const BY_NUMBER: &str =
    "/* operator_providers */ SELECT event_seq, provider, event_id, event_type, received_at_ms
    FROM processed_webhook_events WHERE event_seq = ANY($1)";
const PAUSES: &str = "/* operator_pauses */ SELECT provider AS name, actor, reason, paused_at_ms, until_ms
    FROM provider_pauses WHERE ended_at_ms IS NULL ORDER BY provider LIMIT 1000";
const PAIRINGS: &str = "/* operator_providers */ SELECT provider, paired_at_ms FROM pairing_secrets";
/// At most 100 rows of each provider are kept, so all of them are read.
const GROUPS: &str =
    "/* operator_rejected_groups */ SELECT provider, reason, client, COUNT(*) AS requests_n, \
        MAX(received_at_ms) AS last_at_ms
    FROM (SELECT provider, reason, received_at_ms,
              CASE WHEN CAST($3 AS BIGINT) = 1 THEN client_address END AS client
          FROM rejected_requests WHERE CAST($1 AS BIGINT) = 0 OR provider = ANY($2)) r
    GROUP BY provider, reason, client ORDER BY requests_n DESC, last_at_ms DESC LIMIT 50";

/// Counts those that wait in one state. Finds the numbers by their index alone, so that no more rows are read than are
/// counted.
fn waiting_sql() -> String {
    format!(
        "/* operator_waiting */ SELECT e.provider, e.state, COUNT(*) AS n, MIN(e.received_at_ms) AS oldest_ms
         FROM (SELECT event_seq FROM processed_webhook_events WHERE state = $1 AND {IS_WAITING}
               ORDER BY state, event_seq LIMIT $2) x
         JOIN processed_webhook_events e ON e.event_seq = x.event_seq
         GROUP BY e.provider, e.state ORDER BY e.provider"
    )
}

/// Rejections before `$1`, `$2` at most, for the reason `$3`, of these providers: `$4` alone, or those in `$5` if `$4`
/// is 1.
fn rejected_sql(providers: &str) -> String {
    format!(
        "/* operator_rejected */ SELECT rejection_id, provider, received_at_ms, step, reason, detail, headers, body_digest,
             body_bytes_n, client_address
         FROM rejected_requests
         WHERE {providers} AND rejection_id < $1 AND (CAST($3 AS TEXT) IS NULL OR reason = $3)
         ORDER BY rejection_id DESC LIMIT $2"
    )
}
const OF_ONE: &str = "provider = $4";
const OF_SOME: &str = "(CAST($4 AS BIGINT) = 0 OR provider = ANY($5))";

/// The statements by name, for tests that look at their plans.
#[cfg(any(test, feature = "testing"))]
pub(super) fn statements() -> Vec<super::NamedStatement> {
    vec![
        ("waiting events", waiting_sql()),
        ("last events", LAST.to_owned()),
        ("last events by number", BY_NUMBER.to_owned()),
        ("rejected requests", rejected_sql(OF_SOME)),
        ("rejected requests of one provider", rejected_sql(OF_ONE)),
        ("rejected requests by reason", GROUPS.to_owned()),
    ]
}

/// State of a provider in the tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderStatus {
    /// Its newest event, among the newest of all.
    pub last_event: Option<LastEventView>,
    /// Events of it that wait for an operator, by state.
    pub waiting: Vec<WaitingCount>,
    /// Which of its secrets matched, and when.
    pub uses: Vec<SecretUse>,
    /// Time when its sender sent a secret in a pairing that no operator has read yet.
    pub paired_at_ms: Option<UnixMs>,
    /// The pause, if an operator has paused it.
    pub pause: Option<PauseView>,
}

/// Events that wait for an operator, by provider.
pub type WaitingEvents = Vec<(String, WaitingCount)>;

/// Filter for refused requests.
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

impl OperatorQueries {
    /// The state of those of these providers that are in scope.
    pub async fn providers(
        &self,
        configured: BTreeSet<Name>,
    ) -> Result<BTreeMap<Name, ProviderStatus>, OperatorError> {
        let names = in_reach(&self.principal.providers, configured);
        Ok(snapshot!(self.store, "operator_providers", |db| {
            let waiting = waiting(db).await?;
            let uses = secret_use_list(db).await?;
            let rows = db.fetch(PAIRINGS, &[]).await?;
            let pairing = |row: &Row| Ok((row.text("provider")?, row.int("paired_at_ms")?));
            let pairing = intact("pairing_secrets", "provider", &rows, pairing)?.rows;
            let mut pairing: BTreeMap<String, UnixMs> = pairing.into_iter().collect();
            let mut pauses = pauses(db, PAUSES).await?;
            let mut last = last_events(db, &names).await?;
            let status = |name: &Name| ProviderStatus {
                last_event: last.remove(name.as_str()),
                waiting: waiting
                    .iter()
                    .filter(|(it, _)| it == name.as_str())
                    .map(|it| it.1.clone())
                    .collect(),
                uses: uses.iter().filter(|one| one.provider == name.as_str()).cloned().collect(),
                paired_at_ms: pairing.remove(name.as_str()),
                pause: pauses.remove(name.as_str()),
            };
            let statuses: Vec<_> = names.iter().map(status).collect();
            Ok(names.into_iter().zip(statuses).collect())
        })?)
    }

    /// Events that wait for an operator, of providers in scope, whether these are configured or not; and the pauses of
    /// providers.
    pub async fn waiting_events(
        &self,
    ) -> Result<(WaitingEvents, BTreeMap<String, PauseView>), OperatorError> {
        let reach = &self.principal.providers;
        let (found, pauses): (WaitingEvents, _) = snapshot!(self.store, "operator_backlog", |db| {
            Ok((waiting(db).await?, pauses(db, PAUSES).await?))
        })?;
        Ok((found.into_iter().filter(|(provider, _)| reach.has(provider)).collect(), pauses))
    }

    /// The secret of a pairing, for operators, once: this deletes it, and the audit log records who has it.
    pub async fn take_pairing_secret(
        &self,
        provider: &Name,
        now_ms: UnixMs,
    ) -> Result<PairingView, OperatorError> {
        self.needs(Role::Operator)?;
        self.needs_provider(provider.as_str())?;
        let name = provider.to_string();
        let entry =
            self.entry("pairing_read", "the secret that its sender sent for pairing").on_provider(&name);
        together!(self.store, deciding, "operator_pairing", |db| {
            let sql = "/* operator_pairing */ DELETE FROM pairing_secrets WHERE provider = $1
                RETURNING provider, secret, paired_at_ms";
            let Some(row) = db.fetch_optional(sql, &[name.into()]).await? else { return Ok(None) };
            append(db, now_ms, &[entry]).await?;
            let (provider, secret) = (row.text("provider")?, row.text("secret")?);
            Ok(Some(PairingView { provider, secret, paired_at_ms: row.int("paired_at_ms")? }))
        })?
        .ok_or(OperatorError::NotFound)
    }

    /// The newest refused requests; their headers are for those who may see contents, and that they see them is on
    /// record before they do.
    pub async fn rejected(
        &self,
        query: RejectedQuery,
        now_ms: UnixMs,
    ) -> Result<Page<RejectedView>, OperatorError> {
        let names = within(&self.principal.providers, query.provider.as_ref().map(Name::as_str));
        let limit = query.limit;
        let mut page = alone!(self.store, operators, "operator_rejected", |db| {
            let before = query.before.unwrap_or_else(|| AFTER_ALL.to_owned());
            let mut values = vec![before.into(), limit.into(), query.reason.into()];
            let sql = if let Some([one]) = names.as_deref() {
                values.push(one.into());
                rejected_sql(OF_ONE)
            } else {
                values.extend(any_of(names));
                rejected_sql(OF_SOME)
            };
            let rows = db.fetch(sql, &values).await?;
            let found = rejected_rows(&rows)?;
            let last = rows.last().filter(|_| rows.len() == limit as usize);
            let next = last.and_then(|_| rows.iter().rev().find_map(|row| row.text("rejection_id").ok()));
            Ok(Page { next, damaged: found.damaged, ..Page::whole(found.rows) })
        })?;
        if !self.may_see_contents() {
            for one in &mut page.items {
                one.headers.clear();
                one.client_address = None;
            }
        }
        self.record_headers_read(&page.items, now_ms).await?;
        Ok(page)
    }

    /// The requests that were refused, counted by provider, reason and, for those who may see contents, client.
    pub async fn rejected_groups(&self) -> Result<Vec<RejectedGroup>, OperatorError> {
        let mut values = any_of(self.principal.providers.names()).to_vec();
        values.push(i64::from(self.may_see_contents()).into());
        Ok(alone!(self.store, operators, "operator_rejected_groups", |db| {
            let rows = db.fetch(GROUPS, &values).await?;
            Ok(intact("rejected_requests", "provider", &rows, rejected_group)?.rows)
        })?)
    }

    /// Records in the audit log whose headers are about to be shown: a row for each provider.
    pub(super) async fn record_headers_read(
        &self,
        shown: &[RejectedView],
        now_ms: UnixMs,
    ) -> Result<(), OperatorError> {
        let mut requests_n: BTreeMap<&str, u32> = BTreeMap::new();
        for one in shown.iter().filter(|one| !one.headers.is_empty()) {
            *requests_n.entry(&one.provider).or_default() += 1;
        }
        let entry = |(provider, requests_n): (&str, u32)| {
            self.entry("headers_read", plural(requests_n.into(), "refused request")).on_provider(provider)
        };
        self.record(requests_n.into_iter().map(entry).collect(), now_ms).await
    }

    /// Records who creates these test events. False when the first of them exists already: then nothing is recorded.
    pub async fn note_test_events(
        &self,
        made: &TestEventView,
        reason: &str,
        now_ms: UnixMs,
    ) -> Result<bool, OperatorError> {
        self.needs(Role::Operator)?;
        self.needs_provider(&made.provider)?;
        let provider = Name::parse(&made.provider).map_err(|_| OperatorError::NotFound)?;
        let event_id = made.event_ids.first().cloned().unwrap_or_default();
        if self.store.event_get(&EventKey { provider, event_id }).await?.is_some() {
            return Ok(false);
        }
        let action = if made.route { "test_event_route" } else { "test_event" };
        let entry = |event_id: &String| self.entry(action, reason).on_event(&made.provider, event_id);
        self.record(made.event_ids.iter().map(entry).collect(), now_ms).await?;
        Ok(true)
    }
}

/// The newest event of each of these providers, of those that are found within the bound.
async fn last_events(db: &mut Executor<'_>, names: &[Name]) -> DbResult<BTreeMap<String, LastEventView>> {
    let mut seqs = BTreeMap::new();
    for looked_n in LAST_LOOKED_N {
        let rows = db.fetch(LAST, &[looked_n.into()]).await?;
        let read = |row: &Row| Ok((row.text("provider")?, row.int("event_seq")?));
        seqs.extend(intact(EVENTS_TABLE, "event_seq", &rows, read)?.rows);
        if names.iter().all(|name| seqs.contains_key(name.as_str())) {
            break;
        }
    }
    let view = |row: &Row| {
        let (event_id, event_type) = (row.text("event_id")?, row.text("event_type")?);
        let view = LastEventView { event_id, event_type, received_at_ms: row.int("received_at_ms")? };
        Ok((row.text("provider")?, view))
    };
    let rows = db.fetch(BY_NUMBER, &[seqs.into_values().collect::<Vec<i64>>().into()]).await?;
    Ok(intact(EVENTS_TABLE, "event_seq", &rows, view)?.rows.into_iter().collect())
}

async fn waiting(db: &mut Executor<'_>) -> DbResult<WaitingEvents> {
    let mut found = Vec::new();
    for state in WAITING {
        let rows = db.fetch(waiting_sql(), &[EventState::as_str(state).into(), COUNTED_N_MAX.into()]).await?;
        let mut looked_n = 0;
        for row in &rows {
            looked_n += row.int("n")?;
        }
        let count = |row: &Row| {
            let count = WaitingCount {
                state: event_state(row)?,
                events_n: row.int("n")?.unsigned_abs(),
                is_more: looked_n >= COUNTED_N_MAX,
                oldest_received_at_ms: row.int("oldest_ms")?,
            };
            Ok((row.text("provider")?, count))
        };
        found.extend(intact(EVENTS_TABLE, "provider", &rows, count)?.rows);
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

/// Refusals, those whose rows are damaged apart.
pub(super) fn rejected_rows(rows: &[Row]) -> DbResult<IntactRows<RejectedView>> {
    intact("rejected_requests", "rejection_id", rows, rejected_view)
}

/// A refusal for those who may see contents.
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

fn rejected_group(row: &Row) -> DbResult<RejectedGroup> {
    Ok(RejectedGroup {
        provider: row.text("provider")?,
        reason: row.text("reason")?,
        client_address: row.text_or_null("client")?,
        requests_n: row.int("requests_n")?.unsigned_abs(),
        last_at_ms: row.int("last_at_ms")?,
    })
}

/// Kept headers by name; headers that cannot be read are left out.
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
