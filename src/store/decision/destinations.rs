//! Decisions about destinations: paused, and resumed.

use super::once::Verdict;
use super::types::{Audited, Deciding, Refusal};
use crate::api::{DestinationAct, OrderResult, pause_tag};
use crate::store::db::StoreError;
use crate::store::db::{DbResult, Door};
use crate::store::handle::Store;
use crate::times::rfc3339;
use crate::types::{Name, UnixMs};

/// Pauses or resumes a destination.
pub(in crate::store) async fn decide(
    db: &mut Door<'_>,
    name: &Name,
    (act, until_ms): (DestinationAct, Option<UnixMs>),
    deciding: &mut Deciding,
) -> DbResult<Verdict<OrderResult>> {
    if !deciding.if_match.admits(&version(db, name).await?) {
        return Ok(Err(Refusal::Changed));
    }
    if until_ms.is_some_and(|until_ms| until_ms <= deciding.now_ms) {
        return Ok(Err(Refusal::EndPassed));
    }
    let changed_n = match act {
        DestinationAct::Pause => {
            let sql = "/* destination_pause */ INSERT INTO destination_pauses
                       (destination, actor, reason, paused_at_ms, until_ms)
                       VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
            let pause = [
                name.as_str().into(),
                deciding.who.name.as_str().into(),
                deciding.reason.as_str().into(),
                deciding.now_ms.into(),
                until_ms.into(),
            ];
            db.execute(sql, &pause).await?
        }
        DestinationAct::Resume => {
            let sql = "/* destination_resume */ DELETE FROM destination_pauses WHERE destination = $1";
            db.execute(sql, &[name.as_str().into()]).await?
        }
    };
    if changed_n == 0 {
        // Somebody may have paused it since it was looked at: there was no row to lock.
        let is_admitted = deciding.if_match.admits(&version(db, name).await?);
        let state = if act == DestinationAct::Pause { "paused" } else { "running" };
        return Ok(Err(if is_admitted { Refusal::NotAllowed { state } } else { Refusal::Changed }));
    }
    let mut record = deciding.record(act.audited());
    let until = until_ms.and_then(rfc3339).map_or_else(String::new, |until| format!(" (until {until})"));
    record.detail = format!("{name}: {}{until}", deciding.reason);
    deciding.records.push(record);
    Ok(Ok(OrderResult::changed(0)))
}

impl Store {
    /// Resumes the destinations whose pause had its end by now. Returns their names.
    pub async fn pauses_end(&self, now_ms: UnixMs) -> Result<Vec<String>, StoreError> {
        together!(self.pauses_end(now_ms))
    }
}

async fn pauses_end(db: &mut Door<'_>, now_ms: UnixMs) -> DbResult<Vec<String>> {
    let sql = "/* pauses_end */ DELETE FROM destination_pauses WHERE until_ms <= $1 RETURNING destination";
    db.fetch(sql, &[now_ms.into()]).await?.iter().map(|row| row.text("destination")).collect()
}

/// The version of a destination, whose pause is locked if there is one.
async fn version(db: &mut Door<'_>, name: &Name) -> DbResult<String> {
    let sql = "/* destination_decide */ SELECT actor, paused_at_ms FROM destination_pauses
               WHERE destination = $1 FOR UPDATE";
    let Some(row) = db.fetch_optional(sql, &[name.as_str().into()]).await? else {
        return Ok(pause_tag(None));
    };
    Ok(pause_tag(Some((&row.text("actor")?, row.int("paused_at_ms")?))))
}
