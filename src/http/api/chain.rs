//! `/v1/audit/verify`: the audit log's chain, followed.

use axum::extract::RawQuery;
use axum::response::Response;
use http::StatusCode;

use super::super::error::Problem;
use super::super::reply::view_reply;
use super::asking::Asking;
use super::query::query;
use crate::api::AuditVerified;
use crate::store::{AUDIT_VERIFIED_N_MAX, AuditPlace};

/// Follows the chain from the start, or from `cursor`.
pub(super) async fn verify(RawQuery(raw): RawQuery, Asking(people): Asking) -> Result<Response, Problem> {
    let values = query(raw.as_deref(), ["cursor"])?;
    let from = match values.get("cursor") {
        None => AuditPlace::start(),
        Some(text) => AuditPlace::parse(text).ok_or(Problem::NO_SUCH_CURSOR)?,
    };
    let found = people.audit_verify(&from, AUDIT_VERIFIED_N_MAX).await?;
    let head = found.last.to_string();
    let reason = match (found.broken, found.pruned_to) {
        (Some((_, why)), _) => Some(why.to_owned()),
        (None, Some(seq)) => {
            Some(format!("rows up to {seq} were pruned: nothing was compared with the cursor"))
        }
        (None, None) => None,
    };
    let view = AuditVerified {
        is_whole: found.broken.is_none(),
        rows_n: found.rows_n,
        first_seq: found.first_seq,
        last_seq: found.last.audit_seq,
        next: found.has_more.then(|| head.clone()),
        head,
        broken_at_seq: found.broken.map(|(seq, _)| seq),
        reason,
    };
    Ok(view_reply(StatusCode::OK, &view))
}
