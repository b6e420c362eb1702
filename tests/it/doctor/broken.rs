//! Faults of a live system, one after the other, and the check that reports each.

use std::time::{Duration, Instant};

use super::{Examined, OPERATOR, examine, no_host};
use crate::contract::Operator;
use crate::database::{Database, On, on_both};
use crate::process::{Server, client, now_s, post_stripe, stripe, stripe_signed, until};

on_both!(
    a_healthy_system_is_healthy,
    damage_in_the_database_is_reported,
    clocks_and_secrets_of_senders_are_reported,
    a_scope_hears_of_its_own_alone,
    without_a_server_configuration_and_database_are_looked_at,
    a_missing_key_of_encrypted_rows_is_reported,
    without_what_makes_an_event_one_nothing_is_taken,
);

#[track_caller]
fn check(found: &Examined, want: &[(&str, &str)]) {
    let want: Vec<(String, String)> =
        want.iter().map(|(check, verdict)| ((*check).to_owned(), (*verdict).to_owned())).collect();
    assert_eq!(found.bad(), want, "{}", found.text);
}

async fn seen(server: &Server, database: &Database, nodes_n: i64) {
    until(
        "nodes are seen",
        Duration::from_secs(20),
        || server.log(),
        async || database.count("SELECT COUNT(*) FROM nodes").await == nodes_n,
    )
    .await;
}

async fn a_healthy_system_is_healthy(database: &Database) {
    let mut server = Server::start(&database.url, OPERATOR).await;
    seen(&server, database, 1).await;
    let (body, header) = stripe("evt_1", now_s());
    let url = server.url("/webhooks/stripe");
    let sent = client().post(url).header("stripe-signature", header).body(body).send().await.unwrap();
    assert_eq!(sent.status(), 200);
    let found = examine(&server, &["--deep"]).await;
    check(&found, &[]);
    // A superuser's role and loopback are notes.
    found.ends_with(0);
    for (name, subject) in [
        ("server", None),
        ("public.body", None),
        ("clock.senders", Some("stripe")),
        ("database.schema", None),
        ("database.pages", None),
        ("encryption.keys", None),
        ("retention", None),
        ("nodes", None),
        ("files", None),
    ] {
        let finding = found.find(name, subject);
        assert!(["well", "note"].contains(&finding["verdict"].as_str().unwrap()), "{finding}");
    }
    assert!(server.terminate());
    assert_eq!(database.count("SELECT COUNT(*) FROM nodes").await, 0, "who stops says so");
}

#[tokio::test]
async fn a_first_look_gives_no_false_alarm() {
    let server = Server::dev().await;
    let ask = async || examine(&server, &[]).await;
    until(
        "nothing is amiss",
        Duration::from_secs(20),
        || server.log(),
        async || ask().await.bad().is_empty(),
    )
    .await;
    let found = ask().await;
    found.ends_with(0);
}

async fn damage_in_the_database_is_reported(database: &Database) {
    let more = format!(
        "{OPERATOR}[[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\n[destinations.billing]\n\
         url = \"http://{}/\"\n",
        no_host()
    );
    let server = Server::start(&database.url, &more).await;
    seen(&server, database, 1).await;
    let names = ("destinations.names", "warning");
    check(&examine(&server, &[]).await, &[names]);
    let is_sqlite = database.url.starts_with("sqlite");
    let no_trigger = if is_sqlite {
        "DROP TRIGGER audit_log_delete"
    } else {
        "ALTER TABLE audit_log DISABLE TRIGGER audit_log_delete"
    };
    let now_ms = now_s() * 1_000;
    let old_ms = now_ms - 400 * 86_400_000;
    let old = format!(
        "INSERT INTO audit_log (audit_seq, at_ms, actor, action, detail) VALUES (1, {}, 'x', 'x', 'x')",
        now_ms - 4_000 * 86_400_000
    );
    let nodes = format!(
        "INSERT INTO nodes (node, version, schema_version, seen_at_ms) VALUES ('old', '0.0.1', 1, {now_ms}), \
         ('gone', '0.0.1', 1, {old_ms})"
    );
    // Each is broken, reported, and repaired before the next one.
    for (statement, mended, name, subject, verdict) in [
        (
            "DROP INDEX processed_webhook_events_due",
            "CREATE INDEX processed_webhook_events_due ON processed_webhook_events (provider, due_at_ms, event_seq) WHERE state = 'retry'",
            "database.schema",
            Some("processed_webhook_events_due"),
            "warning",
        ),
        (
            "DROP INDEX processed_webhook_events_replay",
            "CREATE UNIQUE INDEX processed_webhook_events_replay ON processed_webhook_events (provider, replay_key)
                 WHERE replay_key IS NOT NULL",
            "database.schema",
            Some("processed_webhook_events_replay"),
            "failure",
        ),
        (
            "CREATE INDEX mine ON outbox_queue (created_at_ms)",
            "DROP INDEX mine",
            "database.schema",
            Some("mine"),
            "warning",
        ),
        (
            "CREATE UNIQUE INDEX ours ON processed_webhook_events (provider, event_type, received_at_ms)",
            "DROP INDEX ours",
            "database.schema",
            Some("ours"),
            "failure",
        ),
        (&nodes, "DELETE FROM nodes WHERE node IN ('old', 'gone')", "nodes", None, "warning"),
        (&old, "UPDATE installation SET audit_pruned_seq = 1; DELETE FROM audit_log", "retention", Some("audit_log"), "failure"),
        (no_trigger, "SELECT 1", "database.schema", Some("audit_log_delete"), "failure"),
    ] {
        database.run(statement).await.unwrap();
        let found = examine(&server, &[]).await;
        let finding = found.find(name, subject);
        assert_eq!(finding["verdict"], verdict, "{statement}: {}", found.text);
        for key in ["found", "looked_at", "meaning", "remedy"] {
            assert!(finding[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {finding}");
        }
        assert_eq!(found.bad().len(), 2, "{statement}: {}", found.text);
        found.ends_with(if verdict == "failure" { 1 } else { 8 });
        database.run(mended).await.unwrap();
    }
    let operator = Operator::new(server.admin, "anns-token-0123456789");
    let order = serde_json::json!({ "act": "pause", "reason": "they move" });
    assert_eq!(operator.post("/destinations/billing/decide", "k", &order).await.status, 200);
    let found = examine(&server, &["--no-probe"]).await;
    assert!(found.find("destinations", Some("billing"))["found"].as_str().unwrap().contains("they move"));
    assert!(!found.text.contains("public."), "{}", found.text);
}

async fn clocks_and_secrets_of_senders_are_reported(database: &Database) {
    let old = "whsec_the_older_one_0123456789";
    let server = Server::prepare(&database.url, OPERATOR);
    let text = std::fs::read_to_string(server.config()).unwrap();
    let text = text.replace("secrets = [", &format!("secrets = [\"{old}_new\", \"{old}\", "));
    std::fs::write(server.config(), text).unwrap();
    let mut server = server;
    server.spawn().await;
    seen(&server, database, 1).await;
    let url = server.url("/webhooks/stripe");
    let (body, _) = stripe("evt_ahead", now_s());
    let header = stripe_signed(&body, old, now_s() + 100);
    let sent = client().post(&url).header("stripe-signature", header).body(body).send().await.unwrap();
    assert_eq!(sent.status(), 200);
    until(
        "the secret's use is noted",
        Duration::from_secs(30),
        || server.log(),
        async || database.count("SELECT COUNT(*) FROM secret_uses").await == 1,
    )
    .await;
    let found = examine(&server, &[]).await;
    check(&found, &[("clock.senders", "failure"), ("secrets", "warning")]);
    let clock = found.find("clock.senders", Some("stripe"));
    assert!(clock["found"].as_str().unwrap().contains("before it was signed"), "{clock}");
    assert!(
        found.text.contains("the newest secret") && found.text.contains("never matched"),
        "{}",
        found.text
    );
    assert!(!found.text.contains(old), "{}", found.text);
    // Those that come in time afterwards push it out.
    for n in 0..8 {
        let (body, _) = stripe(&format!("evt_{n}"), now_s());
        let header = stripe_signed(&body, old, now_s());
        let sent = client().post(&url).header("stripe-signature", header).body(body).send().await.unwrap();
        assert_eq!(sent.status(), 200);
    }
    check(&examine(&server, &[]).await, &[("secrets", "warning")]);
}

async fn a_scope_hears_of_its_own_alone(database: &Database) {
    let more = "[[admin.tokens]]\nname = \"bob\"\nrole = \"operator\"\ntoken = \"bobs-token-0123456789\"\n\
        providers = [\"github\"]\ndestinations = []\n\
        [[admin.tokens]]\nname = \"eve\"\nrole = \"reader\"\ntoken = \"eves-token-0123456789\"\n\
        [providers.github]\nsecrets = [\"whsec_another_one_0123456789\"]\n";
    let server = Server::start(&database.url, more).await;
    let bob = Operator::new(server.admin, "bobs-token-0123456789");
    let response = bob.ask("GET", "/doctor", &[], None).await;
    assert_eq!((response.status, &response.body["is_whole"]), (200, &false.into()), "{}", response.body);
    let checks: Vec<&str> = response.body["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["check"].as_str().unwrap())
        .collect();
    assert_eq!(checks, ["clock.senders", "secrets", "providers.open", "providers", "destinations"]);
    assert!(!response.body.to_string().contains("stripe"), "{}", response.body);
    let probe = bob.ask("POST", "/probes", &[], None).await;
    assert_eq!(probe.body["paths"][0]["path"], "/webhooks/github");
    assert_eq!(probe.body["paths"].as_array().unwrap().len(), 1);
    let eve = Operator::new(server.admin, "eves-token-0123456789");
    for (method, path) in [("GET", "/doctor"), ("POST", "/probes")] {
        assert_eq!(eve.ask(method, path, &[], None).await.status, 403);
    }
    assert_eq!(bob.ask("GET", "/doctor?deep=perhaps", &[], None).await.status, 400);
}

async fn without_a_server_configuration_and_database_are_looked_at(database: &Database) {
    let mut server = Server::start(&database.url, OPERATOR).await;
    assert!(server.terminate());
    let found = examine(&server, &["--deep"]).await;
    check(&found, &[("server", "warning")]);
    found.ends_with(8);
    assert_eq!(found.find("database.schema", None)["verdict"], "well");
    database.run("DROP INDEX processed_webhook_events_seq").await.unwrap_or_else(|_| {
        // On SQLite the number is the table's own key.
        assert!(database.url.starts_with("sqlite"));
    });
    let found = examine(&server, &[]).await;
    let is_reported = found.bad().contains(&("database.schema".to_owned(), "failure".to_owned()));
    assert_eq!(is_reported, !database.url.starts_with("sqlite"), "{}", found.text);
}

/// Such as a dump leaves that was read in with errors. The statement that latches does not notice.
async fn without_what_makes_an_event_one_nothing_is_taken(database: &Database) {
    let mut server = Server::start(&database.url, OPERATOR).await;
    let (what, name) = if database.url.starts_with("sqlite") {
        ("DROP INDEX processed_webhook_events_replay", "processed_webhook_events_replay")
    } else {
        (
            "ALTER TABLE processed_webhook_events DROP CONSTRAINT processed_webhook_events_pkey",
            "processed_webhook_events_pkey",
        )
    };
    database.run(what).await.unwrap();
    let found = examine(&server, &["--no-probe"]).await;
    assert_eq!(found.find("database.schema", Some(name))["verdict"], "failure", "{}", found.text);
    assert!(server.terminate());
    let (code, text) = server.command("", &["serve"]);
    assert!(
        code == 1 && text.contains(&format!("the database lacks {name}: without a unique index")),
        "{text}"
    );
}

#[tokio::test]
async fn a_database_that_is_not_there_is_not_made() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = Server::prepare("sqlite://missing/x.db", OPERATOR);
    let found = examine(&server, &[]).await;
    found.ends_with(8);
    assert!(found.text.contains("not there yet"), "{}", found.text);
    assert!(!server.config().parent().unwrap().join("missing").exists());
    drop(database);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_database_is_reported_in_time_and_hides_no_other_finding() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let server = Server::start(&database.url, OPERATOR).await;
    database.allow_connections(false).await;
    let began = Instant::now();
    let found = examine(&server, &["--deep"]).await;
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}: {}", began.elapsed(), found.text);
    for name in ["clock.database", "database.schema", "database.settings", "nodes", "retention", "secrets"] {
        assert_eq!(found.find(name, None)["verdict"], "unknown", "{}", found.text);
    }
    assert_eq!(found.find("public.body", None)["verdict"], "well");
    database.allow_connections(true).await;
    let ask = async || examine(&server, &[]).await;
    until(
        "it is there again",
        Duration::from_secs(30),
        || server.log(),
        async || ask().await.bad().is_empty(),
    )
    .await;
}

async fn a_missing_key_of_encrypted_rows_is_reported(database: &Database) {
    let key = |id: &str, bytes: &str| {
        format!("[encryption]\nkeys = [{{ id = \"{id}\", key = \"{}\" }}]\n", bytes.repeat(8))
    };
    let mut server = Server::start(&database.url, &format!("{OPERATOR}{}", key("k1", "0123abcd"))).await;
    let url = server.url("/webhooks/stripe");
    assert_eq!(post_stripe(&client(), &url, "evt_1").await.as_deref(), Ok("accepted"));
    assert!(server.terminate());
    let config = std::fs::read_to_string(server.config()).unwrap();
    std::fs::write(server.config(), config.replace(&key("k1", "0123abcd"), &key("k2", "4567cdef"))).unwrap();
    server.spawn().await;
    let found = examine(&server, &["--no-probe"]).await;
    let finding = found.find("encryption.keys", Some("k1"));
    assert_eq!(finding["verdict"], "failure", "{finding}");
    found.ends_with(1);
}
