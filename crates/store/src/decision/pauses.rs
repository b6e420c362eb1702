//! Decisions about destinations and providers: paused, and resumed; and what admission needs to know of pauses.

use super::types::{Deciding, Refusal, Verdict};
use crate::db::{DbResult, Executor, Row, StoreError};
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

/// The statements about one of them: the pause that there is, a new one, another end of one, and its end. `$1` is the
/// name.
struct PauseSql {
    get: &'static str,
    insert: &'static str,
    update: &'static str,
    end: &'static str,
}

const DESTINATION: PauseSql = PauseSql {
    get: "/* pause_decide */ SELECT actor, paused_at_ms, until_ms FROM destination_pauses
          WHERE destination = $1 FOR UPDATE",
    insert: "/* pause_decide */ INSERT INTO destination_pauses (destination, actor, reason, paused_at_ms, until_ms)
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
    update: "/* pause_decide */ UPDATE destination_pauses SET actor = $2, reason = $3, paused_at_ms = $4, until_ms = $5
             WHERE destination = $1",
    end: "/* pause_decide */ DELETE FROM destination_pauses WHERE destination = $1",
};
const PROVIDER: PauseSql = PauseSql {
    get: "/* pause_decide */ SELECT actor, paused_at_ms, until_ms FROM provider_pauses
          WHERE provider = $1 AND ended_at_ms IS NULL FOR UPDATE",
    insert: "/* pause_decide */ INSERT INTO provider_pauses (provider, actor, reason, paused_at_ms, until_ms)
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT (provider) DO UPDATE
             SET actor = excluded.actor, reason = excluded.reason, paused_at_ms = excluded.paused_at_ms,
                 until_ms = excluded.until_ms, ended_at_ms = NULL
             WHERE provider_pauses.ended_at_ms IS NOT NULL",
    update: "/* pause_decide */ UPDATE provider_pauses SET actor = $2, reason = $3, paused_at_ms = $4, until_ms = $5
             WHERE provider = $1",
    end: "/* pause_decide */ UPDATE provider_pauses SET ended_at_ms = $2 WHERE provider = $1 AND ended_at_ms IS NULL",
};

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
    let sql = match what {
        Pausable::Destination => &DESTINATION,
        Pausable::Provider => &PROVIDER,
    };
    let pause = get(db, sql, name).await?;
    if !deciding.if_match.admits(&pause.tag()) {
        return Ok(Err(Refusal::Changed));
    }
    if until_ms.is_some_and(|until_ms| until_ms <= deciding.now_ms) {
        return Ok(Err(Refusal::EndPassed));
    }
    let name_value = || name.as_str().into();
    let changed_n = match (act, pause.0) {
        (PauseAct::Pause, Some((_, _, until_before_ms))) if until_before_ms == until_ms => 0,
        (PauseAct::Pause, before) => {
            let values = [
                name_value(),
                deciding.who.name.as_str().into(),
                deciding.reason.as_str().into(),
                deciding.now_ms.into(),
                until_ms.into(),
            ];
            db.execute(if before.is_some() { sql.update } else { sql.insert }, &values).await?
        }
        (PauseAct::Resume, _) => match what {
            Pausable::Destination => db.execute(sql.end, &[name_value()]).await?,
            Pausable::Provider => db.execute(sql.end, &[name_value(), deciding.now_ms.into()]).await?,
        },
    };
    if changed_n == 0 {
        // An operator may have paused it since it was read: there was no row to lock.
        let is_admitted = deciding.if_match.admits(&get(db, sql, name).await?.tag());
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

impl Store {
    /// Resumes the destinations and providers whose pause had its end by now.
    pub async fn pauses_end(&self, now_ms: UnixMs) -> Result<PausesEnded, StoreError> {
        together!(self.pauses_end(now_ms))
    }

    /// Every provider that is paused or was once.
    pub async fn provider_pauses(&self, now_ms: UnixMs) -> Result<Vec<ProviderPause>, StoreError> {
        alone!(self.reader.provider_pauses(now_ms))
    }
}

async fn pauses_end(db: &mut Executor<'_>, now_ms: UnixMs) -> DbResult<PausesEnded> {
    let sql =
        "/* pauses_end */ DELETE FROM destination_pauses WHERE until_ms <= $1 RETURNING destination AS name";
    let destinations = names(db, sql, now_ms).await?;
    let sql = "/* pauses_end */ UPDATE provider_pauses SET ended_at_ms = until_ms
               WHERE until_ms <= $1 AND ended_at_ms IS NULL RETURNING provider AS name";
    Ok(PausesEnded { destinations, providers: names(db, sql, now_ms).await? })
}

async fn names(db: &mut Executor<'_>, sql: &'static str, now_ms: UnixMs) -> DbResult<Vec<String>> {
    db.fetch(sql, &[now_ms.into()]).await?.iter().map(|row| row.text("name")).collect()
}

/// The pauses, and how many events wait that are due and were never dispatched: all of those are from before its end, or
/// queue behind them.
const PROVIDER_PAUSES: &str = "/* provider_pauses */ SELECT p.provider, p.actor, p.reason, p.ended_at_ms,
         (SELECT COUNT(*) FROM (SELECT 1 FROM processed_webhook_events e
              WHERE p.ended_at_ms > $2 AND e.provider = p.provider AND e.state = 'retry' AND e.due_at_ms <= $1
                AND e.attempts_n = 0
              LIMIT 1) waiting) AS waiting_n
     FROM provider_pauses p ORDER BY p.provider LIMIT 1000";

async fn provider_pauses(db: &mut Executor<'_>, now_ms: UnixMs) -> DbResult<Vec<ProviderPause>> {
    let values = [now_ms.into(), now_ms.saturating_sub(QUEUED_MS_MAX).into()];
    let pause = |row: &Row| {
        let ended_at_ms = row.int_or_null("ended_at_ms")?;
        Ok(ProviderPause {
            provider: row.text("provider")?,
            actor: row.text("actor")?,
            reason: row.text("reason")?,
            ended_at_ms,
            is_holding: ended_at_ms.is_none() || row.int("waiting_n")? > 0,
        })
    };
    db.fetch(PROVIDER_PAUSES, &values).await?.iter().map(pause).collect()
}

/// A pause: by whom, since when, until when; `None` where there is none.
struct LockedPause(Option<(String, UnixMs, Option<UnixMs>)>);

impl LockedPause {
    /// The version of what is decided about.
    fn tag(&self) -> String {
        pause_tag(self.0.as_ref().map(|(actor, paused_at_ms, _)| (actor.as_str(), *paused_at_ms)))
    }
}

/// The pause of what is decided about, locked if there is one.
async fn get(db: &mut Executor<'_>, sql: &PauseSql, name: &Name) -> DbResult<LockedPause> {
    let Some(row) = db.fetch_optional(sql.get, &[name.as_str().into()]).await? else {
        return Ok(LockedPause(None));
    };
    Ok(LockedPause(Some((row.text("actor")?, row.int("paused_at_ms")?, row.int_or_null("until_ms")?))))
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
