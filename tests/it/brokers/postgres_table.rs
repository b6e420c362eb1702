//! A table in another PostgreSQL database: its primary key drops copies.

use hooklatch_core::config::UnknownPolicy;
use sqlx::{Connection, PgConnection, Row};

use super::{Bench, Received, TestDestination, shows_no_password};
use crate::database::{Database, On};

/// As docs/destinations.md has it.
const CREATE: &str = include_str!("../../../docs/destinations.md");

struct Table {
    database: Database,
}

/// The statement that the documentation has its readers run.
fn create() -> &'static str {
    let sql = CREATE.split("```sql\n").nth(1).unwrap();
    sql.split("```").next().unwrap()
}

impl Table {
    async fn create() -> Option<(Self, u16)> {
        let database = Database::create(On::Postgres).await?;
        let url: reqwest::Url = database.url.parse().unwrap();
        Some((Self { database }, url.port().unwrap_or(5_432)))
    }

    async fn run(&self, sql: &'static str) {
        let mut db = PgConnection::connect(&self.database.url).await.unwrap();
        sqlx::raw_sql(sql).execute(&mut db).await.unwrap();
    }
}

impl TestDestination for Table {
    const DROPS_COPIES: bool = true;
    const NOTICES: bool = false;
    const NEEDLE: &'static [u8] = b"COMMIT";

    fn keys(&self, port: u16) -> String {
        let mut url: reqwest::Url = self.database.url.parse().unwrap();
        url.set_port(Some(port)).unwrap();
        format!("url = \"{url}\"\ntable = \"public.hooklatch_messages\"")
    }

    async fn received(&self) -> Vec<Received> {
        let mut db = PgConnection::connect(&self.database.url).await.unwrap();
        let rows = sqlx::query("SELECT * FROM hooklatch_messages ORDER BY received_at")
            .fetch_all(&mut db)
            .await
            .unwrap();
        let columns = [
            ("idempotency-key", "idempotency_key"),
            ("hooklatch-provider", "provider"),
            ("hooklatch-event-id", "event_id"),
            ("hooklatch-event-type", "event_type"),
            ("hooklatch-effect", "effect"),
            ("content-type", "content_type"),
        ];
        let received = |row: sqlx::postgres::PgRow| Received {
            key: row.get("idempotency_key"),
            body: row.get("body"),
            metadata: columns.iter().map(|(name, column)| ((*name).to_owned(), row.get(*column))).collect(),
        };
        rows.into_iter().map(received).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_twice_is_there_once_and_a_lost_answer_is_unknown() {
    let Some((table, port)) = Table::create().await else { return };
    table.run(create()).await;
    Bench::new(&table, port, false).await.shows().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_is_missing_is_tried_again_until_it_is_there() {
    let Some((table, port)) = Table::create().await else { return };
    let bench = Bench::new(&table, port, false).await;
    bench.fixture.message("evt_1", &["billing"]).await;
    let outbox = bench.outbox(UnknownPolicy::Hold);
    outbox.run_due().await.unwrap();
    let error = bench.error("evt_1").await;
    assert_eq!(bench.fixture.state("evt_1").await, "ready", "{error}");
    assert!(error.contains("does not exist; create the table as docs/destinations.md says"), "{error}");
    table.run(create()).await;
    bench.fixture.step_to_the_end(&outbox).await;
    assert_eq!(bench.fixture.state("evt_1").await, "done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_breaks_a_rule_of_the_table_is_dead_and_never_taken_for_a_copy() {
    let Some((table, port)) = Table::create().await else { return };
    table.run(create()).await;
    table.run("ALTER TABLE hooklatch_messages ADD UNIQUE (event_type)").await;
    let bench = Bench::new(&table, port, false).await;
    let outbox = bench.outbox(UnknownPolicy::Retry);
    for (id, state) in [("evt_1", "done"), ("evt_2", "dead")] {
        bench.fixture.message(id, &["billing"]).await;
        outbox.run_due().await.unwrap();
        assert_eq!(bench.fixture.state(id).await, state, "{}", bench.error(id).await);
    }
    assert!(bench.error("evt_2").await.contains("unique constraint"), "{}", bench.error("evt_2").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_ends_before_its_commit_was_sent_leaves_nothing_to_decide() {
    let Some((table, port)) = Table::create().await else { return };
    table.run(create()).await;
    table
        .run(
            "CREATE FUNCTION ended() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$;
             CREATE TRIGGER ended BEFORE INSERT ON hooklatch_messages FOR EACH ROW EXECUTE FUNCTION ended()",
        )
        .await;
    let bench = Bench::new(&table, port, false).await;
    bench.fixture.message("evt_1", &["billing"]).await;
    let outbox = bench.outbox(UnknownPolicy::Hold);
    outbox.run_due().await.unwrap();
    assert_eq!(bench.fixture.state("evt_1").await, "ready", "{}", bench.error("evt_1").await);
    table.run("DROP TRIGGER ended ON hooklatch_messages").await;
    bench.fixture.step_to_the_end(&outbox).await;
    assert_eq!(bench.fixture.state("evt_1").await, "done", "{}", bench.error("evt_1").await);
    assert_eq!(bench.keys().await.len(), 1);
}

#[tokio::test]
async fn a_password_in_a_url_is_never_shown() {
    shows_no_password("url = \"postgres://user:canary@127.0.0.1:1/x\"\ntable = \"a\"").await;
}
