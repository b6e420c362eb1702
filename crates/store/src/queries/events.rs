//! The list of events, a page at a time, and numbers of a time.
//!
//! A page is a walk by number, the newest first: over all events, over those in an open state, over those of one
//! object, or over those whose calls are not finished, each by its own index. The rest of the filter is checked row by
//! row, so one page reads [`LOOK_N`] rows at most, or [`LOOK_APART_N`]; a walk that ends there says where it ended and
//! where to go on. Numbers never change, so rows that arrive meanwhile move nothing from page to page.
//!
//! `since` lists are in the opposite order, the oldest first, and hold back what is younger than [`SETTLE_MS`]: numbers
//! of several nodes are committed in no order, and below a number that is so old no new one can appear. So along a
//! chain of `since` no event is missed and none is listed twice.
//!
//! Events have no index of times. Numbers follow time, but only roughly (`numbers.rs`), so the number of a time is
//! found by bisection, with a margin on the safe side; a caller that needs the exact range compares the times of the
//! rows.

use std::fmt;

use super::{OperatorError, OperatorQueries, any_of};
use crate::db::{DbResult, Executor, Value};
use crate::event::{event_columns, event_views};
use hooklatch_contract::{EventFilter, EventView, Page};
use hooklatch_core::types::{DeliveryFilter, EventState, MESSAGES_N_MAX, MessageState, Reach, UnixMs};

/// Rows that one query looks at, at most, where it has to look for what it wants.
pub(super) const LOOK_N: u32 = 10_000;
/// Rows that it looks at where they are those of an index of few: each of them may be on a page of its own.
pub(super) const LOOK_APART_N: u32 = 2_000;
/// Numbers follow time to within this: a row with a higher number is at most so much older. A block of numbers is
/// used for 10 s, a request waits a few seconds for its number, and nodes' clocks differ by less than the rest.
pub(super) const ORDER_MS: i64 = 20_000;
/// Age from which nothing with a lower number can be committed any more: besides what [`ORDER_MS`] counts there are the
/// handlers' time and the longest transaction. Milliseconds.
const SETTLE_MS: i64 = 60_000;

/// A query for a page of events.
#[derive(Debug, Clone, Default)]
pub struct EventQuery {
    /// Filter that they pass. A list by calls has no `since`, because calls change after their event was received.
    pub filter: EventFilter,
    /// `next` or `since` of an earlier page; `None`: from the newest event down.
    pub place: Option<EventPlace>,
    /// Most rows of the page.
    pub limit: u32,
}

/// A place in the list of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventPlace {
    /// Events with a lower number come next, the newest first.
    Before(i64),
    /// Events with a higher number come next, the oldest first.
    After(i64),
}

impl EventPlace {
    /// Reads what [`EventPlace`] writes; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (way, digits) = text.split_at_checked(1)?;
        // One text for one place: nothing but digits.
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.parse().ok().filter(|_| is_number)?;
        match way {
            "b" => Some(Self::Before(number)),
            "a" => Some(Self::After(number)),
            _ => None,
        }
    }
}

impl fmt::Display for EventPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Before(number) => write!(f, "b{number}"),
            Self::After(number) => write!(f, "a{number}"),
        }
    }
}

/// States in which an event waits for an operator or a retry.
pub(super) const WAITING: [EventState; 4] =
    [EventState::Retry, EventState::Failed, EventState::Unreadable, EventState::Conflict];
/// The text of their index's own condition: only by it SQLite detects that the index has all of them.
pub(crate) const IS_WAITING: &str = "state IN ('retry', 'failed', 'unreadable', 'conflict')";

/// True of the events `e` that the filter finds: `$1` provider, `$2` type, `$3` state, `$4` object, `$5` and `$6` the
/// time, `$7` 1 when `$8` are the only providers that may be seen.
pub(crate) const FOUND: &str =
    "(CAST($1 AS TEXT) IS NULL OR e.provider = $1) AND (CAST($2 AS TEXT) IS NULL OR e.event_type = $2)
    AND (CAST($3 AS TEXT) IS NULL OR e.state = $3) AND (CAST($4 AS TEXT) IS NULL OR e.object = $4)
    AND (CAST($5 AS BIGINT) IS NULL OR e.received_at_ms >= $5)
    AND (CAST($6 AS BIGINT) IS NULL OR e.received_at_ms < $6)
    AND (CAST($7 AS BIGINT) = 0 OR e.provider = ANY($8))";

/// The values of [`FOUND`].
pub(crate) fn filter_values(filter: &EventFilter, providers: Option<Vec<String>>) -> Vec<Value> {
    let mut values = vec![
        filter.provider.clone().into(),
        filter.event_type.clone().into(),
        filter.state.map(EventState::as_str).into(),
        filter.object.clone().into(),
        filter.received_from_ms.into(),
        filter.received_to_ms.into(),
    ];
    values.extend(any_of(providers));
    values
}

/// A walk by number: of a page between `$9` and `$10`, over `$11` rows at most, to its end between `$1` and `$2`, over
/// `$3` rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Walk {
    All,
    /// Of the events in one open state.
    State,
    /// Of the events of one object.
    Object,
    /// Of the calls that are held or dead.
    StuckCalls,
    /// Of the calls that are not finished.
    OpenCalls,
}

const DOWN: &str = "DESC";
const UP: &str = "ASC";

impl Walk {
    fn is_of_calls(self) -> bool {
        matches!(self, Self::StuckCalls | Self::OpenCalls)
    }

    /// Rows that a page looks at, at most.
    fn look_n(self) -> u32 {
        if self == Self::All { LOOK_N } else { LOOK_APART_N }
    }

    /// The rows, with their ends at the value `first`, narrowed by the state or object at the value `alone`.
    fn rows(self, columns: &str, order: &str, (first, alone): (usize, Option<usize>)) -> String {
        let (last, limit) = (first + 1, first + 2);
        let more = match self {
            Self::All | Self::OpenCalls => String::new(),
            Self::State => format!(" AND state = ${} AND {IS_WAITING}", alone.unwrap_or(3)),
            Self::Object => format!(" AND object = ${}", alone.unwrap_or(4)),
            Self::StuckCalls => " AND (state IN ('held', 'dead')) IS TRUE".to_owned(),
        };
        if self.is_of_calls() {
            return format!(
                "(SELECT message_id FROM outbox_queue
                  WHERE message_id >= (${first} + 1) * 1024 AND message_id < ${last} * 1024{more}
                  ORDER BY message_id {order} LIMIT ${limit}) q"
            );
        }
        format!(
            "(SELECT {columns} FROM processed_webhook_events WHERE event_seq > ${first} AND event_seq < ${last}{more}
              ORDER BY event_seq {order} LIMIT ${limit}) e"
        )
    }

    /// Up to `$12` events. By calls: those of which one is in the states `$13`; all calls of each event on the walk are
    /// checked, so that none is missed where a page ends.
    fn page(self, order: &str) -> String {
        let (columns, rows) = (event_columns!(), self.rows("*", order, (9, None)));
        let (rows, more) = if self.is_of_calls() {
            let events = format!(
                "(SELECT * FROM processed_webhook_events
                  WHERE event_seq IN (SELECT q.message_id / 1024 FROM {rows})) e"
            );
            let has_call =
                " AND EXISTS (SELECT 1 FROM outbox_queue s WHERE s.message_id >= e.event_seq * 1024
                AND s.message_id < (e.event_seq + 1) * 1024 AND s.state = ANY($13))";
            (events, has_call)
        } else {
            (rows, "")
        };
        format!(
            "/* event_page */ SELECT {columns} FROM {rows} WHERE {FOUND}{more} ORDER BY e.event_seq {order} LIMIT $12"
        )
    }

    fn end(self, order: &str) -> String {
        let number = if self.is_of_calls() { "q.message_id / 1024" } else { "e.event_seq" };
        let rows = self.rows("event_seq", order, (1, Some(4)));
        format!(
            "/* event_page_end */ SELECT MIN({number}) AS lowest, MAX({number}) AS highest, COUNT(*) AS looked_n
             FROM {rows}"
        )
    }
}

/// The highest number below which everything was received before `$1`, as far as a bisection can find it: the row at it
/// was received before, the next one was not.
fn number_at_sql() -> String {
    // 1 when the row at the middle, or the next one below it, was received before.
    let is_before =
        "COALESCE((SELECT CASE WHEN e.received_at_ms < $1 THEN 1 ELSE 0 END FROM processed_webhook_events e
        WHERE e.event_seq <= (h.low + h.high) / 2 ORDER BY e.event_seq DESC LIMIT 1), 1)";
    format!(
        "/* number_at */ WITH RECURSIVE halves (low, high) AS (
             SELECT (SELECT MIN(event_seq) FROM processed_webhook_events) - 1,
                 (SELECT MAX(event_seq) FROM processed_webhook_events) + 1
             UNION ALL
             SELECT CASE {is_before} WHEN 1 THEN (h.low + h.high) / 2 ELSE h.low END,
                 CASE {is_before} WHEN 1 THEN h.high ELSE (h.low + h.high) / 2 END
             FROM halves h WHERE h.high - h.low > 1)
         SELECT MAX(low) AS low FROM halves"
    )
}

/// The statements by name, for tests that look at their plans.
#[cfg(any(test, feature = "testing"))]
pub(super) fn statements() -> Vec<super::NamedStatement> {
    let mut all: Vec<super::NamedStatement> = vec![("number_at", number_at_sql())];
    let walks = [
        (Walk::All, ["event_page", "event_page_end"]),
        (Walk::State, ["event_page of a state", "event_page_end of a state"]),
        (Walk::Object, ["event_page of an object", "event_page_end of an object"]),
        (Walk::StuckCalls, ["event_page of stuck calls", "event_page_end of stuck calls"]),
        (Walk::OpenCalls, ["event_page of open calls", "event_page_end of open calls"]),
    ];
    for (walk, [page, end]) in walks {
        all.extend([(page, walk.page(DOWN)), (end, walk.end(DOWN))]);
        if !walk.is_of_calls() {
            let since = |name: &str| &*format!("{name} since").leak();
            all.extend([(since(page), walk.page(UP)), (since(end), walk.end(UP))]);
        }
    }
    all
}

impl OperatorQueries {
    /// One page of events; `now_ms` is the caller's clock.
    pub async fn event_page(
        &self,
        query: EventQuery,
        now_ms: UnixMs,
    ) -> Result<Page<EventView>, OperatorError> {
        let (look, place, limit) = (self.look(query.filter)?, query.place, query.limit);
        Ok(snapshot!(self.store, "event_page", |db| event_page(db, &look, place, limit, now_ms).await)?)
    }

    /// The filter with this operator's scope.
    fn look(&self, filter: EventFilter) -> Result<Look, OperatorError> {
        if let Some(provider) = &filter.provider {
            self.needs_provider(provider)?;
        }
        let destinations = self.principal.destinations.clone();
        Ok(Look { filter, scope: self.principal.providers.names(), destinations })
    }
}

/// A filter within the caller's scope.
struct Look {
    filter: EventFilter,
    scope: Option<Vec<String>>,
    /// Destinations whose errors may be seen.
    destinations: Reach,
}

/// True when an event in this state is in the index of those that wait.
pub(crate) fn is_waiting(state: Option<EventState>) -> bool {
    state.is_some_and(|state| WAITING.contains(&state))
}

impl Look {
    /// The walk that reads the fewest rows.
    fn walk(&self) -> Walk {
        match (self.filter.delivery, &self.filter.object) {
            (Some(DeliveryFilter::Open), _) => Walk::OpenCalls,
            (Some(_), _) => Walk::StuckCalls,
            (None, Some(_)) => Walk::Object,
            (None, None) if is_waiting(self.filter.state) => Walk::State,
            (None, None) => Walk::All,
        }
    }

    /// False when no row can be found, whatever there is: no text in a table holds a NUL.
    fn is_possible(&self) -> bool {
        let texts = [&self.filter.provider, &self.filter.event_type, &self.filter.object];
        !texts.into_iter().flatten().any(|text| text.contains('\0'))
    }

    /// The values `$1` to `$11`.
    fn values(&self, range: (i64, i64), look_n: u32) -> Vec<Value> {
        let mut values = filter_values(&self.filter, self.scope.clone());
        values.extend([range.0.into(), range.1.into(), look_n.into()]);
        values
    }

    /// The numbers between which everything lies that the times allow.
    async fn range(&self, db: &mut Executor<'_>) -> DbResult<(i64, i64)> {
        let from = match self.filter.received_from_ms {
            Some(at_ms) => number_before(db, at_ms).await?,
            None => -1,
        };
        let to = match self.filter.received_to_ms {
            Some(at_ms) => number_after(db, at_ms).await?,
            // Beyond it there is no number of a message.
            None if self.walk().is_of_calls() => i64::MAX / i64::from(MESSAGES_N_MAX),
            None => i64::MAX,
        };
        Ok((from, to))
    }

    /// The lowest and the highest number of a walk that was ended by its bound; `None` when it was complete.
    async fn end(
        &self,
        db: &mut Executor<'_>,
        order: &str,
        range: (i64, i64),
    ) -> DbResult<Option<(i64, i64)>> {
        let (walk, filter) = (self.walk(), &self.filter);
        let mut values: Vec<Value> = vec![range.0.into(), range.1.into(), walk.look_n().into()];
        match walk {
            Walk::State => values.push(filter.state.map(EventState::as_str).into()),
            Walk::Object => values.push(filter.object.clone().into()),
            _ => {}
        }
        let row = db.fetch_one(walk.end(order), &values).await?;
        let is_ended = row.int("looked_n")? >= i64::from(walk.look_n());
        if is_ended { Ok(Some((row.int("lowest")?, row.int("highest")?))) } else { Ok(None) }
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
        // Up to this number, all that will ever be there is there.
        _ => Some(number_at(db, now_ms.saturating_sub(SETTLE_MS)).await?),
    };
    let place_after = |seq: i64| EventPlace::After(seq).to_string();
    let mut page = Page { since: settled.map(place_after), ..Page::whole(Vec::new()) };
    if !look.is_possible() {
        return Ok(page);
    }
    let (from, to) = look.range(db).await?;
    let (range, up_from) = match (place, settled) {
        (Some(EventPlace::After(seq)), Some(settled)) => {
            ((from.max(seq), to.min(settled.saturating_add(1))), Some(settled.max(seq)))
        }
        (Some(EventPlace::Before(seq)), _) => ((from, to.min(seq)), None),
        _ => ((from, to), None),
    };
    let (walk, order) = (look.walk(), if up_from.is_some() { UP } else { DOWN });
    let mut values = look.values(range, walk.look_n());
    values.push(limit.saturating_add(1).into());
    if let Some(delivery) = look.filter.delivery {
        values.push(delivery.states().iter().map(MessageState::to_string).collect::<Vec<_>>().into());
    }
    let rows = db.fetch(walk.page(order), &values).await?;
    let shown = rows.get(..limit as usize).unwrap_or(&rows);
    let views = event_views(db, shown, &look.destinations).await?;
    page.items = views.rows.into_iter().map(|(_, view)| view).collect();
    page.damaged = views.damaged;
    // The next page begins behind the last row, also behind one that is damaged.
    let is_full = rows.len() > limit as usize;
    let (last, end) = match shown.last().filter(|_| is_full) {
        Some(row) => (Some(row.int("event_seq")?), None),
        None => (None, look.end(db, order, range).await?),
    };
    if let Some(place) = up_from {
        let more = last.or(end.map(|(_, highest)| highest));
        page.next = more.map(place_after);
        // Back to an earlier place it never goes, whatever the clock does.
        page.since = Some(place_after(more.unwrap_or(place)));
    } else {
        page.next = last.or(end.map(|(lowest, _)| lowest)).map(|seq| EventPlace::Before(seq).to_string());
        if let Some((lowest, _)) = end {
            let at_ms = received_at_ms(db, lowest).await?;
            page.looked_back_to_ms = at_ms.map(|at_ms| at_ms.saturating_add(ORDER_MS));
        }
    }
    Ok(page)
}

/// The time at which the event of this number was received.
pub(super) async fn received_at_ms(db: &mut Executor<'_>, event_seq: i64) -> DbResult<Option<UnixMs>> {
    let sql = "/* event_page_end */ SELECT received_at_ms FROM processed_webhook_events WHERE event_seq = $1";
    db.fetch_optional(sql, &[event_seq.into()]).await?.map(|row| row.int("received_at_ms")).transpose()
}

/// The number up to which every event was received before `at_ms`, less the margin: nothing at or below it was received
/// at `at_ms` or later. 0 when there is none.
pub(super) async fn number_before(db: &mut Executor<'_>, at_ms: UnixMs) -> DbResult<i64> {
    number_at(db, at_ms.saturating_sub(ORDER_MS)).await
}

/// The number from which on every event was received at `at_ms` or later: nothing above it was received before.
pub(super) async fn number_after(db: &mut Executor<'_>, at_ms: UnixMs) -> DbResult<i64> {
    Ok(number_at(db, at_ms.saturating_add(ORDER_MS)).await?.saturating_add(1))
}

async fn number_at(db: &mut Executor<'_>, at_ms: UnixMs) -> DbResult<i64> {
    Ok(db.fetch_one(number_at_sql(), &[at_ms.into()]).await?.int_or_null("low")?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_back_and_nothing_else_is_one() {
        for place in [EventPlace::Before(0), EventPlace::After(4_096), EventPlace::Before(i64::MAX)] {
            assert_eq!(EventPlace::parse(&place.to_string()), Some(place));
        }
        for odd in
            ["", "a", "b", "c1", "b-1", "b+1", "b 1", "1", "b1 ", "a99999999999999999999", "é1", "b1\0"]
        {
            assert_eq!(EventPlace::parse(odd), None, "{odd:?}");
        }
    }
}
