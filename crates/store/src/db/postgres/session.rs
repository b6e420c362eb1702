//! The settings that a session must have before anything is written through it: they are set by statements, because a
//! pooler drops the parameters of the startup message, and read back on every new connection, because a pooler, a role
//! or a restart may change them.
//!
//! The purpose of a session, which decides the plans of its statements. The sessions of admission and of the outbox run
//! the same statements all day, over tables whose sizes change from nothing to millions within minutes: their plans
//! must not depend on old statistics. Handlers and operators run any statement, and get the plans that PostgreSQL
//! prefers.
//!
//! With a pooler in transaction mode none of this is set: it would stay in sessions that other programs use.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use crate::db::error::{DbError, DbResult};
use crate::db::opening::{Pooling, PostgresSettings};
use crate::db::rules::{NOT_KEPT, broken_settings};
use crate::db::warnings::language;
use hooklatch_core::stop::ignore_result;

/// Time limit for opening a second session, which checks whether sessions are shared by a pooler.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Settings that we need of a session. The warning with which a commit is confirmed that no standby has must
/// reach us.
const SET: &str = "SET lock_timeout = '2s';
SET default_transaction_isolation = 'read committed';
SET idle_in_transaction_session_timeout = '30s';
SET statement_timeout = 0;
SET client_min_messages = 'warning';
SET jit = off;";

/// Keeps what is read back: the server's file may say something else a minute later.
const KEEP_COMMIT: &str =
    "SELECT set_config('synchronous_commit', current_setting('synchronous_commit'), false);";

/// Setting that says in the session whether its server has to wait for a standby.
const SET_REPLICATED: &str = "SET hooklatch.replicated = 'on';";

/// Undoes, within the transaction, whatever a handler has set for it or for the session: what follows is ours. A
/// transaction that it made read-only cannot be undone and is refused by the last one. A cursor that is to outlive the
/// transaction would run the handler's query in the COMMIT.
const UNDO: &str =
    "CLOSE ALL; RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; SET LOCAL transaction_read_only = off;
SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') <> 'remote_apply';";

/// Things that outlive a transaction that a handler had, committed or not: locks that it took for the
/// session, tables and cursors of the session, channels. Settings once more, since a rule of the users' on a table of
/// ours may run in the COMMIT. The last but one is what servers from version 14 on were given at first. The last one
/// counts the statements that are prepared.
const LEFT: &str = "SELECT pg_advisory_unlock_all();
DISCARD TEMP;
CLOSE ALL;
UNLISTEN *;
SELECT set_config('client_connection_check_interval', '2s', false)
    WHERE current_setting('client_connection_check_interval', true) IS NOT NULL;
SELECT COUNT(*)::text AS prepared_n FROM pg_prepared_statements";

/// Statements that reset a session after a handler used it.
#[derive(Debug)]
pub(crate) struct SessionReset {
    /// Statements inside the handler's transaction, when the handler succeeded.
    pub settings: String,
    /// Statements after the transaction.
    pub session: String,
}

impl SessionReset {
    pub(crate) fn of(settings: &PostgresSettings) -> Self {
        if settings.pooling == Pooling::Transaction {
            // After the transaction the pooler may use another session, which we have not set up.
            return Self { settings: UNDO.to_owned(), session: String::new() };
        }
        let replicated = if settings.is_replicated { SET_REPLICATED } else { "" };
        // Kept for the session, whatever the server's file says by then.
        let settings = format!("{UNDO}{SET}{KEEP_COMMIT}{replicated}");
        Self { session: format!("{settings}{LEFT}"), settings }
    }

    /// Resets the session after the transaction; `false` when that is not possible, because statements are prepared in
    /// it that the driver does not know: the next user of the session would get an error.
    pub(crate) async fn after(&self, session: &mut PgConnection) -> DbResult<bool> {
        let rows = sqlx::raw_sql(AssertSqlSafe(self.session.clone())).fetch_all(&mut *session).await?;
        let last = rows.last().ok_or_else(DbError::vanished)?;
        let prepared_n: String = last.try_get("prepared_n").map_err(DbError::from)?;
        Ok(prepared_n.parse() == Ok(session.cached_statements_size()))
    }
}

/// Column of a statement that is true when a session may write: not on a standby, not where a setting forbids it, and not where commits no longer
/// wait for a standby although they have to.
pub(crate) const IS_WRITABLE: &str = "NOT pg_is_in_recovery()
    AND NOT current_setting('transaction_read_only')::boolean
    AND (current_setting('hooklatch.replicated', true) IS DISTINCT FROM 'on'
         OR current_setting('synchronous_standby_names') <> '') AS is_writable";

/// The settings that are read back, as texts; times are milliseconds.
const READ: &str = "SELECT name, setting FROM pg_catalog.pg_settings WHERE name IN ('transaction_read_only', 'fsync',
        'full_page_writes', 'synchronous_commit', 'synchronous_standby_names', 'client_min_messages', 'lc_messages',
        'default_transaction_isolation', 'lock_timeout', 'idle_in_transaction_session_timeout', 'statement_timeout')
    UNION ALL SELECT 'in_recovery', pg_is_in_recovery()::text";

/// Finding about a new connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SessionCheck {
    /// It may be used.
    Fit,
    /// A standby, or a server that takes no writes now: another host may, or this one later.
    ReadOnly(String),
    /// Its settings could lose or block what is written; what to do about it.
    Unfit(String),
}

/// Sets what can be set and reads back what matters.
pub(crate) async fn prepare(
    connection: &mut PgConnection,
    settings: &PostgresSettings,
    role: SessionRole,
) -> DbResult<SessionCheck> {
    if settings.pooling == Pooling::Session {
        // One round trip, as a simple query: it is right on any connection, also behind a pooler.
        let replicated = if settings.is_replicated { SET_REPLICATED } else { "" };
        let set = AssertSqlSafe(format!("{SET}{KEEP_COMMIT}{replicated}"));
        sqlx::raw_sql(set).execute(&mut *connection).await?;
        // The server soon ends a statement whose client is gone. Servers before version 14 cannot do that.
        ignore_result(sqlx::raw_sql("SET client_connection_check_interval = '2s'").execute(&mut *connection))
            .await;
    }
    let odd_plans = role.set(&mut *connection, settings.pooling).await?;
    let rows = sqlx::raw_sql(READ).fetch_all(connection).await?;
    let setting = |row: &sqlx::postgres::PgRow| Ok((row.try_get("name")?, row.try_get("setting")?));
    let found: BTreeMap<String, String> = rows.iter().map(setting).collect::<Result<_, sqlx::Error>>()?;
    language(found.get("lc_messages").map_or("", String::as_str));
    Ok(match (SessionCheck::of(&found, settings), odd_plans) {
        (SessionCheck::Fit, Some(why)) => SessionCheck::Unfit(format!("{why}: {NOT_KEPT}")),
        (checked, _) => checked,
    })
}

impl SessionCheck {
    /// Judges the settings of a session as they were read back.
    fn of(found: &BTreeMap<String, String>, settings: &PostgresSettings) -> Self {
        let get = |name: &str| found.get(name).map_or("", String::as_str);
        if get("in_recovery") != "false" {
            return Self::ReadOnly("PostgreSQL is in recovery: a standby takes no writes".to_owned());
        }
        if get("transaction_read_only") != "off" {
            return Self::ReadOnly("PostgreSQL takes no writes: transaction_read_only is on".to_owned());
        }
        let broken = broken_settings(found, settings.pooling);
        if let Some(rule) = broken.first() {
            let (name, value, remedy) = (rule.name, &rule.value, &rule.remedy);
            return Self::Unfit(if rule.is_of_commits {
                format!("PostgreSQL runs with {name} = {value} and could lose confirmed events: {remedy}")
            } else {
                format!("{name} of the session is {value}, and {} is needed: {remedy}", rule.bound)
            });
        }
        if settings.is_replicated && get("synchronous_standby_names").trim().is_empty() {
            return Self::Unfit(
                "PostgreSQL waits for no standby: database.replicated = true wants synchronous_standby_names, because \
                 a fail-over to an asynchronous standby loses confirmed events; name a standby there, or set \
                 database.replicated = false"
                    .to_owned(),
            );
        }
        Self::Fit
    }
}

/// Returns what is wrong with the sessions that we get, as opposed to what the config says: whether one keeps its
/// backend while another works, and whether statements that were prepared are still there afterwards.
///
/// Two connections: the second one opens a transaction on the backend that the first one has just used, if it can;
/// then the first one asks again.
pub(super) async fn pooling_mistake(
    first: &mut PgConnection,
    options: &PgConnectOptions,
    pooling: Pooling,
) -> DbResult<Option<String>> {
    let probe = tokio::time::timeout(PROBE_TIMEOUT, probe(first, options)).await;
    let Ok(probe) = probe else {
        return Ok(Some(
            "a second session did not come about within 5 s: the pooler before PostgreSQL must hold \
             database.connections_n sessions for each node"
                .to_owned(),
        ));
    };
    let backends = match probe {
        Ok(backends) => backends,
        Err(error) if is_lost_statement(&error) => {
            return Ok(Some(
                "the pooler before PostgreSQL shares sessions and loses prepared statements: put it into session \
                 mode, or use PgBouncer 1.21 or later with max_prepared_statements above 0, and set \
                 database.pooling = \"transaction\""
                    .to_owned(),
            ));
        }
        Err(error) if has_code(&error, &["08P01"]) => {
            return Ok(Some(format!(
                "the pooler before PostgreSQL gives us no transactions: put it into session mode ({error})"
            )));
        }
        Err(error) => return Err(error),
    };
    let is_shared = backends.before != backends.after || backends.before == backends.other;
    Ok((is_shared && pooling == Pooling::Session).then(|| {
        "the pooler before PostgreSQL shares sessions (transaction mode): put it into session mode, or set \
         database.pooling = \"transaction\" and read docs/postgres.md"
            .to_owned()
    }))
}

/// Backends that answered: the first connection before and during the other's transaction, and the other.
struct Backends {
    before: i32,
    other: i32,
    after: i32,
}

async fn probe(first: &mut PgConnection, options: &PgConnectOptions) -> DbResult<Backends> {
    // It is prepared under a name, as all our statements are.
    const WHO: &str = "SELECT pg_backend_pid()";
    let before = sqlx::query_scalar(WHO).fetch_one(&mut *first).await?;
    let mut second = PgConnection::connect_with(options).await?;
    let mut tx = second.begin().await?;
    let other = sqlx::query_scalar(WHO).fetch_one(&mut *tx).await?;
    let after = sqlx::query_scalar(WHO).fetch_one(&mut *first).await?;
    tx.rollback().await?;
    second.close().await?;
    Ok(Backends { before, other, after })
}

/// `prepared statement does not exist` or `already exists`.
fn is_lost_statement(error: &DbError) -> bool {
    has_code(error, &["26000", "42P05"])
}

fn has_code(error: &DbError, codes: &[&str]) -> bool {
    error.code().is_some_and(|code| codes.contains(&code))
}

/// The purpose of a session, which decides about its plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionRole {
    /// Reading, handlers, what operators look at and decide.
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
    pub(crate) async fn set(self, db: &mut PgConnection, pooling: Pooling) -> DbResult<Option<String>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(changes: &[(&str, &str)], is_replicated: bool) -> SessionCheck {
        let fit = [
            ("in_recovery", "false"),
            ("transaction_read_only", "off"),
            ("fsync", "on"),
            ("full_page_writes", "on"),
            ("synchronous_commit", "on"),
            ("client_min_messages", "warning"),
            ("default_transaction_isolation", "read committed"),
            ("lock_timeout", "2000"),
            ("idle_in_transaction_session_timeout", "30000"),
            ("statement_timeout", "0"),
        ];
        let all = fit.iter().chain(changes).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let settings = PostgresSettings { is_replicated, ..PostgresSettings::default() };
        SessionCheck::of(&all.collect(), &settings)
    }

    #[test]
    fn a_session_that_could_lose_or_block_something_is_refused_by_the_settings_name() {
        assert_eq!(checked(&[], false), SessionCheck::Fit);
        for (change, is_replicated, words) in [
            (("fsync", "off"), false, "fsync = off and could lose"),
            (("synchronous_commit", "local"), false, "synchronous_commit = local and could lose"),
            (("lock_timeout", "0"), false, "lock_timeout of the session is 0 ms"),
            (("synchronous_standby_names", "  "), true, "synchronous_standby_names"),
        ] {
            match checked(&[change], is_replicated) {
                SessionCheck::Unfit(why) => assert!(why.contains(words), "{words}: {why}"),
                other => panic!("{words}: {other:?}"),
            }
        }
        let names = [("synchronous_standby_names", "FIRST 1 (b)")];
        assert_eq!(checked(&names, true), SessionCheck::Fit);
    }

    #[test]
    fn a_server_that_takes_no_writes_is_another_ones_turn_whatever_else_is_wrong() {
        for changes in [
            &[("in_recovery", "true")][..],
            &[("transaction_read_only", "on")],
            &[("in_recovery", "true"), ("fsync", "off")],
        ] {
            assert!(matches!(checked(changes, true), SessionCheck::ReadOnly(_)), "{changes:?}");
        }
    }
}
