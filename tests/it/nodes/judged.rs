//! The doctor on servers with unsafe settings: its finding for each, and its exit code.

use std::time::Duration;

use sqlx::{Connection, PgConnection};

use super::refused;
use super::server::Postgres;
use crate::doctor::{Examined, OPERATOR, examine};
use crate::process::{Server, client, post_stripe, until};

async fn ready(settings: &[&str], more: &str) -> Option<(Postgres, Server)> {
    let postgres = Postgres::start(settings).await?;
    let server = Server::start(&postgres.url(), &format!("{OPERATOR}{more}")).await;
    let nodes_n = async || postgres.scalar::<i64>("SELECT COUNT(*) FROM nodes").await;
    until("it is seen", Duration::from_secs(20), || server.log(), async || nodes_n().await == 1).await;
    Some((postgres, server))
}

/// Runs a statement, also where sessions are made read-only.
async fn writing(postgres: &Postgres, sql: &'static str) {
    let mut db = PgConnection::connect(&postgres.url()).await.unwrap();
    for sql in ["SET default_transaction_read_only = off", sql] {
        sqlx::raw_sql(sql).execute(&mut db).await.unwrap();
    }
}

/// Asserts that the report has this check with this verdict and these words, and nothing else is amiss. What needed a
/// new session may be unknown: none is begun with such settings.
#[track_caller]
fn assert_reported(found: &Examined, (check, subject): (&str, &str), verdict: &str, words: &[&str]) {
    let one = found.find(check, Some(subject));
    assert_eq!(one["verdict"], verdict, "{one}");
    let text = format!("{} {} {}", one["found"], one["bound"], one["remedy"]);
    for word in words {
        assert!(text.contains(word), "{word}: {text}");
    }
    let mut bad = found.bad();
    bad.retain(|(_, verdict)| verdict != "unknown");
    assert_eq!(bad, [(check.to_owned(), verdict.to_owned())], "{}", found.text);
    found.ends_with(if verdict == "failure" { 1 } else { 8 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_changed_under_a_running_server_are_reported() {
    let Some((postgres, server)) = ready(&[], "").await else { return };
    let ask = async || examine(&server, &["--no-probe"]).await;
    let found = ask().await;
    assert_eq!(found.bad(), [], "{}", found.text);
    for (set, back, subject, words) in [
        (
            "ALTER SYSTEM SET fsync = off",
            "ALTER SYSTEM RESET fsync",
            "fsync",
            &["fsync = off", "ALTER SYSTEM SET fsync = on"][..],
        ),
        (
            "ALTER SYSTEM SET full_page_writes = off",
            "ALTER SYSTEM RESET full_page_writes",
            "full_page_writes",
            &["full_page_writes = off", "ALTER SYSTEM SET full_page_writes = on"],
        ),
        // Sessions keep what they began with: these would be refused from the next one on.
        (
            "ALTER DATABASE postgres SET synchronous_commit = off",
            "ALTER DATABASE postgres RESET synchronous_commit",
            "synchronous_commit",
            &["synchronous_commit = off", "sessions that begin now", "ALTER DATABASE"],
        ),
        (
            "ALTER ROLE postgres SET synchronous_commit = 'local'",
            "ALTER ROLE postgres RESET synchronous_commit",
            "synchronous_commit",
            &["synchronous_commit = local", "ALTER ROLE"],
        ),
        (
            "ALTER SYSTEM SET synchronous_commit = remote_write",
            "ALTER SYSTEM RESET synchronous_commit",
            "synchronous_commit",
            &["synchronous_commit = remote_write", "ALTER SYSTEM"],
        ),
        (
            "ALTER DATABASE postgres SET default_transaction_read_only = on",
            "ALTER DATABASE postgres RESET default_transaction_read_only",
            "default_transaction_read_only",
            &["default_transaction_read_only = on"],
        ),
    ] {
        // A statement of ALTER SYSTEM stands by itself; the word to read the file again takes a moment.
        postgres.execute(set).await;
        postgres.execute("SELECT pg_reload_conf()").await;
        let mut found = ask().await;
        let is_reported = async || {
            found = ask().await;
            found.bad().iter().any(|(check, verdict)| check == "database.settings" && verdict == "failure")
        };
        until(set, Duration::from_secs(30), || server.log(), is_reported).await;
        assert_reported(&found, ("database.settings", subject), "failure", words);
        writing(&postgres, back).await;
        postgres.execute("SELECT pg_reload_conf()").await;
        let is_well = async || ask().await.bad().is_empty();
        until(back, Duration::from_secs(30), || server.log(), is_well).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsafe_settings_at_the_start_are_reported_or_refused() {
    let Some((postgres, server)) =
        ready(&["idle_session_timeout=30s", "autovacuum=off", "max_connections=16"], "").await
    else {
        return;
    };
    let found = examine(&server, &["--no-probe"]).await;
    for (check, subject, verdict, words) in [
        (
            "database.settings",
            Some("idle_session_timeout"),
            "warning",
            &["idle_session_timeout = 30000 ms", "ALTER ROLE"][..],
        ),
        (
            "database.vacuum",
            Some("autovacuum"),
            "failure",
            &["autovacuum = off", "ALTER SYSTEM SET autovacuum = on"],
        ),
        (
            "database.connections",
            None,
            "warning",
            &["may open 10 sessions", "13 (max_connections", "raise max_connections"],
        ),
    ] {
        let one = found.find(check, subject);
        assert_eq!(one["verdict"], verdict, "{one}");
        let text = format!("{} {} {}", one["found"], one["bound"], one["remedy"]);
        for word in words {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
    assert_eq!(found.bad().len(), 3, "{}", found.text);
    found.ends_with(1);
    drop(server);
    // A server that loses what it confirms is not started on at all, and the doctor says why.
    postgres.execute("ALTER SYSTEM SET fsync = off").await;
    postgres.execute("SELECT pg_reload_conf()").await;
    let said = refused(&postgres.url(), "");
    assert!(said.contains("fsync = off") && said.contains("turn it on"), "{said}");
    let server = Server::prepare(&postgres.url(), OPERATOR);
    let found = examine(&server, &[]).await;
    let one = found.find("server", Some("database"));
    assert!(one["verdict"] == "failure" && one["found"].as_str().unwrap().contains("fsync = off"), "{one}");
    found.ends_with(1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_indexes_and_dead_rows_are_reported() {
    let Some((postgres, server)) = ready(&["autovacuum_naptime=1d"], "").await else { return };
    let ask = async || examine(&server, &["--no-probe"]).await;
    let name = "processed_webhook_events_due";
    postgres.execute("DROP INDEX processed_webhook_events_due").await;
    assert_reported(
        &ask().await,
        ("database.schema", name),
        "warning",
        &["the index is missing", "make processed_webhook_events_due again"],
    );
    // As it is left when a build is ended in the middle.
    let make =
        "CREATE INDEX CONCURRENTLY processed_webhook_events_due ON processed_webhook_events (provider, due_at_ms, event_seq)
        WHERE state = 'retry'";
    postgres.execute(make).await;
    let invalid =
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'processed_webhook_events_due'::regclass";
    postgres.execute(invalid).await;
    let remedy = "REINDEX INDEX CONCURRENTLY processed_webhook_events_due";
    assert_reported(&ask().await, ("database.schema", name), "warning", &["not valid", remedy]);
    // The remedy is one.
    postgres.execute(remedy).await;
    assert_eq!(ask().await.bad(), []);
    // A unique one that is not valid latches nothing.
    postgres
        .execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'outbox_queue_lane'::regclass")
        .await;
    assert_reported(&ask().await, ("database.schema", "outbox_queue_lane"), "failure", &["not valid"]);
    postgres.execute("REINDEX INDEX CONCURRENTLY outbox_queue_lane").await;
    assert_eq!(ask().await.bad(), []);
    postgres.execute("ALTER TABLE outbox_queue SET (autovacuum_enabled = false)").await;
    let remedy = "ALTER TABLE outbox_queue RESET (autovacuum_enabled)";
    assert_reported(
        &ask().await,
        ("database.vacuum", "outbox_queue"),
        "warning",
        &["autovacuum is turned off", remedy],
    );
    postgres.execute(remedy).await;
    let rows = "INSERT INTO event_copies (provider, event_id, copies_n, first_at_ms, last_at_ms)
        SELECT 'p', n::text, 1, 1, 1 FROM generate_series(1, 110000) n";
    postgres.execute(rows).await;
    postgres.execute("DELETE FROM event_copies").await;
    // The server counts what it did after a moment.
    let is_reported = async || !ask().await.bad().is_empty();
    until("dead rows are counted", Duration::from_secs(30), || server.log(), is_reported).await;
    assert_reported(
        &ask().await,
        ("database.vacuum", "event_copies"),
        "warning",
        &["110,000 dead rows", "VACUUM (VERBOSE) event_copies"],
    );
    postgres.execute("VACUUM event_copies").await;
    let is_well = async || ask().await.bad().is_empty();
    until("they are gone", Duration::from_secs(30), || server.log(), is_well).await;
    assert_eq!(post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.unwrap(), "accepted");
}
