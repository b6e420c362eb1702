//! The chain of the audit log is followed: a row that was changed, removed, inserted or moved is found, and so is an end
//! that was cut off.

use super::link::AuditLink;
use crate::store::db::{DbError, DbResult, Door, Row};

/// Most rows that are followed at once.
pub const AUDIT_VERIFIED_N_MAX: u32 = 5_000;

/// A row of the audit log and its hash: whoever keeps this elsewhere can tell later that everything up to it is as it
/// was. Written as `NUMBER.HASH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPlace {
    /// Number of the row; 0 is before the first one.
    pub audit_seq: i64,
    /// The row's hash, in hexadecimal.
    pub hash: String,
}

impl AuditPlace {
    /// The place before the first row that there ever was.
    pub fn start() -> Self {
        Self { audit_seq: 0, hash: "0".repeat(64) }
    }

    /// Reads a place that is written as `NUMBER.HASH`.
    pub fn parse(text: &str) -> Option<Self> {
        let (audit_seq, hash) = text.split_once('.')?;
        let is_number = !audit_seq.is_empty() && audit_seq.bytes().all(|byte| byte.is_ascii_digit());
        let is_hash = hash.len() == 64
            && hash.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        let audit_seq = audit_seq.parse().ok().filter(|_| is_number && is_hash)?;
        Some(Self { audit_seq, hash: hash.to_owned() })
    }
}

impl std::fmt::Display for AuditPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.audit_seq, self.hash)
    }
}

/// Result of following the chain for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditVerdict {
    /// Number of rows that were followed and fit.
    pub rows_n: u64,
    /// Number of the first row that was looked for.
    pub first_seq: i64,
    /// The last row that fits.
    pub last: AuditPlace,
    /// True when there are more rows, or were when it was asked.
    pub has_more: bool,
    /// Number of the first row that does not fit, and why.
    pub broken: Option<(i64, &'static str)>,
    /// Newest row that was pruned, when it is newer than the one that was asked from: that one cannot be compared.
    pub pruned_to: Option<i64>,
}

/// All that is asked of the two ends, seen at one moment with the rows.
struct AuditEnds {
    head: AuditPlace,
    anchor: AuditPlace,
    /// Hash of the row that was asked from.
    noted: Option<String>,
    has_outside: bool,
}

/// One statement, so that it sees one moment: rows may be added and pruned meanwhile. As numbers have no gaps, the rows
/// are at most `$2`.
const ROWS: &str = "/* audit_verify */ SELECT h.audit_seq AS head_seq, h.hash AS head_hash, h.anchor_seq, h.anchor_hash,
        (SELECT n.hash FROM audit_log n WHERE n.audit_seq = $1) AS noted_hash,
        CASE WHEN EXISTS (SELECT 1 FROM audit_log o WHERE o.audit_seq <= h.anchor_seq)
               OR EXISTS (SELECT 1 FROM audit_log o WHERE o.audit_seq > h.audit_seq) THEN 1 ELSE 0 END AS has_outside,
        a.audit_seq, a.at_ms, a.actor, a.action, a.provider, a.event_id, a.message_id, a.operation_id, a.detail, a.hash
    FROM audit_head h LEFT JOIN audit_log a
      ON a.audit_seq > GREATEST($1, h.anchor_seq) AND a.audit_seq <= GREATEST($1, h.anchor_seq) + $2
    WHERE h.one = 1 ORDER BY a.audit_seq";

/// Follows at most `rows_n` rows after `from`, which is the start, the end of what was followed before, or what somebody
/// noted elsewhere.
pub(in crate::store) async fn audit_verify(
    db: &mut Door<'_>,
    from: &AuditPlace,
    rows_n: u32,
) -> DbResult<AuditVerdict> {
    let rows = db.fetch(ROWS, &[from.audit_seq.into(), rows_n.into()]).await?;
    let first = rows.first().ok_or_else(DbError::vanished)?;
    let ends = AuditEnds {
        head: AuditPlace { audit_seq: first.int("head_seq")?, hash: first.text("head_hash")? },
        anchor: AuditPlace { audit_seq: first.int("anchor_seq")?, hash: first.text("anchor_hash")? },
        noted: first.text_or_null("noted_hash")?,
        has_outside: first.is_true("has_outside")?,
    };
    let is_empty = first.int_or_null("audit_seq")?.is_none();
    verdict(from, &ends, if is_empty { &[] } else { &rows }, rows_n)
}

fn verdict(from: &AuditPlace, ends: &AuditEnds, rows: &[Row], rows_n: u32) -> DbResult<AuditVerdict> {
    let is_pruned = from.audit_seq < ends.anchor.audit_seq;
    let last = if is_pruned { ends.anchor.clone() } else { from.clone() };
    let mut verdict = AuditVerdict {
        rows_n: 0,
        first_seq: last.audit_seq.saturating_add(1),
        last,
        has_more: false,
        broken: start_broken(from, ends),
        // Nothing was asked about what was there before the first row.
        pruned_to: Some(ends.anchor.audit_seq).filter(|_| is_pruned && from.audit_seq > 0),
    };
    if verdict.broken.is_some() {
        return Ok(verdict);
    }
    for row in rows {
        let (audit_seq, wanted) = (row.int("audit_seq")?, verdict.last.audit_seq.saturating_add(1));
        if audit_seq != wanted {
            verdict.broken = Some((wanted, "the row of this number is missing"));
            return Ok(verdict);
        }
        let hash = hash_of(row, &verdict.last.hash)?;
        if hash != row.text("hash")? {
            let why = "this row, or the order of rows, is not as it was written";
            verdict.broken = Some((audit_seq, why));
            return Ok(verdict);
        }
        verdict.last = AuditPlace { audit_seq, hash };
        verdict.rows_n += 1;
    }
    let is_full = rows.len() >= rows_n as usize;
    verdict.has_more = is_full && verdict.last.audit_seq < ends.head.audit_seq;
    if !verdict.has_more {
        verdict.broken = end_broken(&verdict.last, ends);
    }
    Ok(verdict)
}

/// Returns what is wrong with the place that was asked from.
fn start_broken(from: &AuditPlace, ends: &AuditEnds) -> Option<(i64, &'static str)> {
    let wanted = if from.audit_seq == 0 {
        Some(AuditPlace::start().hash)
    } else if from.audit_seq == ends.anchor.audit_seq {
        Some(ends.anchor.hash.clone())
    } else if from.audit_seq > ends.head.audit_seq {
        return Some((ends.head.audit_seq.saturating_add(1), "rows that there were are missing at the end"));
    } else {
        ends.noted.clone()
    };
    if from.audit_seq > 0 && from.audit_seq < ends.anchor.audit_seq {
        return None;
    }
    match wanted {
        None => Some((from.audit_seq, "the row of this number is missing")),
        Some(hash) if hash != from.hash => Some((from.audit_seq, "this row is not the one that was noted")),
        Some(_) => None,
    }
}

/// Returns what is wrong with the end, at which `last` is the last row that fits.
fn end_broken(last: &AuditPlace, ends: &AuditEnds) -> Option<(i64, &'static str)> {
    if last.audit_seq < ends.head.audit_seq {
        return Some((last.audit_seq.saturating_add(1), "the row of this number is missing"));
    }
    if *last != ends.head {
        return Some((last.audit_seq, "this row is not the one that was written last"));
    }
    ends.has_outside
        .then_some((last.audit_seq, "there are rows that nobody appended, before or after the chain"))
}

fn hash_of(row: &Row, before: &str) -> DbResult<String> {
    let (actor, action, detail) = (row.text("actor")?, row.text("action")?, row.text("detail")?);
    let provider = row.text_or_null("provider")?;
    let event_id = row.text_or_null("event_id")?;
    let operation_id = row.text_or_null("operation_id")?;
    let link = AuditLink {
        audit_seq: row.int("audit_seq")?,
        at_ms: row.int("at_ms")?,
        actor: &actor,
        action: &action,
        provider: provider.as_deref(),
        event_id: event_id.as_deref(),
        message_id: row.int_or_null("message_id")?,
        operation_id: operation_id.as_deref(),
        detail: &detail,
    };
    Ok(link.hash(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_number_and_a_hash_and_nothing_else() {
        let hash = "0a".repeat(32);
        let place = AuditPlace { audit_seq: 7, hash: hash.clone() };
        assert_eq!(AuditPlace::parse(&place.to_string()), Some(place));
        for bad in [
            "",
            "7",
            ".",
            &format!(".{hash}"),
            &format!("-7.{hash}"),
            &format!("+7.{hash}"),
            &format!("7.{}", hash.to_uppercase()),
            &format!("7.{hash}0"),
            &format!("99999999999999999999.{hash}"),
            "7.é",
        ] {
            assert_eq!(AuditPlace::parse(bad), None, "{bad}");
        }
    }
}
