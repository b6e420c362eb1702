//! A table in another PostgreSQL database: one row per idempotency key, whatever is sent twice.

use std::str::FromStr;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use super::{BROKER, DestinationKind, KeyRule};
use crate::destinations::ClientSettings;
use crate::destinations::broker::{self, BrokerProtocol, Published, error_line};
use crate::destinations::envelope::content_type;
use crate::policy::CallAnswer;
use hooklatch_store::LeasedMessage;

/// A table in another PostgreSQL database.
pub(crate) const POSTGRES_TABLE: DestinationKind = DestinationKind {
    name: "postgres-table",
    schemes: &["postgres", "postgresql"],
    keys: &[(
        "table",
        KeyRule::Text(
            None,
            is_table,
            "write table or schema.table; letters, digits and `_`, as the database stores it",
        ),
    )],
    url_form: "write postgres://USER:PASSWORD@HOST:PORT/DATABASE",
    connect: Some(broker::connect::<PostgresTableProtocol>),
    ..BROKER
};

/// One or two identifiers. They are quoted where they are used; this is a second guard.
fn is_table(text: &str) -> bool {
    let is_identifier = |part: &str| {
        (1..=63).contains(&part.len())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !part.starts_with(|c: char| c.is_ascii_digit())
    };
    text.split('.').count() <= 2 && text.split('.').all(is_identifier)
}

/// A table, and where its database is.
pub(crate) struct PostgresTableProtocol {
    options: PgConnectOptions,
    insert: String,
}

impl BrokerProtocol for PostgresTableProtocol {
    /// Empty while it is used, and for good once a caller stopped waiting in the middle of a statement.
    type Connection = Mutex<Option<PgConnection>>;

    fn new(settings: &ClientSettings<'_>) -> Result<Self, String> {
        let target = &settings.config.target;
        let options = PgConnectOptions::from_str(target.url().reveal())
            .map_err(|_| "it is not a PostgreSQL url".to_owned())?
            .application_name("hooklatch")
            // A start-up parameter that PgBouncer refuses as it is installed; there are no floats here.
            .extra_float_digits(None)
            .disable_statement_logging();
        // One or two identifiers, checked with the rest of the configuration.
        let table = target.text("table").split('.');
        let quoted: Vec<String> = table.map(|part| format!("\"{}\"", part.replace('"', "\"\""))).collect();
        // The target is named: a conflict with any other constraint is not a copy, and must not pass for one.
        let insert = format!(
            "INSERT INTO {} (idempotency_key, message_id, provider, event_id, event_type, effect, content_type, body) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (idempotency_key) DO NOTHING",
            quoted.join(".")
        );
        Ok(Self { options, insert })
    }

    async fn connect(&self) -> Result<Self::Connection, String> {
        let connection = self.options.connect().await.map_err(|error| error_line(&error))?;
        Ok(Mutex::new(Some(connection)))
    }

    async fn publish(
        &self,
        shared: &Mutex<Option<PgConnection>>,
        message: &LeasedMessage,
        deadline: Instant,
    ) -> Published {
        // A call that still waits for a turn at the deadline has sent nothing.
        let mut held = timeout_at(deadline, shared.lock())
            .await
            .map_err(|_| CallAnswer::NotSent("waited too long for the connection".to_owned()))?;
        let mut connection =
            held.take().ok_or_else(|| CallAnswer::NotSent("the connection was lost".to_owned()))?;
        let (answer, is_usable) = self.insert(&mut connection, message).await;
        if is_usable {
            *held = Some(connection);
        }
        answer
    }
}

impl PostgresTableProtocol {
    /// Inserts the row in a transaction of its own, and says whether the connection is as it was before.
    ///
    /// A pooler in transaction mode gives each transaction another session of the server. A statement that was
    /// prepared by its name would be whatever another client has prepared under that name there: the insert into
    /// another destination's table. In one transaction the statement without a name is our own.
    async fn insert(&self, connection: &mut PgConnection, message: &LeasedMessage) -> (Published, bool) {
        let mut transaction = match connection.begin().await {
            Ok(transaction) => transaction,
            Err(error) => return (Err(not_committed(&error)), false),
        };
        let inserted = sqlx::query(AssertSqlSafe(self.insert.as_str()))
            .persistent(false)
            .bind(&message.idempotency_key)
            .bind(message.message_id.to_string())
            .bind(message.key.provider.as_str())
            .bind(&message.key.event_id)
            .bind(&message.event_type)
            .bind(&message.effect_name)
            .bind(content_type(message))
            .bind(message.body.as_ref())
            .execute(&mut *transaction)
            .await;
        if let Err(error) = inserted {
            return (Err(not_committed(&error)), transaction.rollback().await.is_ok());
        }
        match transaction.commit().await {
            Ok(()) => (Ok(()), true),
            Err(error) => {
                let answer = failed(&error);
                let is_usable = !matches!(answer, CallAnswer::Unknown(_));
                (Err(answer), is_usable)
            }
        }
    }
}

/// What failed before COMMIT was sent: no row is there, whatever became of the session.
fn not_committed(error: &sqlx::Error) -> CallAnswer {
    match failed(error) {
        CallAnswer::Unknown(why) => CallAnswer::NotSent(why),
        answer => answer,
    }
}

fn failed(error: &sqlx::Error) -> CallAnswer {
    let Some(said) = error.as_database_error() else {
        return CallAnswer::Unknown(error_line(error));
    };
    // The primary message alone: details may quote the row.
    let (why, code) = (error_line(&said.message()), said.code().unwrap_or_default());
    match code.as_ref() {
        "42P01" | "42703" | "42P10" | "3F000" => {
            let remedy = "create the table as docs/destinations.md says";
            CallAnswer::NotNow(format!("{why}; {remedy}"))
        }
        // Its session was ended: it may have happened before that.
        code if code.starts_with("57P") || code.starts_with("08") || code == "40003" => {
            CallAnswer::Unknown(why)
        }
        // The row itself is not wanted: a constraint, a value that does not fit.
        code if code.starts_with("22") || code.starts_with("23") => CallAnswer::Refused(why),
        _ => CallAnswer::NotNow(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destinations::tests::check_rule;

    #[test]
    fn each_key_takes_what_the_destination_takes() {
        check_rule(
            "table",
            is_table,
            &["t", "s.t", "_t1"],
            &["", "a.b.c", "a.", "1t", "t;drop", "t\"", "a b", "é"],
        );
    }
}
