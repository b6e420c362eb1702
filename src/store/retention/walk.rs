//! Looking for what is old, on a connection that only reads.

use super::types::{Cuts, Old, OldRows, PrunePlace, PruneWalk, PrunedKind};
use crate::store::db::{DbResult, Door, Row};

/// Finds bodies by number: `id`, and `at_ms`, the time at which its event came.
const BODIES: &str =
    "/* prune_look */ SELECT p.event_seq AS id, e.received_at_ms AS at_ms FROM webhook_payloads p
    JOIN processed_webhook_events e ON e.event_seq = p.event_seq
    WHERE p.event_seq > $1 AND e.event_seq > $1 ORDER BY p.event_seq LIMIT $2";
macro_rules! of_messages {
    ($table:literal) => {
        concat!(
            "/* prune_look */ SELECT m.message_id AS id, COALESCE(e.received_at_ms, 0) AS at_ms FROM (
                 SELECT message_id FROM ",
            $table,
            " WHERE message_id > $1 ORDER BY message_id LIMIT $2) m
             LEFT JOIN processed_webhook_events e ON e.event_seq = m.message_id / 1024 ORDER BY m.message_id"
        )
    };
}
const CONTENTS: &str = of_messages!("outbox_contents");
const ATTEMPTS: &str = of_messages!("outbox_attempts");
const MESSAGES: &str = of_messages!("outbox_finished");
const IDS: &str = "/* prune_look */ SELECT event_seq AS id, received_at_ms AS at_ms, provider
    FROM processed_webhook_events WHERE event_seq > $1 ORDER BY event_seq LIMIT $2";
/// Finds counts of conflicts by two texts: `one` and `two`.
const CONFLICT_COUNTS: &str =
    "/* prune_look */ SELECT provider AS one, event_id AS two, CAST(0 AS BIGINT) AS at_ms
    FROM conflict_counts WHERE (provider, event_id) > ($1, $2) ORDER BY provider, event_id LIMIT $3";
const EVENT_COPIES: &str =
    "/* prune_look */ SELECT provider AS one, event_id AS two, CAST(0 AS BIGINT) AS at_ms
    FROM event_copies WHERE (provider, event_id) > ($1, $2) ORDER BY provider, event_id LIMIT $3";
const SIGNAL_FIRINGS: &str =
    "/* prune_look */ SELECT provider AS one, signal AS two, counted_from_ms AS at_ms
    FROM signal_firings WHERE (provider, signal) > ($1, $2) ORDER BY provider, signal LIMIT $3";
const OBJECT_VERSIONS: &str =
    "/* prune_look */ SELECT provider AS one, object AS two, CAST(0 AS BIGINT) AS at_ms
    FROM object_versions WHERE (provider, object) > ($1, $2) ORDER BY provider, object LIMIT $3";
const LANES: &str = "/* prune_look */ SELECT destination AS one, lane AS two, used_at_ms AS at_ms
    FROM outbox_lanes WHERE (destination, lane) > ($1, $2) ORDER BY destination, lane LIMIT $3";
const AUDIT: &str = "/* prune_look */ SELECT audit_seq AS id, at_ms
    FROM audit_log WHERE audit_seq > $1 ORDER BY audit_seq LIMIT $2";
/// Small tables, all that is old at once.
const REJECTIONS: &str =
    "/* prune_look */ SELECT provider AS one, rejection_id AS two, received_at_ms AS at_ms
    FROM rejected_requests WHERE received_at_ms < $1 LIMIT $2";
const SECRET_USES: &str =
    "/* prune_look */ SELECT provider AS one, fingerprint AS two, last_matched_at_ms AS at_ms
    FROM secret_uses WHERE last_matched_at_ms < $1 LIMIT $2";
const TAUGHT: &str = "/* prune_look */ SELECT provider AS one, provider AS two, taught_at_ms AS at_ms
    FROM taught_secrets WHERE taught_at_ms < $1 LIMIT $2";
const ACTIVITY: &str = "/* prune_look */ SELECT subject AS one, name AS two, hour_ms AS at_ms
    FROM activity WHERE hour_ms < $1 ORDER BY hour_ms LIMIT $2";
const ANSWERS: &str =
    "/* prune_look */ SELECT principal AS one, idempotency_key AS two, expires_at_ms AS at_ms
    FROM idempotency_keys WHERE expires_at_ms < $1 ORDER BY expires_at_ms LIMIT $2";
const OPERATIONS: &str = "/* prune_look */ SELECT operation_id AS one, operation_id AS two, finished_at_ms AS at_ms
    FROM operations WHERE finished_at_ms < $1 AND finished_at_ms IS NOT NULL ORDER BY finished_at_ms LIMIT $2";

pub(super) async fn look(
    db: &mut Door<'_>,
    PruneWalk { kind, ids_cut_ms }: PruneWalk,
    cuts: &Cuts,
    from: &PrunePlace,
    rows_n: u32,
) -> DbResult<OldRows> {
    let number = [from.number.into(), rows_n.into()];
    let texts = [from.texts.0.as_str().into(), from.texts.1.as_str().into(), rows_n.into()];
    let cut = [cuts.of(kind).into(), rows_n.into()];
    let rows = match kind {
        PrunedKind::Bodies => db.fetch(BODIES, &number).await?,
        PrunedKind::Contents => db.fetch(CONTENTS, &number).await?,
        PrunedKind::Attempts => db.fetch(ATTEMPTS, &number).await?,
        PrunedKind::Messages => db.fetch(MESSAGES, &number).await?,
        PrunedKind::Ids => db.fetch(IDS, &number).await?,
        PrunedKind::ConflictCounts => db.fetch(CONFLICT_COUNTS, &texts).await?,
        PrunedKind::EventCopies => db.fetch(EVENT_COPIES, &texts).await?,
        PrunedKind::SignalFirings => db.fetch(SIGNAL_FIRINGS, &texts).await?,
        PrunedKind::ObjectVersions => db.fetch(OBJECT_VERSIONS, &texts).await?,
        PrunedKind::Lanes => db.fetch(LANES, &texts).await?,
        PrunedKind::Audit => db.fetch(AUDIT, &number).await?,
        PrunedKind::Rejections => db.fetch(REJECTIONS, &cut).await?,
        PrunedKind::SecretUses => db.fetch(SECRET_USES, &cut).await?,
        PrunedKind::Taught => db.fetch(TAUGHT, &cut).await?,
        PrunedKind::Activity => db.fetch(ACTIVITY, &cut).await?,
        PrunedKind::Answers => db.fetch(ANSWERS, &cut).await?,
        PrunedKind::Operations => db.fetch(OPERATIONS, &cut).await?,
    };
    let mut found = OldRows::default();
    let (mut last, mut is_any_old) = (None, false);
    let mut newest_ms = from.newest_ms;
    for row in &rows {
        let (mut key, mut at_ms) = (key(kind, row)?, row.int("at_ms")?);
        if kind.is_numbered() {
            // Numbers rise with time: what says to be older than what came before it had a clock that was behind.
            newest_ms = newest_ms.max(if at_ms <= cuts.now_ms { at_ms } else { 0 });
            at_ms = at_ms.max(newest_ms);
            key.newest_ms = newest_ms;
        }
        let cut_ms = match kind {
            PrunedKind::Ids => cuts.ids_of(&row.text("provider")?),
            PrunedKind::SignalFirings
            | PrunedKind::ConflictCounts
            | PrunedKind::EventCopies
            | PrunedKind::ObjectVersions => cuts.ids_of(&key.texts.0),
            _ => cuts.of(kind),
        };
        // Ids that are kept longer or shorter have a walk of their own.
        let is_of_walk = kind != PrunedKind::Ids || cut_ms == ids_cut_ms;
        is_any_old |= at_ms < if kind == PrunedKind::Ids { ids_cut_ms } else { cut_ms };
        last = Some(key.clone());
        if is_of_walk && at_ms < cut_ms {
            let due_ms = match kind {
                // They go with their event, whose age is not looked at here.
                PrunedKind::ConflictCounts | PrunedKind::EventCopies | PrunedKind::ObjectVersions => at_ms,
                // After the messages of their event.
                PrunedKind::Ids | PrunedKind::SignalFirings => cut_ms.min(cuts.messages_ms),
                _ => cut_ms,
            };
            found.old.push(Old { key, at_ms, cut_ms, due_ms });
        }
    }
    // A few rows of a clock that was ahead are not the end: only where all of a full look is young.
    // An operation goes with the last rows of its set: it is looked at again until then.
    let is_full = rows.len() >= rows_n as usize || (kind == PrunedKind::Operations && !rows.is_empty());
    if is_full && (is_any_old || kind.is_looked_through()) {
        found.next = last;
    }
    Ok(found)
}

fn key(kind: PrunedKind, row: &Row) -> DbResult<PrunePlace> {
    if kind.is_numbered() {
        Ok(PrunePlace::after(row.int("id")?))
    } else {
        Ok(PrunePlace { texts: (row.text("one")?, row.text("two")?), ..PrunePlace::default() })
    }
}
