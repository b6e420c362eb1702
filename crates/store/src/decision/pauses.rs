//! Decisions about destinations and providers: paused, and resumed; and what admission needs to know of pauses.

use super::{Deciding, Refusal, Verdict};
use crate::db::{DbResult, Executor, Row, StoreError, Value};
use crate::handle::Store;
use hooklatch_contract::{OrderResult, PauseAct, pause_tag};
use hooklatch_core::times::rfc3339;
use hooklatch_core::types::{Name, UnixMs};

/// Longest time after a pause for which new events queue behind those that have waited: then the backlog grows faster
/// than it is worked off, and order costs more than it gives. Milliseconds.
const QUEUED_MS_MAX: i64 = 3_600_000;

/// What can be paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pausable {
    Destination,
    Provider,
}

impl Pausable {
    /// Table, key, and condition of a pause that lasts.
    fn table(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Destination => ("destination_pauses", "destination", ""),
            Self::Provider => ("provider_pauses", "provider", " AND ended_at_ms IS NULL"),
        }
    }

    /// Writes a pause: a new one, or another end of one that lasts. `$1` is the name.
    fn write_sql(self, is_new: bool) -> String {
        let (table, key, _) = self.table();
        if !is_new {
            return format!(
                "/* pause_decide */ UPDATE {table} SET actor = $2, reason = $3, paused_at_ms = $4, until_ms = $5
                 WHERE {key} = $1"
            );
        }
        // The row of a provider stays when its pause has ended.
        let conflict = match self {
            Self::Destination => "DO NOTHING",
            Self::Provider => {
                "(provider) DO UPDATE
                 SET actor = excluded.actor, reason = excluded.reason, paused_at_ms = excluded.paused_at_ms,
                     until_ms = excluded.until_ms, ended_at_ms = NULL
                 WHERE provider_pauses.ended_at_ms IS NOT NULL"
            }
        };
        format!(
            "/* pause_decide */ INSERT INTO {table} ({key}, actor, reason, paused_at_ms, until_ms)
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT {conflict}"
        )
    }
}

/// What admission needs to know of a provider that is paused, or was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderPause {
    /// Name of the provider.
    pub provider: String,
    /// Name of the token that paused it.
    pub actor: String,
    /// Reason that was given.
    pub reason: String,
    /// When it ended; `None` while it lasts.
    pub ended_at_ms: Option<UnixMs>,
    /// True while new events have to wait: it lasts, or events that waited for its end are not dispatched yet.
    pub is_holding: bool,
}

/// The pauses that had their end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PausesEnded {
    /// Names of the destinations that were resumed.
    pub destinations: Vec<String>,
    /// Names of the providers that were resumed.
    pub providers: Vec<String>,
}

/// Pauses or resumes a destination or a provider. What is paused can be paused anew with another end.
pub(crate) async fn pause_decide(
    db: &mut Executor<'_>,
    (what, name): (Pausable, &Name),
    (act, until_ms): (PauseAct, Option<UnixMs>),
    deciding: &mut Deciding,
) -> DbResult<Verdict<OrderResult>> {
    let (before, tag) = get(db, what, name).await?;
    if !deciding.if_match.admits(&tag) {
        return Ok(Err(Refusal::Changed));
    }
    if until_ms.is_some_and(|until_ms| until_ms <= deciding.now_ms) {
        return Ok(Err(Refusal::EndPassed));
    }
    let mut values: Vec<Value> = vec![name.as_str().into()];
    let changed_n = match act {
        PauseAct::Pause if before == Some(until_ms) => 0,
        PauseAct::Pause => {
            values.extend([deciding.who.name.as_str().into(), deciding.reason.as_str().into()]);
            values.extend([deciding.now_ms.into(), until_ms.into()]);
            db.execute(what.write_sql(before.is_none()), &values).await?
        }
        PauseAct::Resume if what == Pausable::Destination => {
            let sql = "/* pause_decide */ DELETE FROM destination_pauses WHERE destination = $1";
            db.execute(sql, &values).await?
        }
        PauseAct::Resume => {
            let sql = "/* pause_decide */ UPDATE provider_pauses SET ended_at_ms = $2
                       WHERE provider = $1 AND ended_at_ms IS NULL";
            values.push(deciding.now_ms.into());
            db.execute(sql, &values).await?
        }
    };
    if changed_n == 0 {
        // An operator may have paused it since it was read: there was no row to lock.
        let is_admitted = deciding.if_match.admits(&get(db, what, name).await?.1);
        let state = if act == PauseAct::Pause { "paused" } else { "running" };
        return Ok(Err(if is_admitted { Refusal::NotAllowed { state } } else { Refusal::Changed }));
    }
    let mut record = deciding.record(action(what, act));
    let until = until_ms.and_then(rfc3339).map_or_else(String::new, |until| format!(" (until {until})"));
    record.detail = format!("{name}: {}{until}", deciding.reason);
    record.provider = (what == Pausable::Provider).then(|| name.to_string());
    deciding.records.push(record);
    Ok(Ok(OrderResult::changed(0)))
}

/// The value of `audit_log.action`.
pub(crate) fn action(what: Pausable, act: PauseAct) -> &'static str {
    match (what, act) {
        (Pausable::Destination, PauseAct::Pause) => "destination_pause",
        (Pausable::Destination, PauseAct::Resume) => "destination_resume",
        (Pausable::Provider, PauseAct::Pause) => "provider_pause",
        (Pausable::Provider, PauseAct::Resume) => "provider_resume",
    }
}

/// The end of a pause that lasts, whose row is locked, if there is one; and the version of what is decided about.
async fn get(
    db: &mut Executor<'_>,
    what: Pausable,
    name: &Name,
) -> DbResult<(Option<Option<UnixMs>>, String)> {
    let (table, key, is_lasting) = what.table();
    let sql = format!(
        "/* pause_decide */ SELECT actor, paused_at_ms, until_ms FROM {table} WHERE {key} = $1{is_lasting} FOR UPDATE"
    );
    let Some(row) = db.fetch_optional(sql, &[name.as_str().into()]).await? else {
        return Ok((None, pause_tag(None)));
    };
    let tag = pause_tag(Some((row.text("actor")?.as_str(), row.int("paused_at_ms")?)));
    Ok((Some(row.int_or_null("until_ms")?), tag))
}

impl Store {
    /// Resumes the destinations and providers whose pause had its end by now.
    pub async fn pauses_end(&self, now_ms: UnixMs) -> Result<PausesEnded, StoreError> {
        together!(self, writer, "pauses_end", |db| {
            let mut ended = PausesEnded::default();
            for (sql, names) in [
                (
                    "/* pauses_end */ DELETE FROM destination_pauses WHERE until_ms <= $1 RETURNING destination AS name",
                    &mut ended.destinations,
                ),
                (
                    "/* pauses_end */ UPDATE provider_pauses SET ended_at_ms = until_ms
                     WHERE until_ms <= $1 AND ended_at_ms IS NULL RETURNING provider AS name",
                    &mut ended.providers,
                ),
            ] {
                let rows = db.fetch(sql, &[now_ms.into()]).await?;
                *names = rows.iter().map(|row| row.text("name")).collect::<DbResult<_>>()?;
            }
            Ok(ended)
        })
    }

    /// Every provider that is paused or was once.
    pub async fn provider_pauses(&self, now_ms: UnixMs) -> Result<Vec<ProviderPause>, StoreError> {
        // How many events wait that are due and were never dispatched: all of those are from before its end, or queue
        // behind them.
        let sql = "/* provider_pauses */ SELECT p.provider, p.actor, p.reason, p.ended_at_ms,
                 (SELECT COUNT(*) FROM (SELECT 1 FROM processed_webhook_events e
                      WHERE p.ended_at_ms > $2 AND e.provider = p.provider AND e.state = 'retry' AND e.due_at_ms <= $1
                        AND e.attempts_n = 0
                      LIMIT 1) waiting) AS waiting_n
             FROM provider_pauses p ORDER BY p.provider LIMIT 1000";
        alone!(self, reader, "provider_pauses", |db| {
            let rows = db.fetch(sql, &[now_ms.into(), now_ms.saturating_sub(QUEUED_MS_MAX).into()]).await?;
            rows.iter().map(provider_pause).collect()
        })
    }
}

fn provider_pause(row: &Row) -> DbResult<ProviderPause> {
    let ended_at_ms = row.int_or_null("ended_at_ms")?;
    Ok(ProviderPause {
        provider: row.text("provider")?,
        actor: row.text("actor")?,
        reason: row.text("reason")?,
        ended_at_ms,
        is_holding: ended_at_ms.is_none() || row.int("waiting_n")? > 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pause_has_its_record() {
        let of = |what| [PauseAct::Pause, PauseAct::Resume].map(|act| action(what, act));
        assert_eq!(of(Pausable::Destination), ["destination_pause", "destination_resume"]);
        assert_eq!(of(Pausable::Provider), ["provider_pause", "provider_resume"]);
    }
}
