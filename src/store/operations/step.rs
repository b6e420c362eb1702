//! One batch of an operation, in one transaction under the lock of the operation's row.

use super::acts::{CHANGED, Outcomes, SetRow, on_events, on_messages};
use super::types::{OperationRow, OperationStep, operation_rows_sql};
use crate::api::OperationSubject;
use crate::store::audit::append;
use crate::store::db::{DbError, DbResult, Door, Row, StoreError};
use crate::store::decision::Deciding;
use crate::store::handle::Store;
use crate::types::{Name, Principal, Reach, Role, UnixMs};

impl Store {
    /// The operations that run, those first that have waited longest for a batch.
    pub async fn operations_running(&self) -> Result<Vec<String>, StoreError> {
        alone!(self.reader.operations_running())
    }

    /// Acts on the next rows of an operation, at most `rows_n`: their acts, marks and records are one transaction.
    /// `None` when another node has it, or it runs no longer. With `is_passing_by`, the next row is marked as `failed`
    /// instead, and left alone.
    pub async fn operation_step(
        &self,
        operation_id: &str,
        rows_n: u32,
        is_passing_by: bool,
        now_ms: UnixMs,
    ) -> Result<Option<OperationStep>, StoreError> {
        let operation_id = operation_id.to_owned();
        together!(self.operation_step(&operation_id, rows_n, is_passing_by, now_ms))
    }

    /// Returns once somebody has ordered an operation here; at once if that was since the last time.
    pub async fn operation_ordered(&self) {
        self.parts.operation_ordered.notified().await;
    }
}

async fn operations_running(db: &mut Door<'_>) -> DbResult<Vec<String>> {
    let sql = "/* operations_running */ SELECT operation_id FROM operations WHERE state = 'running'
               ORDER BY stepped_at_ms, operation_id LIMIT 100";
    db.fetch(sql, &[]).await?.iter().map(|row| row.text("operation_id")).collect()
}

async fn operation_step(
    db: &mut Door<'_>,
    operation_id: &str,
    rows_n: u32,
    is_passing_by: bool,
    now_ms: UnixMs,
) -> DbResult<Option<OperationStep>> {
    let sql = operation_rows_sql!(
        "operation_step",
        "WHERE operation_id = $1 AND state = 'running' FOR UPDATE SKIP LOCKED"
    );
    let Some(row) = db.fetch_optional(sql, &[operation_id.into()]).await? else { return Ok(None) };
    let row = OperationRow::of(&row)?;
    let passed_n = i64::try_from(row.passed_n()).unwrap_or(i64::MAX);
    let sql = "/* operation_step */ SELECT row_n, subject_id FROM operation_rows
               WHERE operation_id = $1 AND row_n > $2 AND outcome IS NULL ORDER BY row_n LIMIT $3";
    let rows_n = if is_passing_by { 1 } else { rows_n };
    let rows = db.fetch(sql, &[operation_id.into(), passed_n.into(), rows_n.into()]).await?;
    let of = |row: &Row| Ok(SetRow { row_n: row.int("row_n")?, subject_id: row.int("subject_id")? });
    let rows: Vec<SetRow> = rows.iter().map(of).collect::<DbResult<_>>()?;
    let mut deciding = Deciding::within(operation_id, orderer(&row)?, &row.reason, now_ms);
    let outcomes = match &row.subject {
        _ if is_passing_by => {
            Outcomes::from([(("failed", None), rows.iter().map(|row| row.row_n).collect())])
        }
        OperationSubject::Messages { act, .. } => on_messages(db, &rows, *act, &mut deciding).await?,
        OperationSubject::Events { act, .. } => on_events(db, &rows, *act, &mut deciding).await?,
    };
    let step = mark(db, &row, outcomes, now_ms).await?;
    append(db, now_ms, &deciding.records).await?;
    Ok(Some(step))
}

/// Who ordered it, with the rights of that time.
fn orderer(row: &OperationRow) -> DbResult<Principal> {
    let name = |name: &String| Name::parse(name).map_err(|_| DbError::decode("name", name));
    let reach = |names: &Option<Vec<String>>| -> DbResult<Reach> {
        let Some(names) = names else { return Ok(Reach::All) };
        Ok(Reach::These(names.iter().map(name).collect::<DbResult<_>>()?))
    };
    Ok(Principal {
        name: name(&row.actor)?,
        role: Role::Operator,
        providers: reach(&row.providers)?,
        destinations: reach(&row.destinations)?,
    })
}

/// Marks the rows of a batch, each once, and moves the operation on.
async fn mark(
    db: &mut Door<'_>,
    row: &OperationRow,
    outcomes: Outcomes,
    now_ms: UnixMs,
) -> DbResult<OperationStep> {
    let (mut changed_n, mut skipped_n) = (0, 0);
    for ((outcome, stood), rows) in outcomes {
        let sql = "/* operation_step */ UPDATE operation_rows SET outcome = $3, stood = $4
                   WHERE operation_id = $1 AND row_n = ANY($2) AND outcome IS NULL";
        let values = [row.operation_id.as_str().into(), rows.into(), outcome.into(), stood.into()];
        *if outcome == CHANGED { &mut changed_n } else { &mut skipped_n } += db.execute(sql, &values).await?;
    }
    let passed_n = row.passed_n().saturating_add(changed_n).saturating_add(skipped_n);
    let is_over = passed_n >= row.total_n || changed_n + skipped_n == 0;
    let sql = "/* operation_step */ UPDATE operations
               SET changed_n = changed_n + $2, skipped_n = skipped_n + $3, stepped_at_ms = $4,
                   state = CASE WHEN CAST($5 AS BIGINT) = 1 THEN 'done' ELSE state END,
                   finished_at_ms = CASE WHEN CAST($5 AS BIGINT) = 1 THEN CAST($4 AS BIGINT) END
               WHERE operation_id = $1";
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let values = [
        row.operation_id.as_str().into(),
        number(changed_n).into(),
        number(skipped_n).into(),
        now_ms.into(),
        i64::from(is_over).into(),
    ];
    db.execute(sql, &values).await?;
    Ok(OperationStep { changed_n, skipped_n, is_over })
}
