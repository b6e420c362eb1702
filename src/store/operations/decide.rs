//! What people decide about an operation: to approve it, to continue it, to cancel it.

use super::list::operation_view;
use super::steps::Steps;
use super::types::{OperationRow, operation_rows_sql};
use crate::api::{OperationState, OperationView};
use crate::store::db::{DbResult, Door, Value};
use crate::store::decision::{Deciding, Refusal, Verdict};

/// A decision about an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationAct {
    /// A second person lets it begin.
    Approve,
    /// It goes on although calls failed.
    Continue,
    /// No further batch is made of it.
    Cancel,
}

impl OperationAct {
    fn is_for(self, state: OperationState) -> bool {
        match self {
            Self::Approve => state == OperationState::Waiting,
            Self::Continue => state == OperationState::Stopped,
            Self::Cancel => !matches!(state, OperationState::Done | OperationState::Cancelled),
        }
    }

    fn audited(self) -> &'static str {
        match self {
            Self::Approve => "operation_approve",
            Self::Continue => "operation_continue",
            Self::Cancel => "operation_cancel",
        }
    }
}

/// Decides about an operation, of which a batch that is under way is waited for.
pub(in crate::store) async fn operation_decide(
    db: &mut Door<'_>,
    operation_id: &str,
    act: OperationAct,
    deciding: &mut Deciding,
) -> DbResult<Verdict<OperationView>> {
    let sql = operation_rows_sql!("operation_decide", "WHERE operation_id = $1 FOR UPDATE");
    let row = db.fetch_optional(sql, &[operation_id.into()]).await?;
    let row = row.as_ref().map(OperationRow::of).transpose()?.filter(|row| row.is_seen_by(&deciding.who));
    let Some(row) = row else { return Ok(Err(Refusal::NotFound)) };
    let is_expired = row.expires_at_ms.is_some_and(|at_ms| at_ms <= deciding.now_ms);
    if !act.is_for(row.view.state) || (act == OperationAct::Approve && is_expired) {
        return Ok(Err(Refusal::NotAllowed { state: row.view.state.as_str() }));
    }
    if act == OperationAct::Approve && row.view.actor == deciding.who.name.as_str() {
        return Ok(Err(Refusal::OwnOperation));
    }
    let (who, now_ms) = (deciding.who.name.as_str(), deciding.now_ms);
    let (sql, values): (_, Vec<Value>) = match act {
        OperationAct::Approve => (
            "/* operation_decide */ UPDATE operations SET state = 'running', approved_by = $2, stepped_at_ms = $3
             WHERE operation_id = $1",
            vec![operation_id.into(), who.into(), now_ms.into()],
        ),
        OperationAct::Continue => {
            let mut steps = row.steps.clone();
            steps.iter_mut().for_each(Steps::forgive);
            let steps = steps.and_then(|steps| serde_json::to_string(&steps).ok());
            (
                "/* operation_decide */ UPDATE operations SET state = 'running', note = NULL, steps = $2, stepped_at_ms = $3
                 WHERE operation_id = $1",
                vec![operation_id.into(), steps.into(), now_ms.into()],
            )
        }
        OperationAct::Cancel => (
            "/* operation_decide */ UPDATE operations SET state = 'cancelled', cancelled_by = $2, finished_at_ms = $3
             WHERE operation_id = $1",
            vec![operation_id.into(), who.into(), now_ms.into()],
        ),
    };
    db.execute(sql, &values).await?;
    let mut record = deciding.record(act.audited());
    record.operation_id = Some(operation_id.to_owned());
    record.detail = format!("after {} of {}: {}", row.passed_n(), row.view.total_n, deciding.reason);
    deciding.records.push(record);
    let who = deciding.who.clone();
    Ok(operation_view(db, operation_id, &who).await?.ok_or(Refusal::NotFound))
}
