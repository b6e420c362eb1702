//! The operations of pruning: the lease that lets one node prune, looks for old rows, and deletions.
//!
//! The deleting transaction checks again what still needs a row; where a concurrent transaction may begin to need a
//! row, it locks the row first and checks after that. Each deleting statement has a counting statement beside it. What
//! there is much of is deleted in one message to PostgreSQL (`batch.rs`).

use std::collections::{BTreeMap, BTreeSet};

use super::{Cuts, OldRow, OldRows, PruneLease, PrunePlace, PruneWalk, PrunedKind, batch};
use crate::audit;
use crate::db::{DbResult, Executor, Row, StoreError, Value};
use crate::handle::Store;
use crate::queries::{search_blocks, search_ids_delete};
use hooklatch_core::types::{MessageId, UnixMs};

/// Free pages that are left in SQLite's file: this number, or this part of it.
const RESERVE_N: i64 = 256;
const RESERVE_PART: i64 = 20;

impl Store {
    /// Looks at up to `rows_n` rows behind `from`, for those that are old enough to go.
    pub async fn prune_look(
        &self,
        walk: PruneWalk,
        cuts: &Cuts,
        from: &PrunePlace,
        rows_n: u32,
    ) -> Result<OldRows, StoreError> {
        let (cuts, from) = (cuts.clone(), from.clone());
        alone!(self, reader, "prune_look", |db| {
            let rows = rows(db, walk.kind, &cuts, &from, rows_n).await?;
            old_rows(walk, &cuts, &rows, (from.newest_ms, rows.len() >= rows_n as usize))
        })
    }

    /// Returns what counts as now for whatever goes by its age: `now_ms`, or what the clock of PostgreSQL
    /// says if that is less. A node whose clock is ahead must not delete what all others still need.
    pub async fn prune_now(&self, now_ms: UnixMs) -> Result<UnixMs, StoreError> {
        alone!(self, reader, "prune_now", |db| {
            let sql = "/* prune_now */ SELECT LEAST(CAST($1 AS BIGINT), {clock_ms}) AS now_ms";
            db.fetch_one(sql, &[now_ms.into()]).await?.int("now_ms")
        })
    }

    /// Deletes what was found, as far as nothing needs it; says how many rows. Nothing, and `None`, if another node
    /// prunes.
    pub async fn prune_delete(
        &self,
        kind: PrunedKind,
        found: &OldRows,
        lease: &PruneLease,
    ) -> Result<Option<u64>, StoreError> {
        let (found, lease) = (found.clone(), lease.clone());
        if kind.is_mass() && self.parts.backend.sqlite().is_none() {
            return alone!(self, writer, "prune_delete", |db| batch::delete(db, kind, &found, &lease).await);
        }
        together!(self, writer, "prune_delete", |db| {
            if !lease_claim(db, &lease, PLANS).await? {
                return Ok(None);
            }
            delete(db, kind, &found).await.map(Some)
        })
    }

    /// Returns how many of what was found would go with a round of these `cuts`, with what goes before it in
    /// that round gone.
    pub async fn prune_count(
        &self,
        kind: PrunedKind,
        found: &OldRows,
        cuts: &Cuts,
    ) -> Result<u64, StoreError> {
        let (found, cuts) = (found.clone(), cuts.clone());
        alone!(self, reader, "prune_count", |db| {
            // Returns how many would go with a round that takes what is older than `cuts`.
            let (bodies_ms, messages_ms) = (cuts.bodies_ms, cuts.messages_ms);
            let statements = Statements::of(kind);
            if kind.is_numbered() {
                let mut values = found.values(kind).to_vec();
                values.extend([bodies_ms.into(), messages_ms.into()]);
                return Ok(db.fetch_one(statements.count(), &values).await?.int("n")?.unsigned_abs());
            }
            let mut counted_n = 0;
            for ((first, cut_ms), seconds) in found.texts() {
                let values =
                    [first.into(), seconds.into(), cut_ms.into(), bodies_ms.into(), messages_ms.into()];
                counted_n += db.fetch_one(statements.count(), &values).await?.int("n")?.unsigned_abs();
            }
            Ok(counted_n)
        })
    }

    /// True when this node may prune from now on.
    pub async fn prune_begin(&self, lease: &PruneLease) -> Result<bool, StoreError> {
        let lease = lease.clone();
        alone!(self.writer.lease_claim(&lease, ""))
    }

    /// Releases the lease, so that another node may prune. `counted_at_ms` is the time by which the round counted.
    pub async fn prune_end(&self, node: &str, counted_at_ms: UnixMs) -> Result<(), StoreError> {
        let node = node.to_owned();
        alone!(self, writer, "lease_end", |db| {
            let sql = "/* prune_lease */ UPDATE retention_lease
                SET until_ms = CASE WHEN node = $1 THEN 0 ELSE until_ms END, counted_at_ms = $2 WHERE one = 1";
            db.execute(sql, &[node.into(), counted_at_ms.into()]).await.map(drop)
        })
    }

    /// The time by which the last round counted.
    pub async fn prune_counted_at(&self) -> Result<Option<UnixMs>, StoreError> {
        alone!(self, reader, "counted_at", |db| {
            let sql = "/* prune_now */ SELECT counted_at_ms FROM retention_lease WHERE one = 1";
            db.fetch_one(sql, &[]).await?.int_or_null("counted_at_ms")
        })
    }

    /// Returns how far ids that are kept for `days` days have been walked, and when that began at the low end.
    pub async fn prune_mark(&self, days: u32) -> Result<Option<(i64, UnixMs)>, StoreError> {
        alone!(self, reader, "mark_get", |db| {
            let sql = "/* prune_mark */ SELECT event_seq, begun_at_ms FROM retention_marks WHERE days = $1";
            let row = db.fetch_optional(sql, &[days.into()]).await?;
            row.map(|row| Ok((row.int("event_seq")?, row.int("begun_at_ms")?))).transpose()
        })
    }

    /// Keeps in mind how far they have been walked.
    pub async fn prune_mark_set(
        &self,
        days: u32,
        event_seq: i64,
        begun_at_ms: UnixMs,
    ) -> Result<(), StoreError> {
        alone!(self, writer, "mark_set", |db| {
            let sql = "/* prune_mark */ INSERT INTO retention_marks (days, event_seq, begun_at_ms) VALUES ($1, $2, $3)
                ON CONFLICT (days) DO UPDATE SET event_seq = excluded.event_seq, begun_at_ms = excluded.begun_at_ms";
            db.execute(sql, &[days.into(), event_seq.into(), begun_at_ms.into()]).await.map(drop)
        })
    }

    /// Returns some free pages of SQLite's file to the file system, but for a reserve that new rows will need;
    /// `false` when there is nothing to give. Never anything on PostgreSQL, whose vacuum does that.
    pub async fn prune_reclaim(&self) -> Result<bool, StoreError> {
        alone!(self, writer, "reclaim", |db| {
            if db.is_postgres() {
                return Ok(false);
            }
            let sql = "/* prune_reclaim */ SELECT f.freelist_count AS free_n, c.page_count AS all_n
                FROM pragma_freelist_count f, pragma_page_count c";
            let row = db.fetch_one(sql, &[]).await?;
            if row.int("free_n")? <= RESERVE_N.max(row.int("all_n")? / RESERVE_PART) {
                return Ok(false);
            }
            // Page by page: each is moved, and the file cut off behind it.
            db.execute("PRAGMA incremental_vacuum(128)", &[]).await?;
            Ok(true)
        })
    }
}

/// Takes the lease by the clock that all nodes share. A lease that ends later than any lease can was written by a clock
/// that was ahead, and counts as free.
pub(super) const LEASE: &str =
    "/* prune_lease */ UPDATE retention_lease SET node = $1, until_ms = {clock_ms} + $2
    WHERE one = 1 AND (node = $1 OR until_ms < {clock_ms} OR until_ms > {clock_ms} + $2)";

/// Tables grow and shrink faster than they are counted: by their keys alone.
const PLANS: &str =
    ", set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
    set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
    set_config('plan_cache_mode', 'force_generic_plan', true)";

/// Takes the lease, and reads `more` in the same statement: settings of the transaction.
async fn lease_claim(db: &mut Executor<'_>, lease: &PruneLease, more: &str) -> DbResult<bool> {
    // A file has one process, and the process that had it before is gone.
    if !db.is_postgres() {
        return Ok(true);
    }
    let sql = format!(
        "/* prune_lease */ WITH lease AS ({LEASE} RETURNING node) SELECT (SELECT COUNT(*) FROM lease) AS n{more}"
    );
    let row = db.fetch_one(sql, &[lease.node.as_str().into(), lease.for_ms.into()]).await?;
    Ok(row.int("n")? == 1)
}

/// The statement that finds rows of a kind: `id`, or `one` and `two`, and `at_ms`. By number it reads `$2` rows behind
/// `$1`; by two texts `$3` rows behind those, or of a small table `$2` rows that are older than `$1`.
fn look_sql(kind: PrunedKind) -> String {
    let table = kind.table();
    let found = match (kind, kind.texts()) {
        (_, Some((one, two, at))) => {
            let which = if kind.is_small() {
                format!("{at} < $1 AND {at} IS NOT NULL ORDER BY {at} LIMIT $2")
            } else {
                format!("({one}, {two}) > ($1, $2) ORDER BY {one}, {two} LIMIT $3")
            };
            format!("{one} AS one, {two} AS two, {at} AS at_ms FROM {table} WHERE {which}")
        }
        (PrunedKind::Bodies, None) => "p.event_seq AS id, e.received_at_ms AS at_ms FROM webhook_payloads p
             JOIN processed_webhook_events e ON e.event_seq = p.event_seq
             WHERE p.event_seq > $1 AND e.event_seq > $1 ORDER BY p.event_seq LIMIT $2"
            .to_owned(),
        (PrunedKind::Ids, None) => format!(
            "event_seq AS id, received_at_ms AS at_ms, provider FROM {table} WHERE event_seq > $1
             ORDER BY event_seq LIMIT $2"
        ),
        (PrunedKind::Audit, None) => {
            format!("audit_seq AS id, at_ms FROM {table} WHERE audit_seq > $1 ORDER BY audit_seq LIMIT $2")
        }
        (_, None) => format!(
            "m.message_id AS id, COALESCE(e.received_at_ms, 0) AS at_ms FROM (
                 SELECT message_id FROM {table} WHERE message_id > $1 ORDER BY message_id LIMIT $2) m
             LEFT JOIN processed_webhook_events e ON e.event_seq = m.message_id / 1024 ORDER BY m.message_id"
        ),
    };
    format!("/* prune_look */ SELECT {found}")
}

async fn rows(
    db: &mut Executor<'_>,
    kind: PrunedKind,
    cuts: &Cuts,
    from: &PrunePlace,
    rows_n: u32,
) -> DbResult<Vec<Row>> {
    let sql = look_sql(kind);
    if kind.is_numbered() {
        db.fetch(sql, &[from.number.into(), rows_n.into()]).await
    } else if kind.is_small() {
        db.fetch(sql, &[cuts.of(kind).into(), rows_n.into()]).await
    } else {
        let (one, two) = &from.texts;
        db.fetch(sql, &[one.into(), two.into(), rows_n.into()]).await
    }
}

/// Those of these rows that are old enough, and where to go on.
fn old_rows(
    PruneWalk { kind, ids_cut_ms }: PruneWalk,
    cuts: &Cuts,
    rows: &[Row],
    (mut newest_ms, is_full): (UnixMs, bool),
) -> DbResult<OldRows> {
    let mut found = OldRows::default();
    let (mut last, mut is_any_old) = (None, false);
    for row in rows {
        let (mut key, mut at_ms) = (key(kind, row)?, row.int("at_ms")?);
        if kind.is_numbered() {
            // Numbers rise with time: a row with an older time than the row before it was written by a slow clock.
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
            found.old.push(OldRow { key, at_ms, cut_ms, due_ms });
        }
    }
    // A few rows of a clock that was ahead are not the end: only where all of a full look is young.
    // An operation goes with the last rows of its set: it is looked at again until then.
    let is_full = is_full || (kind == PrunedKind::Operations && !rows.is_empty());
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

/// States of events that wait for an operator, with everything that is kept of them.
const WAITING: &str = "('retry', 'failed', 'unreadable', 'conflict')";

/// True when none of the messages in the range of what is deleted is open, `$3` to `$4`: that is asked once, and almost
/// always so; else when `no_open` says so of a row.
fn none_open_or(no_open: &str) -> String {
    format!(
        "(NOT EXISTS (SELECT 1 FROM outbox_queue o WHERE o.message_id >= $3 AND o.message_id < $4) OR {no_open})"
    )
}

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

/// True when no message of the event of this number was finished after `since`.
fn no_message_since(event_seq: &str, since: &str) -> String {
    format!(
        "NOT EXISTS (SELECT 1 FROM outbox_finished f WHERE f.message_id >= {event_seq} * 1024
             AND f.message_id < ({event_seq} + 1) * 1024 AND f.finished_at_ms >= {since})"
    )
}

/// True when an event that is old enough goes with the round, by its table and the values of the cuts of bodies and
/// messages. It is for counting before anything is deleted.
fn event_goes(e: &str, bodies: &str, messages: &str) -> String {
    let event_seq = format!("{e}.event_seq");
    format!(
        "{e}.state NOT IN {WAITING} AND {} AND {}
             AND (COALESCE({e}.processed_at_ms, {e}.received_at_ms) < {bodies} OR {})",
        no_open_message(&event_seq),
        no_message_since(&event_seq, messages),
        no_body(&event_seq)
    )
}

/// True when the event of this number does not wait for an operator, and its bytes are deleted before or in this round.
fn body_goes(event_seq: &str) -> String {
    format!(
        " AND NOT EXISTS (SELECT 1 FROM processed_webhook_events e WHERE e.event_seq = {event_seq}
             AND e.state IN {WAITING})
         AND NOT EXISTS (SELECT 1 FROM webhook_payloads p
             JOIN processed_webhook_events e ON e.event_seq = p.event_seq WHERE p.event_seq = {event_seq}
             AND (e.state IN {WAITING} OR COALESCE(e.processed_at_ms, e.received_at_ms) >= $5
                  OR EXISTS (SELECT 1 FROM outbox_finished f WHERE f.message_id >= p.event_seq * 1024
                      AND f.message_id < (p.event_seq + 1) * 1024 AND f.finished_at_ms >= $5)))"
    )
}

const ATTEMPTS_OF: &str = "/* prune_delete */ DELETE FROM outbox_attempts WHERE message_id = ANY($1)";
/// Up to this event number, an event without messages may have had messages that were pruned.
const PRUNED_TO: &str = "/* prune_delete */ UPDATE retention_lease
    SET messages_pruned_seq = GREATEST(messages_pruned_seq, $1) WHERE one = 1";
/// The first rows of a set that are left, at most 1,000.
const OPERATION_ROWS: &str = "/* prune_delete */ DELETE FROM operation_rows WHERE operation_id = $1
    AND row_n < (SELECT MIN(f.row_n) FROM operation_rows f WHERE f.operation_id = $1) + 1000
    AND EXISTS (SELECT 1 FROM operations o WHERE o.operation_id = $1 AND o.finished_at_ms < $2)";

/// What holds for the rows of one kind that are counted, and for those that go.
pub(super) struct Statements {
    kind: PrunedKind,
    /// What holds for both. By number `$1` are the numbers, `$2` is what is older, and `$3` to `$4` are all messages of
    /// their events; by two texts `$1` is the first, `$2` many of the second, `$3` what is older.
    common: String,
    /// What holds besides for those that are counted, and for those that go.
    counted: String,
    gone: String,
}

impl Statements {
    fn by_number(kind: PrunedKind, common: impl Into<String>) -> Self {
        Self { kind, common: common.into(), counted: String::new(), gone: String::new() }
    }

    fn by_texts(kind: PrunedKind, (one, two, at): (&str, &str, &str)) -> Self {
        Self::by_number(kind, format!("{one} = $1 AND {two} = ANY($2) AND {at} < $3"))
    }

    /// For rows that are about events: they stay while one of them does that `matches`.
    fn while_event(self, matches: &str) -> Self {
        let stays = format!(" AND NOT EXISTS (SELECT 1 FROM processed_webhook_events e WHERE {matches}");
        let goes = event_goes("e", "$4", "$5");
        Self {
            counted: format!("{stays} AND NOT (e.received_at_ms < $3 AND {goes}))"),
            gone: format!("{stays})"),
            ..self
        }
    }

    /// Who counts also says before when bodies and messages go, by the last two values.
    fn count(&self) -> String {
        let given = if self.kind.is_numbered() { &["$2", "$3", "$4", "$5", "$6"][..] } else { &["$4", "$5"] };
        let given: Vec<String> =
            given.iter().map(|value| format!("CAST({value} AS BIGINT) IS NOT NULL AND ")).collect();
        let given = given.concat();
        let Self { kind, common, counted, .. } = self;
        format!("/* prune_count */ SELECT COUNT(*) AS n FROM {} WHERE {given}{common}{counted}", kind.table())
    }

    pub(super) fn delete(&self) -> String {
        format!("/* prune_delete */ DELETE FROM {} WHERE {}{}", self.kind.table(), self.common, self.gone)
    }

    pub(super) fn of(kind: PrunedKind) -> Self {
        let Some(texts) = kind.texts() else { return Self::of_numbers(kind) };
        let (all, table) = (Self::by_texts(kind, texts), kind.table());
        match kind {
            PrunedKind::ConflictCounts | PrunedKind::EventCopies => {
                all.while_event(&format!("e.provider = {table}.provider AND e.event_id = {table}.event_id"))
            }
            // A signal that begins anew begins with its first firing: none of those that were may be remembered then.
            PrunedKind::SignalFirings => all.while_event(
                "e.provider = signal_firings.provider AND e.event_id >= signal_firings.signal || '#'
                     AND e.event_id < signal_firings.signal || '$'",
            ),
            PrunedKind::ObjectVersions => all.while_event("e.event_seq = object_versions.event_seq"),
            PrunedKind::Lanes => {
                let common = format!(
                    "{} AND NOT EXISTS (SELECT 1 FROM outbox_queue q
                         WHERE q.destination = outbox_lanes.destination AND q.lane = outbox_lanes.lane)",
                    all.common
                );
                Self { common, ..all }
            }
            PrunedKind::Operations => {
                let gone = " AND NOT EXISTS (SELECT 1 FROM operation_rows r
                    WHERE r.operation_id = operations.operation_id)";
                Self { gone: gone.to_owned(), ..all }
            }
            _ => all,
        }
    }

    fn of_numbers(kind: PrunedKind) -> Self {
        match kind {
            PrunedKind::Bodies => {
                // They stay as long as the last change of one of their messages is young.
                let common = format!(
                    "event_seq = ANY($1) AND EXISTS (SELECT 1 FROM processed_webhook_events e
                         WHERE e.event_seq = webhook_payloads.event_seq AND e.state NOT IN {WAITING}
                         AND COALESCE(e.processed_at_ms, e.received_at_ms) < $2) AND {} AND {}",
                    none_open_or(&no_open_message("webhook_payloads.event_seq")),
                    no_message_since("webhook_payloads.event_seq", "$2")
                );
                Self::by_number(kind, common)
            }
            PrunedKind::Contents => {
                let no_open = no_open_message("(outbox_contents.message_id / 1024)");
                let common = format!("message_id = ANY($1) AND {}", none_open_or(&no_open));
                let event_seq = "outbox_contents.message_id / 1024";
                let (counted, gone) = (body_goes(event_seq), format!(" AND {}", no_body(event_seq)));
                Self { counted, gone, ..Self::by_number(kind, common) }
            }
            PrunedKind::Attempts => {
                // They stay as long as their message's end is young: whoever decides about a message that waited for
                // weeks leaves the evidence behind.
                let no_open = "NOT EXISTS (SELECT 1 FROM outbox_queue q WHERE q.message_id = outbox_attempts.message_id)";
                let common = format!(
                    "message_id = ANY($1) AND finished_at_ms < $2 AND {}
                     AND NOT EXISTS (SELECT 1 FROM outbox_finished f
                         WHERE f.message_id = outbox_attempts.message_id AND f.finished_at_ms >= $2)",
                    none_open_or(no_open)
                );
                Self::by_number(kind, common)
            }
            PrunedKind::Messages => {
                let event_seq = "outbox_finished.message_id / 1024";
                let no_open = none_open_or(&no_open_message(&format!("({event_seq})")));
                Self {
                    counted: format!(" AND {no_open}{}", body_goes(event_seq)),
                    // While the body is there, the event may be run again, and then its messages are numbered after
                    // those that are there.
                    gone: format!(" AND {}", no_body(event_seq)),
                    ..Self::by_number(kind, "message_id = ANY($1) AND finished_at_ms < $2")
                }
            }
            PrunedKind::Ids => {
                let (table, event_seq) = ("processed_webhook_events", "processed_webhook_events.event_seq");
                let common = format!(
                    "event_seq = ANY($1) AND state NOT IN {WAITING} AND {}",
                    none_open_or(&no_open_message(event_seq))
                );
                Self {
                    counted: format!(" AND {}", event_goes(table, "$5", "$6")),
                    gone: format!(
                        " AND {} AND NOT EXISTS (SELECT 1 FROM outbox_finished f
                             WHERE f.message_id >= {event_seq} * 1024 AND f.message_id < ({event_seq} + 1) * 1024)",
                        no_body(event_seq)
                    ),
                    ..Self::by_number(kind, common)
                }
            }
            // Counts alone: `audit.rs` deletes.
            _ => Self::by_number(kind, "audit_seq = ANY($1) AND at_ms < $2"),
        }
    }
}

impl OldRows {
    /// Their numbers, each once.
    pub(super) fn numbers(&self) -> Vec<i64> {
        self.old.iter().map(|one| one.key.number).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The first number that a message of one of their events may have, and the first one behind all of these.
    pub(super) fn messages(&self, kind: PrunedKind) -> [i64; 2] {
        let event_of = |number: i64| {
            if kind.is_of_messages() { MessageId::from_column(number).event_seq() } else { number }
        };
        let numbers = || self.old.iter().map(|one| event_of(one.key.number));
        let (first, last) = (numbers().min().unwrap_or_default(), numbers().max().unwrap_or_default());
        [first.saturating_mul(1_024), last.saturating_add(1).saturating_mul(1_024)]
    }

    /// The first four values of a statement by number.
    fn values(&self, kind: PrunedKind) -> [Value; 4] {
        let [from, to] = self.messages(kind);
        [self.numbers().into(), self.cut_ms().into(), from.into(), to.into()]
    }

    /// Time before which they may go: the same for all that are found together by number.
    pub(super) fn cut_ms(&self) -> UnixMs {
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

async fn delete(db: &mut Executor<'_>, kind: PrunedKind, found: &OldRows) -> DbResult<u64> {
    if let Some(oldest) = found.old.first().filter(|_| kind == PrunedKind::Operations) {
        let values = [oldest.key.texts.0.as_str().into(), oldest.cut_ms.into()];
        let rows_n = db.execute(OPERATION_ROWS, &values).await?;
        if rows_n > 0 {
            return Ok(rows_n);
        }
    }
    let statements = Statements::of(kind);
    let Some((one, two, _)) = kind.texts() else {
        return delete_numbers(db, kind, statements.delete(), found).await;
    };
    // Those whose rows a concurrent transaction may begin to need.
    let is_locked =
        matches!(kind, PrunedKind::SignalFirings | PrunedKind::ObjectVersions | PrunedKind::Lanes);
    let mut deleted_n = 0;
    for ((first, cut_ms), mut seconds) in found.texts() {
        if is_locked && db.is_postgres() {
            let lock = format!(
                "/* prune_delete */ SELECT {two} AS two FROM {} WHERE {one} = $1 AND {two} = ANY($2)
                 ORDER BY {two} FOR UPDATE SKIP LOCKED",
                kind.table()
            );
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
    if kind == PrunedKind::Audit {
        return audit::prune(db, &found.numbers()).await;
    }
    let values = found.values(kind);
    let returned = match kind {
        PrunedKind::Bodies => "event_seq",
        PrunedKind::Messages => "message_id",
        _ => return db.execute(sql, &values).await,
    };
    let gone = ids(&db.fetch(format!("{sql} RETURNING {returned} AS id"), &values).await?)?;
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
