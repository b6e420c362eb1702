//! Deleting what was found old, as far as nothing needs it: asked again in the transaction that deletes. Where somebody
//! may begin to need a row meanwhile, it is locked first, and the question asked after that.

use std::collections::{BTreeMap, BTreeSet};

use super::types::{Cuts, OldRows, PrunedKind};
use super::words::{
    body_goes, both, both_by_texts, event_goes, no_body, no_open_message, not_waiting, waiting,
};
use crate::store::audit;
use crate::store::db::{DbResult, Door, Row};
use crate::store::search_ids::{search_blocks, search_ids_delete};
use crate::types::{MessageId, UnixMs};

type Both = (&'static str, &'static str);

/// From here on: `$1` their numbers, `$2` what is older.
const BODIES: Both = both!(
    "webhook_payloads",
    concat!(
        "event_seq = ANY($1) AND EXISTS (SELECT 1 FROM processed_webhook_events e
             WHERE e.event_seq = webhook_payloads.event_seq AND e.state NOT IN ",
        waiting!(),
        " AND COALESCE(e.processed_at_ms, e.received_at_ms) < $2) AND ",
        no_open_message!("webhook_payloads.event_seq"),
        // They stay as long as the last change of one of their messages is young.
        " AND NOT EXISTS (SELECT 1 FROM outbox_finished f WHERE f.message_id >= webhook_payloads.event_seq * 1024
             AND f.message_id < (webhook_payloads.event_seq + 1) * 1024 AND f.finished_at_ms >= $2)"
    ),
    "",
    " RETURNING event_seq AS id"
);
const BODIES_LOCK: &str = "/* prune_delete */ SELECT event_seq AS id FROM webhook_payloads
    WHERE event_seq = ANY($1) ORDER BY event_seq FOR UPDATE SKIP LOCKED";
const CONTENTS: Both = both!(
    "outbox_contents",
    concat!(
        "message_id = ANY($1) AND CAST($2 AS BIGINT) IS NOT NULL AND ",
        no_open_message!("(outbox_contents.message_id / 1024)")
    ),
    concat!(
        " AND ",
        not_waiting!("outbox_contents.message_id / 1024"),
        body_goes!("outbox_contents.message_id / 1024")
    ),
    concat!(" AND ", no_body!("outbox_contents.message_id / 1024"))
);
const ATTEMPTS: Both = both!(
    "outbox_attempts",
    "message_id = ANY($1) AND finished_at_ms < $2
         AND NOT EXISTS (SELECT 1 FROM outbox_queue q WHERE q.message_id = outbox_attempts.message_id)",
    "",
    ""
);
const MESSAGES: Both = both!(
    "outbox_finished",
    "message_id = ANY($1) AND finished_at_ms < $2",
    concat!(
        " AND ",
        no_open_message!("(outbox_finished.message_id / 1024)"),
        " AND ",
        not_waiting!("outbox_finished.message_id / 1024"),
        body_goes!("outbox_finished.message_id / 1024")
    ),
    // While the body is there, the event may be run again, and then its messages are numbered after those that are
    // there.
    concat!(" AND ", no_body!("outbox_finished.message_id / 1024"), " RETURNING message_id AS id")
);
const ATTEMPTS_OF: &str = "/* prune_delete */ DELETE FROM outbox_attempts WHERE message_id = ANY($1)";
/// Whoever finds no messages of an event up to this one cannot tell that there were none.
const PRUNED_TO: &str = "/* prune_delete */ UPDATE retention_lease
    SET messages_pruned_seq = GREATEST(messages_pruned_seq, $1) WHERE one = 1";
const IDS: Both = both!(
    "processed_webhook_events",
    concat!(
        "event_seq = ANY($1) AND CAST($2 AS BIGINT) IS NOT NULL AND state NOT IN ",
        waiting!(),
        " AND ",
        no_open_message!("processed_webhook_events.event_seq")
    ),
    concat!(" AND ", event_goes!("processed_webhook_events", "$3", "$4")),
    concat!(
        " AND ",
        no_body!("processed_webhook_events.event_seq"),
        " AND NOT EXISTS (SELECT 1 FROM outbox_finished f
             WHERE f.message_id >= processed_webhook_events.event_seq * 1024
               AND f.message_id < (processed_webhook_events.event_seq + 1) * 1024)"
    )
);

/// From here on: `$1` and `$2` the two parts of their keys, many of the second, `$3` what is older.
const CONFLICT_COUNTS: Both = both_by_texts!(
    "conflict_counts",
    "provider = $1 AND event_id = ANY($2) AND CAST($3 AS BIGINT) IS NOT NULL",
    concat!(
        " AND NOT EXISTS (SELECT 1 FROM processed_webhook_events e WHERE e.provider = conflict_counts.provider
             AND e.event_id = conflict_counts.event_id AND NOT (e.received_at_ms < $3 AND ",
        event_goes!("e", "$4", "$5"),
        "))"
    ),
    " AND NOT EXISTS (SELECT 1 FROM processed_webhook_events e
         WHERE e.provider = conflict_counts.provider AND e.event_id = conflict_counts.event_id)"
);
const EVENT_COPIES: Both = both_by_texts!(
    "event_copies",
    "provider = $1 AND event_id = ANY($2) AND CAST($3 AS BIGINT) IS NOT NULL",
    concat!(
        " AND NOT EXISTS (SELECT 1 FROM processed_webhook_events e WHERE e.provider = event_copies.provider
             AND e.event_id = event_copies.event_id AND NOT (e.received_at_ms < $3 AND ",
        event_goes!("e", "$4", "$5"),
        "))"
    ),
    " AND NOT EXISTS (SELECT 1 FROM processed_webhook_events e
         WHERE e.provider = event_copies.provider AND e.event_id = event_copies.event_id)"
);
/// A signal that begins anew begins with its first firing: none of those that were may be remembered then.
const SIGNAL_FIRINGS: Both = both_by_texts!(
    "signal_firings",
    "provider = $1 AND signal = ANY($2) AND counted_from_ms < $3",
    concat!(
        " AND NOT EXISTS (SELECT 1 FROM processed_webhook_events e WHERE e.provider = signal_firings.provider
             AND e.event_id >= signal_firings.signal || '#' AND e.event_id < signal_firings.signal || '$'
             AND NOT (e.received_at_ms < $3 AND ",
        event_goes!("e", "$4", "$5"),
        "))"
    ),
    " AND NOT EXISTS (SELECT 1 FROM processed_webhook_events e WHERE e.provider = signal_firings.provider
         AND e.event_id >= signal_firings.signal || '#' AND e.event_id < signal_firings.signal || '$')"
);
const SIGNAL_FIRINGS_LOCK: &str = "/* prune_delete */ SELECT signal AS two FROM signal_firings
    WHERE provider = $1 AND signal = ANY($2) ORDER BY signal FOR UPDATE SKIP LOCKED";
const OBJECT_VERSIONS: Both = both_by_texts!(
    "object_versions",
    "provider = $1 AND object = ANY($2) AND CAST($3 AS BIGINT) IS NOT NULL",
    concat!(
        " AND NOT EXISTS (SELECT 1 FROM processed_webhook_events e WHERE e.event_seq = object_versions.event_seq
             AND NOT (e.received_at_ms < $3 AND ",
        event_goes!("e", "$4", "$5"),
        "))"
    ),
    " AND NOT EXISTS (SELECT 1 FROM processed_webhook_events e WHERE e.event_seq = object_versions.event_seq)"
);
const OBJECT_VERSIONS_LOCK: &str = "/* prune_delete */ SELECT object AS two FROM object_versions
    WHERE provider = $1 AND object = ANY($2) ORDER BY object FOR UPDATE SKIP LOCKED";
const LANES: Both = both_by_texts!(
    "outbox_lanes",
    "destination = $1 AND lane = ANY($2) AND used_at_ms < $3
         AND NOT EXISTS (SELECT 1 FROM outbox_queue q
             WHERE q.destination = outbox_lanes.destination AND q.lane = outbox_lanes.lane)",
    "",
    ""
);
const LANES_LOCK: &str = "/* prune_delete */ SELECT lane AS two FROM outbox_lanes
    WHERE destination = $1 AND lane = ANY($2) ORDER BY lane FOR UPDATE SKIP LOCKED";
const REJECTIONS: Both = both_by_texts!(
    "rejected_requests",
    "provider = $1 AND rejection_id = ANY($2) AND received_at_ms < $3",
    "",
    ""
);
const SECRET_USES: Both = both_by_texts!(
    "secret_uses",
    "provider = $1 AND fingerprint = ANY($2) AND last_matched_at_ms < $3",
    "",
    ""
);
const TAUGHT: Both =
    both_by_texts!("taught_secrets", "provider = $1 AND provider = ANY($2) AND taught_at_ms < $3", "", "");
const ANSWERS: Both = both_by_texts!(
    "idempotency_keys",
    "principal = $1 AND idempotency_key = ANY($2) AND expires_at_ms < $3",
    "",
    ""
);
/// Counts alone: `store/audit.rs` deletes.
const AUDIT: Both = both!("audit_log", "audit_seq = ANY($1) AND at_ms < $2", "", "");
const OPERATIONS: Both = both_by_texts!(
    "operations",
    "operation_id = $1 AND operation_id = ANY($2) AND finished_at_ms < $3",
    "",
    " AND NOT EXISTS (SELECT 1 FROM operation_rows r WHERE r.operation_id = operations.operation_id)"
);
/// The first rows of a set that are left, at most 1,000.
const OPERATION_ROWS: &str = "/* prune_delete */ DELETE FROM operation_rows WHERE operation_id = $1
    AND row_n < (SELECT MIN(f.row_n) FROM operation_rows f WHERE f.operation_id = $1) + 1000
    AND EXISTS (SELECT 1 FROM operations o WHERE o.operation_id = $1 AND o.finished_at_ms < $2)";

/// Way in which a kind of thing is deleted.
enum Way {
    /// Its rows are found by their numbers.
    Numbers(Both),
    /// Rows that are known by two texts, with the statement that locks them first where one is needed.
    Texts(Both, Option<&'static str>),
}

fn way(kind: PrunedKind) -> Way {
    match kind {
        PrunedKind::Bodies => Way::Numbers(BODIES),
        PrunedKind::Contents => Way::Numbers(CONTENTS),
        PrunedKind::Attempts => Way::Numbers(ATTEMPTS),
        PrunedKind::Messages => Way::Numbers(MESSAGES),
        PrunedKind::Ids => Way::Numbers(IDS),
        PrunedKind::ConflictCounts => Way::Texts(CONFLICT_COUNTS, None),
        PrunedKind::EventCopies => Way::Texts(EVENT_COPIES, None),
        PrunedKind::SignalFirings => Way::Texts(SIGNAL_FIRINGS, Some(SIGNAL_FIRINGS_LOCK)),
        PrunedKind::ObjectVersions => Way::Texts(OBJECT_VERSIONS, Some(OBJECT_VERSIONS_LOCK)),
        PrunedKind::Lanes => Way::Texts(LANES, Some(LANES_LOCK)),
        PrunedKind::Rejections => Way::Texts(REJECTIONS, None),
        PrunedKind::SecretUses => Way::Texts(SECRET_USES, None),
        PrunedKind::Taught => Way::Texts(TAUGHT, None),
        PrunedKind::Answers => Way::Texts(ANSWERS, None),
        PrunedKind::Audit => Way::Numbers(AUDIT),
        PrunedKind::Operations => Way::Texts(OPERATIONS, None),
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

pub(super) async fn delete(db: &mut Door<'_>, kind: PrunedKind, found: &OldRows) -> DbResult<u64> {
    if let Some(oldest) = found.old.first().filter(|_| kind == PrunedKind::Operations) {
        let values = [oldest.key.texts.0.as_str().into(), oldest.cut_ms.into()];
        let rows_n = db.execute(OPERATION_ROWS, &values).await?;
        if rows_n > 0 {
            return Ok(rows_n);
        }
    }
    let (both, lock) = match way(kind) {
        Way::Numbers(both) => return delete_numbers(db, kind, both.1, found).await,
        Way::Texts(both, lock) => (both, lock),
    };
    let mut deleted_n = 0;
    for ((first, cut_ms), mut seconds) in found.texts() {
        if let Some(lock) = lock.filter(|_| db.is_postgres()) {
            let rows = db.fetch(lock, &[first.into(), seconds.into()]).await?;
            seconds = rows.iter().map(|row| row.text("two")).collect::<DbResult<_>>()?;
        }
        deleted_n += db.execute(both.1, &[first.into(), seconds.into(), cut_ms.into()]).await?;
    }
    Ok(deleted_n)
}

async fn delete_numbers(
    db: &mut Door<'_>,
    kind: PrunedKind,
    sql: &'static str,
    found: &OldRows,
) -> DbResult<u64> {
    let mut numbers = found.numbers();
    if kind == PrunedKind::Audit {
        return audit::prune(db, &numbers).await;
    }
    if kind == PrunedKind::Bodies && db.is_postgres() {
        // Those that a person decides about now are left out. A decision that comes later finds that they are gone.
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
            let sql = search_ids_delete!("prune_delete");
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
pub(super) async fn count(
    db: &mut Door<'_>,
    kind: PrunedKind,
    found: &OldRows,
    cuts: &Cuts,
) -> DbResult<u64> {
    let (bodies_ms, messages_ms) = (cuts.bodies_ms, cuts.messages_ms);
    let both = match way(kind) {
        Way::Numbers(both) => {
            let values =
                [found.numbers().into(), found.cut_ms().into(), bodies_ms.into(), messages_ms.into()];
            return Ok(db.fetch_one(both.0, &values).await?.int("n")?.unsigned_abs());
        }
        Way::Texts(both, _) => both,
    };
    let mut counted_n = 0;
    for ((first, cut_ms), seconds) in found.texts() {
        let values = [first.into(), seconds.into(), cut_ms.into(), bodies_ms.into(), messages_ms.into()];
        counted_n += db.fetch_one(both.0, &values).await?.int("n")?.unsigned_abs();
    }
    Ok(counted_n)
}
