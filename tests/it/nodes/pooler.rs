//! PgBouncer between Hooklatch and PostgreSQL: what works, and what is refused with a reason.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;

use super::server::{command, folder, signal};
use super::{database, refused};
use crate::database::{Database, On};
use crate::needs;
use crate::process::{Server, client, free_port, post_stripe, until};

/// A PgBouncer with its default settings, except those set here.
struct Pooler {
    port: u16,
    child: Child,
    folder: TempDir,
}

impl Pooler {
    async fn start(database: &Database, settings: &str) -> Option<Self> {
        let place = needs::place("HOOKLATCH_TEST_PGBOUNCER")?;
        let folder = folder();
        let port = free_port().port();
        let at = database.url.rsplit_once('@').unwrap().1;
        let (host, name) = at.split_once('/').unwrap();
        let (host, server_port) = host.split_once(':').unwrap();
        let config = format!(
            "[databases]\n{name} = host={host} port={server_port} user=postgres\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\nunix_socket_dir =\n{settings}\n"
        );
        std::fs::write(folder.path().join("pgbouncer.ini"), config).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let child = command(place, folder.path())
            .arg("pgbouncer.ini")
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let pooler = Self { port, child, folder };
        let url = pooler.url(database);
        let log = || pooler.log();
        until("PgBouncer answers", Duration::from_secs(10), log, async || {
            PgConnection::connect_with(&plain(&url)).await.is_ok()
        })
        .await;
        Some(pooler)
    }

    fn url(&self, database: &Database) -> String {
        let name = database.url.rsplit_once('/').unwrap().1;
        format!("postgres://postgres@127.0.0.1:{}/{name}", self.port)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        signal(&self.child, "INT");
        drop(self.child.wait());
        if std::thread::panicking() {
            eprintln!("---- log of PgBouncer\n{}", self.log());
        }
    }
}

/// Without the start-up parameter that PgBouncer does not know.
fn plain(url: &str) -> sqlx::postgres::PgConnectOptions {
    url.parse::<sqlx::postgres::PgConnectOptions>().unwrap().extra_float_digits(None)
}

/// Major and minor number of the one that is there.
fn version() -> Option<(u32, u32)> {
    let output = Command::new(needs::place("HOOKLATCH_TEST_PGBOUNCER")?).arg("--version").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let number = text.split_whitespace().nth(1).unwrap();
    let mut parts = number.split('.').map(|part| part.parse().unwrap());
    Some((parts.next().unwrap(), parts.next().unwrap()))
}

const SESSION: &str = "pool_mode = session\ndefault_pool_size = 30";
const TRANSACTION: &str = "pool_mode = transaction\ndefault_pool_size = 30";

/// Posts each event twice, from several senders at once.
async fn takes_events_once(server: &Server) {
    let client = client();
    let url = server.url("/webhooks/stripe");
    let mut senders = tokio::task::JoinSet::new();
    for n in 0..60 {
        let (client, url) = (client.clone(), url.clone());
        senders.spawn(async move {
            let id = format!("evt_{n}");
            let first = post_stripe(&client, &url, &id).await;
            let again = post_stripe(&client, &url, &id).await;
            assert_eq!((first, again), (Ok("accepted".to_owned()), Ok("duplicate".to_owned())), "{id}");
        });
    }
    while let Some(sender) = senders.join_next().await {
        sender.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_in_session_mode_works_as_it_is_installed() {
    let Some(own) = Database::create(On::Postgres).await else { return };
    let Some(pooler) = Pooler::start(&own, SESSION).await else { return };
    let server = Server::start(&pooler.url(&own), "").await;
    takes_events_once(&server).await;
    assert_eq!(own.count("SELECT COUNT(*) FROM processed_webhook_events").await, 60);
}

/// One stuck key must not stop admission: the session's `lock_timeout` has to reach the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_pooler_a_wait_for_a_lock_ends() {
    let Some(own) = Database::create(On::Postgres).await else { return };
    let Some(pooler) = Pooler::start(&own, SESSION).await else { return };
    let server = Server::start(&pooler.url(&own), "").await;
    let mut other = PgConnection::connect(&own.url).await.unwrap();
    let mut tx = other.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE processed_webhook_events IN ACCESS EXCLUSIVE MODE")
        .execute(&mut *tx)
        .await
        .unwrap();
    let (client, url) = (client(), server.url("/webhooks/stripe"));
    assert_eq!(post_stripe(&client, &url, "evt_1").await, Err("503".to_owned()));
    let waits = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()
                 AND clock_timestamp() - query_start > interval '3.5 s'";
    assert_eq!(own.count(waits).await, 0, "no statement waits longer than lock_timeout");
    tx.rollback().await.unwrap();
    let taken = async || post_stripe(&client, &url, "evt_1").await.is_ok();
    until("the event is taken", Duration::from_secs(10), || server.log(), taken).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_in_transaction_mode_is_refused_unless_configured() {
    let Some(own) = Database::create(On::Postgres).await else { return };
    let Some(pooler) = Pooler::start(&own, TRANSACTION).await else { return };
    let said = refused(&pooler.url(&own), "connect_wait_ms = 0");
    assert!(said.contains("shares sessions") && said.contains("database.pooling"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_without_transactions_is_refused() {
    let Some(own) = Database::create(On::Postgres).await else { return };
    role_settings(&own, true).await;
    let Some(pooler) = Pooler::start(&own, "pool_mode = statement").await else { return };
    for pooling in ["session", "transaction"] {
        let said = refused(&pooler.url(&own), &format!("pooling = \"{pooling}\""));
        assert!(said.contains("session mode"), "{pooling}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_in_transaction_mode_that_loses_prepared_statements_is_refused() {
    let Some(own) = Database::create(On::Postgres).await else { return };
    role_settings(&own, true).await;
    let Some(pooler) = Pooler::start(&own, TRANSACTION).await else { return };
    if version().is_some_and(|version| version >= (1, 21)) {
        eprintln!("SKIPPED: this PgBouncer keeps prepared statements");
        return;
    }
    let said = refused(&pooler.url(&own), "pooling = \"transaction\"\nconnect_wait_ms = 0");
    assert!(said.contains("max_prepared_statements"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_in_transaction_mode_works_with_what_the_role_brings() {
    let Some(own) = Database::create(On::Postgres).await else { return };
    if version().is_none_or(|version| version < (1, 21)) {
        eprintln!("SKIPPED: needs PgBouncer 1.21 or later");
        return;
    }
    let settings = format!("{TRANSACTION}\nmax_prepared_statements = 1000");
    let Some(pooler) = Pooler::start(&own, &settings).await else { return };
    let keys = "pooling = \"transaction\"\nconnect_wait_ms = 0";
    role_settings(&own, false).await;
    let said = refused(&pooler.url(&own), keys);
    assert!(said.contains("ALTER ROLE") && said.contains("lock_timeout"), "{said}");
    role_settings(&own, true).await;
    drop(pooler);
    let Some(pooler) = Pooler::start(&own, &settings).await else { return };
    let server = Server::start(&database(&pooler.url(&own), keys), "").await;
    takes_events_once(&server).await;
    assert_eq!(own.count("SELECT COUNT(*) FROM processed_webhook_events").await, 60);
}

/// What docs/postgres.md says that the role brings; for this database alone.
async fn role_settings(own: &Database, are_set: bool) {
    let name = own.url.rsplit_once('/').unwrap().1;
    let mut db = PgConnection::connect(&own.url).await.unwrap();
    for (setting, value) in
        [("lock_timeout", "2s"), ("idle_in_transaction_session_timeout", "30s"), ("statement_timeout", "0")]
    {
        let value = if are_set { format!("SET {setting} = '{value}'") } else { format!("RESET {setting}") };
        let sql = format!("ALTER ROLE postgres IN DATABASE {name} {value}");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut db).await.unwrap();
    }
}

/// Two of our statements have one name there; the session that a pooler assigns may have the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_pooler_in_transaction_mode_a_row_is_inserted_into_its_own_table() {
    let Some(own) = Database::create(On::Postgres).await else { return };
    let Some(pooler) = Pooler::start(&own, "pool_mode = transaction\ndefault_pool_size = 2").await else {
        return;
    };
    let mut db = PgConnection::connect(&own.url).await.unwrap();
    for table in ["left", "right"] {
        let sql = format!(
            "CREATE TABLE \"{table}\" (idempotency_key text PRIMARY KEY, message_id text, provider text, event_id text,
             event_type text, effect text, content_type text, body bytea)"
        );
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut db).await.unwrap();
    }
    let url = pooler.url(&own);
    let destination = |table: &str| {
        format!(
            "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"{table}\"\n\
             [destinations.{table}]\nurl = \"{url}\"\ntable = \"{table}\"\n"
        )
    };
    let more = ["left", "right"].map(destination).concat();
    let events = Database::create(On::Sqlite).await.unwrap();
    let server = Server::start(&events.url, &more).await;
    takes_events_once(&server).await;
    let log = || format!("{}\n{}", server.log(), pooler.log());
    let all = "SELECT (SELECT COUNT(*) FROM \"left\") + (SELECT COUNT(*) FROM \"right\")";
    until("all rows are there", Duration::from_secs(30), log, async || own.count(all).await == 120).await;
    for table in ["left", "right"] {
        let sql = format!("SELECT COUNT(*) FROM \"{table}\" WHERE effect = '{table}'");
        let found: i64 = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut db).await.unwrap();
        assert_eq!(found, 60, "{table}");
    }
}
