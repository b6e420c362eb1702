//! Providers as an operator sees them: their newest events, what waits, and which secrets still match. The caller adds
//! what the configuration knows of them.
//!
//! Requests that failed verification, as an operator sees them: at most 100 of each provider are kept.
//!
//! Test events: the audit log records who created them before they exist.

use std::collections::{BTreeMap, BTreeSet};

use super::destinations::pauses;
use super::messages::contents_audit;
use super::person::{People, PeopleError, in_reach, within};
use crate::audit::{AuditEntry, append};
use crate::damaged::{IntactRows, intact};
use crate::db::{DbResult, Executor, Row};
use crate::event::event_state;
use crate::rejection::{SecretUse, secret_use_list};
use hooklatch_contract::{
    LastEventView, Page, PauseView, RejectedGroup, RejectedView, TaughtView, TestEventView, WaitingCount,
};
use hooklatch_core::figures::plural;
use hooklatch_core::types::{EventKey, EventState, Name, Role, UnixMs};

/// Events of all providers among which the newest one of each is looked for, first and at most.
const LAST_LOOKED_N: [i64; 2] = [5_000, 40_000];
/// Most events in each state that are counted.
const COUNTED_N_MAX: i64 = 10_000;
/// States in which an event waits for an operator.
const WAITING: [EventState; 4] =
    [EventState::Retry, EventState::Failed, EventState::Unreadable, EventState::Conflict];

/// The newest event of each provider among so many of all.
const LAST: &str = "/* people_providers */ SELECT provider, MAX(event_seq) AS event_seq FROM (
        SELECT provider, event_seq, synthetic FROM processed_webhook_events ORDER BY event_seq DESC LIMIT $1) x
    WHERE NOT x.synthetic GROUP BY provider";
const BY_NUMBER: &str =
    "/* people_providers */ SELECT event_seq, provider, event_id, event_type, received_at_ms
    FROM processed_webhook_events WHERE event_seq = ANY($1)";
/// Finds the numbers by their index alone, so that no more rows are read than are counted.
const OPEN: &str =
    "/* people_waiting */ SELECT e.provider, e.state, COUNT(*) AS n, MIN(e.received_at_ms) AS oldest_ms
    FROM (SELECT event_seq FROM processed_webhook_events
          WHERE state = $1 AND state IN ('retry', 'failed', 'unreadable', 'conflict')
          ORDER BY state, event_seq LIMIT $2) x
    JOIN processed_webhook_events e ON e.event_seq = x.event_seq
    GROUP BY e.provider, e.state ORDER BY e.provider";

const PAUSES: &str = "/* people_pauses */ SELECT provider AS name, actor, reason, paused_at_ms, until_ms
    FROM provider_pauses WHERE ended_at_ms IS NULL ORDER BY provider LIMIT 1000";
const TAUGHT: &str = "/* people_providers */ SELECT provider, taught_at_ms FROM taught_secrets";

/// The statements by name, for tests that look at their plans.
pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("waiting events", OPEN),
    ("last events", LAST),
    ("last events by number", BY_NUMBER),
    ("rejected requests", REJECTED),
    ("rejected requests of one provider", REJECTED_OF_ONE),
    ("rejected requests by reason", GROUPS),
];

/// What the tables know of a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderStanding {
    /// Its newest event, among the newest of all.
    pub last_event: Option<LastEventView>,
    /// Events of it that wait for an operator, by state.
    pub waiting: Vec<WaitingCount>,
    /// What is known of its secrets.
    pub uses: Vec<SecretUse>,
    /// Time when its sender sent a secret in a pairing that no operator has read yet.
    pub taught_at_ms: Option<UnixMs>,
    /// The pause, if an operator has paused it.
    pub pause: Option<PauseView>,
}

/// Events that wait for an operator, by provider.
pub type WaitingEvents = Vec<(String, WaitingCount)>;

impl People {
    /// What the tables know of those of these providers that are in scope.
    pub async fn providers(
        &self,
        configured: BTreeSet<Name>,
    ) -> Result<BTreeMap<Name, ProviderStanding>, PeopleError> {
        let (store, names) = (&self.store, in_reach(&self.principal.providers, configured));
        Ok(snapshot!(store.people_providers(names))?)
    }

    /// Events that wait for an operator, of providers in scope, whether these are configured or not; and the pauses of
    /// providers.
    pub async fn waiting_events(&self) -> Result<(WaitingEvents, BTreeMap<String, PauseView>), PeopleError> {
        let (store, reach) = (&self.store, &self.principal.providers);
        let (found, pauses): (WaitingEvents, _) = snapshot!(store.people_backlog())?;
        Ok((found.into_iter().filter(|(provider, _)| reach.has(provider)).collect(), pauses))
    }

    /// The secret of a pairing, for operators, once: this deletes it, and the audit log records who has it.
    pub async fn take_taught(&self, provider: &Name, now_ms: UnixMs) -> Result<TaughtView, PeopleError> {
        self.needs(Role::Operator)?;
        self.needs_provider(provider.as_str())?;
        let (store, provider, actor) = (&self.store, provider.to_string(), self.actor());
        let taught = together!(store.deciding.people_taught(&provider, &actor, now_ms))?;
        taught.ok_or(PeopleError::NotFound)
    }
}

async fn people_providers(
    db: &mut Executor<'_>,
    names: Vec<Name>,
) -> DbResult<BTreeMap<Name, ProviderStanding>> {
    let waiting = people_waiting(db).await?;
    let uses = secret_use_list(db).await?;
    let mut taught = taught_times(db).await?;
    let mut pauses = pauses(db, PAUSES).await?;
    let mut last = last_events(db, &names).await?;
    let mut found = BTreeMap::new();
    for name in names {
        let of_it = |provider: &str| provider == name.as_str();
        let standing = ProviderStanding {
            last_event: last.remove(name.as_str()),
            waiting: waiting.iter().filter(|(it, _)| of_it(it)).map(|(_, count)| count.clone()).collect(),
            uses: uses.iter().filter(|one| of_it(&one.provider)).cloned().collect(),
            taught_at_ms: taught.remove(name.as_str()),
            pause: pauses.remove(name.as_str()),
        };
        found.insert(name, standing);
    }
    Ok(found)
}

/// Times of pairings whose secret no operator has read: at most one row of each provider that pairs.
async fn taught_times(db: &mut Executor<'_>) -> DbResult<BTreeMap<String, UnixMs>> {
    let rows = db.fetch(TAUGHT, &[]).await?;
    let read = |row: &Row| Ok((row.text("provider")?, row.int("taught_at_ms")?));
    Ok(intact("taught_secrets", "provider", &rows, read)?.rows.into_iter().collect())
}

/// The newest event of each of these providers, of those that are found within the bound.
async fn last_events(db: &mut Executor<'_>, names: &[Name]) -> DbResult<BTreeMap<String, LastEventView>> {
    let mut seqs = BTreeMap::new();
    for looked_n in LAST_LOOKED_N {
        let rows = db.fetch(LAST, &[looked_n.into()]).await?;
        let read = |row: &Row| Ok((row.text("provider")?, row.int("event_seq")?));
        seqs.extend(intact("processed_webhook_events", "event_seq", &rows, read)?.rows);
        if names.iter().all(|name| seqs.contains_key(name.as_str())) {
            break;
        }
    }
    let seqs: Vec<i64> = seqs.into_values().collect();
    let view = |row: &Row| {
        let view = LastEventView {
            event_id: row.text("event_id")?,
            event_type: row.text("event_type")?,
            received_at_ms: row.int("received_at_ms")?,
        };
        Ok((row.text("provider")?, view))
    };
    let rows = db.fetch(BY_NUMBER, &[seqs.into()]).await?;
    Ok(intact("processed_webhook_events", "event_seq", &rows, view)?.rows.into_iter().collect())
}

async fn people_backlog(db: &mut Executor<'_>) -> DbResult<(WaitingEvents, BTreeMap<String, PauseView>)> {
    Ok((people_waiting(db).await?, pauses(db, PAUSES).await?))
}

async fn people_waiting(db: &mut Executor<'_>) -> DbResult<WaitingEvents> {
    let mut found = Vec::new();
    for state in WAITING {
        let rows = db.fetch(OPEN, &[state.as_str().into(), COUNTED_N_MAX.into()]).await?;
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
        found.extend(intact("processed_webhook_events", "provider", &rows, count)?.rows);
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

async fn people_taught(
    db: &mut Executor<'_>,
    provider: &str,
    actor: &str,
    now_ms: UnixMs,
) -> DbResult<Option<TaughtView>> {
    let sql = "/* people_taught */ DELETE FROM taught_secrets WHERE provider = $1
        RETURNING provider, secret, taught_at_ms";
    let Some(row) = db.fetch_optional(sql, &[provider.into()]).await? else { return Ok(None) };
    let entry = AuditEntry {
        actor: actor.to_owned(),
        action: "taught_read",
        provider: Some(provider.to_owned()),
        detail: "the secret that its sender taught".to_owned(),
        ..AuditEntry::default()
    };
    append(db, now_ms, &[entry]).await?;
    let view = TaughtView {
        provider: row.text("provider")?,
        secret: row.text("secret")?,
        taught_at_ms: row.int("taught_at_ms")?,
    };
    Ok(Some(view))
}

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

    /// Records in the audit log whose headers are about to be shown: a row for each provider.
    pub(super) async fn headers_read(
        &self,
        shown: &[RejectedView],
        now_ms: UnixMs,
    ) -> Result<(), PeopleError> {
        let mut requests_n: BTreeMap<&str, u32> = BTreeMap::new();
        for one in shown.iter().filter(|one| !one.headers.is_empty()) {
            *requests_n.entry(&one.provider).or_default() += 1;
        }
        let entry = |(provider, requests_n): (&str, u32)| AuditEntry {
            actor: self.actor(),
            action: "headers_read",
            provider: Some(provider.to_owned()),
            detail: plural(requests_n.into(), "refused request"),
            ..AuditEntry::default()
        };
        let entries: Vec<AuditEntry> = requests_n.into_iter().map(entry).collect();
        if entries.is_empty() {
            return Ok(());
        }
        let store = &self.store;
        Ok(together!(store.deciding.contents_audit(&entries, now_ms))?)
    }
}

async fn people_rejected(
    db: &mut Executor<'_>,
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
    db: &mut Executor<'_>,
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
pub(super) fn rejected_rows(rows: &[Row]) -> DbResult<IntactRows<RejectedView>> {
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

impl People {
    /// Refuses who does not reach this provider.
    pub fn reaches_provider(&self, provider: &Name) -> Result<(), PeopleError> {
        self.needs_provider(provider.as_str())
    }

    /// Records who makes these test events. False when the first of them is there already: then nothing is recorded.
    pub async fn note_test_events(
        &self,
        made: &TestEventView,
        reason: &str,
        now_ms: UnixMs,
    ) -> Result<bool, PeopleError> {
        self.needs(Role::Operator)?;
        self.needs_provider(&made.provider)?;
        let provider = Name::parse(&made.provider).map_err(|_| PeopleError::NotFound)?;
        let event_id = made.event_ids.first().cloned().unwrap_or_default();
        if self.store.event_get(&EventKey { provider, event_id }).await?.is_some() {
            return Ok(false);
        }
        let action = if made.route { "test_event_route" } else { "test_event" };
        let entry = |event_id: &String| AuditEntry {
            actor: self.actor(),
            action,
            provider: Some(made.provider.clone()),
            event_id: Some(event_id.clone()),
            detail: reason.to_owned(),
            ..AuditEntry::default()
        };
        let entries: Vec<AuditEntry> = made.event_ids.iter().map(entry).collect();
        let store = &self.store;
        together!(store.deciding.test_events_noted(&entries, now_ms))?;
        Ok(true)
    }
}

async fn test_events_noted(db: &mut Executor<'_>, entries: &[AuditEntry], now_ms: UnixMs) -> DbResult<()> {
    append(db, now_ms, entries).await
}

#[cfg(test)]
mod rejected_tests {
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
