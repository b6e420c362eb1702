//! Events per minute and provider, counted from the newest down, [`COUNTED_N_MAX`] at most: nothing is counted on the
//! way in. The minutes in which that bound ended are shown with what was found of them.

use super::person::{People, PeopleError};
use super::walk::{ORDER_MS, number_before};
use crate::api::{MinuteView, StatisticsView};
use crate::store::damaged::intact;
use crate::store::db::{DbResult, Door, Row, Value};
use crate::types::UnixMs;

/// Most events that are looked at.
const COUNTED_N_MAX: u32 = 50_000;
/// Most minutes of providers that are told.
const ROWS_N_MAX: u32 = 5_000;
const MINUTE_MS: i64 = 60_000;

/// The events above the number `$1`, `$2` of them at most, that came from `$3` on and before `$4`: of the provider
/// `$5`, or of any; with `$6` 1, of `$7` alone.
const MINUTES: &str = "/* statistics */ SELECT e.received_at_ms / 60000 AS minute, e.provider, COUNT(*) AS events_n,
         SUM(CASE WHEN e.state IN ('retry', 'failed', 'unreadable', 'conflict') THEN 1 ELSE 0 END) AS waiting_n
     FROM (SELECT received_at_ms, provider, state, synthetic FROM processed_webhook_events WHERE event_seq > $1
           ORDER BY event_seq DESC LIMIT $2) e
     WHERE NOT e.synthetic AND e.received_at_ms >= $3 AND e.received_at_ms < $4 AND (CAST($5 AS TEXT) IS NULL OR e.provider = $5)
       AND (CAST($6 AS BIGINT) = 0 OR e.provider = ANY($7))
     GROUP BY e.received_at_ms / 60000, e.provider ORDER BY minute DESC, e.provider LIMIT $8";
const END: &str = "/* statistics_end */ SELECT e.received_at_ms FROM processed_webhook_events e
     WHERE e.event_seq = (SELECT MIN(w.event_seq) FROM (SELECT event_seq FROM processed_webhook_events
         WHERE event_seq > $1 ORDER BY event_seq DESC LIMIT $2) w HAVING COUNT(*) >= $2)";

/// The statements by name, for tests that look at their plans.
pub(super) const STATEMENTS: &[(&str, &str)] = &[("statistics", MINUTES), ("statistics_end", END)];

impl People {
    /// The last `minutes_n` minutes, the one that is running included.
    pub async fn statistics(
        &self,
        provider: Option<String>,
        minutes_n: u32,
        now_ms: UnixMs,
    ) -> Result<StatisticsView, PeopleError> {
        if let Some(provider) = &provider {
            self.needs_provider(provider)?;
        }
        let (store, scope) = (&self.store, self.principal.providers.names());
        let to_ms = (now_ms.div_euclid(MINUTE_MS) + 1) * MINUTE_MS;
        let from_ms = to_ms.saturating_sub(i64::from(minutes_n) * MINUTE_MS);
        Ok(snapshot!(store.statistics(provider, scope, (from_ms, to_ms)))?)
    }
}

async fn statistics(
    db: &mut Door<'_>,
    provider: Option<String>,
    scope: Option<Vec<String>>,
    (from_ms, to_ms): (UnixMs, UnixMs),
) -> DbResult<StatisticsView> {
    let floor = number_before(db, from_ms).await?;
    let values: [Value; 8] = [
        floor.into(),
        COUNTED_N_MAX.into(),
        from_ms.into(),
        to_ms.into(),
        provider.into(),
        i64::from(scope.is_some()).into(),
        scope.unwrap_or_default().into(),
        ROWS_N_MAX.into(),
    ];
    let rows = db.fetch(MINUTES, &values).await?;
    let minute = |row: &Row| {
        Ok(MinuteView {
            at_ms: row.int("minute")?.saturating_mul(MINUTE_MS),
            provider: row.text("provider")?,
            events_n: row.int("events_n")?.unsigned_abs(),
            waiting_n: row.int("waiting_n")?.unsigned_abs(),
            is_cut: false,
        })
    };
    let is_full = rows.len() >= ROWS_N_MAX as usize;
    let mut minutes = intact("processed_webhook_events", "provider", &rows, minute)?.rows;
    // What was looked at is whole from the minute on that comes after where it ended.
    let ended = db.fetch_optional(END, &[floor.into(), COUNTED_N_MAX.into()]).await?;
    let ended = ended.map(|row| row.int("received_at_ms")).transpose()?;
    let whole_from = |at_ms: UnixMs| (at_ms.saturating_add(ORDER_MS).div_euclid(MINUTE_MS) + 1) * MINUTE_MS;
    let by_events = ended.map(whole_from).filter(|at_ms| *at_ms > from_ms);
    let by_rows = minutes.last().filter(|_| is_full).map(|oldest| oldest.at_ms + MINUTE_MS);
    let counted_from_ms = by_events.max(by_rows).map(|at_ms| at_ms.min(to_ms));
    for minute in &mut minutes {
        minute.is_cut = counted_from_ms.is_some_and(|from_ms| minute.at_ms < from_ms);
    }
    minutes.reverse();
    Ok(StatisticsView { from_ms, to_ms, minutes, counted_from_ms })
}
