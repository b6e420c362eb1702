//! Connections to the database that break, hang, become read-only, or are left in the middle of a statement: what was
//! acknowledged stays, and the next operation works.

use std::process::Command;
use std::time::{Duration, Instant};

use hooklatch_contract::MessageAct;
use hooklatch_core::types::{EventState, MessageId};
use hooklatch_store::{Store, StoreSettings};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::time::timeout;

use crate::database::{Database, On, on_both};
use crate::process::{Server, client, post_stripe, until};
use crate::store::{candidates, decision_at, event, message, on_message, ops};
use crate::stub::Stub;

on_both!(an_operation_whose_caller_goes_away_runs_to_its_end, a_batch_that_is_dropped_leaves_nothing_open);

/// Admits an event with a message, whose id it gives back.
async fn admit(store: &Store, id: &str) -> MessageId {
    crate::store::admit(store, &event(id, "{}"), &[message("bank")]).await[0]
}

async fn an_operation_whose_caller_goes_away_runs_to_its_end(database: &Database) {
    let store = database.store().await;
    for n in 0..20 {
        let chosen = on_message(admit(&store, &format!("evt_{n}")).await, MessageAct::Discard);
        let (key, people) = (format!("key_{n}"), ops(&store));
        let decision = decision_at(&key, 1_000);
        // Dropped at its first, second, … wait.
        let decide = people.decide(&chosen, &decision);
        let mut decide = std::pin::pin!(decide);
        for _ in 0..=n % 3 {
            if timeout(Duration::ZERO, &mut decide).await.is_ok() {
                break;
            }
        }
    }
    until("each was decided all the same", Duration::from_secs(10), String::new, async || {
        database.count("SELECT COUNT(*) FROM outbox_messages WHERE state = 'discarded'").await == 20
    })
    .await;
    store.close().await;
}

async fn a_batch_that_is_dropped_leaves_nothing_open(database: &Database) {
    let store = database.store().await;
    for n in 0..20 {
        let lost = event(&format!("lost_{n}"), "{}");
        let lost = candidates(&store, &[&lost], EventState::Handled).await;
        let mut tx = store.admission_begin().await.unwrap();
        let insert = tx.events_insert(&lost);
        // In the middle of a statement, or just after it.
        drop(timeout(Duration::from_micros(n * 200), insert).await);
        drop(tx);
        admit(&store, &format!("evt_{n}")).await;
    }
    assert_eq!(database.count("SELECT COUNT(*) FROM processed_webhook_events").await, 20);
    store.close().await;
}

/// The processes of the sessions that the program has with its database.
async fn sessions(db: &mut PgConnection) -> Vec<i32> {
    let sql = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'hooklatch'";
    // With a bound: a session that was stopped at a bad moment may be in the way, and must then go on.
    timeout(Duration::from_secs(20), sqlx::query_scalar(sql).fetch_all(db)).await.unwrap().unwrap()
}

/// Processes that stand still until this is dropped.
#[derive(Default)]
struct Stopped(Vec<i32>);

impl Stopped {
    /// Stops all sessions that are not stopped yet, those included that are just being opened.
    async fn sessions(&mut self, db: &mut PgConnection) {
        loop {
            let mut new = sessions(db).await;
            new.retain(|process| !self.0.contains(process));
            if new.is_empty() {
                return;
            }
            self.0.extend(&new);
            signal("-STOP", &new);
        }
    }
}

fn signal(word: &str, processes: &[i32]) {
    for process in processes {
        // One that has ended meanwhile needs no signal.
        drop(Command::new("kill").args([word, &process.to_string()]).status());
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal("-CONT", &self.0);
    }
}

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A server whose events go to `destination`, where keys are ignored and a person has to decide about what is unknown:
/// no call may last so long that its outcome is.
async fn holding(database: &Database, destination: &Stub) -> Server {
    let more = format!(
        "routes = [{{ on = [\"*\"], to = \"bank\" }}]\n[outbox]\nlease_ms = 60000\n[destinations.bank]\nurl = \"{}\"\n\
         unknown = \"hold\"\ntimeout_ms = 20000\n",
        destination.url()
    );
    let server = Server::prepare(&database.url, &more);
    let file = server.config();
    let text = std::fs::read_to_string(&file).unwrap();
    let tokens =
        format!("[admin]\ntokens = [{{ name = \"ops\", role = \"operator\", token = \"{TOKEN}\" }}]\n");
    std::fs::write(&file, text.replace("[admin]\n", &tokens)).unwrap();
    let mut server = server;
    server.spawn().await;
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operators_request_that_hangs_up_makes_no_call_happen_twice() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let destination = Stub::start().await;
    let server = holding(&database, &destination).await;
    let (client, url) = (client(), server.url("/webhooks/stripe"));
    let mut db = PgConnection::connect(&database.url).await.unwrap();
    for round in 0..3 {
        let mut tries_n = 0;
        let hangs_up = async || {
            tries_n += 1;
            // One that finds every stopped session taken opens another, and is answered: the next one is not.
            let mut stopped = Stopped::default();
            stopped.sessions(&mut db).await;
            let request = client
                .post(format!("http://{}/v1/messages/1024/decide", server.admin))
                .bearer_auth(TOKEN)
                .header("idempotency-key", format!("key-{round}-{tries_n}"))
                .body(r#"{"act":"send","reason":"try again"}"#)
                .timeout(Duration::from_millis(300));
            request.send().await.is_err()
        };
        until("the database does not answer", Duration::from_secs(20), || server.log(), hangs_up).await;
        for n in 0..40 {
            let id = format!("evt_{round}_{n}");
            assert_eq!(post_stripe(&client, &url, &id).await.unwrap(), "accepted");
        }
    }
    until(
        "all are done",
        Duration::from_secs(20),
        || server.log(),
        async || database.count("SELECT COUNT(*) FROM outbox_messages WHERE state = 'done'").await == 120,
    )
    .await;
    let idle = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = \
                'hooklatch' AND state LIKE 'idle in transaction%' AND state_change < clock_timestamp() - interval '1 s'";
    assert_eq!(database.count(idle).await, 0);
    for key in database.call_keys().await {
        assert_eq!(destination.call(&key).requests_n, 1, "each call was made once");
    }
}

/// True when `/readyz` is ready.
async fn is_ready(server: &Server) -> bool {
    let ready = client().get(format!("http://{}/readyz", server.admin)).send().await;
    ready.is_ok_and(|response| response.status().is_success())
}

async fn turns(server: &Server, to_ready: bool) {
    let what = format!("readiness turns to {to_ready}");
    until(&what, Duration::from_secs(20), || server.log(), async || is_ready(server).await == to_ready).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_only_reads_is_left_and_readiness_knows() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let server = Server::start(&database.url, "").await;
    let (client, url) = (client(), server.url("/webhooks/stripe"));
    assert_eq!(post_stripe(&client, &url, "evt_1").await.unwrap(), "accepted");
    let mut db = PgConnection::connect(&database.url).await.unwrap();
    let name = database.url.rsplit_once('/').unwrap().1;
    let set = async |db: &mut PgConnection, word: &str| {
        let sql = format!(
            "SET default_transaction_read_only = off; ALTER DATABASE {name} SET default_transaction_read_only = {word}"
        );
        db.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await.unwrap();
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'hooklatch' \
                   AND datname = current_database()";
        db.execute(sqlx::raw_sql(sql)).await.unwrap();
    };
    set(&mut db, "on").await;
    turns(&server, false).await;
    assert_eq!(post_stripe(&client, &url, "evt_2").await.unwrap_err(), "503");
    set(&mut db, "off").await;
    turns(&server, true).await;
    assert_eq!(post_stripe(&client, &url, "evt_2").await.unwrap(), "accepted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_in_time_and_readiness_knows_while_the_database_does_not_answer() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let mut server = Server::start(&database.url, "[outbox]\nstop_timeout_ms = 1000\n").await;
    let (client, url) = (client(), server.url("/webhooks/stripe"));
    assert_eq!(post_stripe(&client, &url, "evt_1").await.unwrap(), "accepted");
    let mut db = PgConnection::connect(&database.url).await.unwrap();
    let (mut stopped, mut n) = (Stopped::default(), 1);
    let is_refused = async || {
        n += 1;
        stopped.sessions(&mut db).await;
        post_stripe(&client, &url, &format!("evt_{n}")).await == Err("503".to_owned())
    };
    // One that finds every stopped session taken opens another, and is accepted.
    until("one is refused", Duration::from_secs(40), || server.log(), is_refused).await;
    // New sessions work, so this does not stay so; that it turned is in the log, or is seen here.
    let since = Instant::now();
    let _ = server.terminate();
    let took = since.elapsed();
    drop(stopped);
    assert!(took < Duration::from_secs(12), "the stop took {took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_fall_silent_are_left_within_fifteen_seconds() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let server = Server::start(&database.url, "").await;
    let (client, url) = (client(), server.url("/webhooks/stripe"));
    assert_eq!(post_stripe(&client, &url, "evt_1").await.unwrap(), "accepted");
    let mut db = PgConnection::connect(&database.url).await.unwrap();
    let mut stopped = Stopped::default();
    stopped.sessions(&mut db).await;
    let mut n = 2;
    until(
        "the first 200",
        Duration::from_secs(15),
        || server.log(),
        async || {
            n += 1;
            post_stripe(&client, &url, &format!("evt_{n}")).await.is_ok()
        },
    )
    .await;
    turns(&server, true).await;
    drop(stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_are_cut_cost_one_batch_at_most() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let server = Server::start(&database.url, "").await;
    let (client, url) = (client(), server.url("/webhooks/stripe"));
    let mut db = PgConnection::connect(&database.url).await.unwrap();
    for round in 0..5 {
        assert_eq!(post_stripe(&client, &url, &format!("evt_{round}_1")).await.unwrap(), "accepted");
        let sql = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'hooklatch' \
                   AND datname = current_database()";
        db.execute(sqlx::raw_sql(sql)).await.unwrap();
        let mut refused_n = 0;
        for n in 2..8 {
            let sent = post_stripe(&client, &url, &format!("evt_{round}_{n}")).await;
            refused_n += usize::from(sent.is_err());
        }
        assert!(refused_n <= 1, "{refused_n} requests of six were refused, one after another");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_over_when_there_is_room_again() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let mut server = Server::prepare(&database.url, "");
    // The kernel's way to say that a file may not grow must not end the process.
    server.start_after("trap '' XFSZ");
    server.spawn().await;
    let (client, url) = (client(), server.url("/webhooks/stripe"));
    assert_eq!(post_stripe(&client, &url, "evt_1").await.unwrap(), "accepted");
    let limit = |bytes: &str| {
        let process = server.process_id().to_string();
        let set = Command::new("prlimit").args(["--pid", &process, &format!("--fsize={bytes}:")]).status();
        assert!(set.unwrap().success());
    };
    limit("4096");
    assert_eq!(post_stripe(&client, &url, "evt_2").await.unwrap_err(), "503");
    turns(&server, false).await;
    assert_eq!(post_stripe(&client, &url, "evt_3").await.unwrap_err(), "503");
    limit("unlimited");
    turns(&server, true).await;
    assert_eq!(post_stripe(&client, &url, "evt_2").await.unwrap(), "accepted");
    assert_eq!(
        post_stripe(&client, &url, "evt_1").await.unwrap(),
        "duplicate",
        "what was acknowledged is there"
    );
}

#[tokio::test]
async fn a_store_frees_a_place_that_is_never_returned() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let store = Store::open(&StoreSettings { url: database.url.clone(), connections_n: 1 }).await.unwrap();
    store.migrate().await.unwrap();
    let held = store.admission_begin().await.unwrap();
    let why = store.probe().await.expect_err("the only writer is taken").to_string();
    assert!(why.ends_with("no answer within 2 s"), "its own limit, which is the shortest: {why}");
    held.rollback().await.unwrap();
    store.probe().await.unwrap();
}
