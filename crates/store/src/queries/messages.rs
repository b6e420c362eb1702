//! Messages as an operator sees them: lists a page at a time, and counts, both bounded in rows read; and one message
//! with its attempts and the decisions about it.
//!
//! A list reads one or more sources: ranges of an index, each from its newest row down. A statement first finds the row
//! so many rows further down, then everything between is read: rows that a filter excludes cost a bounded number of
//! reads. The lists for callers without an operator, at the end, read the same sources.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::events::{ORDER_MS, number_after, received_at_ms};
use super::records::message_decisions;
use super::{OperatorError, OperatorQueries, any_of, within};
use crate::audit::AuditEntry;
use crate::damaged::{IntactRows, intact};
use crate::db::{DbError, DbResult, Executor, Row, StoreError, Value};
use crate::handle::Store;
use crate::message::{MessageRow, message_rows};
use hooklatch_contract::{AttemptView, MessageDetail, MessageFilter, MessageView, Page};
use hooklatch_core::seal::{KeyRing, SealedPlace};
use hooklatch_core::types::{
    AttemptResult, EventKey, MESSAGES_N_MAX, MessageId, MessageState, Reach, UnixMs,
};

/// Rows that one page looks at in each of its sources, at most.
const PAGE_LOOKED_N: i64 = 10_000;
/// Rows that a page looks at first, for each that it shows: most filters find enough among them.
const FIRST_LOOKED_N: i64 = 4;
/// Most destinations that are looked at one by one; where there are as many, the queue is walked instead.
const DESTINATIONS_N_MAX: i64 = 1_000;
/// Longest lane that is read as such; longer ones are found by walking.
const LANE_N_MAX: i64 = 10_000;

/// A filter within the caller's scope.
pub(crate) struct Wanted {
    filter: MessageFilter,
    /// Destinations that may be shown; `None` for all.
    destinations: Option<Vec<String>>,
    /// Providers that may be shown; `None` for all.
    providers: Option<Vec<String>>,
}

/// One range of one index.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    /// Every message of the queue.
    Queue,
    /// Every message that is done or discarded.
    History,
    /// The messages of one destination in the state of the filter: held, dead or waiting.
    Stuck(String),
    /// The messages of one destination in the lane of the filter.
    Lane(String),
}

/// Condition of the index of messages that are stuck. SQLite takes a partial index for its own words alone.
const IS_STUCK: &str = "state IN ('held', 'dead', 'waiting')";
/// Columns of a message in the queue `q`, for [`message_rows`].
const OF_QUEUE: &str =
    "q.visible_at_ms, q.key_valid_until_ms, CAST(NULL AS BIGINT) AS finished_at_ms, q.sent_under";
/// Those of a message in the history `q`.
const OF_HISTORY: &str = "q.finished_at_ms AS visible_at_ms, CAST(NULL AS BIGINT) AS key_valid_until_ms,
    q.finished_at_ms, q.sent_under";

/// Messages for [`message_rows`] from one of the two tables, `q`, limited before their events are looked up; with
/// `more` columns of the limited rows `m`.
pub(super) fn rows_sql(op: &str, more: &str, table: &str, rest: &str) -> String {
    let own = if table == "outbox_finished" { OF_HISTORY } else { OF_QUEUE };
    format!(
        "/* {op} */ SELECT m.*, e.provider, e.event_id, e.event_type{more}
         FROM (SELECT q.message_id, q.generation, COALESCE(q.effect_name, q.destination) AS effect_name,
                      q.destination, q.lane, q.state, q.attempts_n, q.created_at_ms, q.first_sent_at_ms,
                      q.last_result, q.last_error, {own}
               FROM {table} q WHERE {rest}) m
         JOIN processed_webhook_events e ON e.event_seq = m.message_id / 1024"
    )
}

impl Wanted {
    /// What `filter` finds in reach.
    pub(crate) fn new(filter: MessageFilter, providers: &Reach, destinations: &Reach) -> Self {
        Self {
            destinations: within(destinations, filter.destination.as_deref()),
            providers: within(providers, filter.provider.as_deref()),
            filter,
        }
    }

    /// Conditions for the message `q`, by the values `$1` to `$5` that [`Wanted::values`] gives. The provider is that
    /// of the event `e`, or looked up.
    pub(crate) fn conditions(provider: &str) -> String {
        format!(
            "(CAST($1 AS TEXT) IS NULL OR q.state = $1) AND (CAST($2 AS TEXT) IS NULL OR q.lane = $2)
             AND (CAST($3 AS BIGINT) IS NULL OR q.created_at_ms < $3)
             AND (CAST($4 AS BIGINT) = 0 OR {provider} = ANY($5))"
        )
    }

    /// Conditions for the destination of the message `q`, by the values `$6` and `$7`.
    pub(crate) const DESTINATION: &'static str = "(CAST($6 AS BIGINT) = 0 OR q.destination = ANY($7))";

    /// The values of both conditions; with the name of one destination, those of [`Wanted::conditions`] and that name.
    pub(crate) fn values(&self, destination: Option<&str>) -> Vec<Value> {
        let filter = &self.filter;
        let mut values = vec![
            filter.state.map(MessageState::as_str).into(),
            filter.lane.clone().into(),
            filter.created_before_ms.into(),
        ];
        values.extend(any_of(self.providers.clone()));
        match destination {
            Some(name) => values.push(name.into()),
            None => values.extend(any_of(self.destinations.clone())),
        }
        values
    }

    /// True when every row of a walk is wanted.
    fn is_everything(&self) -> bool {
        let MessageFilter { state, lane, created_before_ms, .. } = &self.filter;
        state.is_none()
            && lane.is_none()
            && created_before_ms.is_none()
            && self.destinations.is_none()
            && self.providers.is_none()
    }

    /// True when nothing can be found, because what is wanted is out of reach.
    fn is_nothing(&self) -> bool {
        [&self.destinations, &self.providers].into_iter().flatten().any(Vec::is_empty)
    }

    /// The sources that together hold all that is wanted. The queue comes first: a message that is finished meanwhile
    /// is found in the history and shown as finished.
    async fn sources(&self, db: &mut Executor<'_>) -> DbResult<Vec<Source>> {
        let state = self.filter.state;
        if matches!(state, Some(MessageState::Done | MessageState::Discarded)) {
            return Ok(vec![Source::History]);
        }
        let mut sources = self.open_sources(db).await?;
        if state.is_none() {
            sources.push(Source::History);
        }
        Ok(sources)
    }

    async fn open_sources(&self, db: &mut Executor<'_>) -> DbResult<Vec<Source>> {
        if let Some(lane) = &self.filter.lane
            && let Some(names) = self.names(db, LANE_DESTINATIONS).await?
        {
            let mut is_short = true;
            for name in &names {
                let values = [name.into(), lane.into(), (LANE_N_MAX + 1).into()];
                is_short &= db.fetch_one(LANE_LENGTH, &values).await?.int("n")? <= LANE_N_MAX;
            }
            if is_short {
                return Ok(names.into_iter().map(Source::Lane).collect());
            }
        }
        if matches!(self.filter.state, Some(MessageState::Held | MessageState::Dead | MessageState::Waiting))
            && let Some(names) = self.names(db, IS_STUCK).await?
        {
            return Ok(names.into_iter().map(Source::Stuck).collect());
        }
        Ok(vec![Source::Queue])
    }

    /// The destinations that may be shown, or those of an index; `None` where there may be more than are looked at.
    async fn names(&self, db: &mut Executor<'_>, conditions: &str) -> DbResult<Option<Vec<String>>> {
        let Some(names) = &self.destinations else {
            let found = names(db, conditions).await?;
            let is_whole = i64::try_from(found.len()).is_ok_and(|found_n| found_n < DESTINATIONS_N_MAX);
            return Ok(is_whole.then_some(found));
        };
        Ok(Some(names.clone()))
    }

    /// The values of a source's statement: all that is wanted, then these.
    fn values_of(&self, source: &Source, more: &[Value]) -> Vec<Value> {
        let mut values = self.values(source.destination());
        values.extend_from_slice(more);
        values
    }

    /// The newest rows below `before`, from `from` on, at most `limit`.
    async fn page(
        &self,
        db: &mut Executor<'_>,
        source: &Source,
        (before, from): (i64, i64),
        limit: u32,
    ) -> DbResult<Vec<Row>> {
        let values = self.values_of(source, &[before.into(), from.into(), limit.into()]);
        db.fetch(source.page_sql(db.is_postgres()), &values).await
    }

    /// The last of the `looked_n` rows that are to be looked at; `None` when the source ends before.
    async fn bound(
        &self,
        db: &mut Executor<'_>,
        source: &Source,
        before: i64,
        looked_n: i64,
    ) -> DbResult<Option<i64>> {
        let mut values: Vec<Value> = vec![before.into(), looked_n.into()];
        match source {
            Source::Queue | Source::History => {}
            Source::Stuck(name) => {
                values.extend([name.into(), self.filter.state.map(MessageState::as_str).into()]);
            }
            // It was found to be short.
            Source::Lane(_) => return Ok(None),
        }
        let row = db.fetch_one(source.bound_sql(db.is_postgres()), &values).await?;
        let is_full = row.int("n")? >= looked_n;
        Ok(row.int_or_null("last_id")?.filter(|_| is_full))
    }
}

impl Source {
    fn destination(&self) -> Option<&str> {
        match self {
            Self::Queue | Self::History => None,
            Self::Stuck(name) | Self::Lane(name) => Some(name),
        }
    }

    fn table(&self) -> &'static str {
        if *self == Self::History { "outbox_finished" } else { "outbox_queue" }
    }

    /// Conditions of a source, the last ones by the index that it is a range of; and the place of the next value.
    fn conditions(&self) -> (String, usize) {
        let provider = "(SELECT p.provider FROM processed_webhook_events p
            WHERE p.event_seq = q.message_id / 1024)";
        let (own, next) = match self {
            Self::Queue | Self::History => (Wanted::DESTINATION.to_owned(), 8),
            Self::Stuck(_) => (format!("q.destination = $6 AND q.state = $1 AND q.{IS_STUCK}"), 7),
            Self::Lane(_) => ("q.destination = $6 AND q.lane = $2 AND q.lane IS NOT NULL".to_owned(), 7),
        };
        let (wanted, from) = (Wanted::conditions(provider), next + 1);
        (format!("q.message_id < ${next} AND q.message_id >= ${from} AND {wanted} AND {own}"), next + 2)
    }

    fn page_sql(&self, is_postgres: bool) -> String {
        let (mut conditions, limit) = self.conditions();
        let mut order = "q.message_id DESC";
        if is_postgres && matches!(self, Self::Stuck(_)) {
            // Where a state is one value, PostgreSQL may walk all messages by number and leave out those in other
            // states, however many there are. The order by both columns is that of this index alone.
            let ends = "q.destination = $6 AND (q.state, q.message_id) < ($1, $7)
                AND (q.state, q.message_id) >= ($1, $8)";
            conditions = conditions.replace("q.destination = $6 AND q.state = $1", ends);
            order = "q.state DESC, q.message_id DESC";
        }
        let rest = format!("{conditions} ORDER BY {order} LIMIT ${limit}");
        rows_sql("operator_messages", "", self.table(), &rest) + " ORDER BY m.message_id DESC"
    }

    fn bound_sql(&self, is_postgres: bool) -> String {
        let (ends, order) = match self {
            Self::Stuck(_) if is_postgres => {
                ("(state, message_id) < ($4, $1) AND (state, message_id) >= ($4, 0)", "state DESC, ")
            }
            Self::Stuck(_) => ("message_id < $1 AND state = $4", ""),
            _ => ("message_id < $1", ""),
        };
        let more = match self {
            Self::Stuck(_) => format!("AND destination = $3 AND {IS_STUCK}"),
            _ => String::new(),
        };
        format!(
            "/* operator_messages */ SELECT COUNT(*) AS n, MIN(message_id) AS last_id FROM (SELECT message_id
                 FROM {} WHERE {ends} {more} ORDER BY {order}message_id DESC LIMIT $2) x",
            self.table()
        )
    }
}

const LANE_LENGTH: &str =
    "/* operator_messages */ SELECT COUNT(*) AS n FROM (SELECT lane_seq FROM outbox_queue
    WHERE destination = $1 AND lane = $2 AND lane IS NOT NULL LIMIT $3) x";
const IS_DUE: &str = "state IN ('ready', 'leased')";
const LANE_DESTINATIONS: &str = "lane IS NOT NULL";

/// The destinations of rows of the queue that such conditions find. The next name each time: as many looks as there are
/// destinations, however many rows there are.
fn destinations_sql(conditions: &str) -> String {
    format!(
        "/* operator_destinations */ WITH RECURSIVE d AS (
             SELECT (SELECT q.destination FROM outbox_queue q WHERE q.{conditions}
                     ORDER BY q.destination LIMIT 1) AS name
             UNION ALL
             SELECT (SELECT q.destination FROM outbox_queue q WHERE q.{conditions}
                     AND q.destination > d.name ORDER BY q.destination LIMIT 1) FROM d WHERE d.name IS NOT NULL)
         SELECT name FROM d WHERE name IS NOT NULL LIMIT $1"
    )
}

async fn names(db: &mut Executor<'_>, conditions: &str) -> DbResult<Vec<String>> {
    let rows = db.fetch(destinations_sql(conditions), &[DESTINATIONS_N_MAX.into()]).await?;
    Ok(intact("outbox_queue", "name", &rows, |row| row.text("name"))?.rows)
}

/// The destinations that open messages go to, by name.
pub(crate) async fn open_destinations(db: &mut Executor<'_>) -> DbResult<Vec<String>> {
    let mut found = names(db, IS_DUE).await?;
    found.extend(names(db, IS_STUCK).await?);
    Ok(found)
}

/// The destinations that have lanes with open messages, by name.
pub(super) async fn lane_destinations(db: &mut Executor<'_>) -> DbResult<Vec<String>> {
    names(db, LANE_DESTINATIONS).await
}

/// The statements by name, for tests that look at their plans.
#[cfg(any(test, feature = "testing"))]
pub(super) fn statements() -> Vec<super::NamedStatement> {
    let (stuck, lane) = (Source::Stuck(String::new()), Source::Lane(String::new()));
    vec![
        ("messages of the queue", Source::Queue.page_sql(false)),
        ("messages of history", Source::History.page_sql(false)),
        ("messages that are stuck", stuck.page_sql(false)),
        ("messages that are stuck, for PostgreSQL", stuck.page_sql(true)),
        ("messages of a lane", lane.page_sql(false)),
        ("bound of the queue", Source::Queue.bound_sql(false)),
        ("bound of history", Source::History.bound_sql(false)),
        ("bound of what is stuck", stuck.bound_sql(false)),
        ("bound of what is stuck, for PostgreSQL", stuck.bound_sql(true)),
        ("length of a lane", LANE_LENGTH.to_owned()),
        ("destinations of what is stuck", destinations_sql(IS_STUCK)),
        ("destinations of what is due", destinations_sql(IS_DUE)),
        ("destinations of lanes", destinations_sql(LANE_DESTINATIONS)),
    ]
}

impl OperatorQueries {
    /// The newest messages that `filter` finds, older than the one with the id `before`. What a filter cannot find by
    /// an index it finds among so many rows for each page, and says how far it looked.
    pub async fn messages(
        &self,
        filter: MessageFilter,
        before: Option<MessageId>,
        limit: u32,
    ) -> Result<Page<MessageView>, OperatorError> {
        let wanted = self.wanted(filter);
        if wanted.is_nothing() {
            return Ok(Page::whole(Vec::new()));
        }
        let installation_id = self.store.installation_id().await?;
        Ok(alone!(self.store, operators, "operator_messages", |db| {
            page(db, &wanted, before, limit, &installation_id).await
        })?)
    }

    /// One message with its newest attempts and decisions. Access to a destination's response is recorded before the
    /// response is shown.
    pub async fn message(
        &self,
        message_id: MessageId,
        now_ms: UnixMs,
    ) -> Result<MessageDetail, OperatorError> {
        let row = match self.store.message_get(message_id).await {
            // Its provider and destination cannot be read: it is for those who reach everywhere.
            Err(error) if error.is_damaged_row() && !self.principal.is_everywhere() => None,
            row => row?,
        };
        let row = row.ok_or(OperatorError::NotFound)?;
        self.needs_provider(row.key.provider.as_str())?;
        self.needs_destination(&row.destination)?;
        let IntactRows { rows: mut attempts, damaged } = self.store.attempts_of(message_id).await?;
        if !self.may_see_contents() {
            for one in &mut attempts {
                one.response = None;
            }
        }
        let answers_n = attempts.iter().filter(|one| one.response.is_some()).count();
        if answers_n > 0 {
            self.record(vec![self.answer_read(&row.key, message_id, answers_n)], now_ms).await?;
        }
        let decisions =
            alone!(self.store, operators, "operator_decisions", |db| message_decisions(db, message_id)
                .await)?;
        Ok(MessageDetail { message: message_view(row), attempts, decisions, policy: None, damaged })
    }

    fn wanted(&self, filter: MessageFilter) -> Wanted {
        Wanted::new(filter, &self.principal.providers, &self.principal.destinations)
    }

    /// The row of the audit log about the kept answers that are shown of one message.
    pub(super) fn answer_read(&self, key: &EventKey, message_id: MessageId, answers_n: usize) -> AuditEntry {
        let entry = self.entry("answer_read", format!("{answers_n} kept answers"));
        AuditEntry {
            message_id: Some(message_id.number()),
            ..entry.on_event(key.provider.to_string(), &key.event_id)
        }
    }
}

/// The number below which a list begins: that of the page before, or the first one of a time.
async fn start(db: &mut Executor<'_>, before: Option<MessageId>, at_ms: Option<UnixMs>) -> DbResult<i64> {
    let before = before.map_or(i64::MAX, MessageId::number);
    let Some(at_ms) = at_ms else { return Ok(before) };
    Ok(number_after(db, at_ms).await?.saturating_mul(i64::from(MESSAGES_N_MAX)).min(before))
}

async fn page(
    db: &mut Executor<'_>,
    wanted: &Wanted,
    before: Option<MessageId>,
    limit: u32,
    installation_id: &Uuid,
) -> DbResult<Page<MessageView>> {
    let before = start(db, before, wanted.filter.created_before_ms).await?;
    let sources = wanted.sources(db).await?;
    let mut page = Page::whole(Vec::new());
    for looked_n in [(FIRST_LOOKED_N * i64::from(limit)).min(PAGE_LOOKED_N), PAGE_LOOKED_N] {
        let mut from = None;
        if !wanted.is_everything() {
            for source in &sources {
                from = from.max(wanted.bound(db, source, before, looked_n).await?);
            }
        }
        let rows = newest(db, wanted, &sources, (before, from.unwrap_or(0)), limit).await?;
        let messages = message_rows(&rows, installation_id)?;
        page.items = messages.rows.into_iter().map(message_view).collect();
        page.damaged = messages.damaged;
        if rows.len() == limit as usize {
            // A full page may have a next one.
            page.next = rows.last().map(|row| row.key_text("message_id"));
            return Ok(page);
        }
        let Some(from) = from else { return Ok(page) };
        if looked_n == PAGE_LOOKED_N {
            page.next = Some(from.to_string());
            // Numbers follow time but roughly: rows not looked at may have been received a little later.
            let at_ms = received_at_ms(db, MessageId::from_column(from).event_seq()).await?;
            page.looked_back_to_ms = at_ms.map(|at_ms| at_ms.saturating_add(ORDER_MS));
        }
    }
    Ok(page)
}

/// The newest rows of all these sources between two numbers, each message once.
async fn newest(
    db: &mut Executor<'_>,
    wanted: &Wanted,
    sources: &[Source],
    ends: (i64, i64),
    limit: u32,
) -> DbResult<Vec<Row>> {
    let mut found = BTreeMap::new();
    for source in sources {
        for row in wanted.page(db, source, ends, limit).await? {
            found.insert(row.int("message_id")?, row);
        }
    }
    Ok(found.into_values().rev().take(limit as usize).collect())
}

/// A message as operators see it.
pub(crate) fn message_view(row: MessageRow) -> MessageView {
    MessageView {
        message_id: row.message_id,
        synthetic: row.key.is_synthetic(),
        provider: row.key.provider.to_string(),
        event_id: row.key.event_id,
        event_type: row.event_type,
        effect_name: row.effect_name,
        idempotency_key: row.idempotency_key,
        destination: row.destination,
        state: row.state,
        lane: row.lane,
        attempts_n: row.attempts_n,
        generation: row.generation.unsigned_abs(),
        visible_at_ms: row.visible_at_ms,
        created_at_ms: row.created_at_ms,
        first_sent_at_ms: row.first_sent_at_ms,
        key_valid_until_ms: row.key_valid_until_ms,
        finished_at_ms: row.finished_at_ms,
        last_result: row.last_result,
        last_error: row.last_error,
        sent_under: row.sent_under,
        judgement: None,
    }
}

/// Attempts of the messages between the numbers `$1` and `$2`: those that history holds, those under way, and first
/// ones that went well.
pub(super) fn attempts_sql(op: &str, rest: &str) -> String {
    format!(
        "/* {op} */ SELECT * FROM (
             SELECT a.message_id, a.attempt_n, a.node, a.started_at_ms, a.finished_at_ms, a.result, a.http_status,
                 a.error, a.response, a.key_id
             FROM outbox_attempts a WHERE a.message_id >= $1 AND a.message_id < $2
             UNION ALL
             SELECT q.message_id, q.attempts_n, q.node, q.leased_at_ms, NULL, NULL, NULL, NULL, NULL, NULL
             FROM outbox_queue q WHERE q.message_id >= $1 AND q.message_id < $2 AND q.state = 'leased'
             UNION ALL
             SELECT f.message_id, f.attempts_n, f.node, COALESCE(f.first_sent_at_ms, f.created_at_ms), f.finished_at_ms,
                 f.last_result, f.http_status, NULL, NULL, NULL
             FROM outbox_finished f
             WHERE f.message_id >= $1 AND f.message_id < $2 AND f.attempts_n = 1 AND f.last_result = 'done'
               AND NOT EXISTS (SELECT 1 FROM outbox_attempts o WHERE o.message_id = f.message_id AND o.attempt_n = 1)) t
         {rest}"
    )
}

/// Reads an attempt; the piece of its answer that was kept, where there is a key ring and it opens.
pub(super) fn attempt_view(row: &Row, ring: Option<&KeyRing>) -> DbResult<AttemptView> {
    let (attempt_n, key_id) = (row.count("attempt_n")?, row.text_or_null("key_id")?);
    let place = SealedPlace::of_answer(row.int("message_id")?, attempt_n);
    let open = |(ring, stored): (&KeyRing, String)| ring.open_text(key_id.as_deref(), &place, stored).ok();
    let result = row.text_or_null("result")?;
    Ok(AttemptView {
        attempt_n,
        node: row.text_or_null("node")?.unwrap_or_default(),
        started_at_ms: row.int_or_null("started_at_ms")?.unwrap_or_default(),
        finished_at_ms: row.int_or_null("finished_at_ms")?,
        result: result.as_deref().map(attempt_result).transpose()?,
        http_status: row.int_or_null("http_status")?.and_then(|status| u16::try_from(status).ok()),
        error: row.text_or_null("error")?,
        response: ring.zip(row.text_or_null("response")?).and_then(open),
    })
}

/// The result of an attempt by its word.
pub(crate) fn attempt_result(word: &str) -> DbResult<AttemptResult> {
    AttemptResult::parse(word).ok_or_else(|| DbError::decode("result", format_args!("`{word}`")))
}

impl Store {
    /// Returns one message; `None` when there is none.
    pub async fn message_get(&self, message_id: MessageId) -> Result<Option<MessageRow>, StoreError> {
        let installation_id = self.installation_id().await?;
        alone!(self, operators, "message_get", |db| {
            let sql = "/* message_get */ SELECT m.* FROM outbox_messages m WHERE m.message_id = $1";
            let row = db.fetch_optional(sql, &[message_id.number().into()]).await?;
            row.map(|row| MessageRow::from_row(&row, &installation_id)).transpose()
        })
    }

    /// The newest messages that `filter` finds, older than the one with the id `before`.
    pub async fn message_list(
        &self,
        filter: MessageFilter,
        before: Option<MessageId>,
        limit: u32,
    ) -> Result<Vec<MessageRow>, StoreError> {
        let installation_id = self.installation_id().await?;
        let wanted = Wanted::new(filter, &Reach::All, &Reach::All);
        alone!(self, operators, "message_list", |db| {
            let sources = wanted.sources(db).await?;
            let before = before.map_or(i64::MAX, MessageId::number);
            let rows = newest(db, &wanted, &sources, (before, 0), limit).await?;
            Ok(message_rows(&rows, &installation_id)?.rows)
        })
    }

    /// The newest attempts of a message, at most 100.
    #[cfg(any(test, feature = "testing"))]
    pub async fn attempt_list(&self, message_id: MessageId) -> Result<Vec<AttemptView>, StoreError> {
        Ok(self.attempts_of(message_id).await?.rows)
    }

    async fn attempts_of(&self, message_id: MessageId) -> Result<IntactRows<AttemptView>, StoreError> {
        let (ring, number) = (self.ring.clone(), message_id.number());
        alone!(self, operators, "attempt_list", |db| {
            let sql = attempts_sql("attempt_list", "ORDER BY attempt_n DESC LIMIT 100");
            let rows = db.fetch(sql, &[number.into(), number.saturating_add(1).into()]).await?;
            intact("outbox_attempts", "attempt_n", &rows, |row| attempt_view(row, Some(&ring)))
        })
    }
}
