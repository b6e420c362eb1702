//! A database of its own for one measurement, and messages as admission would have left them there, written by SQL.

use std::time::Instant;

use hooklatch_store::{Store, StoreSettings};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};

/// The body of every event.
pub(super) const BODY: &str =
    r#"{"id":"evt_1","type":"invoice.paid","data":{"object":{"id":"in_1","amount_paid":1999}}}"#;

/// In what state messages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// Waiting for a claim.
    Ready,
    /// Born leased, by the node called `bench`: what admission does for messages that it hands over.
    Leased,
    /// In one lane, the first of them due.
    Laned,
    /// Done long ago: history.
    Finished,
}

/// A store of its own for one measurement.
pub(super) struct Tables {
    pub(super) store: Store,
    _folder: tempfile::TempDir,
    pub(super) url: String,
    /// Server and name, to be dropped.
    pub(super) database: Option<(String, String)>,
    /// The next event's number.
    next_seq: u64,
}

impl Tables {
    pub(super) async fn new(server: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("hooklatch_bench_{:x}", fastrand::u32(..));
        let url = match server {
            None => format!("sqlite://{}", folder.path().join("bench.db").display()),
            Some(server) => {
                admin(server, format!("CREATE DATABASE {name}")).await;
                admin(server, "CHECKPOINT".to_owned()).await;
                format!("{}/{name}", server.rsplit_once('/').unwrap().0)
            }
        };
        let store = Store::open(&StoreSettings { url: url.clone(), connections_n: 8 }).await.unwrap();
        store.migrate().await.unwrap();
        let database = server.map(|server| (server.to_owned(), name));
        Self { store, url, _folder: folder, database, next_seq: 1 }
    }

    /// `n` messages for each destination, one an event; the number of the first event.
    pub(super) async fn fill(&mut self, destinations: &[&str], n: u64, written: Written) -> u64 {
        let first = self.next_seq;
        for destination in destinations {
            let (from, to) = (self.next_seq, self.next_seq + n - 1);
            self.next_seq += n;
            for sql in self.statements(destination, (from, to), written) {
                self.execute(sql).await;
            }
        }
        // As after autovacuum, and without a checkpoint during a measurement.
        let settled: &[&str] = if self.database.is_some() {
            &["VACUUM ANALYZE", "CHECKPOINT"]
        } else {
            &["PRAGMA wal_checkpoint(TRUNCATE)"]
        };
        for sql in settled {
            self.execute((*sql).to_owned()).await;
        }
        first
    }

    fn statements(&self, destination: &str, (from, to): (u64, u64), written: Written) -> Vec<String> {
        let (series, blob, body) = if self.database.is_some() {
            let body = format!("convert_to('{BODY}', 'UTF8')");
            (format!("generate_series({from}, {to}) AS s(n)"), "decode(repeat('00', 32), 'hex')", body)
        } else {
            let series = format!(
                "(WITH RECURSIVE s(n) AS (SELECT {from} UNION ALL SELECT n + 1 FROM s WHERE n < {to}) SELECT n FROM s)"
            );
            (series, "zeroblob(32)", format!("CAST('{BODY}' AS BLOB)"))
        };
        let (now_ms, far_ms) = (now_ms(), now_ms() + 86_400_000);
        let message = match written {
            Written::Ready => format!(
                "INSERT INTO outbox_queue (message_id, shard, destination, state, visible_at_ms, created_at_ms)
                 SELECT n * 1024, n % 1024, '{destination}', 'ready', 1, 1 FROM {series}"
            ),
            Written::Leased => format!(
                "INSERT INTO outbox_queue (message_id, shard, destination, state, visible_at_ms, created_at_ms, attempts_n,
                     node, leased_at_ms, first_sent_at_ms, key_valid_until_ms)
                 SELECT n * 1024, n % 1024, '{destination}', 'leased', {far_ms}, {now_ms}, 1, 'bench', {now_ms}, {now_ms},
                     {far_ms} FROM {series}"
            ),
            Written::Laned => format!(
                "INSERT INTO outbox_queue (message_id, shard, destination, state, visible_at_ms, created_at_ms, lane, lane_seq)
                 SELECT n * 1024, n % 1024, '{destination}', CASE WHEN n = {from} THEN 'ready' ELSE 'waiting' END, 1, 1,
                     'hot-{from}', n - {from} + 1 FROM {series}"
            ),
            Written::Finished => format!(
                "INSERT INTO outbox_finished (message_id, shard, generation, destination, state, attempts_n, http_status,
                     created_at_ms, first_sent_at_ms, finished_at_ms)
                 SELECT n * 1024, n % 1024, 0, '{destination}', 'done', 1, 200, 1, 1, 1 FROM {series}"
            ),
        };
        vec![
            format!(
                "INSERT INTO processed_webhook_events (provider, event_id, event_seq, shard, event_type, digest, identity,
                     state, received_at_ms, generation, attempts_n)
                 SELECT 'stripe', 'evt_' || n, n, n % 1024, 'invoice.paid', {blob}, 'sender/1', 'handled', 1, 0, 1 FROM {series}"
            ),
            format!(
                "INSERT INTO webhook_payloads (event_seq, shard, headers, body)
                 SELECT n, n % 1024, '{{\"content-type\":\"application/json\"}}', {body} FROM {series}"
            ),
            message,
            format!(
                "INSERT INTO outbox_lanes (destination, lane, head_seq, tail_seq, used_at_ms)
                 SELECT '{destination}', 'hot-{from}', 1, {to} - {from} + 1, 1 WHERE {}",
                written == Written::Laned
            ),
        ]
    }

    async fn execute(&self, sql: String) {
        if self.database.is_some() {
            let mut db = PgConnection::connect(&self.url).await.unwrap();
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut db).await.unwrap();
        } else {
            let mut db = SqliteConnection::connect(&self.url).await.unwrap();
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut db).await.unwrap();
            db.close().await.unwrap();
        }
    }

    /// Messages that are not finished.
    pub(super) async fn open_n(&self) -> i64 {
        let sql = "SELECT COUNT(*) FROM outbox_queue";
        if self.database.is_some() {
            let mut db = PgConnection::connect(&self.url).await.unwrap();
            return sqlx::query_scalar(sql).fetch_one(&mut db).await.unwrap();
        }
        let mut db = SqliteConnection::connect(&self.url).await.unwrap();
        sqlx::query_scalar(sql).fetch_one(&mut db).await.unwrap()
    }

    /// Time that one commit of one small row takes, the median of many. Seconds.
    pub(super) async fn commit_s(&self) -> f64 {
        const N: usize = 201;
        let sql = "UPDATE outbox_lanes SET used_at_ms = used_at_ms + 1";
        let mut took = Vec::with_capacity(N);
        if self.database.is_some() {
            let mut db = PgConnection::connect(&self.url).await.unwrap();
            for _ in 0..N {
                let started = Instant::now();
                sqlx::query(sql).execute(&mut db).await.unwrap();
                took.push(started.elapsed().as_secs_f64());
            }
        } else {
            let mut db = SqliteConnection::connect(&self.url).await.unwrap();
            sqlx::raw_sql("PRAGMA synchronous = FULL").execute(&mut db).await.unwrap();
            for _ in 0..N {
                let started = Instant::now();
                sqlx::query(sql).execute(&mut db).await.unwrap();
                took.push(started.elapsed().as_secs_f64());
            }
            db.close().await.unwrap();
        }
        took.sort_by(f64::total_cmp);
        took[N / 2]
    }

    pub(super) async fn close(self) {
        self.store.close().await;
        if let Some((server, name)) = self.database {
            admin(&server, format!("DROP DATABASE {name} WITH (FORCE)")).await;
        }
    }
}

pub(super) fn now_ms() -> i64 {
    hooklatch_core::types::Clock::system().now_ms()
}

async fn admin(server: &str, sql: String) {
    let mut db = PgConnection::connect(server).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut db).await.unwrap();
}
