//! A table in another PostgreSQL database: one row per idempotency key, whatever is sent twice.

use std::str::FromStr;
use std::sync::Arc;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use super::envelope::content_type;
use super::pooled::{PooledClient, words};
use crate::config::Secret;
use crate::outbox::policy::CallAnswer;
use crate::store::LeasedMessage;

/// A table, and where its database is.
pub(super) struct PostgresTable {
    options: PgConnectOptions,
    insert: String,
}

impl PostgresTable {
    /// `table` is one or two identifiers, checked with the rest of the configuration.
    pub(super) fn new(url: &Secret, table: &[String]) -> Result<Self, String> {
        let options = PgConnectOptions::from_str(url.reveal())
            .map_err(|_| "it is not a PostgreSQL url".to_owned())?
            .application_name("hooklatch")
            .disable_statement_logging();
        let quoted: Vec<String> =
            table.iter().map(|part| format!("\"{}\"", part.replace('"', "\"\""))).collect();
        // The target is named: a conflict with any other constraint is not a copy, and must not pass for one.
        let insert = format!(
            "INSERT INTO {} (idempotency_key, message_id, provider, event_id, event_type, effect, content_type, body) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (idempotency_key) DO NOTHING",
            quoted.join(".")
        );
        Ok(Self { options, insert })
    }
}

impl PooledClient for PostgresTable {
    /// Empty while somebody uses it, and for ever once somebody stopped waiting in the middle of a statement.
    type Connection = Arc<Mutex<Option<PgConnection>>>;
    const KNOWS_ITS_END: bool = false;

    async fn connect(&self) -> Result<Self::Connection, String> {
        let connection = self.options.connect().await.map_err(|error| words(&error))?;
        Ok(Arc::new(Mutex::new(Some(connection))))
    }

    fn is_alive(_: &Self::Connection) -> bool {
        true
    }

    async fn publish(
        &self,
        line: &Self::Connection,
        message: &LeasedMessage,
        deadline: Instant,
    ) -> CallAnswer {
        // Whoever still waits for a turn at the deadline has sent nothing.
        let Ok(mut line) = timeout_at(deadline, line.lock()).await else {
            return CallAnswer::NotSent { why: "waited too long for the connection".to_owned() };
        };
        let Some(mut connection) = line.take() else {
            return CallAnswer::NotSent { why: "the connection was lost".to_owned() };
        };
        let inserted = sqlx::query(AssertSqlSafe(self.insert.as_str()))
            .bind(&message.idempotency_key)
            .bind(message.message_id.to_string())
            .bind(message.key.provider.as_str())
            .bind(&message.key.event_id)
            .bind(&message.event_type)
            .bind(&message.effect_name)
            .bind(content_type(message))
            .bind(message.body.as_ref())
            .execute(&mut connection)
            .await;
        let answer = inserted.map_or_else(|error| failed(&error), |_| CallAnswer::Done);
        if !matches!(answer, CallAnswer::Unknown { .. }) {
            *line = Some(connection);
        }
        answer
    }
}

fn failed(error: &sqlx::Error) -> CallAnswer {
    let Some(said) = error.as_database_error() else {
        return CallAnswer::Unknown { why: words(error) };
    };
    // The primary message alone: details may quote the row.
    let (why, code) = (words(&said.message()), said.code().unwrap_or_default());
    match code.as_ref() {
        "42P01" | "42703" | "42P10" | "3F000" => {
            let remedy = "create the table as docs/destinations.md says";
            CallAnswer::NotNow { why: format!("{why}; {remedy}") }
        }
        // Its session was ended: it may have happened before that.
        code if code.starts_with("57P") || code.starts_with("08") || code == "40003" => {
            CallAnswer::Unknown { why }
        }
        // The row itself is not wanted: a constraint, a value that does not fit.
        code if code.starts_with("22") || code.starts_with("23") => CallAnswer::Refused { why },
        _ => CallAnswer::NotNow { why },
    }
}
