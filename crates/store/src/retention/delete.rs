//! Deletes old rows that nothing needs any more. The deleting transaction checks the need again; where a concurrent
//! transaction may begin to need a row, it locks the row first and checks after that.
//!
//! What the deleting statements share: which events wait for an operator, which rows are deleted together, and that
//! each statement has a counting statement beside it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Cuts, OldRows, PrunedKind};
use crate::audit;
use crate::db::{DbResult, Executor, Row};
use crate::queries::{search_blocks, search_ids_delete};
use hooklatch_core::types::{MessageId, UnixMs};

/// States of events that wait for an operator, with everything that is kept of them.
const WAITING: &str = "('retry', 'failed', 'unreadable', 'conflict')";

/// True when the event of this number (an expression) has no message that is open.
fn no_open_message(event_seq: &str) -> String {
    format!(
        "NOT EXISTS (SELECT 1 FROM outbox_queue q WHERE q.message_id >= {event_seq} * 1024
             AND q.message_id < ({event_seq} + 1) * 1024)"
    )
}

fn no_body(event_seq: &str) -> String {
    format!("NOT EXISTS (SELECT 1 FROM webhook_payloads p WHERE p.event_seq = {event_seq})")
}

/// True when the event of this number has no message that is open or was finished after `since`.
fn no_message_since(event_seq: &str, since: &str) -> String {
    format!(
        "{} AND NOT EXISTS (SELECT 1 FROM outbox_finished f WHERE f.message_id >= {event_seq} * 1024
             AND f.message_id < ({event_seq} + 1) * 1024 AND f.finished_at_ms >= {since})",
        no_open_message(event_seq)
    )
}

/// True when an event that is old enough goes with the round, by its table and the values of the cuts of bodies and
/// messages. It is for counting before anything is deleted.
fn event_goes(e: &str, bodies: &str, messages: &str) -> String {
    format!(
        "{e}.state NOT IN {WAITING} AND {} AND (COALESCE({e}.processed_at_ms, {e}.received_at_ms) < {bodies} OR {})",
        no_message_since(&format!("{e}.event_seq"), messages),
        no_body(&format!("{e}.event_seq"))
    )
}

/// True when the event of this number does not wait for an operator, and its bytes are deleted before or in this round.
fn body_goes(event_seq: &str) -> String {
    format!(
        " AND NOT EXISTS (SELECT 1 FROM processed_webhook_events e WHERE e.event_seq = {event_seq}
             AND e.state IN {WAITING})
         AND NOT EXISTS (SELECT 1 FROM webhook_payloads p
             JOIN processed_webhook_events e ON e.event_seq = p.event_seq WHERE p.event_seq = {event_seq}
             AND (e.state IN {WAITING} OR COALESCE(e.processed_at_ms, e.received_at_ms) >= $3
                  OR EXISTS (SELECT 1 FROM outbox_finished f WHERE f.message_id >= p.event_seq * 1024
                      AND f.message_id < (p.event_seq + 1) * 1024 AND f.finished_at_ms >= $3)))"
    )
}

const BODIES_LOCK: &str = "/* prune_delete */ SELECT event_seq AS id FROM webhook_payloads
    WHERE event_seq = ANY($1) ORDER BY event_seq FOR UPDATE SKIP LOCKED";
const ATTEMPTS_OF: &str = "/* prune_delete */ DELETE FROM outbox_attempts WHERE message_id = ANY($1)";
/// Up to this event number, an event without messages may have had messages that were pruned.
const PRUNED_TO: &str = "/* prune_delete */ UPDATE retention_lease
    SET messages_pruned_seq = GREATEST(messages_pruned_seq, $1) WHERE one = 1";
/// The first rows of a set that are left, at most 1,000.
const OPERATION_ROWS: &str = "/* prune_delete */ DELETE FROM operation_rows WHERE operation_id = $1
    AND row_n < (SELECT MIN(f.row_n) FROM operation_rows f WHERE f.operation_id = $1) + 1000
    AND EXISTS (SELECT 1 FROM operations o WHERE o.operation_id = $1 AND o.finished_at_ms < $2)";

/// The statements of one kind: one that counts what would go, one that locks it, and one by which it goes.
struct Statements {
    table: &'static str,
    /// The two columns of a key that is two texts: `$1` is the first, `$2` many of the second, `$3` what is older. Without
    /// them `$1` are numbers and `$2` is what is older.
    texts: Option<(&'static str, &'static str)>,
    /// What holds for rows that are counted and for those that go.
    common: String,
    /// What holds besides for those that are counted, and for those that go.
    counted: String,
    gone: String,
    /// True when rows are locked before they go.
    is_locked: bool,
}

impl Statements {
    fn by_number(table: &'static str, common: impl Into<String>) -> Self {
        let (counted, gone) = Default::default();
        Self { table, texts: None, common: common.into(), counted, gone, is_locked: false }
    }

    fn by_texts(table: &'static str, texts: (&'static str, &'static str), old: &str) -> Self {
        let common = format!("{} = $1 AND {} = ANY($2) AND {old}", texts.0, texts.1);
        Self { texts: Some(texts), ..Self::by_number(table, common) }
    }

    /// The same, for rows that are about events: they stay while one of them does that `matches`.
    fn while_event(self, matches: &str) -> Self {
        let stays = format!(" AND NOT EXISTS (SELECT 1 FROM processed_webhook_events e WHERE {matches}");
        let goes = event_goes("e", "$4", "$5");
        Self {
            counted: format!("{stays} AND NOT (e.received_at_ms < $3 AND {goes}))"),
            gone: format!("{stays})"),
            ..self
        }
    }

    fn locked(self) -> Self {
        Self { is_locked: true, ..self }
    }

    /// Who counts also says before when bodies and messages go, by the last two values.
    fn count(&self) -> String {
        let (bodies, messages) = if self.texts.is_some() { ("$4", "$5") } else { ("$3", "$4") };
        let Self { table, common, counted, .. } = self;
        format!(
            "/* prune_count */ SELECT COUNT(*) AS n FROM {table} WHERE CAST({bodies} AS BIGINT) IS NOT NULL
             AND CAST({messages} AS BIGINT) IS NOT NULL AND {common}{counted}"
        )
    }

    fn delete(&self) -> String {
        format!("/* prune_delete */ DELETE FROM {} WHERE {}{}", self.table, self.common, self.gone)
    }

    fn lock(&self) -> Option<String> {
        let (one, two) = self.texts.filter(|_| self.is_locked)?;
        Some(format!(
            "/* prune_delete */ SELECT {two} AS two FROM {} WHERE {one} = $1 AND {two} = ANY($2)
             ORDER BY {two} FOR UPDATE SKIP LOCKED",
            self.table
        ))
    }

    #[expect(clippy::too_many_lines, reason = "the statements of each kind, one after the other")]
    fn of(kind: PrunedKind) -> Self {
        const ANY_AGE: &str = "CAST($3 AS BIGINT) IS NOT NULL";
        match kind {
            PrunedKind::Bodies => {
                // They stay as long as the last change of one of their messages is young.
                let common = format!(
                    "event_seq = ANY($1) AND EXISTS (SELECT 1 FROM processed_webhook_events e
                         WHERE e.event_seq = webhook_payloads.event_seq AND e.state NOT IN {WAITING}
                         AND COALESCE(e.processed_at_ms, e.received_at_ms) < $2) AND {}",
                    no_message_since("webhook_payloads.event_seq", "$2")
                );
                let gone = " RETURNING event_seq AS id".to_owned();
                Self { gone, ..Self::by_number("webhook_payloads", common) }
            }
            PrunedKind::Contents => {
                let common = format!(
                    "message_id = ANY($1) AND CAST($2 AS BIGINT) IS NOT NULL AND {}",
                    no_open_message("(outbox_contents.message_id / 1024)")
                );
                let event_seq = "outbox_contents.message_id / 1024";
                let (counted, gone) = (body_goes(event_seq), format!(" AND {}", no_body(event_seq)));
                Self { counted, gone, ..Self::by_number("outbox_contents", common) }
            }
            PrunedKind::Attempts => Self::by_number(
                "outbox_attempts",
                "message_id = ANY($1) AND finished_at_ms < $2
                     AND NOT EXISTS (SELECT 1 FROM outbox_queue q WHERE q.message_id = outbox_attempts.message_id)",
            ),
            PrunedKind::Messages => {
                let event_seq = "outbox_finished.message_id / 1024";
                let no_open = no_open_message(&format!("({event_seq})"));
                Self {
                    counted: format!(" AND {no_open}{}", body_goes(event_seq)),
                    // While the body is there, the event may be run again, and then its messages are numbered after
                    // those that are there.
                    gone: format!(" AND {} RETURNING message_id AS id", no_body(event_seq)),
                    ..Self::by_number("outbox_finished", "message_id = ANY($1) AND finished_at_ms < $2")
                }
            }
            PrunedKind::Ids => {
                let (table, event_seq) = ("processed_webhook_events", "processed_webhook_events.event_seq");
                let common = format!(
                    "event_seq = ANY($1) AND CAST($2 AS BIGINT) IS NOT NULL AND state NOT IN {WAITING} AND {}",
                    no_open_message(event_seq)
                );
                Self {
                    counted: format!(" AND {}", event_goes(table, "$3", "$4")),
                    gone: format!(
                        " AND {} AND NOT EXISTS (SELECT 1 FROM outbox_finished f
                             WHERE f.message_id >= {event_seq} * 1024 AND f.message_id < ({event_seq} + 1) * 1024)",
                        no_body(event_seq)
                    ),
                    ..Self::by_number(table, common)
                }
            }
            PrunedKind::ConflictCounts => {
                Self::by_texts("conflict_counts", ("provider", "event_id"), ANY_AGE).while_event(
                    "e.provider = conflict_counts.provider AND e.event_id = conflict_counts.event_id",
                )
            }
            PrunedKind::EventCopies => Self::by_texts("event_copies", ("provider", "event_id"), ANY_AGE)
                .while_event("e.provider = event_copies.provider AND e.event_id = event_copies.event_id"),
            // A signal that begins anew begins with its first firing: none of those that were may be remembered then.
            PrunedKind::SignalFirings => {
                let texts = ("provider", "signal");
                Self::by_texts("signal_firings", texts, "counted_from_ms < $3").locked().while_event(
                    "e.provider = signal_firings.provider AND e.event_id >= signal_firings.signal || '#'
                         AND e.event_id < signal_firings.signal || '$'",
                )
            }
            PrunedKind::ObjectVersions => {
                Self::by_texts("object_versions", ("provider", "object"), ANY_AGE)
                    .locked()
                    .while_event("e.event_seq = object_versions.event_seq")
            }
            PrunedKind::Lanes => {
                let old = "used_at_ms < $3 AND NOT EXISTS (SELECT 1 FROM outbox_queue q
                    WHERE q.destination = outbox_lanes.destination AND q.lane = outbox_lanes.lane)";
                Self::by_texts("outbox_lanes", ("destination", "lane"), old).locked()
            }
            PrunedKind::Rejections => {
                Self::by_texts("rejected_requests", ("provider", "rejection_id"), "received_at_ms < $3")
            }
            PrunedKind::SecretUses => {
                Self::by_texts("secret_uses", ("provider", "fingerprint"), "last_matched_at_ms < $3")
            }
            PrunedKind::Taught => {
                Self::by_texts("taught_secrets", ("provider", "provider"), "taught_at_ms < $3")
            }
            PrunedKind::Activity => Self::by_texts("activity", ("subject", "name"), "hour_ms < $3"),
            PrunedKind::Answers => {
                Self::by_texts("idempotency_keys", ("principal", "idempotency_key"), "expires_at_ms < $3")
            }
            // Counts alone: `store/audit.rs` deletes.
            PrunedKind::Audit => Self::by_number("audit_log", "audit_seq = ANY($1) AND at_ms < $2"),
            PrunedKind::Operations => {
                let texts = ("operation_id", "operation_id");
                let gone = " AND NOT EXISTS (SELECT 1 FROM operation_rows r
                    WHERE r.operation_id = operations.operation_id)";
                Self { gone: gone.to_owned(), ..Self::by_texts("operations", texts, "finished_at_ms < $3") }
            }
        }
    }
}

impl OldRows {
    /// Their numbers, each once.
    fn numbers(&self) -> Vec<i64> {
        self.old.iter().map(|one| one.key.number).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Time before which they may go: the same for all that are found together by number.
    fn cut_ms(&self) -> UnixMs {
        self.old.iter().map(|one| one.cut_ms).min().unwrap_or_default()
    }

    /// The second parts of their keys by the first, which has one cut.
    fn texts(&self) -> BTreeMap<(&str, UnixMs), Vec<String>> {
        let mut by_first: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for one in &self.old {
            let (first, second) = &one.key.texts;
            by_first.entry((first.as_str(), one.cut_ms)).or_default().push(second.clone());
        }
        by_first
    }
}

pub(crate) async fn delete(db: &mut Executor<'_>, kind: PrunedKind, found: &OldRows) -> DbResult<u64> {
    if let Some(oldest) = found.old.first().filter(|_| kind == PrunedKind::Operations) {
        let values = [oldest.key.texts.0.as_str().into(), oldest.cut_ms.into()];
        let rows_n = db.execute(OPERATION_ROWS, &values).await?;
        if rows_n > 0 {
            return Ok(rows_n);
        }
    }
    let statements = Statements::of(kind);
    if statements.texts.is_none() {
        return delete_numbers(db, kind, statements.delete(), found).await;
    }
    let mut deleted_n = 0;
    for ((first, cut_ms), mut seconds) in found.texts() {
        if let Some(lock) = statements.lock().filter(|_| db.is_postgres()) {
            let rows = db.fetch(lock, &[first.into(), seconds.into()]).await?;
            seconds = rows.iter().map(|row| row.text("two")).collect::<DbResult<_>>()?;
        }
        deleted_n += db.execute(statements.delete(), &[first.into(), seconds.into(), cut_ms.into()]).await?;
    }
    Ok(deleted_n)
}

async fn delete_numbers(
    db: &mut Executor<'_>,
    kind: PrunedKind,
    sql: String,
    found: &OldRows,
) -> DbResult<u64> {
    let mut numbers = found.numbers();
    if kind == PrunedKind::Audit {
        return audit::prune(db, &numbers).await;
    }
    if kind == PrunedKind::Bodies && db.is_postgres() {
        // Rows under a concurrent decision are skipped. A later decision finds that they are deleted.
        numbers = ids(&db.fetch(BODIES_LOCK, &[numbers.into()]).await?)?;
    }
    let values = [numbers.into(), found.cut_ms().into()];
    if !matches!(kind, PrunedKind::Bodies | PrunedKind::Messages) {
        return db.execute(sql, &values).await;
    }
    let gone = ids(&db.fetch(sql, &values).await?)?;
    let gone_n = u64::try_from(gone.len()).unwrap_or(u64::MAX);
    if let Some(newest) = gone.iter().max() {
        if kind == PrunedKind::Bodies {
            let sql = search_ids_delete("prune_delete");
            db.execute(sql, &[search_blocks(&gone).into(), gone.into()]).await?;
        } else {
            db.execute(PRUNED_TO, &[MessageId::from_column(*newest).event_seq().into()]).await?;
            db.execute(ATTEMPTS_OF, &[gone.into()]).await?;
        }
    }
    Ok(gone_n)
}

fn ids(rows: &[Row]) -> DbResult<Vec<i64>> {
    rows.iter().map(|row| row.int("id")).collect()
}

/// Returns how many would go with a round that takes what is older than `cuts`.
pub(crate) async fn count(
    db: &mut Executor<'_>,
    kind: PrunedKind,
    found: &OldRows,
    cuts: &Cuts,
) -> DbResult<u64> {
    let (bodies_ms, messages_ms) = (cuts.bodies_ms, cuts.messages_ms);
    let statements = Statements::of(kind);
    if statements.texts.is_none() {
        let values = [found.numbers().into(), found.cut_ms().into(), bodies_ms.into(), messages_ms.into()];
        return Ok(db.fetch_one(statements.count(), &values).await?.int("n")?.unsigned_abs());
    }
    let mut counted_n = 0;
    for ((first, cut_ms), seconds) in found.texts() {
        let values = [first.into(), seconds.into(), cut_ms.into(), bodies_ms.into(), messages_ms.into()];
        counted_n += db.fetch_one(statements.count(), &values).await?.int("n")?.unsigned_abs();
    }
    Ok(counted_n)
}
