//! Hourly counts of the nodes: each node adds its own, and operators read the sums.

use std::collections::BTreeMap;

use super::person::{People, PeopleError};
use crate::damaged::intact;
use crate::db::{DbResult, Executor, Row, StoreError};
use crate::handle::Store;
use hooklatch_contract::{ActivityCount, ActivityView};
use hooklatch_core::types::{Name, Reach, UnixMs};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// Most hours that are answered one by one.
const HOURS_N_MAX: u32 = 168;
const ADD: &str = "/* activity_add */ INSERT INTO activity AS a (hour_ms, subject, name, outcome, counted_n)
    VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (hour_ms, subject, name, outcome) DO UPDATE SET counted_n = a.counted_n + excluded.counted_n";
const LIST: &str = "/* activity */ SELECT hour_ms - hour_ms % $2 AS at_ms, subject, name, outcome,
        CAST(SUM(counted_n) AS BIGINT) AS counted_n
    FROM activity WHERE hour_ms >= $1 GROUP BY hour_ms - hour_ms % $2, subject, name, outcome
    ORDER BY at_ms, subject, name, outcome";

/// The statement by name, for tests that look at its plan.
pub(super) const STATEMENTS: &[(&str, &str)] = &[("activity", LIST)];

/// What is counted: requests of providers, or attempts for destinations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ActivitySubject {
    /// Requests.
    Provider,
    /// Attempts.
    Destination,
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

impl ActivitySubject {
    fn as_str(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Destination => "destination",
        }
    }
}

impl Store {
    /// Adds these counts to those of all nodes in the hour of `now_ms`.
    pub async fn activity_add(&self, counts: ActivityCounts, now_ms: UnixMs) -> Result<(), StoreError> {
        if counts.is_empty() {
            return Ok(());
        }
        together!(self.activity_add(&counts, now_ms - now_ms.rem_euclid(HOUR_MS)))
    }
}

impl People {
    /// What the nodes counted, and, in the hour under way, what this node did not add yet (`unsaved`): of every name in
    /// scope, or of what is named. Attempts are counted of all providers together, for tokens that reach all of them.
    pub async fn activity(
        &self,
        query: &ActivityQuery,
        unsaved: ActivityCounts,
        now_ms: UnixMs,
    ) -> Result<ActivityView, PeopleError> {
        let step_ms = if query.hours_n > HOURS_N_MAX { DAY_MS } else { HOUR_MS };
        let begin = |at_ms: i64| at_ms - at_ms.rem_euclid(step_ms);
        let from_ms = begin(now_ms - i64::from(query.hours_n.max(1) - 1) * HOUR_MS);
        let store = &self.store;
        let mut rows = alone!(store.reader.activity(from_ms, step_ms))?;
        for ((subject, name, outcome), counted_n) in unsaved {
            *rows
                .entry((begin(now_ms), subject.as_str().to_owned(), name.to_string(), outcome.to_owned()))
                .or_default() += counted_n;
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

async fn activity_add(db: &mut Executor<'_>, counts: &ActivityCounts, hour_ms: UnixMs) -> DbResult<()> {
    // In the order of their keys, so that two nodes do not wait for each other.
    for ((subject, name, outcome), counted_n) in counts {
        let counted_n = i64::try_from(*counted_n).unwrap_or(i64::MAX);
        let values = [
            hour_ms.into(),
            subject.as_str().into(),
            name.as_str().into(),
            (*outcome).into(),
            counted_n.into(),
        ];
        db.execute(ADD, &values).await?;
    }
    Ok(())
}

type ActivityRows = BTreeMap<(UnixMs, String, String, String), u64>;

async fn activity(db: &mut Executor<'_>, from_ms: UnixMs, step_ms: i64) -> DbResult<ActivityRows> {
    let read = |row: &Row| {
        let key = (row.int("at_ms")?, row.text("subject")?, row.text("name")?, row.text("outcome")?);
        Ok((key, row.int("counted_n")?.unsigned_abs()))
    };
    let rows = db.fetch(LIST, &[from_ms.into(), step_ms.into()]).await?;
    Ok(intact("activity", "name", &rows, read)?.rows.into_iter().collect())
}
