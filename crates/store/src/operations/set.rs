//! The rows of an operation: found by a filter, or fixed by its order.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::OPERATION_ROWS_N_MAX;
use crate::db::{DbError, DbResult, Executor, Value};
use hooklatch_contract::{EventFilter, MessageFilter, OperationChoice};
use hooklatch_core::types::{DeliveryFilter, EventState, MessageState, Principal, Reach};

/// Rows as one text, each with what changes when it is acted on.
macro_rules! as_text {
    ($($found:tt)*) => {
        concat!(
            "/* operation_set */ SELECT string_agg(CAST(f.subject_id AS TEXT) || ':' || CAST(f.version AS TEXT), ','
                 ORDER BY f.subject_id) AS found FROM (SELECT ",
            $($found)*,
            " LIMIT $1) f"
        )
    };
}

/// The open messages that a filter finds, the oldest first; `$words` are those of the index. One that waits for no
/// decision is tried at any moment: its attempts are not compared. A further run of the event may do the same under
/// other keys.
macro_rules! message_set {
    ($words:literal) => {
        as_text!(
            "q.message_id AS subject_id,
                 CAST(e.generation AS TEXT) || '.' || CAST(CASE WHEN q.state IN ('held', 'dead')
                     THEN q.attempts_before_n + q.attempts_n ELSE 0 END AS TEXT) AS version
             FROM outbox_queue q JOIN processed_webhook_events e ON e.event_seq = q.message_id / 1024
             WHERE q.state = $2 AND q.state IN (",
            $words,
            ") AND (CAST($3 AS TEXT) IS NULL OR q.destination = $3)
               AND (CAST($4 AS TEXT) IS NULL OR e.provider = $4)
               AND (CAST($5 AS TEXT) IS NULL OR q.lane = $5)
               AND (CAST($6 AS BIGINT) IS NULL OR q.created_at_ms < $6)
               AND (CAST($7 AS BIGINT) = 1 OR e.provider = ANY($8))
               AND (CAST($9 AS BIGINT) = 1 OR q.destination = ANY($10))
             ORDER BY q.message_id"
        )
    };
}

/// The events that a filter finds, the oldest first; `$more` is what an index is found by. What an act on an event risks
/// depends on its calls: how many are open, and how often those that wait for an operator were tried.
macro_rules! event_set {
    ($more:literal) => {
        as_text!(
            "e.event_seq AS subject_id, CAST(e.generation AS TEXT) || '.' || (
                 SELECT CAST(COUNT(*) AS TEXT) || '.' || CAST(COALESCE(SUM(CASE WHEN q.state IN ('held', 'dead')
                     THEN 1 + q.attempts_before_n + q.attempts_n ELSE 0 END), 0) AS TEXT)
                 FROM outbox_queue q
                 WHERE q.message_id BETWEEN e.event_seq * 1024 AND e.event_seq * 1024 + 1023) AS version
             FROM processed_webhook_events e
             WHERE e.state = $2 AND (CAST($3 AS TEXT) IS NULL OR e.provider = $3)
               AND (CAST($4 AS TEXT) IS NULL OR e.event_type = $4)
               AND (CAST($5 AS TEXT) IS NULL OR e.object = $5)
               AND (CAST($6 AS BIGINT) IS NULL OR e.received_at_ms >= $6)
               AND (CAST($7 AS BIGINT) IS NULL OR e.received_at_ms < $7)
               AND (CAST($8 AS BIGINT) = 1 OR e.provider = ANY($9))",
            $more,
            " ORDER BY e.event_seq"
        )
    };
}

const STUCK: &str = message_set!("'held', 'dead', 'waiting'");
const MOVING: &str = message_set!("'ready', 'leased'");
const WAITING_EVENTS: &str = event_set!(" AND e.state IN ('retry', 'failed', 'unreadable', 'conflict')");
const SETTLED_EVENTS: &str = event_set!("");
/// Those of an object, whatever they wait for.
const EVENTS_OF_OBJECT: &str = event_set!(" AND e.object = $5 AND e.object IS NOT NULL");
/// Those that have calls in some state, whose numbers were found before.
const EVENTS_OF_CALLS: &str = event_set!(" AND e.event_seq = ANY($10)");

/// Numbers of the events with calls in these states, by what is open: history is not looked at. Asked by itself: in one
/// statement with the events, PostgreSQL may go through all events in their order, and for each through all calls.
macro_rules! calls_of {
    ($words:literal) => {
        concat!(
            "/* operation_set */ SELECT string_agg(CAST(c.event_seq AS TEXT), ',') AS found
             FROM (SELECT DISTINCT s.message_id / 1024 AS event_seq FROM outbox_queue s WHERE ",
            $words,
            " AND s.state = ANY($1)) c"
        )
    };
}

const STUCK_CALLS: &str = calls_of!("(s.state IN ('held', 'dead')) IS TRUE");
const OPEN_CALLS: &str = calls_of!("s.message_id >= 0");

/// The statements by name, for tests that look at their plans.
pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("operation set of stuck messages", STUCK),
    ("operation set of moving messages", MOVING),
    ("operation set of waiting events", WAITING_EVENTS),
    ("operation set of events of an object", EVENTS_OF_OBJECT),
    ("operation set of events with calls", EVENTS_OF_CALLS),
    ("operation events with stuck calls", STUCK_CALLS),
    ("operation events with open calls", OPEN_CALLS),
    ("operation set of settled events", SETTLED_EVENTS),
    ("operation rows", FIXED),
];

const FIXED: &str =
    "/* operation_set */ SELECT string_agg(CAST(r.subject_id AS TEXT), ',' ORDER BY r.row_n) AS found
     FROM operation_rows r WHERE r.operation_id = $1 AND ((CAST($2 AS BIGINT) = 1 AND r.outcome IS NULL)
         OR (CAST($3 AS BIGINT) = 1 AND r.outcome = 'changed'))";

/// Rows that a filter found.
pub(crate) struct FoundSet {
    /// Numbers of the messages or events, ascending; one more than an operation acts on where there are more.
    pub ids: Vec<i64>,
    /// Differs when another row is found, or when one of them, or a call of one of them, was sent, settled or handled since.
    pub digest: String,
    /// The rows as their statement gave them: `1:0.2,2:0.1`.
    text: String,
}

impl FoundSet {
    /// Reads rows with what changes when one is acted on.
    pub(crate) fn of(text: &str) -> DbResult<Self> {
        let digest = hex::encode(Sha256::digest(text).get(..8).unwrap_or_default());
        Ok(Self { ids: ids_of(text)?, digest, text: text.to_owned() })
    }

    /// Rows of an operation that was ordered.
    pub(crate) fn fixed(ids: Vec<i64>) -> Self {
        Self { ids, digest: String::new(), text: String::new() }
    }

    /// What changes when a row is acted on, by its number.
    pub(crate) fn versions(&self) -> BTreeMap<i64, u64> {
        let row = |one: &str| {
            let (id, version) = one.split_once(':')?;
            let hash = Sha256::digest(version).first_chunk().copied().map(u64::from_be_bytes)?;
            Some((id.parse().ok()?, hash))
        };
        self.text.split(',').filter_map(row).collect()
    }
}

/// The rows that a choice finds within the reach of `who`.
pub(super) async fn found_set(
    db: &mut Executor<'_>,
    choice: &OperationChoice,
    who: &Principal,
) -> DbResult<FoundSet> {
    let (sql, mut values) = found_by(choice, who);
    if let OperationChoice::Events(EventFilter { delivery: Some(calls), .. }) = choice {
        let states: Vec<String> = calls.states().iter().map(MessageState::to_string).collect();
        let sql = if *calls == DeliveryFilter::Open { OPEN_CALLS } else { STUCK_CALLS };
        let text = db.fetch_one(sql, &[states.into()]).await?.text_or_null("found")?.unwrap_or_default();
        values.push(ids_of(&text)?.into());
    }
    let text = db.fetch_one(sql, &values).await?.text_or_null("found")?.unwrap_or_default();
    FoundSet::of(&text)
}

/// Which rows of an operation are asked for.
#[derive(Clone, Copy)]
pub(super) struct RowsQuery {
    pub left: bool,
    pub changed: bool,
}

/// The rows of an operation that are left, or were acted on, ascending.
pub(super) async fn fixed_set(
    db: &mut Executor<'_>,
    operation_id: &str,
    wanted: RowsQuery,
) -> DbResult<Vec<i64>> {
    let values = [operation_id.into(), i64::from(wanted.left).into(), i64::from(wanted.changed).into()];
    ids_of(&db.fetch_one(FIXED, &values).await?.text_or_null("found")?.unwrap_or_default())
}

/// The numbers in `1:0,2:0`, or in `1,2`.
fn ids_of(text: &str) -> DbResult<Vec<i64>> {
    let id = |one: &str| one.split(':').next().unwrap_or_default().parse();
    let ids = text.split(',').filter(|one| !one.is_empty()).map(id).collect::<Result<_, _>>();
    ids.map_err(|_| DbError::decode("found", "no numbers"))
}

/// The statement that finds a set, and its values.
fn found_by(choice: &OperationChoice, who: &Principal) -> (&'static str, Vec<Value>) {
    let reach = |reach: &Reach| -> [Value; 2] {
        [i64::from(*reach == Reach::All).into(), reach.names().unwrap_or_default().into()]
    };
    // One more than there may be.
    let limit = i64::try_from(OPERATION_ROWS_N_MAX + 1).unwrap_or(i64::MAX);
    match choice {
        OperationChoice::Messages(filter) => {
            let MessageFilter { state, destination, provider, lane, created_before_ms } = filter;
            let is_moving = matches!(state, Some(MessageState::Ready | MessageState::Leased));
            let mut values = vec![
                limit.into(),
                state.map(MessageState::as_str).into(),
                destination.clone().into(),
                provider.clone().into(),
                lane.clone().into(),
                (*created_before_ms).into(),
            ];
            values.extend(reach(&who.providers).into_iter().chain(reach(&who.destinations)));
            (if is_moving { MOVING } else { STUCK }, values)
        }
        OperationChoice::Events(filter) => {
            let EventFilter {
                state,
                provider,
                event_type,
                object,
                delivery,
                received_from_ms,
                received_to_ms,
            } = filter;
            let is_waiting = matches!(
                state,
                Some(EventState::Retry | EventState::Failed | EventState::Unreadable | EventState::Conflict)
            );
            let mut values = vec![
                limit.into(),
                state.map(EventState::as_str).into(),
                provider.clone().into(),
                event_type.clone().into(),
                object.clone().into(),
                (*received_from_ms).into(),
                (*received_to_ms).into(),
            ];
            values.extend(reach(&who.providers));
            let sql = match (delivery, object) {
                (Some(_), _) => EVENTS_OF_CALLS,
                (None, Some(_)) => EVENTS_OF_OBJECT,
                (None, None) if is_waiting => WAITING_EVENTS,
                (None, None) => SETTLED_EVENTS,
            };
            (sql, values)
        }
    }
}
