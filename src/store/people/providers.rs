//! Providers as a person may see them: their newest events, what waits, and which secrets still match. What the
//! configuration knows of them is added by whoever asks.

use std::collections::{BTreeMap, BTreeSet};

use super::choice::in_reach;
use super::destinations::pauses;
use super::person::{People, PeopleError};
use crate::api::{LastEventView, PauseView, TaughtView, WaitingCount};
use crate::store::audit::{AuditEntry, append};
use crate::store::damaged::intact;
use crate::store::db::{DbResult, Door, Row};
use crate::store::event::event_state;
use crate::store::rejection::{SecretUse, secret_use_list};
use crate::types::{EventState, Name, Role, UnixMs};

/// Events of all providers among which the newest one of each is looked for, first and at most.
const LAST_LOOKED_N: [i64; 2] = [5_000, 40_000];
/// Most events in each state that are counted.
const COUNTED_N_MAX: i64 = 10_000;
/// States in which an event waits for somebody.
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
pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("waiting events", OPEN), ("last events", LAST), ("last events by number", BY_NUMBER)];

/// What the tables know of a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderStanding {
    /// Its newest event, among the newest of all.
    pub last_event: Option<LastEventView>,
    /// Events of it that wait for somebody, by state.
    pub waiting: Vec<WaitingCount>,
    /// What is known of its secrets.
    pub uses: Vec<SecretUse>,
    /// Time when its sender taught us a secret that nobody has read yet.
    pub taught_at_ms: Option<UnixMs>,
    /// The pause, if an operator has paused it.
    pub pause: Option<PauseView>,
}

/// Events that wait for somebody, by provider.
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

    /// Events that wait for somebody, of providers in scope, whether these are configured or not; and the pauses of
    /// providers.
    pub async fn waiting_events(&self) -> Result<(WaitingEvents, BTreeMap<String, PauseView>), PeopleError> {
        let (store, reach) = (&self.store, &self.principal.providers);
        let (found, pauses): (WaitingEvents, _) = snapshot!(store.people_backlog())?;
        Ok((found.into_iter().filter(|(provider, _)| reach.has(provider)).collect(), pauses))
    }

    /// What a sender taught us, for operators, once: it is forgotten with this, and on record who has it.
    pub async fn take_taught(&self, provider: &Name, now_ms: UnixMs) -> Result<TaughtView, PeopleError> {
        self.needs(Role::Operator)?;
        self.needs_provider(provider.as_str())?;
        let (store, provider, actor) = (&self.store, provider.to_string(), self.actor());
        let taught = together!(store.deciding.people_taught(&provider, &actor, now_ms))?;
        taught.ok_or(PeopleError::NotFound)
    }
}

async fn people_providers(db: &mut Door<'_>, names: Vec<Name>) -> DbResult<BTreeMap<Name, ProviderStanding>> {
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

/// When senders taught us secrets that nobody has read: a row of a provider that pairs, at most.
async fn taught_times(db: &mut Door<'_>) -> DbResult<BTreeMap<String, UnixMs>> {
    let rows = db.fetch(TAUGHT, &[]).await?;
    let read = |row: &Row| Ok((row.text("provider")?, row.int("taught_at_ms")?));
    Ok(intact("taught_secrets", "provider", &rows, read)?.rows.into_iter().collect())
}

/// The newest event of each of these providers, of those that are found within the bound.
async fn last_events(db: &mut Door<'_>, names: &[Name]) -> DbResult<BTreeMap<String, LastEventView>> {
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

async fn people_backlog(db: &mut Door<'_>) -> DbResult<(WaitingEvents, BTreeMap<String, PauseView>)> {
    Ok((people_waiting(db).await?, pauses(db, PAUSES).await?))
}

async fn people_waiting(db: &mut Door<'_>) -> DbResult<WaitingEvents> {
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
    db: &mut Door<'_>,
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
