//! Retention as operators see it: the real binary prunes by itself, counts what would be pruned, and erases on an
//! operator's order.

use std::process::Command;
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, SqliteConnection};

use crate::database::{Database, on_both};
use crate::process::{Server, client, post_stripe, until};

on_both!(
    a_server_prunes_by_itself_and_a_copy_is_still_known,
    a_dry_run_counts_what_prune_deletes,
    a_clock_days_ahead_deletes_nothing_until_an_operator_confirms_it,
    single_events_are_erased_and_never_dispatched_again,
);

/// Makes everything so many days older.
async fn age(database: &Database, days: i64) {
    let ms = days * 86_400_000;
    let sql = format!(
        "UPDATE processed_webhook_events SET received_at_ms = received_at_ms - {ms},
             processed_at_ms = processed_at_ms - {ms}"
    );
    if database.url.starts_with("sqlite") {
        SqliteConnection::connect(&database.url).await.unwrap().execute(AssertSqlSafe(sql)).await.unwrap();
    } else {
        PgConnection::connect(&database.url).await.unwrap().execute(AssertSqlSafe(sql)).await.unwrap();
    }
}

fn run(server: &Server, arguments: &[&str]) -> (bool, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_hooklatch"))
        .arg("--config")
        .arg(server.config())
        .args(arguments)
        .output()
        .unwrap();
    (ran.status.success(), String::from_utf8(ran.stdout).unwrap() + &String::from_utf8(ran.stderr).unwrap())
}

const PAYLOADS: &str = "SELECT COUNT(*) FROM webhook_payloads";
const EVENTS: &str = "SELECT COUNT(*) FROM processed_webhook_events";

async fn a_server_prunes_by_itself_and_a_copy_is_still_known(database: &Database) {
    let mut server = Server::start(&database.url, "[retention]\nevery_ms = 0\n").await;
    let url = server.url("/webhooks/stripe");
    post_stripe(&client(), &url, "evt_1").await.unwrap();
    server.kill();
    age(database, 31).await;
    let config = std::fs::read_to_string(server.config()).unwrap();
    std::fs::write(server.config(), config.replace("every_ms = 0", "every_ms = 100")).unwrap();
    server.spawn().await;
    let log = || server.log();
    let is_gone = async || database.count(PAYLOADS).await == 0;
    until("its body is gone", Duration::from_secs(20), log, is_gone).await;
    assert_eq!(database.count(EVENTS).await, 1);
    assert_eq!(post_stripe(&client(), &url, "evt_1").await, Ok("duplicate".to_owned()));
    // It counts what it has committed.
    until("it is counted", Duration::from_secs(20), log, async || {
        let metrics = server.admin_text("/metrics").await;
        metrics.contains(r#"hooklatch_pruned_rows_total{table="webhook_payloads"} 1"#)
            && metrics.contains(r#"hooklatch_prune_lag_seconds{table="webhook_payloads"}"#)
    })
    .await;
}

async fn a_dry_run_counts_what_prune_deletes(database: &Database) {
    let mut server = Server::start(&database.url, "[retention]\nevery_ms = 0\n").await;
    for n in 0..3 {
        post_stripe(&client(), &server.url("/webhooks/stripe"), &format!("evt_{n}")).await.unwrap();
    }
    if database.url.starts_with("sqlite") {
        let (is_fine, said) = run(&server, &["prune", "--dry-run"]);
        assert!(!is_fine && said.contains("prunes by itself"), "{said}");
        server.kill();
    }
    age(database, 31).await;
    let (is_fine, said) = run(&server, &["prune", "--dry-run"]);
    assert!(is_fine && said.contains("3\twebhook_payloads") && said.contains("0\tprocessed_"), "{said}");
    assert_eq!(database.count(PAYLOADS).await, 3);
    let (is_fine, said) = run(&server, &["prune", "--json"]);
    let report: serde_json::Value = serde_json::from_str(said.trim()).unwrap();
    assert!(is_fine && report["rows"]["webhook_payloads"] == 3 && report["dry_run"] == false, "{said}");
    assert_eq!((database.count(PAYLOADS).await, database.count(EVENTS).await), (0, 3));
    age(database, 60).await;
    // Wherever the last walk ended.
    let walked =
        "UPDATE retention_marks SET event_seq = (SELECT MAX(event_seq) FROM processed_webhook_events)";
    database.run(walked).await.unwrap();
    for command in [&["prune", "--dry-run"][..], &["prune"]] {
        let (_, said) = run(&server, command);
        assert!(said.contains("3\tprocessed_webhook_events"), "{said}");
    }
    assert_eq!(database.count(EVENTS).await, 0);
}

/// The ids of events gone too early, their sender's next try would be taken for a new event.
async fn a_clock_days_ahead_deletes_nothing_until_an_operator_confirms_it(database: &Database) {
    let mut server = Server::start(&database.url, "[retention]\nevery_ms = 0\n").await;
    let url = server.url("/webhooks/stripe");
    post_stripe(&client(), &url, "evt_1").await.unwrap();
    server.kill();
    assert!(run(&server, &["prune"]).0);
    // As seen by a clock that is three days ahead, and by a server that was off for as long.
    let jump = "UPDATE retention_lease SET counted_at_ms = counted_at_ms - 259200000";
    database.run(jump).await.unwrap();
    age(database, 100).await;
    let config = std::fs::read_to_string(server.config()).unwrap();
    std::fs::write(server.config(), config.replace("every_ms = 0", "every_ms = 100")).unwrap();
    server.spawn().await;
    until(
        "it says so",
        Duration::from_secs(20),
        || server.log(),
        async || server.log().contains("the clock is days beyond"),
    )
    .await;
    assert_eq!(post_stripe(&client(), &url, "evt_1").await, Ok("duplicate".to_owned()));
    server.kill();
    let (is_fine, said) = run(&server, &["prune"]);
    assert!(!is_fine && said.contains("3 days") && said.contains("--yes"), "{said}");
    assert_eq!(database.count(EVENTS).await, 1);
    let (is_fine, said) = run(&server, &["prune", "--yes"]);
    assert!(is_fine && said.contains("1\tprocessed_webhook_events"), "{said}");
    assert!(run(&server, &["prune"]).0, "its word counts from then on");
}

async fn single_events_are_erased_and_never_dispatched_again(database: &Database) {
    let mut server = Server::prepare(&database.url, "");
    let config = std::fs::read_to_string(server.config()).unwrap();
    let token = "tokens = [{ name = \"ops\", role = \"operator\", token = \"operator-token-0123456789\" }]\n[database]";
    std::fs::write(server.config(), config.replace("[database]", token)).unwrap();
    server.spawn().await;
    for n in 0..3 {
        post_stripe(&client(), &server.url("/webhooks/stripe"), &format!("evt_{n}")).await.unwrap();
    }
    let (is_fine, said) = run(&server, &["erase", "stripe", "evt_0", "evt_1", "--reason", "asked by letter"]);
    assert_eq!((is_fine, said.as_str()), (true, "evt_0: erased\nevt_1: erased\n"));
    assert_eq!((database.count(PAYLOADS).await, database.count(EVENTS).await), (1, 3));
    let (_, shown) = run(&server, &["events", "show", "stripe", "evt_0"]);
    assert!(shown.contains("no longer kept") && shown.contains("state     ignored"), "{shown}");
    let (is_fine, said) = run(&server, &["events", "rerun", "stripe", "evt_0", "--reason", "x"]);
    assert!(!is_fine && said.contains("no longer kept"), "{said}");
    let (is_fine, said) = run(&server, &["erase", "stripe", "absent", "--reason", "x"]);
    assert!(!is_fine && said.contains("404") && said.contains("absent"), "{said}");
}
