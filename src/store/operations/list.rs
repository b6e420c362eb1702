//! Operations as people see them.

use super::types::{OperationRow, operation_rows_sql};
use crate::api::{OperationSubject, OperationView, Page, SkippedRow};
use crate::store::damaged::{intact, of_row};
use crate::store::db::{DbResult, Door, Row};
use crate::types::Principal;

const TABLE: &str = "operations";
const KEY: &str = "operation_id";

/// One operation with its progress; `None` when there is none, or none that `who` may see.
pub(in crate::store) async fn operation_view(
    db: &mut Door<'_>,
    operation_id: &str,
    who: &Principal,
) -> DbResult<Option<OperationView>> {
    let sql = operation_rows_sql!("operation_view", "WHERE operation_id = $1");
    let row = db.fetch_optional(sql, &[operation_id.into()]).await?;
    let row = row.as_ref().map(|row| of_row(TABLE, operation_id, OperationRow::of(row))).transpose();
    let row = match row {
        // As with one that is out of reach: what it is about cannot be read.
        Err(error) if error.is_damage() && !who.is_everywhere() => return Ok(None),
        row => row?,
    };
    let row = row.filter(|row| row.is_seen_by(who));
    let Some(row) = row else { return Ok(None) };
    let skipped = skipped(db, &row.view).await?;
    Ok(Some(OperationView { skipped, ..row.view }))
}

async fn skipped(db: &mut Door<'_>, row: &OperationView) -> DbResult<Vec<SkippedRow>> {
    if row.skipped_n == 0 {
        return Ok(Vec::new());
    }
    let is_events = matches!(row.subject, OperationSubject::Events { .. });
    let sql = "/* operation_view */ SELECT r.subject_id, r.outcome, r.stood, e.provider, e.event_id
               FROM operation_rows r
               LEFT JOIN processed_webhook_events e ON CAST($2 AS BIGINT) = 1 AND e.event_seq = r.subject_id
               WHERE r.operation_id = $1 AND r.outcome <> 'changed' ORDER BY r.row_n DESC LIMIT 10";
    let rows = db.fetch(sql, &[row.operation_id.as_str().into(), i64::from(is_events).into()]).await?;
    let one = |row: &Row| {
        let subject = match (row.text_or_null("provider")?, row.text_or_null("event_id")?) {
            (Some(provider), Some(event_id)) => format!("{provider}/{event_id}"),
            _ => row.int("subject_id")?.to_string(),
        };
        Ok(SkippedRow { subject, outcome: row.text("outcome")?, state: row.text_or_null("stood")? })
    };
    rows.iter().map(one).collect()
}

/// The newest operations that `who` may see, before the one with the id `before`: of at most `limit` that are looked
/// at.
pub(in crate::store) async fn operation_list(
    db: &mut Door<'_>,
    before: Option<&str>,
    limit: u32,
    who: &Principal,
) -> DbResult<Page<OperationView>> {
    let sql = operation_rows_sql!(
        "operation_list",
        "WHERE CAST($1 AS TEXT) IS NULL OR operation_id < $1 ORDER BY operation_id DESC LIMIT $2"
    );
    let rows = db.fetch(sql, &[before.into(), limit.into()]).await?;
    let found = intact(TABLE, KEY, &rows, OperationRow::of)?;
    // A full page may have a next one.
    let last = rows.last().filter(|_| rows.len() >= limit as usize);
    let next = last.and_then(|_| rows.iter().rev().find_map(|row| row.text(KEY).ok()));
    let items = found.rows.into_iter().filter(|row| row.is_seen_by(who)).map(|row| row.view).collect();
    // What a damaged one is about may not be readable: it is for those who reach everywhere.
    let damaged = if who.is_everywhere() { found.damaged } else { Vec::new() };
    Ok(Page { next, damaged, ..Page::whole(items) })
}

/// The newest operations that go on only after a person's decision, of those that `who` may see.
pub(in crate::store) async fn operations_for_persons(
    db: &mut Door<'_>,
    who: &Principal,
) -> DbResult<Vec<OperationView>> {
    let sql = operation_rows_sql!(
        "operation_list",
        "WHERE finished_at_ms IS NULL AND state IN ('waiting', 'stopped') ORDER BY operation_id DESC LIMIT 40"
    );
    let rows = intact(TABLE, KEY, &db.fetch(sql, &[]).await?, OperationRow::of)?.rows;
    Ok(rows.into_iter().filter(|row| row.is_seen_by(who)).map(|row| row.view).collect())
}
