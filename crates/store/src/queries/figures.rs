//! Figures for operators: failures by their cause, and hourly counts of the nodes.
//!
//! Causes are counted from the newest row down, so many rows at most: nothing is counted on the way in. Hours are
//! counted by the nodes, each of which adds its own.

use std::collections::BTreeMap;

use super::events::{IS_WAITING, LOOK_APART_N};
use super::{OperatorError, OperatorQueries, any_of};
use crate::damaged::intact;
use crate::db::{DbResult, Row, StoreError, Value};
use crate::handle::Store;
use hooklatch_contract::{ActivityCount, ActivityView, CauseView, StuckSubject};
use hooklatch_core::types::{Name, Reach, UnixMs};

/// Most causes of each kind.
const CAUSES_N_MAX: u32 = 10;
/// Most hours that are answered one by one.
const HOURS_N_MAX: u32 = 168;
const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// Rows `x` with the same name, state and error counted together: `$1` how many of the newest rows are looked at, `$2`
/// how many causes are returned, `$3` 1 when the providers in `$4` are the only ones that may be seen; of messages,
/// `$5` and `$6` likewise for destinations.
fn causes_sql(subject: StuckSubject) -> String {
    let (name, error, at_ms, rows, seen) = match subject {
        StuckSubject::Events => (
            "x.provider",
            "x.error",
            "x.received_at_ms",
            format!(
                "provider, state, error, received_at_ms FROM processed_webhook_events
                 WHERE state = 'failed' AND {IS_WAITING} ORDER BY state DESC, event_seq DESC LIMIT $1"
            ),
            "CAST($3 AS BIGINT) = 0 OR x.provider = ANY($4)",
        ),
        StuckSubject::Messages => (
            "x.destination",
            "x.last_error",
            "x.created_at_ms",
            "message_id, destination, state, last_error, created_at_ms FROM outbox_queue
             WHERE (state IN ('held', 'dead')) IS TRUE ORDER BY message_id DESC LIMIT $1"
                .to_owned(),
            "(CAST($3 AS BIGINT) = 0 OR (SELECT e.provider FROM processed_webhook_events e
                 WHERE e.event_seq = x.message_id / 1024) = ANY($4))
             AND (CAST($5 AS BIGINT) = 0 OR x.destination = ANY($6))",
        ),
    };
    format!(
        "/* operator_causes */ SELECT {name} AS name, x.state, {error} AS error, COUNT(*) AS n,
             MIN({at_ms}) AS oldest_ms, MAX({at_ms}) AS newest_ms
         FROM (SELECT {rows}) x WHERE {seen}
         GROUP BY {name}, x.state, {error} ORDER BY n DESC, newest_ms DESC LIMIT $2"
    )
}

const ACTIVITY: &str = "/* activity */ SELECT hour_ms - hour_ms % $2 AS at_ms, subject, name, outcome,
        CAST(SUM(counted_n) AS BIGINT) AS counted_n
    FROM activity WHERE hour_ms >= $1 GROUP BY hour_ms - hour_ms % $2, subject, name, outcome
    ORDER BY at_ms, subject, name, outcome";

/// The statements by name, for tests that look at their plans.
#[cfg(any(test, feature = "testing"))]
pub(super) fn statements() -> Vec<super::NamedStatement> {
    vec![
        ("causes of events", causes_sql(StuckSubject::Events)),
        ("causes of messages", causes_sql(StuckSubject::Messages)),
        ("activity", ACTIVITY.to_owned()),
    ]
}

/// What is counted: requests of providers, or attempts for destinations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ActivitySubject {
    /// Requests.
    Provider,
    /// Attempts.
    Destination,
}

impl ActivitySubject {
    fn as_str(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Destination => "destination",
        }
    }
}

/// Numbers by subject, name and outcome.
pub type ActivityCounts = BTreeMap<(ActivitySubject, Name, &'static str), u64>;

/// The activity that an operator requests.
#[derive(Debug, Clone, Default)]
pub struct ActivityQuery {
    /// This provider alone.
    pub provider: Option<Name>,
    /// This destination alone.
    pub destination: Option<Name>,
    /// Hours to look back, the one under way included.
    pub hours_n: u32,
}

impl OperatorQueries {
    /// The commonest causes for which events failed and messages need a decision, in reach, the commonest first.
    pub async fn causes(&self) -> Result<Vec<CauseView>, OperatorError> {
        let mut values: Vec<Value> = vec![LOOK_APART_N.into(), CAUSES_N_MAX.into()];
        values.extend(any_of(self.principal.providers.names()));
        let of_events = values.clone();
        values.extend(any_of(self.principal.destinations.names()));
        Ok(snapshot!(self.store, "operator_causes", |db| {
            let mut found = Vec::new();
            for (table, subject, values) in [
                ("processed_webhook_events", StuckSubject::Events, of_events),
                ("outbox_queue", StuckSubject::Messages, values),
            ] {
                let rows = db.fetch(causes_sql(subject), &values).await?;
                found.extend(intact(table, "name", &rows, |row| cause(row, subject))?.rows);
            }
            found.sort_by_key(|one| std::cmp::Reverse(one.counted_n));
            Ok(found)
        })?)
    }

    /// What the nodes counted, and, in the hour under way, what this node did not add yet (`unsaved`): of every name in
    /// scope, or of what is named. Attempts are counted of all providers together, for tokens that reach all of them.
    pub async fn activity(
        &self,
        query: &ActivityQuery,
        unsaved: ActivityCounts,
        now_ms: UnixMs,
    ) -> Result<ActivityView, OperatorError> {
        let step_ms = if query.hours_n > HOURS_N_MAX { DAY_MS } else { HOUR_MS };
        let begin = |at_ms: i64| at_ms - at_ms.rem_euclid(step_ms);
        let from_ms = begin(now_ms - i64::from(query.hours_n.max(1) - 1) * HOUR_MS);
        let found = alone!(self.store, reader, "activity", |db| {
            let rows = db.fetch(ACTIVITY, &[from_ms.into(), step_ms.into()]).await?;
            Ok(intact("activity", "name", &rows, activity_row)?.rows)
        })?;
        let mut rows: BTreeMap<_, u64> = found.into_iter().collect();
        for ((subject, name, outcome), counted_n) in unsaved {
            let key = (begin(now_ms), subject.as_str().to_owned(), name.to_string(), outcome.to_owned());
            *rows.entry(key).or_default() += counted_n;
        }
        let mut view = ActivityView { from_ms, now_ms, step_ms, requests: Vec::new(), attempts: Vec::new() };
        let principal = &self.principal;
        let is_narrow = query.provider.is_some() || query.destination.is_some();
        let is_shown = |reach: &Reach, named: Option<&Name>, name: &str| {
            reach.has(name) && named.map_or(!is_narrow, |named| named.as_str() == name)
        };
        for ((at_ms, subject, name, outcome), counted_n) in rows {
            let is_request = subject == ActivitySubject::Provider.as_str();
            let count = ActivityCount { at_ms, name, outcome, counted_n };
            if is_request && is_shown(&principal.providers, query.provider.as_ref(), &count.name) {
                view.requests.push(count);
            } else if !is_request
                && principal.providers == Reach::All
                && is_shown(&principal.destinations, query.destination.as_ref(), &count.name)
            {
                view.attempts.push(count);
            }
        }
        Ok(view)
    }
}

fn cause(row: &Row, subject: StuckSubject) -> DbResult<CauseView> {
    Ok(CauseView {
        subject,
        name: row.text("name")?,
        state: row.text("state")?,
        error: row.text_or_null("error")?,
        counted_n: row.int("n")?.unsigned_abs(),
        oldest_at_ms: row.int("oldest_ms")?,
        newest_at_ms: row.int("newest_ms")?,
    })
}

/// A count by time, subject, name and outcome.
fn activity_row(row: &Row) -> DbResult<((UnixMs, String, String, String), u64)> {
    let key = (row.int("at_ms")?, row.text("subject")?, row.text("name")?, row.text("outcome")?);
    Ok((key, row.int("counted_n")?.unsigned_abs()))
}

impl Store {
    /// Adds these counts to those of all nodes in the hour of `now_ms`.
    pub async fn activity_add(&self, counts: ActivityCounts, now_ms: UnixMs) -> Result<(), StoreError> {
        if counts.is_empty() {
            return Ok(());
        }
        let hour_ms = now_ms - now_ms.rem_euclid(HOUR_MS);
        together!(self, writer, "activity_add", |db| {
            let sql =
                "/* activity_add */ INSERT INTO activity AS a (hour_ms, subject, name, outcome, counted_n)
                VALUES ($1, $2, $3, $4, $5) ON CONFLICT (hour_ms, subject, name, outcome)
                DO UPDATE SET counted_n = a.counted_n + excluded.counted_n";
            // In the order of their keys, so that two nodes do not wait for each other.
            for ((subject, name, outcome), counted_n) in &counts {
                let counted_n = i64::try_from(*counted_n).unwrap_or(i64::MAX);
                let (subject, name) = (subject.as_str().into(), name.as_str().into());
                db.execute(sql, &[hour_ms.into(), subject, name, (*outcome).into(), counted_n.into()])
                    .await?;
            }
            Ok(())
        })
    }
}
