//! Messages as an operator sees them: lists a page at a time, and counts, both bounded in rows read.
//!
//! The sources of messages: each source is a range of an index, read from its newest row down.
//!
//! A statement first finds the row so many rows further down, then everything between is read: rows that a filter
//! excludes cost a bounded number of reads.
//!
//! One message as an operator sees it: its attempts, with the responses kept for those who may see contents, and the
//! decisions about it.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::person::{People, PeopleError, within};
use super::tokens::people_decisions;
use super::walk::{ORDER_MS, number_after};
use crate::audit::{AuditEntry, append};
use crate::damaged::intact;
use crate::db::{DbResult, Executor, Row, Value};
use crate::look::AttemptRow;
use crate::message::{MessageRow, message_rows};
use hooklatch_contract::{AttemptView, CountView, MessageDetail, MessageFilter, MessageView, Page};
use hooklatch_core::types::{EventKey, MESSAGES_N_MAX, MessageId, MessageState, UnixMs};

/// Rows that one page looks at in each of its sources, at most.
const PAGE_LOOKED_N: i64 = 10_000;
/// Rows that a count looks at, in all its sources together.
const COUNT_LOOKED_N: i64 = 100_000;
/// Rows that a page looks at first, for each that it shows: most filters find enough among them.
const FIRST_LOOKED_N: i64 = 4;

impl People {
    /// The newest messages that `filter` finds, older than the one with the id `before`. What a filter cannot find by
    /// an index it finds among so many rows for each page, and says how far it looked.
    pub async fn messages(
        &self,
        filter: MessageFilter,
        before: Option<MessageId>,
        limit: u32,
    ) -> Result<Page<MessageView>, PeopleError> {
        let wanted = self.wanted(filter);
        if wanted.is_nothing() {
            return Ok(Page::whole(Vec::new()));
        }
        let (store, installation_id) = (&self.store, self.store.installation_id().await?);
        let found = alone!(store.people.people_messages(&wanted, before, limit, &installation_id));
        Ok(found?)
    }

    /// Counts the messages that `filter` finds; its state should be set.
    pub async fn messages_count(&self, filter: MessageFilter) -> Result<CountView, PeopleError> {
        let wanted = self.wanted(filter);
        if wanted.is_nothing() {
            return Ok(CountView { counted_n: 0, is_more: false });
        }
        let store = &self.store;
        Ok(alone!(store.people.people_count(&wanted))?)
    }

    fn wanted(&self, filter: MessageFilter) -> Wanted {
        Wanted {
            destinations: within(&self.principal.destinations, filter.destination.as_deref()),
            providers: within(&self.principal.providers, filter.provider.as_deref()),
            filter,
        }
    }
}

/// The number below which a list begins: that of the page before, or the first one of a time.
async fn start(db: &mut Executor<'_>, before: Option<MessageId>, at_ms: Option<UnixMs>) -> DbResult<i64> {
    let before = before.map_or(i64::MAX, MessageId::number);
    let Some(at_ms) = at_ms else { return Ok(before) };
    Ok(number_after(db, at_ms).await?.saturating_mul(i64::from(MESSAGES_N_MAX)).min(before))
}

async fn people_messages(
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
                from = from.max(wanted.bound(db, source, before, looked_n).await?.1);
            }
        }
        let mut found = BTreeMap::new();
        for source in &sources {
            for row in wanted.page(db, source, (before, from.unwrap_or(0)), limit).await? {
                found.insert(row.int("message_id")?, row);
            }
        }
        let rows: Vec<(i64, Row)> = found.into_iter().rev().take(limit as usize).collect();
        let last = rows.last().map(|(message_id, _)| message_id.to_string());
        let (is_full, rows): (bool, Vec<Row>) =
            (rows.len() == limit as usize, rows.into_iter().map(|(_, row)| row).collect());
        let messages = message_rows(&rows, installation_id)?;
        page.items = messages.rows.into_iter().map(message_view).collect();
        page.damaged = messages.damaged;
        if is_full {
            // A full page may have a next one.
            page.next = last;
            return Ok(page);
        }
        let Some(from) = from else { return Ok(page) };
        if looked_n == PAGE_LOOKED_N {
            page.next = Some(from.to_string());
            // Numbers follow time but roughly: rows not looked at may have been received a little later.
            let at_ms = event_received_at_ms(db, from).await?;
            page.looked_back_to_ms = at_ms.map(|at_ms| at_ms.saturating_add(ORDER_MS));
        }
    }
    Ok(page)
}

/// The time when the event of a message was received.
async fn event_received_at_ms(db: &mut Executor<'_>, message_id: i64) -> DbResult<Option<UnixMs>> {
    let sql =
        "/* people_messages */ SELECT received_at_ms FROM processed_webhook_events WHERE event_seq = $1";
    let event_seq = MessageId::from_column(message_id).event_seq();
    db.fetch_optional(sql, &[event_seq.into()]).await?.map(|row| row.int("received_at_ms")).transpose()
}

async fn people_count(db: &mut Executor<'_>, wanted: &Wanted) -> DbResult<CountView> {
    let before = start(db, None, wanted.filter.created_before_ms).await?;
    let (mut counted_n, mut left_n, mut is_more) = (0, COUNT_LOOKED_N, false);
    for source in &wanted.sources(db).await? {
        let (looked_n, from) = wanted.bound(db, source, before, left_n).await?;
        counted_n += wanted.count(db, source, (before, from.unwrap_or(0))).await?;
        left_n -= looked_n;
        is_more |= from.is_some();
        if left_n <= 0 {
            is_more = true;
            break;
        }
    }
    Ok(CountView { counted_n: counted_n.unsigned_abs(), is_more })
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

/// Most destinations that are looked at one by one.
const DESTINATIONS_N_MAX: i64 = 1_000;
/// Longest lane that is read as such; longer ones are found by walking.
const LANE_N_MAX: i64 = 10_000;

/// The filter, with what the caller may see.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub filter: MessageFilter,
    /// Destinations that may be shown; `None` for all.
    pub destinations: Option<Vec<String>>,
    /// Providers that may be shown; `None` for all.
    pub providers: Option<Vec<String>>,
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
const WANTED: &str = "q.message_id < $1 AND q.message_id >= $2 AND (CAST($3 AS TEXT) IS NULL OR q.state = $3)
    AND (CAST($4 AS TEXT) IS NULL OR q.lane = $4) AND (CAST($5 AS BIGINT) IS NULL OR q.created_at_ms < $5)
    AND (CAST($6 AS BIGINT) = 0 OR (SELECT p.provider FROM processed_webhook_events p
         WHERE p.event_seq = q.message_id / 1024) = ANY($7))";

impl MessageSource {
    fn table(&self) -> &'static str {
        if *self == Self::History { "outbox_finished" } else { "outbox_queue" }
    }

    /// What holds besides, by the index that the source is a range of. SQLite takes a partial index for its own words
    /// alone.
    fn conditions(&self) -> &'static str {
        match self {
            Self::Queue | Self::History => "(CAST($8 AS BIGINT) = 0 OR q.destination = ANY($9))",
            Self::Stuck(_) => {
                "q.destination = $8 AND q.state = $3 AND q.state IN ('held', 'dead', 'waiting')"
            }
            Self::Lane(_) => "q.destination = $8 AND q.lane = $4 AND q.lane IS NOT NULL",
        }
    }

    fn page_sql(&self, is_postgres: bool) -> String {
        // Where a state is one value, PostgreSQL may walk all messages by number and leave out those in other states,
        // however many there are. The order by both columns is that of this index alone.
        let (conditions, order) = if is_postgres && matches!(self, Self::Stuck(_)) {
            let ends = "q.destination = $8 AND (q.state, q.message_id) < ($3, $1)
                AND (q.state, q.message_id) >= ($3, $2) AND q.state IN ('held', 'dead', 'waiting')";
            (ends, "q.state DESC, q.message_id DESC")
        } else {
            (self.conditions(), "q.message_id DESC")
        };
        let own = if *self == Self::History {
            "q.finished_at_ms AS visible_at_ms, CAST(NULL AS BIGINT) AS key_valid_until_ms, q.finished_at_ms,
             CAST(NULL AS TEXT) AS sent_under"
        } else {
            "q.visible_at_ms, q.key_valid_until_ms, CAST(NULL AS BIGINT) AS finished_at_ms, q.sent_under"
        };
        let (table, limit) = (self.table(), if self.destination().is_some() { "$9" } else { "$10" });
        format!(
            "/* people_messages */ SELECT m.*, e.provider, e.event_id, e.event_type
             FROM (SELECT q.message_id, q.generation, COALESCE(q.effect_name, q.destination) AS effect_name,
                          q.destination, q.lane, q.state, q.attempts_n, q.created_at_ms, q.first_sent_at_ms,
                          q.last_result, q.last_error, {own}
                   FROM {table} q WHERE {WANTED} AND {conditions} ORDER BY {order} LIMIT {limit}) m
             JOIN processed_webhook_events e ON e.event_seq = m.message_id / 1024 ORDER BY m.message_id DESC"
        )
    }

    fn count_sql(&self) -> String {
        let (table, conditions) = (self.table(), self.conditions());
        format!("/* people_count */ SELECT COUNT(*) AS n FROM {table} q WHERE {WANTED} AND {conditions}")
    }

    fn bound_sql(&self, is_postgres: bool) -> String {
        let stuck = "AND destination = $3 AND state IN ('held', 'dead', 'waiting')";
        let (ends, more, order) = match self {
            Self::Stuck(_) if is_postgres => {
                ("(state, message_id) < ($4, $1) AND (state, message_id) >= ($4, 0)", stuck, "state DESC, ")
            }
            Self::Stuck(_) => ("message_id < $1 AND state = $4", stuck, ""),
            _ => ("message_id < $1", "", ""),
        };
        format!(
            "/* people_messages */ SELECT COUNT(*) AS n, MIN(message_id) AS last_id FROM (SELECT message_id
                 FROM {} WHERE {ends} {more} ORDER BY {order}message_id DESC LIMIT $2) x",
            self.table()
        )
    }
}

const LANE_LENGTH: &str = "/* people_messages */ SELECT COUNT(*) AS n FROM (SELECT lane_seq FROM outbox_queue
    WHERE destination = $1 AND lane = $2 AND lane IS NOT NULL LIMIT $3) x";
/// The destinations of rows of the queue that such conditions find. The next name each time: as many looks as there are
/// destinations, however many rows there are.
fn destinations_sql(conditions: &str) -> String {
    format!(
        "/* people_destinations */ WITH RECURSIVE d AS (
             SELECT (SELECT q.destination FROM outbox_queue q WHERE {conditions}
                     ORDER BY q.destination LIMIT 1) AS name
             UNION ALL
             SELECT (SELECT q.destination FROM outbox_queue q WHERE {conditions}
                     AND q.destination > d.name ORDER BY q.destination LIMIT 1) FROM d WHERE d.name IS NOT NULL)
         SELECT name FROM d WHERE name IS NOT NULL LIMIT $1"
    )
}
const STUCK_DESTINATIONS: &str = "q.state IN ('held', 'dead', 'waiting')";
const DUE_DESTINATIONS: &str = "q.state IN ('ready', 'leased')";
const LANE_DESTINATIONS: &str = "q.lane IS NOT NULL";

/// The statements by name, for tests that look at their plans.
pub(crate) fn statements() -> Vec<(&'static str, String)> {
    let (stuck, lane) = (MessageSource::Stuck(String::new()), MessageSource::Lane(String::new()));
    vec![
        ("messages of the queue", MessageSource::Queue.page_sql(false)),
        ("messages of history", MessageSource::History.page_sql(false)),
        ("messages that are stuck", stuck.page_sql(false)),
        ("messages that are stuck, for PostgreSQL", stuck.page_sql(true)),
        ("messages of a lane", lane.page_sql(false)),
        ("count of the queue", MessageSource::Queue.count_sql()),
        ("count of history", MessageSource::History.count_sql()),
        ("count of what is stuck", stuck.count_sql()),
        ("count of a lane", lane.count_sql()),
        ("bound of the queue", MessageSource::Queue.bound_sql(false)),
        ("bound of history", MessageSource::History.bound_sql(false)),
        ("bound of what is stuck", stuck.bound_sql(false)),
        ("bound of what is stuck, for PostgreSQL", stuck.bound_sql(true)),
        ("length of a lane", LANE_LENGTH.to_owned()),
        ("destinations of what is stuck", destinations_sql(STUCK_DESTINATIONS)),
        ("destinations of what is due", destinations_sql(DUE_DESTINATIONS)),
        ("destinations of lanes", destinations_sql(LANE_DESTINATIONS)),
    ]
}

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
    pub(crate) async fn sources(&self, db: &mut Executor<'_>) -> DbResult<Vec<MessageSource>> {
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

    async fn open(&self, db: &mut Executor<'_>) -> DbResult<Vec<MessageSource>> {
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
    async fn names(&self, db: &mut Executor<'_>, conditions: &str) -> DbResult<Vec<String>> {
        match &self.destinations {
            Some(names) => Ok(names.clone()),
            None => names(db, conditions).await,
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
    pub(crate) async fn page(
        &self,
        db: &mut Executor<'_>,
        source: &MessageSource,
        (before, from): (i64, i64),
        limit: u32,
    ) -> DbResult<Vec<Row>> {
        let mut values = self.values(source, before, from);
        values.push(limit.into());
        db.fetch(source.page_sql(db.is_postgres()), &values).await
    }

    /// The number of rows between these ends.
    pub(crate) async fn count(
        &self,
        db: &mut Executor<'_>,
        source: &MessageSource,
        (before, from): (i64, i64),
    ) -> DbResult<i64> {
        db.fetch_one(source.count_sql(), &self.values(source, before, from)).await?.int("n")
    }

    /// Number of rows that are to be looked at, at most `looked_n`, and the last one of so many; `None` when the source
    /// ends before.
    pub(crate) async fn bound(
        &self,
        db: &mut Executor<'_>,
        source: &MessageSource,
        before: i64,
        looked_n: i64,
    ) -> DbResult<(i64, Option<i64>)> {
        let mut values: Vec<Value> = vec![before.into(), looked_n.into()];
        match source {
            MessageSource::Queue | MessageSource::History => {}
            MessageSource::Stuck(name) => {
                values.extend([name.into(), self.filter.state.map(MessageState::as_str).into()]);
            }
            // It was found to be short.
            MessageSource::Lane(_) => return Ok((0, None)),
        }
        let row = db.fetch_one(source.bound_sql(db.is_postgres()), &values).await?;
        let found_n = row.int("n")?;
        Ok((found_n, row.int_or_null("last_id")?.filter(|_| found_n >= looked_n)))
    }
}

async fn names(db: &mut Executor<'_>, conditions: &str) -> DbResult<Vec<String>> {
    let rows = db.fetch(destinations_sql(conditions), &[DESTINATIONS_N_MAX.into()]).await?;
    Ok(intact("outbox_queue", "name", &rows, |row| row.text("name"))?.rows)
}

/// The destinations that open messages go to, by name.
pub(crate) async fn open_destinations(db: &mut Executor<'_>) -> DbResult<Vec<String>> {
    let mut found = names(db, DUE_DESTINATIONS).await?;
    found.extend(names(db, STUCK_DESTINATIONS).await?);
    Ok(found)
}

/// The destinations that have lanes with open messages, by name.
pub(super) async fn lane_destinations(db: &mut Executor<'_>) -> DbResult<Vec<String>> {
    names(db, LANE_DESTINATIONS).await
}

impl People {
    /// One message with its newest attempts and decisions. Access to a destination's response is recorded before the
    /// response is shown.
    pub async fn message(&self, message_id: MessageId, now_ms: UnixMs) -> Result<MessageDetail, PeopleError> {
        let row = match self.store.message_get(message_id).await {
            // Whose it is cannot be read: it is for those who reach everywhere.
            Err(error) if error.is_damaged_row() && !self.principal.is_everywhere() => None,
            row => row?,
        };
        let row = row.ok_or(PeopleError::NotFound)?;
        self.needs_provider(row.key.provider.as_str())?;
        self.needs_destination(&row.destination)?;
        let found = self.store.attempts_of(message_id).await?;
        let mut attempts: Vec<AttemptView> = found.rows.into_iter().map(attempt_view).collect();
        if !self.may_see_contents() {
            for one in &mut attempts {
                one.response = None;
            }
        }
        let answers_n = attempts.iter().filter(|one| one.response.is_some()).count();
        if answers_n > 0 {
            let store = &self.store;
            let entries = [self.answer_read(&row.key, message_id, answers_n)];
            together!(store.deciding.contents_audit(&entries, now_ms))?;
        }
        let store = &self.store;
        let decisions = alone!(store.people.people_decisions(message_id))?;
        Ok(MessageDetail {
            message: message_view(row),
            attempts,
            decisions,
            policy: None,
            damaged: found.damaged,
        })
    }

    /// What the audit log is to tell of the kept answers that are shown of one message.
    pub(super) fn answer_read(&self, key: &EventKey, message_id: MessageId, answers_n: usize) -> AuditEntry {
        AuditEntry {
            actor: self.actor(),
            action: "answer_read",
            provider: Some(key.provider.to_string()),
            event_id: Some(key.event_id.clone()),
            message_id: Some(message_id.number()),
            detail: format!("{answers_n} kept answers"),
            ..AuditEntry::default()
        }
    }
}

/// An attempt as those see it who may see contents.
pub(super) fn attempt_view(row: AttemptRow) -> AttemptView {
    AttemptView {
        attempt_n: row.attempt_n,
        node: row.node,
        started_at_ms: row.started_at_ms,
        finished_at_ms: row.finished_at_ms,
        result: row.result,
        http_status: row.http_status.and_then(|status| u16::try_from(status).ok()),
        error: row.error,
        response: row.response,
    }
}

/// Records in the audit log what is about to be shown.
pub(super) async fn contents_audit(
    db: &mut Executor<'_>,
    entries: &[AuditEntry],
    now_ms: UnixMs,
) -> DbResult<()> {
    append(db, now_ms, entries).await
}
