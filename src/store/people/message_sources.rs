//! Where messages are looked for, and how far: each source is a range of an index, read from its newest row down.
//!
//! A statement first says where so many rows further down are, then everything between is asked for: what a filter
//! leaves out costs a bounded number of rows, whatever it leaves out.

use crate::api::MessageFilter;
use crate::store::damaged::intact;
use crate::store::db::{DbResult, Door, Row, Value};
use crate::types::MessageState;

/// Most destinations that are looked at one by one.
const DESTINATIONS_N_MAX: i64 = 1_000;
/// Longest lane that is read as such; longer ones are found by walking.
const LANE_N_MAX: i64 = 10_000;

/// The filter, with what the caller may see.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) filter: MessageFilter,
    /// Destinations that may be shown; `None` for all.
    pub(super) destinations: Option<Vec<String>>,
    /// Providers that may be shown; `None` for all.
    pub(super) providers: Option<Vec<String>>,
}

/// One range of one index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MessageSource {
    /// Every message of the queue.
    Queue,
    /// Every message that is done or discarded.
    History,
    /// The messages of one destination in the state of the filter: held, dead or waiting.
    Stuck(String),
    /// The messages of one destination in the lane of the filter.
    Lane(String),
}

impl MessageSource {
    fn destination(&self) -> Option<&str> {
        match self {
            Self::Queue | Self::History => None,
            Self::Stuck(name) | Self::Lane(name) => Some(name),
        }
    }
}

/// Conditions of every source: `$1` and `$2` are its ends, `$3` to `$7` what is wanted.
macro_rules! narrowed {
    () => {
        " q.message_id < $1 AND q.message_id >= $2 AND (CAST($3 AS TEXT) IS NULL OR q.state = $3)
          AND (CAST($4 AS TEXT) IS NULL OR q.lane = $4) AND (CAST($5 AS BIGINT) IS NULL OR q.created_at_ms < $5)
          AND (CAST($6 AS BIGINT) = 0 OR (SELECT p.provider FROM processed_webhook_events p
               WHERE p.event_seq = q.message_id / 1024) = ANY($7))"
    };
}
/// The same with the destinations of a walk.
macro_rules! walked {
    () => {
        concat!(narrowed!(), " AND (CAST($8 AS BIGINT) = 0 OR q.destination = ANY($9))")
    };
}
/// The same with the index that is by destination and state. SQLite takes a partial index for its own words alone.
macro_rules! stuck {
    () => {
        concat!(
            narrowed!(),
            " AND q.destination = $8 AND q.state = $3 AND q.state IN ('held', 'dead', 'waiting')"
        )
    };
}
/// The same as PostgreSQL has to be asked: where a state is one value, it may walk all messages by number and leave out
/// those in other states, however many there are. The order by both columns is that of this index alone.
macro_rules! stuck_by_index {
    () => {
        concat!(
            narrowed!(),
            " AND q.destination = $8 AND (q.state, q.message_id) < ($3, $1) AND (q.state, q.message_id) >= ($3, $2)
              AND q.state IN ('held', 'dead', 'waiting')"
        )
    };
}
/// The same with the index that is by lane.
macro_rules! of_lane {
    () => {
        concat!(narrowed!(), " AND q.destination = $8 AND q.lane = $4 AND q.lane IS NOT NULL")
    };
}

macro_rules! page {
    ($own:literal, $table:literal, $where:expr, $order:literal, $limit:literal) => {
        concat!(
            "/* people_messages */ SELECT m.*, e.provider, e.event_id, e.event_type
             FROM (SELECT q.message_id, q.generation, COALESCE(q.effect_name, q.destination) AS effect_name,
                          q.destination, q.lane, q.state, q.attempts_n, q.created_at_ms, q.first_sent_at_ms,
                          q.last_result, q.last_error, ",
            $own,
            " FROM ",
            $table,
            " q WHERE ",
            $where,
            " ORDER BY ",
            $order,
            " LIMIT ",
            $limit,
            ") m JOIN processed_webhook_events e ON e.event_seq = m.message_id / 1024 ORDER BY m.message_id DESC"
        )
    };
}
macro_rules! open_page {
    ($where:expr, $limit:literal) => {
        open_page!($where, "q.message_id DESC", $limit)
    };
    ($where:expr, $order:literal, $limit:literal) => {
        page!(
            "q.visible_at_ms, q.key_valid_until_ms, CAST(NULL AS BIGINT) AS finished_at_ms, q.sent_under",
            "outbox_queue",
            $where,
            $order,
            $limit
        )
    };
}
macro_rules! counted {
    ($table:literal, $where:expr) => {
        concat!("/* people_count */ SELECT COUNT(*) AS n FROM ", $table, " q WHERE ", $where)
    };
}
macro_rules! bound {
    ($table:literal, $where:literal) => {
        concat!(
            "/* people_messages */ SELECT COUNT(*) AS n, MIN(message_id) AS last_id FROM (SELECT message_id FROM ",
            $table,
            " WHERE message_id < $1 ",
            $where,
            " ORDER BY message_id DESC LIMIT $2) x"
        )
    };
}

const QUEUE_PAGE: &str = open_page!(walked!(), "$10");
const HISTORY_PAGE: &str = page!(
    "q.finished_at_ms AS visible_at_ms, CAST(NULL AS BIGINT) AS key_valid_until_ms, q.finished_at_ms,
     CAST(NULL AS TEXT) AS sent_under",
    "outbox_finished",
    walked!(),
    "q.message_id DESC",
    "$10"
);
const STUCK_PAGE: &str = open_page!(stuck!(), "$9");
const STUCK_PAGE_POSTGRES: &str = open_page!(stuck_by_index!(), "q.state DESC, q.message_id DESC", "$9");
const LANE_PAGE: &str = open_page!(of_lane!(), "$9");
const QUEUE_COUNT: &str = counted!("outbox_queue", walked!());
const HISTORY_COUNT: &str = counted!("outbox_finished", walked!());
const STUCK_COUNT: &str = counted!("outbox_queue", stuck!());
const LANE_COUNT: &str = counted!("outbox_queue", of_lane!());
const QUEUE_BOUND: &str = bound!("outbox_queue", "");
const HISTORY_BOUND: &str = bound!("outbox_finished", "");
const STUCK_BOUND: &str =
    bound!("outbox_queue", "AND destination = $3 AND state = $4 AND state IN ('held', 'dead', 'waiting')");
const STUCK_BOUND_POSTGRES: &str =
    "/* people_messages */ SELECT COUNT(*) AS n, MIN(message_id) AS last_id FROM (SELECT message_id FROM outbox_queue
        WHERE (state, message_id) < ($4, $1) AND (state, message_id) >= ($4, 0) AND destination = $3
          AND state IN ('held', 'dead', 'waiting') ORDER BY state DESC, message_id DESC LIMIT $2) x";
const LANE_LENGTH: &str = "/* people_messages */ SELECT COUNT(*) AS n FROM (SELECT lane_seq FROM outbox_queue
    WHERE destination = $1 AND lane = $2 AND lane IS NOT NULL LIMIT $3) x";
/// The next name each time: as many looks as there are destinations, however many rows there are.
const STUCK_DESTINATIONS: &str = "/* people_destinations */ WITH RECURSIVE d AS (
    SELECT (SELECT q.destination FROM outbox_queue q WHERE q.state IN ('held', 'dead', 'waiting')
            ORDER BY q.destination LIMIT 1) AS name
    UNION ALL
    SELECT (SELECT q.destination FROM outbox_queue q WHERE q.state IN ('held', 'dead', 'waiting')
              AND q.destination > d.name ORDER BY q.destination LIMIT 1) FROM d WHERE d.name IS NOT NULL)
    SELECT name FROM d WHERE name IS NOT NULL LIMIT $1";
const DUE_DESTINATIONS: &str = "/* people_destinations */ WITH RECURSIVE d AS (
    SELECT (SELECT q.destination FROM outbox_queue q WHERE q.state IN ('ready', 'leased')
            ORDER BY q.destination LIMIT 1) AS name
    UNION ALL
    SELECT (SELECT q.destination FROM outbox_queue q WHERE q.state IN ('ready', 'leased')
              AND q.destination > d.name ORDER BY q.destination LIMIT 1) FROM d WHERE d.name IS NOT NULL)
    SELECT name FROM d WHERE name IS NOT NULL LIMIT $1";
const LANE_DESTINATIONS: &str = "/* people_destinations */ WITH RECURSIVE d AS (
    SELECT (SELECT q.destination FROM outbox_queue q WHERE q.lane IS NOT NULL
            ORDER BY q.destination LIMIT 1) AS name
    UNION ALL
    SELECT (SELECT q.destination FROM outbox_queue q WHERE q.lane IS NOT NULL
              AND q.destination > d.name ORDER BY q.destination LIMIT 1) FROM d WHERE d.name IS NOT NULL)
    SELECT name FROM d WHERE name IS NOT NULL LIMIT $1";

/// The statements by name, for tests that look at their plans.
pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("messages of the queue", QUEUE_PAGE),
    ("messages of history", HISTORY_PAGE),
    ("messages that are stuck", STUCK_PAGE),
    ("messages that are stuck, for PostgreSQL", STUCK_PAGE_POSTGRES),
    ("messages of a lane", LANE_PAGE),
    ("count of the queue", QUEUE_COUNT),
    ("count of history", HISTORY_COUNT),
    ("count of what is stuck", STUCK_COUNT),
    ("count of a lane", LANE_COUNT),
    ("bound of the queue", QUEUE_BOUND),
    ("bound of history", HISTORY_BOUND),
    ("bound of what is stuck", STUCK_BOUND),
    ("bound of what is stuck, for PostgreSQL", STUCK_BOUND_POSTGRES),
    ("length of a lane", LANE_LENGTH),
    ("destinations of what is stuck", STUCK_DESTINATIONS),
    ("destinations of what is due", DUE_DESTINATIONS),
    ("destinations of lanes", LANE_DESTINATIONS),
];

impl Wanted {
    /// True when every row of a walk is wanted.
    pub(super) fn is_everything(&self) -> bool {
        self.filter.state.is_none()
            && self.filter.lane.is_none()
            && self.filter.created_before_ms.is_none()
            && self.destinations.is_none()
            && self.providers.is_none()
    }

    /// True when nothing can be found, because what is wanted is out of reach.
    pub(super) fn is_nothing(&self) -> bool {
        let is_empty = |names: &Option<Vec<String>>| names.as_ref().is_some_and(Vec::is_empty);
        is_empty(&self.destinations) || is_empty(&self.providers)
    }

    /// The sources that together hold all that is wanted. The queue comes first: a message that is finished meanwhile
    /// is found in the history and shown as finished.
    pub(super) async fn sources(&self, db: &mut Door<'_>) -> DbResult<Vec<MessageSource>> {
        let state = self.filter.state;
        let is_finished = |state| matches!(state, MessageState::Done | MessageState::Discarded);
        if state.is_some_and(is_finished) {
            return Ok(vec![MessageSource::History]);
        }
        let mut sources = self.open(db).await?;
        if state.is_none() {
            sources.push(MessageSource::History);
        }
        Ok(sources)
    }

    async fn open(&self, db: &mut Door<'_>) -> DbResult<Vec<MessageSource>> {
        if let Some(lane) = &self.filter.lane {
            let names = self.names(db, LANE_DESTINATIONS).await?;
            let mut is_short = true;
            for name in &names {
                let values = [name.into(), lane.into(), (LANE_N_MAX + 1).into()];
                is_short &= db.fetch_one(LANE_LENGTH, &values).await?.int("n")? <= LANE_N_MAX;
            }
            if is_short {
                return Ok(names.into_iter().map(MessageSource::Lane).collect());
            }
        }
        let is_stuck =
            |state| matches!(state, MessageState::Held | MessageState::Dead | MessageState::Waiting);
        if self.filter.state.is_some_and(is_stuck) {
            let names = self.names(db, STUCK_DESTINATIONS).await?;
            return Ok(names.into_iter().map(MessageSource::Stuck).collect());
        }
        Ok(vec![MessageSource::Queue])
    }

    /// The destinations that may be shown, or those of an index.
    async fn names(&self, db: &mut Door<'_>, sql: &'static str) -> DbResult<Vec<String>> {
        match &self.destinations {
            Some(names) => Ok(names.clone()),
            None => names(db, sql).await,
        }
    }

    /// The values of a source's statement: its ends, then all that is wanted.
    fn values(&self, source: &MessageSource, before: i64, from: i64) -> Vec<Value> {
        let listed = |names: &Option<Vec<String>>| -> [Value; 2] {
            [i64::from(names.is_some()).into(), names.clone().unwrap_or_default().into()]
        };
        let filter = &self.filter;
        let mut values = vec![
            before.into(),
            from.into(),
            filter.state.map(MessageState::as_str).into(),
            filter.lane.clone().into(),
            filter.created_before_ms.into(),
        ];
        values.extend(listed(&self.providers));
        match source.destination() {
            Some(name) => values.push(name.into()),
            None => values.extend(listed(&self.destinations)),
        }
        values
    }

    /// The newest rows between these ends, at most `limit`.
    pub(super) async fn page(
        &self,
        db: &mut Door<'_>,
        source: &MessageSource,
        (before, from): (i64, i64),
        limit: u32,
    ) -> DbResult<Vec<Row>> {
        let sql = match source {
            MessageSource::Queue => QUEUE_PAGE,
            MessageSource::History => HISTORY_PAGE,
            MessageSource::Stuck(_) if db.is_postgres() => STUCK_PAGE_POSTGRES,
            MessageSource::Stuck(_) => STUCK_PAGE,
            MessageSource::Lane(_) => LANE_PAGE,
        };
        let mut values = self.values(source, before, from);
        values.push(limit.into());
        db.fetch(sql, &values).await
    }

    /// The number of rows between these ends.
    pub(super) async fn count(
        &self,
        db: &mut Door<'_>,
        source: &MessageSource,
        (before, from): (i64, i64),
    ) -> DbResult<i64> {
        let sql = match source {
            MessageSource::Queue => QUEUE_COUNT,
            MessageSource::History => HISTORY_COUNT,
            MessageSource::Stuck(_) => STUCK_COUNT,
            MessageSource::Lane(_) => LANE_COUNT,
        };
        db.fetch_one(sql, &self.values(source, before, from)).await?.int("n")
    }

    /// Number of rows that are to be looked at, at most `looked_n`, and the last one of so many; `None` when the source
    /// ends before.
    pub(super) async fn bound(
        &self,
        db: &mut Door<'_>,
        source: &MessageSource,
        before: i64,
        looked_n: i64,
    ) -> DbResult<(i64, Option<i64>)> {
        let mut values: Vec<Value> = vec![before.into(), looked_n.into()];
        let sql = match source {
            MessageSource::Queue => QUEUE_BOUND,
            MessageSource::History => HISTORY_BOUND,
            MessageSource::Stuck(name) => {
                values.extend([name.into(), self.filter.state.map(MessageState::as_str).into()]);
                if db.is_postgres() { STUCK_BOUND_POSTGRES } else { STUCK_BOUND }
            }
            // It was found to be short.
            MessageSource::Lane(_) => return Ok((0, None)),
        };
        let row = db.fetch_one(sql, &values).await?;
        let found_n = row.int("n")?;
        Ok((found_n, row.int_or_null("last_id")?.filter(|_| found_n >= looked_n)))
    }
}

async fn names(db: &mut Door<'_>, sql: &'static str) -> DbResult<Vec<String>> {
    let rows = db.fetch(sql, &[DESTINATIONS_N_MAX.into()]).await?;
    Ok(intact("outbox_queue", "name", &rows, |row| row.text("name"))?.rows)
}

/// The destinations that open messages go to, by name.
pub(in crate::store) async fn open_destinations(db: &mut Door<'_>) -> DbResult<Vec<String>> {
    let mut found = names(db, DUE_DESTINATIONS).await?;
    found.extend(names(db, STUCK_DESTINATIONS).await?);
    Ok(found)
}

/// The destinations that have lanes with open messages, by name.
pub(super) async fn lane_destinations(db: &mut Door<'_>) -> DbResult<Vec<String>> {
    names(db, LANE_DESTINATIONS).await
}
