//! What became of the calls of rows that an operation with steps acted on.

use super::steps::Results;
use super::types::OperationRow;
use crate::api::OperationSubject;
use crate::store::db::{DbResult, Door, Row};
use crate::types::EventState;

/// Characters of an error that are kept as the reason of a stop.
const ERROR_CHARS_MAX: usize = 200;

/// Rows of messages whose calls have not been seen to be tried. `released` is not an attempt: nothing was sent.
const OF_MESSAGES: &str = "/* operation_results */ SELECT r.row_n, q.last_error AS error,
        CASE WHEN q.state IN ('held', 'dead') OR q.last_result IN ('retry', 'refused', 'unknown') OR d.state = 'discarded'
             THEN 1 ELSE 0 END AS is_failed,
        CASE WHEN q.message_id IS NULL THEN 0 ELSE 1 END AS is_open
    FROM operation_rows r
    LEFT JOIN outbox_queue q ON q.message_id = r.subject_id
    LEFT JOIN outbox_finished d ON d.message_id = r.subject_id
    WHERE r.operation_id = $1 AND r.result = 'open' ORDER BY r.row_n LIMIT 500";

/// Rows of events whose handlers, or whose newest calls, have not been seen to be tried.
const OF_EVENTS: &str = "/* operation_results */ SELECT r.row_n, e.state, e.attempts_n, c.failed_n, c.open_n,
        COALESCE(c.error, e.error) AS error
    FROM operation_rows r
    LEFT JOIN processed_webhook_events e ON e.event_seq = r.subject_id
    LEFT JOIN (
        SELECT o.row_n, MAX(q.last_error) AS error,
               SUM(CASE WHEN q.state IN ('held', 'dead') OR q.last_result IN ('retry', 'refused', 'unknown')
                        THEN 1 ELSE 0 END) AS failed_n,
               SUM(CASE WHEN q.state IN ('held', 'dead') OR q.last_result IN ('retry', 'refused', 'unknown')
                        THEN 0 ELSE 1 END) AS open_n
        FROM operation_rows o
        JOIN processed_webhook_events p ON p.event_seq = o.subject_id
        JOIN outbox_queue q ON q.message_id BETWEEN o.subject_id * 1024 AND o.subject_id * 1024 + 1023
             AND q.generation = p.generation
        WHERE o.operation_id = $1 AND o.result = 'open' GROUP BY o.row_n
    ) c ON c.row_n = r.row_n
    WHERE r.operation_id = $1 AND r.result = 'open' ORDER BY r.row_n LIMIT 500";

const MARK: &str = "/* operation_results */ UPDATE operation_rows SET result = $3
    WHERE operation_id = $1 AND row_n = ANY($2) AND result = 'open'";

/// Marks the rows whose calls were tried since the last look, each once, and counts them.
pub(super) async fn settle_results(db: &mut Door<'_>, row: &OperationRow) -> DbResult<Results> {
    let sql = match row.view.subject {
        OperationSubject::Messages { .. } => OF_MESSAGES,
        OperationSubject::Events { .. } => OF_EVENTS,
    };
    let found = db.fetch(sql, &[row.view.operation_id.as_str().into()]).await?;
    let (mut good, mut failed, mut error) = (Vec::new(), Vec::new(), None);
    for found in &found {
        let result = match row.view.subject {
            OperationSubject::Messages { .. } => of_message(found)?,
            OperationSubject::Events { .. } => of_event(found)?,
        };
        match result {
            RowResult::Open => {}
            RowResult::Good => good.push(found.int("row_n")?),
            RowResult::Failed => {
                failed.push(found.int("row_n")?);
                let found: Option<String> = found.text_or_null("error")?;
                error = error.or(found.map(|found| found.chars().take(ERROR_CHARS_MAX).collect()));
            }
        }
    }
    let mut results = Results { error, ..Results::default() };
    for (rows, word, n) in [(good, "good", &mut results.good_n), (failed, "failed", &mut results.failed_n)] {
        if !rows.is_empty() {
            *n = db.execute(MARK, &[row.view.operation_id.as_str().into(), rows.into(), word.into()]).await?;
        }
    }
    Ok(results)
}

/// What became of a row.
enum RowResult {
    /// Its calls have not been tried, or its handlers have not run.
    Open,
    Good,
    Failed,
}

fn of_message(found: &Row) -> DbResult<RowResult> {
    Ok(match (found.int("is_failed")?, found.int("is_open")?) {
        (1, _) => RowResult::Failed,
        (_, 1) => RowResult::Open,
        _ => RowResult::Good,
    })
}

fn of_event(found: &Row) -> DbResult<RowResult> {
    let number = |column: &str| -> DbResult<i64> { Ok(found.int_or_null(column)?.unwrap_or_default()) };
    let state = found.text_or_null("state")?.as_deref().and_then(EventState::parse);
    Ok(match state {
        Some(EventState::Retry) if number("attempts_n")? == 0 => RowResult::Open,
        Some(EventState::Retry | EventState::Failed | EventState::Unreadable | EventState::Conflict) => {
            RowResult::Failed
        }
        Some(EventState::Handled) if number("failed_n")? > 0 => RowResult::Failed,
        Some(EventState::Handled) if number("open_n")? > 0 => RowResult::Open,
        // Handlers that made nothing of it, and what is no longer there.
        _ => RowResult::Good,
    })
}
