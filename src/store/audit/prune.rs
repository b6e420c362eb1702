//! The old end of the audit log is cut off, so that what is left still verifies.

use crate::store::db::{DbResult, Door};

/// Deletes those of these rows, sorted by number, that are the oldest of all without a gap, and moves the anchor: the
/// oldest row that is kept is chained to the newest one that went. Says how many went.
///
/// A row whose time is still to come, because a clock was ahead, so keeps those after it until its time has passed.
pub(in crate::store) async fn prune(db: &mut Door<'_>, numbers: &[i64]) -> DbResult<u64> {
    let sql = "/* audit_prune */ SELECT anchor_seq FROM audit_head WHERE one = 1 FOR UPDATE";
    let anchor_seq = db.fetch_one(sql, &[]).await?.int("anchor_seq")?;
    let mut end_seq = anchor_seq;
    for number in numbers {
        if *number == end_seq.saturating_add(1) {
            end_seq = *number;
        }
    }
    if end_seq == anchor_seq {
        return Ok(0);
    }
    // First: a row that the anchor has not passed cannot be deleted.
    let sql = "/* audit_prune */ UPDATE audit_head SET anchor_seq = $1,
                   anchor_hash = (SELECT hash FROM audit_log WHERE audit_seq = $1) WHERE one = 1";
    db.execute(sql, &[end_seq.into()]).await?;
    let sql = "/* audit_prune */ DELETE FROM audit_log WHERE audit_seq > $1 AND audit_seq <= $2";
    db.execute(sql, &[anchor_seq.into(), end_seq.into()]).await
}
