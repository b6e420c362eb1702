//! The list of events, a page at a time, and how many a filter finds.
//!
//! A page is a walk by number, the newest first: over all events, over those in an open state, over those of one
//! object, or over those whose calls are not finished, each by its own index. The rest of the filter is checked row by
//! row, so one page reads [`LOOK_N`] rows at most, or [`LOOK_APART_N`]; a walk that ends there says where it ended and
//! where to go on. Numbers never change, so rows that arrive meanwhile move nothing from page to page.
//!
//! `since` lists are in the opposite order, the oldest first, and hold back what is younger than [`SETTLE_MS`]: numbers
//! of several nodes are committed in no order, and below a number that is so old no new one can appear. So along a
//! chain of `since` no event is missed and none is listed twice.

use super::person::{People, PeopleError};
use super::walk::{EventPlace, LOOK_APART_N, LOOK_N, ORDER_MS, number_after, number_before, number_settled};
use crate::damaged::IntactRows;
use crate::db::{DbResult, Executor, Value};
use crate::event::{event_columns, event_views};
use hooklatch_contract::{CountView, EventFilter, EventView, Page};
use hooklatch_core::types::{DeliveryFilter, EventState, MESSAGES_N_MAX, MessageState, Reach, UnixMs};

/// Most that is counted.
const COUNT_N_MAX: u32 = 100_000;

/// A question for a page of events.
#[derive(Debug, Clone, Default)]
pub struct EventQuery {
    /// Filter that they pass. A list by calls has no `since`, because calls change after their event was received.
    pub filter: EventFilter,
    /// `next` or `since` of an earlier page; `None`: from the newest event down.
    pub place: Option<EventPlace>,
    /// Most rows of the page.
    pub limit: u32,
}

/// True of the rows that the filter finds: `$4` provider, `$5` type, `$6` state, `$7` object, `$8` and `$9` the time,
/// `$10` 1 when `$11` are the only providers that may be seen.
const FOUND: &str =
    "(CAST($4 AS TEXT) IS NULL OR e.provider = $4) AND (CAST($5 AS TEXT) IS NULL OR e.event_type = $5)
    AND (CAST($6 AS TEXT) IS NULL OR e.state = $6) AND (CAST($7 AS TEXT) IS NULL OR e.object = $7)
    AND (CAST($8 AS BIGINT) IS NULL OR e.received_at_ms >= $8)
    AND (CAST($9 AS BIGINT) IS NULL OR e.received_at_ms < $9)
    AND (CAST($10 AS BIGINT) = 0 OR e.provider = ANY($11))";

/// A walk by number between `$1` and `$2`, over `$3` rows at most.
struct Walk {
    /// Rows that a page looks at, at most.
    look_n: u32,
    /// What it is narrowed to, by the filter's values.
    more: &'static str,
    /// The same by that value alone, as `$4`.
    alone: &'static str,
}

const DOWN: &str = "DESC";
const UP: &str = "ASC";

impl Walk {
    fn rows(columns: &str, more: &str, order: &str) -> String {
        format!(
            "(SELECT {columns} FROM processed_webhook_events WHERE event_seq > $1 AND event_seq < $2{more}
              ORDER BY event_seq {order} LIMIT $3) e"
        )
    }

    fn page(&self, order: &str) -> String {
        let (columns, rows) = (event_columns!(), Self::rows("*", self.more, order));
        format!(
            "/* event_page */ SELECT {columns} FROM {rows} WHERE {FOUND} ORDER BY e.event_seq {order} LIMIT $12"
        )
    }

    fn end(&self, order: &str) -> String {
        format!(
            "/* event_page_end */ SELECT MIN(e.event_seq) AS lowest, MAX(e.event_seq) AS highest, COUNT(*) AS looked_n
             FROM {}",
            Self::rows("event_seq", self.alone, order)
        )
    }

    fn count(&self) -> String {
        format!(
            "/* event_count */ SELECT COUNT(*) AS looked_n, COALESCE(SUM(CASE WHEN {FOUND} THEN 1 ELSE 0 END), 0) AS found_n
             FROM {}",
            Self::rows("*", self.more, DOWN)
        )
    }
}

/// Calls between the numbers of events, the newest first, narrowed to those that are stuck or to all that are open.
fn calls(more: &str) -> String {
    format!(
        "(SELECT message_id FROM outbox_queue WHERE message_id >= ($1 + 1) * 1024 AND message_id < $2 * 1024{more}
          ORDER BY message_id DESC LIMIT $3) q"
    )
}

/// The events with calls that are not finished, by the numbers of these: `$12` rows, `$13` the states of which one is
/// wanted. All calls of each event on the walk are checked, so that none is missed where a page ends.
fn calls_page(more: &str) -> String {
    let (columns, calls) = (event_columns!(), calls(more));
    format!(
        "/* event_page */ SELECT {columns} FROM (SELECT * FROM processed_webhook_events
             WHERE event_seq IN (SELECT q.message_id / 1024 FROM {calls})) e
         WHERE {FOUND} AND EXISTS (SELECT 1 FROM outbox_queue s WHERE s.message_id >= e.event_seq * 1024
             AND s.message_id < (e.event_seq + 1) * 1024 AND s.state = ANY($13))
         ORDER BY e.event_seq DESC LIMIT $12"
    )
}

fn calls_end(more: &str) -> String {
    format!(
        "/* event_page_end */ SELECT MIN(q.message_id / 1024) AS lowest, MAX(q.message_id / 1024) AS highest,
             COUNT(*) AS looked_n FROM {}",
        calls(more)
    )
}

const ALL: Walk = Walk { look_n: LOOK_N, more: "", alone: "" };
// The text of the index's own condition: only by it SQLite detects that the index has all of them.
const OPEN: Walk = Walk {
    look_n: LOOK_APART_N,
    more: " AND state = $6 AND state IN ('retry', 'failed', 'unreadable', 'conflict')",
    alone: " AND state = $4 AND state IN ('retry', 'failed', 'unreadable', 'conflict')",
};
const OBJECT: Walk = Walk { look_n: LOOK_APART_N, more: " AND object = $7", alone: " AND object = $4" };
const STUCK: &str = " AND (state IN ('held', 'dead')) IS TRUE";
const UNFINISHED: &str = "";
/// How many are in an open state, and nothing else of them: an index-only scan.
const COUNT_OPEN: &str = "/* event_count */ SELECT COUNT(*) AS looked_n, COUNT(*) AS found_n FROM (
         SELECT event_seq FROM processed_webhook_events
         WHERE state = $1 AND state IN ('retry', 'failed', 'unreadable', 'conflict') LIMIT $2) e";
const RECEIVED_AT: &str =
    "/* event_page_end */ SELECT received_at_ms FROM processed_webhook_events WHERE event_seq = $1";

/// The statements by name, for tests that look at their plans.
pub(crate) fn statements() -> Vec<(&'static str, String)> {
    vec![
        ("event_page", ALL.page(DOWN)),
        ("event_page since", ALL.page(UP)),
        ("event_page of a state", OPEN.page(DOWN)),
        ("event_page of a state since", OPEN.page(UP)),
        ("event_page of an object", OBJECT.page(DOWN)),
        ("event_page of an object since", OBJECT.page(UP)),
        ("event_page of stuck calls", calls_page(STUCK)),
        ("event_page of open calls", calls_page(UNFINISHED)),
        ("event_page_end of stuck calls", calls_end(STUCK)),
        ("event_page_end of open calls", calls_end(UNFINISHED)),
        ("event_page_end", ALL.end(DOWN)),
        ("event_page_end since", ALL.end(UP)),
        ("event_page_end of a state", OPEN.end(DOWN)),
        ("event_page_end of a state since", OPEN.end(UP)),
        ("event_page_end of an object", OBJECT.end(DOWN)),
        ("event_page_end of an object since", OBJECT.end(UP)),
        ("event_count", ALL.count()),
        ("event_count of a state", OPEN.count()),
        ("event_count of a state alone", COUNT_OPEN.to_owned()),
        ("event_count of an object", OBJECT.count()),
    ]
}

impl People {
    /// One page of events; `now_ms` is the caller's clock.
    pub async fn event_page(
        &self,
        query: EventQuery,
        now_ms: UnixMs,
    ) -> Result<Page<EventView>, PeopleError> {
        let look = self.look(query.filter)?;
        let (place, limit, store) = (query.place, query.limit, &self.store);
        Ok(snapshot!(store.event_page(&look, place, limit, now_ms))?)
    }

    /// How many events a filter finds, of the newest [`COUNT_N_MAX`] that it has to look at.
    pub async fn event_count(&self, filter: EventFilter) -> Result<CountView, PeopleError> {
        let look = self.look(filter)?;
        let store = &self.store;
        Ok(snapshot!(store.event_count(&look))?)
    }

    /// The filter with this operator's scope.
    fn look(&self, filter: EventFilter) -> Result<Look, PeopleError> {
        if let Some(provider) = &filter.provider {
            self.needs_provider(provider)?;
        }
        let destinations = self.principal.destinations.clone();
        Ok(Look { filter, scope: self.principal.providers.names(), destinations })
    }
}

/// A filter within the caller's scope.
#[derive(Clone)]
struct Look {
    filter: EventFilter,
    scope: Option<Vec<String>>,
    /// Destinations whose errors may be seen.
    destinations: Reach,
}

impl Look {
    /// The walk that reads the fewest rows, and what it is narrowed to.
    fn walk(&self) -> (&'static Walk, Option<&str>) {
        let is_open = |state: &EventState| {
            matches!(
                state,
                EventState::Retry | EventState::Failed | EventState::Unreadable | EventState::Conflict
            )
        };
        match (self.filter.state.filter(is_open), &self.filter.object) {
            (_, Some(object)) => (&OBJECT, Some(object)),
            (Some(state), None) => (&OPEN, Some(state.as_str())),
            (None, None) => (&ALL, None),
        }
    }

    /// False when no row can be found, whatever there is: no text in a table holds a NUL.
    fn is_possible(&self) -> bool {
        let texts = [&self.filter.provider, &self.filter.event_type, &self.filter.object];
        !texts.into_iter().flatten().any(|text| text.contains('\0'))
    }

    /// The values `$1` to `$11`.
    fn values(&self, range: (i64, i64), look_n: u32) -> Vec<Value> {
        let filter = &self.filter;
        vec![
            range.0.into(),
            range.1.into(),
            look_n.into(),
            filter.provider.clone().into(),
            filter.event_type.clone().into(),
            filter.state.map(EventState::as_str).into(),
            filter.object.clone().into(),
            filter.received_from_ms.into(),
            filter.received_to_ms.into(),
            i64::from(self.scope.is_some()).into(),
            self.scope.clone().unwrap_or_default().into(),
        ]
    }

    /// The numbers between which everything lies that the times allow.
    async fn range(&self, db: &mut Executor<'_>) -> DbResult<(i64, i64)> {
        let from = match self.filter.received_from_ms {
            Some(at_ms) => number_before(db, at_ms).await?,
            None => -1,
        };
        let to = match self.filter.received_to_ms {
            Some(at_ms) => number_after(db, at_ms).await?,
            None => i64::MAX,
        };
        Ok((from, to))
    }
}

async fn event_page(
    db: &mut Executor<'_>,
    look: &Look,
    place: Option<EventPlace>,
    limit: u32,
    now_ms: UnixMs,
) -> DbResult<Page<EventView>> {
    let settled = match place {
        Some(EventPlace::Before(_)) => None,
        _ if look.filter.delivery.is_some() => None,
        _ => Some(number_settled(db, now_ms).await?),
    };
    if !look.is_possible() {
        return Ok(Page {
            since: settled.map(|seq| EventPlace::After(seq).to_string()),
            ..Page::whole(Vec::new())
        });
    }
    let (from, to) = look.range(db).await?;
    if let Some(delivery) = look.filter.delivery {
        let before = if let Some(EventPlace::Before(seq)) = place { seq } else { i64::MAX };
        return page_of_calls(db, look, delivery, (from, to.min(before)), limit).await;
    }
    match (place, settled) {
        (Some(EventPlace::After(seq)), Some(settled)) => {
            page_up(db, look, (from.max(seq), to), UpwardStart { place: seq, settled }, limit).await
        }
        (Some(EventPlace::Before(seq)), _) => page_down(db, look, (from, to.min(seq)), limit).await,
        (_, settled) => {
            let page = page_down(db, look, (from, to), limit).await?;
            Ok(Page { since: settled.map(|seq| EventPlace::After(seq).to_string()), ..page })
        }
    }
}

/// The newest first, from the end of `range` down.
async fn page_down(
    db: &mut Executor<'_>,
    look: &Look,
    range: (i64, i64),
    limit: u32,
) -> DbResult<Page<EventView>> {
    let (walk, alone) = look.walk();
    let mut rows = rows_of(db, walk.page(DOWN), look, range, limit).await?;
    let mut page = rows.page();
    if rows.is_full {
        page.next = rows.last.map(|seq| EventPlace::Before(seq).to_string());
    } else if let Some((lowest, _)) = end_of(db, walk.end(DOWN), walk.look_n, alone, range).await? {
        (page.next, page.looked_back_to_ms) = looked_back(db, lowest).await?;
    }
    Ok(page)
}

/// The place where a walk up begins, and the highest number that is settled.
#[derive(Clone, Copy)]
struct UpwardStart {
    place: i64,
    settled: i64,
}

/// The oldest first, from the beginning of `range` up to what is settled.
async fn page_up(
    db: &mut Executor<'_>,
    look: &Look,
    range: (i64, i64),
    UpwardStart { place, settled }: UpwardStart,
    limit: u32,
) -> DbResult<Page<EventView>> {
    let (walk, alone) = look.walk();
    let range = (range.0, range.1.min(settled.saturating_add(1)));
    let mut rows = rows_of(db, walk.page(UP), look, range, limit).await?;
    let more = if rows.is_full {
        rows.last
    } else {
        end_of(db, walk.end(UP), walk.look_n, alone, range).await?.map(|(_, highest)| highest)
    };
    let place_of = |seq: i64| EventPlace::After(seq).to_string();
    Ok(Page {
        next: more.map(place_of),
        // Back to an earlier place it never goes, whatever the clock does.
        since: Some(place_of(more.unwrap_or_else(|| settled.max(place)))),
        ..rows.page()
    })
}

/// The rows of a page.
struct EventRows {
    events: IntactRows<(i64, EventView)>,
    /// The number of the last one, also of one that is damaged: the next page begins behind it.
    last: Option<i64>,
    /// True when there are more.
    is_full: bool,
}

impl EventRows {
    fn page(&mut self) -> Page<EventView> {
        let events = std::mem::take(&mut self.events);
        let items = events.rows.into_iter().map(|(_, view)| view).collect();
        Page { damaged: events.damaged, ..Page::whole(items) }
    }
}

/// Up to `limit` rows.
async fn rows_of(
    db: &mut Executor<'_>,
    sql: String,
    look: &Look,
    range: (i64, i64),
    limit: u32,
) -> DbResult<EventRows> {
    let mut values = look.values(range, look.walk().0.look_n);
    values.push(limit.saturating_add(1).into());
    viewed(db, look, sql, &values, limit).await
}

/// The same of any statement.
async fn viewed(
    db: &mut Executor<'_>,
    look: &Look,
    sql: String,
    values: &[Value],
    limit: u32,
) -> DbResult<EventRows> {
    let rows = db.fetch(sql, values).await?;
    let is_full = rows.len() > limit as usize;
    let shown = rows.get(..limit as usize).unwrap_or(&rows);
    let last = shown.last().map(|row| row.int("event_seq")).transpose()?;
    Ok(EventRows { events: event_views(db, shown, &look.destinations).await?, last, is_full })
}

/// Events that have such calls, the newest first, from the end of `range` down.
async fn page_of_calls(
    db: &mut Executor<'_>,
    look: &Look,
    delivery: DeliveryFilter,
    range: (i64, i64),
    limit: u32,
) -> DbResult<Page<EventView>> {
    let calls = if delivery == DeliveryFilter::Open { UNFINISHED } else { STUCK };
    // Beyond it there is no number of a message.
    let range = (range.0, range.1.min(i64::MAX / i64::from(MESSAGES_N_MAX)));
    let states: Vec<String> = delivery.states().iter().map(MessageState::to_string).collect();
    let mut values = look.values(range, LOOK_APART_N);
    values.extend([limit.saturating_add(1).into(), states.into()]);
    let mut rows = viewed(db, look, calls_page(calls), &values, limit).await?;
    let mut page = rows.page();
    if rows.is_full {
        page.next = rows.last.map(|seq| EventPlace::Before(seq).to_string());
    } else if let Some((lowest, _)) = end_of(db, calls_end(calls), LOOK_APART_N, None, range).await? {
        (page.next, page.looked_back_to_ms) = looked_back(db, lowest).await?;
    }
    Ok(page)
}

/// Where a walk that was ended by its bound goes on, and the time to which it surely looked.
async fn looked_back(db: &mut Executor<'_>, lowest: i64) -> DbResult<(Option<String>, Option<UnixMs>)> {
    let at_ms = db.fetch_optional(RECEIVED_AT, &[lowest.into()]).await?;
    let at_ms = at_ms.map(|row| row.int("received_at_ms")).transpose()?;
    Ok((Some(EventPlace::Before(lowest).to_string()), at_ms.map(|at_ms| at_ms.saturating_add(ORDER_MS))))
}

/// The lowest and the highest number of a walk that was ended by its bound; `None` when it was complete.
async fn end_of(
    db: &mut Executor<'_>,
    sql: String,
    look_n: u32,
    alone: Option<&str>,
    range: (i64, i64),
) -> DbResult<Option<(i64, i64)>> {
    let mut values: Vec<Value> = vec![range.0.into(), range.1.into(), look_n.into()];
    values.extend(alone.map(Value::from));
    let row = db.fetch_one(sql, &values).await?;
    if row.int("looked_n")? < i64::from(look_n) {
        return Ok(None);
    }
    Ok(Some((row.int("lowest")?, row.int("highest")?)))
}

async fn event_count(db: &mut Executor<'_>, look: &Look) -> DbResult<CountView> {
    if !look.is_possible() {
        return Ok(CountView { counted_n: 0, is_more: false });
    }
    let look_n = COUNT_N_MAX + 1;
    let alone = EventFilter { state: look.filter.state, ..EventFilter::default() };
    let row = match look.walk() {
        (_, Some(state)) if look.filter == alone && look.scope.is_none() => {
            db.fetch_one(COUNT_OPEN, &[state.into(), look_n.into()]).await?
        }
        (walk, _) => {
            let range = look.range(db).await?;
            db.fetch_one(walk.count(), &look.values(range, look_n)).await?
        }
    };
    let found_n = row.int("found_n")?.min(i64::from(COUNT_N_MAX));
    Ok(CountView { counted_n: found_n.unsigned_abs(), is_more: row.int("looked_n")? >= i64::from(look_n) })
}
