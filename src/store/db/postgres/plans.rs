//! The purpose of a session, which decides the plans of its statements. The sessions of admission and of the outbox are
//! the same all day, over tables whose sizes change from nothing to millions within minutes: their plans must not go by
//! what was counted an hour ago. Handlers and people ask what they like, and get the plans that PostgreSQL thinks best.
//!
//! With a pooler in transaction mode nothing of this is set: it would stay in sessions that are not ours.

use sqlx::{PgConnection, Row};

use crate::store::db::error::DbResult;
use crate::store::db::opening::Pooling;

/// The purpose of a session, which decides about its plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::db) enum SessionRole {
    /// Reading, handlers, what people look at and decide.
    Plain,
    /// Whole admissions in one statement.
    Committer,
    /// Claims and settlements of messages.
    Worker,
}

/// Settings of the committer's session, as simple queries; the answer to the last one says what was set.
const COMMITTER: (&str, &str) = (
    "SET enable_seqscan = off;
SET plan_cache_mode = force_generic_plan;
SELECT concat_ws(' ', current_setting('enable_seqscan'), current_setting('plan_cache_mode')) AS found",
    "off force_generic_plan",
);
const WORKER: (&str, &str) = (
    "SET enable_seqscan = off;
SET plan_cache_mode = force_generic_plan;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_bitmapscan = off;
SELECT concat_ws(' ', current_setting('enable_seqscan'), current_setting('plan_cache_mode'),
    current_setting('enable_hashjoin'), current_setting('enable_mergejoin'), current_setting('enable_bitmapscan'))
    AS found",
    "off force_generic_plan off off off",
);

impl SessionRole {
    /// Sets them and reads them back: what is there instead, when it is something else.
    pub(super) async fn set(self, db: &mut PgConnection, pooling: Pooling) -> DbResult<Option<String>> {
        let (sql, wanted) = match (self, pooling) {
            (Self::Plain, _) | (_, Pooling::Transaction) => return Ok(None),
            (Self::Committer, Pooling::Session) => COMMITTER,
            (Self::Worker, Pooling::Session) => WORKER,
        };
        let found: String = sqlx::raw_sql(sql).fetch_one(db).await?.try_get("found")?;
        Ok((found != wanted)
            .then(|| format!("planner settings of the session are {found}, and {wanted} is needed")))
    }
}
