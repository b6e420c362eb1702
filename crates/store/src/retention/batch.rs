//! A batch of old rows as one message to PostgreSQL: the lease, the settings, the locks and the deletions travel together
//! and are one transaction there. So a batch costs one round trip, however far away the database is.
//!
//! A message of several statements has no parameters: its values are literals. They are whole numbers, and the name of
//! this node in hexadecimal; nothing that a sender or an operator wrote is ever in it.

use sqlx::{AssertSqlSafe, Row as _};

use super::steps::{LEASE, Statements};
use super::{OldRows, PruneLease, PrunedKind};
use crate::db::limit::limited;
use crate::db::{DbError, DbResult, Executor, in_postgres};

/// Tables grow and shrink faster than they are counted: by their keys alone.
const SETTINGS: &str =
    "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_hashjoin = off;
SET LOCAL enable_mergejoin = off";

/// True when this node, `$5`, has the lease.
const IS_OURS: &str = "COALESCE((SELECT r.node FROM retention_lease r WHERE r.one = 1) = $5, false)";

/// Locks bodies by a statement of its own, so that the next one sees what whoever had them before has committed. Those
/// under a concurrent decision are skipped; a later decision finds that they are deleted.
fn bodies_lock() -> String {
    format!(
        "/* prune_delete */ SELECT set_config('hooklatch.pruned', COALESCE((
             SELECT CAST(array_agg(l.event_seq) AS TEXT) FROM (
                 SELECT event_seq FROM webhook_payloads WHERE event_seq = ANY($1) AND {IS_OURS}
                 ORDER BY event_seq FOR UPDATE SKIP LOCKED) l), '{{}}'), true)"
    )
}

/// The bodies that are locked.
const LOCKED: &str = "CAST(current_setting('hooklatch.pruned') AS BIGINT[])";

/// What goes with the bodies that are `gone`.
const WITH_BODIES: &str = ", found AS (
    DELETE FROM event_search_ids WHERE block = ANY(ARRAY(SELECT DISTINCT id / 1024 FROM gone))
    AND (event_seq IN (SELECT id FROM gone)) IS TRUE)";
/// What goes with the messages that are `gone`. Up to the mark, an event without messages may have had some.
const WITH_MESSAGES: &str = ", attempts AS (
    DELETE FROM outbox_attempts WHERE message_id = ANY(ARRAY(SELECT id FROM gone))
), mark AS (
    UPDATE retention_lease SET messages_pruned_seq = GREATEST(messages_pruned_seq, (SELECT MAX(id) FROM gone) / 1024)
    WHERE one = 1 AND EXISTS (SELECT 1 FROM gone))";

/// Deletes what was found of a kind that there is much of, as far as nothing needs it; says how many rows. Nothing, and
/// `None`, if another node prunes.
pub(super) async fn delete(
    db: &mut Executor<'_>,
    kind: PrunedKind,
    found: &OldRows,
    lease: &PruneLease,
) -> DbResult<Option<u64>> {
    let message = message(kind, found, lease)?;
    let rows =
        limited(async { Ok(sqlx::raw_sql(AssertSqlSafe(message)).fetch_all(db.pg()?).await?) }).await?;
    let last = rows.last().ok_or_else(DbError::vanished)?;
    let (is_ours, gone_n): (bool, i64) = (last.try_get("is_ours")?, last.try_get("gone_n")?);
    Ok(is_ours.then_some(gone_n.unsigned_abs()))
}

/// The statements of a batch.
fn message(kind: PrunedKind, found: &OldRows, lease: &PruneLease) -> DbResult<String> {
    let node = format!("convert_from(decode('{}', 'hex'), 'UTF8')", hex::encode(&lease.node));
    let claim = inlined(in_postgres(LEASE.into()), &[node.clone(), literal(lease.for_ms)])?;
    let (cut_ms, [from, to], numbers) = (found.cut_ms(), found.messages(kind), literals(&found.numbers()));
    let mut values = [numbers, literal(cut_ms), literal(from), literal(to), node];
    let mut lock = String::new();
    if kind == PrunedKind::Bodies {
        lock = inlined(&bodies_lock(), &values)? + ";\n";
        LOCKED.clone_into(&mut values[0]);
    }
    let (id, with) = match kind {
        PrunedKind::Bodies => ("event_seq", WITH_BODIES),
        PrunedKind::Ids => ("event_seq", ""),
        PrunedKind::Messages => ("message_id", WITH_MESSAGES),
        _ => ("message_id", ""),
    };
    let delete = Statements::of(kind).delete();
    let delete = format!(
        "/* prune_delete */ WITH gone AS ({delete} AND {IS_OURS} RETURNING {id} AS id){with}
         SELECT {IS_OURS} AS is_ours, (SELECT COUNT(*) FROM gone) AS gone_n"
    );
    Ok(format!("{SETTINGS};\n{claim};\n{lock}{}", inlined(&delete, &values)?))
}

fn literal(number: i64) -> String {
    format!("CAST('{number}' AS BIGINT)")
}

fn literals(numbers: &[i64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(i64::to_string).collect();
    format!("CAST('{{{}}}' AS BIGINT[])", numbers.join(","))
}

/// Puts these literals, or expressions, in the places of `$1`, `$2`, ….
fn inlined(sql: &str, values: &[String]) -> DbResult<String> {
    let mut parts = sql.split('$');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let after = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let number: Option<usize> = part.strip_suffix(after).and_then(|number| number.parse().ok());
        let value = number.and_then(|number| values.get(number.checked_sub(1)?));
        out.push_str(value.ok_or_else(|| DbError::unsaid("a place of a statement has no value"))?);
        out.push_str(after);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retention::{OldRow, PrunePlace};

    #[test]
    fn a_message_holds_numbers_and_the_nodes_name_as_digits() {
        let old = |number| OldRow { key: PrunePlace::after(number), at_ms: 1, cut_ms: 50, due_ms: 50 };
        let found = OldRows { old: vec![old(5 * 1_024 + 3), old(7 * 1_024)], next: None };
        let lease = PruneLease { node: "it's; DROP".to_owned(), for_ms: 60_000 };
        for kind in PrunedKind::ALL.iter().copied().filter(|kind| kind.is_mass()) {
            let text = message(kind, &found, &lease).unwrap();
            assert!(!text.contains("DROP") && !text.contains('$') && !text.contains("{clock_ms}"), "{text}");
            assert!(text.contains("'{5123,7168}'") && text.contains("69742773"), "{text}");
            assert_eq!(
                text.matches("FOR UPDATE SKIP LOCKED").count(),
                usize::from(kind == PrunedKind::Bodies)
            );
        }
        let [from, to] = found.messages(PrunedKind::Messages);
        assert_eq!((from, to), (5 * 1_024, 8 * 1_024), "all that their events may have");
        let [from, to] = found.messages(PrunedKind::Ids);
        assert_eq!((from, to), ((5 * 1_024 + 3) * 1_024, (7 * 1_024 + 1) * 1_024));
    }

    #[test]
    fn each_place_has_its_value() {
        let values = ["a".to_owned(), "b".to_owned()];
        assert_eq!(inlined("$2 = $1 AND $2", &values).unwrap(), "b = a AND b");
        assert_eq!(inlined("nothing", &values).unwrap(), "nothing");
        for sql in ["$3", "$0", "'$'"] {
            assert!(inlined(sql, &values).is_err(), "{sql}");
        }
    }
}
