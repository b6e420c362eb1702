//! What an operation would act on, added up. Nothing is written.

use std::collections::BTreeMap;

use super::order::{found_by, rows_limit, same_operations};
use super::types::OPERATION_ROWS_N_MAX;
use crate::api::{BulkFigures, NamedCount, OperationChoice, PreviewedAct, bulk_acts};
use crate::store::db::{DbResult, Door, Row, Value};
use crate::types::{Principal, UnixMs};

/// The figures of a choice within the reach of `who`, and the acts that are possible on it.
pub(in crate::store) async fn operation_preview(
    db: &mut Door<'_>,
    choice: &OperationChoice,
    who: &Principal,
    now_ms: UnixMs,
) -> DbResult<(BulkFigures, Vec<PreviewedAct>)> {
    let (sql, mut values) = found_by(choice, who);
    values.splice(0..0, [Value::from(now_ms), rows_limit()]);
    let figures = added_up(&db.fetch(sql.preview, &values).await?)?;
    let mut acts = bulk_acts(choice, &figures);
    let subjects: Vec<_> = acts.iter().filter_map(|one| choice.clone().with_act(&one.act)).collect();
    let twins = same_operations(db, &subjects.iter().collect::<Vec<_>>(), now_ms).await?;
    for (act, subject) in acts.iter_mut().zip(&subjects) {
        let twin = twins.iter().find(|twin| twin.subject == *subject && twin.is_seen_by(who));
        act.same_operation_id = twin.map(|twin| twin.operation_id.clone());
    }
    Ok((figures, acts))
}

fn added_up(rows: &[Row]) -> DbResult<BulkFigures> {
    let mut figures = BulkFigures::default();
    let (mut providers, mut destinations) = (BTreeMap::new(), BTreeMap::new());
    for row in rows {
        let number = |column: &str| -> DbResult<u64> {
            Ok(row.int_or_null(column)?.unwrap_or_default().unsigned_abs())
        };
        let counted_n = number("counted_n")?;
        *providers.entry(row.text("provider")?).or_default() += counted_n;
        if let Some(destination) = row.text_or_null("destination")? {
            *destinations.entry(destination).or_default() += counted_n;
        }
        let (first_at_ms, last_at_ms) = (row.int("first_at_ms")?, row.int("last_at_ms")?);
        figures.first_at_ms = Some(figures.first_at_ms.map_or(first_at_ms, |first| first.min(first_at_ms)));
        figures.last_at_ms = figures.last_at_ms.max(Some(last_at_ms));
        figures.counted_n += counted_n;
        figures.calls_n += number("calls_n")?;
        figures.open_n += number("open_n")?;
        figures.untried_n += number("untried_n")?;
        figures.uncertain_n += number("uncertain_n")?;
        figures.expired_n += number("expired_n")?;
    }
    figures.is_more = figures.counted_n > OPERATION_ROWS_N_MAX;
    figures.counted_n = figures.counted_n.min(OPERATION_ROWS_N_MAX);
    let named = |counts: BTreeMap<String, u64>| {
        counts.into_iter().map(|(name, counted_n)| NamedCount { name, counted_n }).collect()
    };
    (figures.providers, figures.destinations) = (named(providers), named(destinations));
    Ok(figures)
}
