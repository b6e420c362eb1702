//! Failures by their cause: of the newest failed events and the newest messages that need a decision, those with the same
//! error counted together.

use super::person::{People, PeopleError};
use super::walk::LOOK_APART_N;
use crate::api::{CauseView, StuckSubject};
use crate::store::damaged::intact;
use crate::store::db::{DbResult, Door, Row, Value};

/// Most causes of each kind.
const CAUSES_N_MAX: u32 = 10;

/// `$1` how many of the newest rows are looked at, `$2` how many causes are given back, `$3` 1 when the providers in `$4`
/// are the only ones that may be seen; of messages, `$5` and `$6` likewise for destinations.
const OF_EVENTS: &str = "/* people_causes */ SELECT x.provider AS name, x.state, x.error, COUNT(*) AS n,
        MIN(x.received_at_ms) AS oldest_ms, MAX(x.received_at_ms) AS newest_ms
    FROM (SELECT provider, state, error, received_at_ms FROM processed_webhook_events
          WHERE state = 'failed' AND state IN ('retry', 'failed', 'unreadable', 'conflict')
          ORDER BY state DESC, event_seq DESC LIMIT $1) x
    WHERE CAST($3 AS BIGINT) = 0 OR x.provider = ANY($4)
    GROUP BY x.provider, x.state, x.error ORDER BY n DESC, newest_ms DESC LIMIT $2";
const OF_MESSAGES: &str =
    "/* people_causes */ SELECT x.destination AS name, x.state, x.last_error AS error, COUNT(*) AS n,
        MIN(x.created_at_ms) AS oldest_ms, MAX(x.created_at_ms) AS newest_ms
    FROM (SELECT message_id, destination, state, last_error, created_at_ms FROM outbox_queue
          WHERE (state IN ('held', 'dead')) IS TRUE ORDER BY message_id DESC LIMIT $1) x
    WHERE (CAST($3 AS BIGINT) = 0 OR (SELECT e.provider FROM processed_webhook_events e
               WHERE e.event_seq = x.message_id / 1024) = ANY($4))
      AND (CAST($5 AS BIGINT) = 0 OR x.destination = ANY($6))
    GROUP BY x.destination, x.state, x.last_error ORDER BY n DESC, newest_ms DESC LIMIT $2";

/// The statements by name, for tests that look at their plans.
pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("causes of events", OF_EVENTS), ("causes of messages", OF_MESSAGES)];

impl People {
    /// The commonest causes for which events failed and messages need a decision, in reach, the commonest first.
    pub async fn causes(&self) -> Result<Vec<CauseView>, PeopleError> {
        let of = |names: Option<Vec<String>>| -> [Value; 2] {
            [i64::from(names.is_some()).into(), names.unwrap_or_default().into()]
        };
        let mut values: Vec<Value> = vec![LOOK_APART_N.into(), CAUSES_N_MAX.into()];
        values.extend(of(self.principal.providers.names()));
        values.extend(of(self.principal.destinations.names()));
        let store = &self.store;
        Ok(snapshot!(store.people_causes(&values))?)
    }
}

async fn people_causes(db: &mut Door<'_>, values: &[Value]) -> DbResult<Vec<CauseView>> {
    let mut found = Vec::new();
    let of_events = values.get(..4).unwrap_or(values);
    for (sql, values, subject) in
        [(OF_EVENTS, of_events, StuckSubject::Events), (OF_MESSAGES, values, StuckSubject::Messages)]
    {
        let rows = db.fetch(sql, values).await?;
        let table = match subject {
            StuckSubject::Events => "processed_webhook_events",
            StuckSubject::Messages => "outbox_queue",
        };
        found.extend(intact(table, "name", &rows, |row| cause(row, subject))?.rows);
    }
    found.sort_by_key(|one| std::cmp::Reverse(one.counted_n));
    Ok(found)
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
