//! What Hooklatch is compared with: axum and sqlx as a competent team writes a webhook endpoint. Verifies,
//! then one transaction per request: latch, outbox row, commit. Durable, correct, and one round trip after
//! the other.

use std::str::FromStr;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, StatusCode};
use sha2::Sha256;
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{Connection, SqliteConnection};

use crate::contestant::CONNECTIONS_N;
use crate::requests::SECRET;

const TABLES: [&str; 2] = [
    "CREATE TABLE processed_webhook_events (provider TEXT NOT NULL, event_id TEXT NOT NULL, type TEXT NOT NULL,
        received_at_ms BIGINT NOT NULL, payload BYTEA NOT NULL, PRIMARY KEY (provider, event_id))",
    "CREATE TABLE outbox (id TEXT PRIMARY KEY, provider TEXT NOT NULL, event_id TEXT NOT NULL, type TEXT NOT NULL,
        state TEXT NOT NULL, attempts BIGINT NOT NULL, created_at_ms BIGINT NOT NULL)",
];
const LATCH: &str = "INSERT INTO processed_webhook_events (provider, event_id, type, received_at_ms, payload)
     VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
const OUTBOX: &str = "INSERT INTO outbox (id, provider, event_id, type, state, attempts, created_at_ms)
     VALUES ($1, $2, $3, $4, 'ready', 0, $5)";

#[derive(serde::Deserialize)]
struct Event<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    event_type: &'a str,
}

/// Makes the tables of everybody who is written by hand, unless they are there.
pub(crate) async fn create_tables(database_url: &str) {
    if database_url.starts_with("postgres") {
        let mut db = sqlx::PgConnection::connect(database_url).await.unwrap();
        for table in TABLES {
            sqlx::query(table).execute(&mut db).await.unwrap();
        }
        return;
    }
    let mut db = SqliteConnection::connect_with(&sqlite(database_url)).await.unwrap();
    for table in TABLES {
        let table = table.replace("BYTEA", "BLOB");
        sqlx::query(sqlx::AssertSqlSafe(table)).execute(&mut db).await.unwrap();
    }
    db.close().await.unwrap();
}

fn sqlite(database_url: &str) -> SqliteConnectOptions {
    SqliteConnectOptions::from_str(database_url)
        .unwrap()
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(std::time::Duration::from_secs(30))
}

/// Serves on `listen` until it is killed.
pub(crate) fn serve(listen: &str, database_url: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let router = if database_url.starts_with("postgres") {
            let connections_n = u32::try_from(CONNECTIONS_N).unwrap();
            let pool =
                PgPoolOptions::new().max_connections(connections_n).connect(database_url).await.unwrap();
            Router::new().route("/webhooks/stripe", post(on_postgres)).with_state(pool)
        } else {
            // One writer: more connections would only wait for each other's lock.
            let pool =
                SqlitePoolOptions::new().max_connections(1).connect_with(sqlite(database_url)).await.unwrap();
            Router::new().route("/webhooks/stripe", post(on_sqlite)).with_state(pool)
        };
        let listener = tokio::net::TcpListener::bind(listen).await.unwrap();
        axum::serve(listener, router).await.unwrap();
    });
}

/// How far a signed time may be from ours. Seconds.
const TOLERANCE_S: i64 = 300;

fn verified(headers: &HeaderMap, body: &[u8]) -> Option<()> {
    let header = headers.get("stripe-signature")?.to_str().ok()?;
    let (timestamp, signature) = header.strip_prefix("t=")?.split_once(",v1=")?;
    let now_s = hooklatch_core::types::Clock::system().now_ms() / 1_000;
    if now_s.abs_diff(timestamp.parse().ok()?) > TOLERANCE_S.unsigned_abs() {
        return None;
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).ok()?;
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(body);
    mac.verify_slice(&hex::decode(signature).ok()?).ok()
}

macro_rules! handler {
    ($name:ident, $pool:ty) => {
        async fn $name(State(pool): State<$pool>, headers: HeaderMap, body: Bytes) -> StatusCode {
            if verified(&headers, &body).is_none() {
                return StatusCode::UNAUTHORIZED;
            }
            let Ok(event) = serde_json::from_slice::<Event<'_>>(&body) else {
                return StatusCode::BAD_REQUEST;
            };
            let store = async {
                let now_ms = hooklatch_core::types::Clock::system().now_ms();
                let mut tx = pool.begin().await?;
                let latched = sqlx::query(LATCH)
                    .bind("stripe")
                    .bind(event.id)
                    .bind(event.event_type)
                    .bind(now_ms)
                    .bind(body.as_ref())
                    .execute(&mut *tx)
                    .await?;
                if latched.rows_affected() == 1 {
                    sqlx::query(OUTBOX)
                        .bind(uuid::Uuid::now_v7().to_string())
                        .bind("stripe")
                        .bind(event.id)
                        .bind(event.event_type)
                        .bind(now_ms)
                        .execute(&mut *tx)
                        .await?;
                }
                tx.commit().await
            };
            let stored: Result<(), sqlx::Error> = store.await;
            if stored.is_ok() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
        }
    };
}
handler!(on_postgres, PgPool);
handler!(on_sqlite, SqlitePool);
