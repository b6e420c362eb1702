//! Encryption at rest and redaction, through the whole program: killed, with another key, in parts in the clear.

use std::process::Command;
use std::time::Duration;

use hooklatch_core::types::{EventKey, Name};

use crate::app::{TestApp, event_body, stripe_kind};
use crate::contract::Operator;
use crate::database::{Database, On, on_both};
use crate::process::{Server, client, post_stripe, until};
use crate::stub::Stub;

on_both!(
    what_was_sealed_before_a_kill_is_sent_after_a_rotation,
    destinations_get_the_received_body_and_operators_the_redacted_one,
    another_key_under_a_known_id_is_refused,
    a_sealed_database_without_keys_is_refused_unless_that_is_meant,
    what_does_not_open_waits_and_goes_on_when_it_is_put_right,
    a_row_in_clear_is_neither_shown_nor_sent_where_that_is_refused,
);

fn keys(ids: &[(&str, &str)]) -> String {
    let one = |(id, byte): &(&str, &str)| format!("{{ id = \"{id}\", key = \"{byte}{}\" }}", "3c".repeat(31));
    format!("[encryption]\nkeys = [{}]\n", ids.iter().map(one).collect::<Vec<_>>().join(", "))
}

fn routed(url: &str) -> String {
    format!(
        "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\n[outbox]\nlease_ms = 4000\n\
         [destinations.billing]\nurl = \"{url}\"\ntimeout_ms = 2000\n"
    )
}

/// The configuration without its keys and its routes, and these instead.
fn rewrite(server: &Server, more: &str) {
    let text = std::fs::read_to_string(server.config()).unwrap();
    let (before, _) = text.split_once("[[providers.stripe.routes]]").unwrap();
    std::fs::write(server.config(), format!("{before}{more}")).unwrap();
}

/// The output of `hooklatch keys` for the database of a stopped server.
fn listed(server: &Server, arguments: &[&str]) -> (bool, serde_json::Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
    command.arg("keys").args(arguments).args(["--json", "--config"]).arg(server.config());
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said = serde_json::from_str(&text)
        .unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.success(), said)
}

async fn what_was_sealed_before_a_kill_is_sent_after_a_rotation(database: &Database) {
    // No destination answers there.
    let away = routed("http://127.0.0.1:9");
    let mut server = Server::start(&database.url, &away).await;
    let url = server.url("/webhooks/stripe");
    assert_eq!(post_stripe(&client(), &url, "evt_clear").await.as_deref(), Ok("accepted"));
    server.kill();
    rewrite(&server, &format!("{away}{}", keys(&[("old", "01")])));
    server.spawn().await;
    assert_eq!(post_stripe(&client(), &url, "evt_old").await.as_deref(), Ok("accepted"));
    server.kill();
    assert_eq!(database.count("SELECT COUNT(*) FROM webhook_payloads WHERE key_id IS NULL").await, 1);
    let clear = "SELECT COUNT(*) FROM webhook_payloads WHERE key_id = 'old' AND headers LIKE '%{%'";
    assert_eq!(database.count(clear).await, 0);
    // A node without the key takes events, sends what it can open, and says what it waits for.
    let stub = Stub::start().await;
    let there = routed(&format!("http://{}/calls", stub.addr));
    rewrite(&server, &format!("{there}{}", keys(&[("new", "02")])));
    let (is_fine, said) = listed(&server, &[]);
    assert!(
        !is_fine && said["used"][0]["key_id"] == "old" && said["used"][0]["is_in_ring"] == false,
        "{said}"
    );
    let clear = &said["clear"][0];
    assert_eq!(
        (clear["table"].as_str(), clear["rows_n"].as_u64()),
        (Some("webhook_payloads"), Some(1)),
        "{said}"
    );
    server.spawn().await;
    assert_eq!(post_stripe(&client(), &url, "evt_new").await.as_deref(), Ok("accepted"));
    let waits = "SELECT COUNT(*) FROM outbox_queue WHERE state = 'ready' AND last_error LIKE '%`old`%'";
    let done = "SELECT COUNT(*) FROM outbox_finished WHERE state = 'done'";
    until(
        "two are sent and one waits",
        Duration::from_mins(1),
        || server.log(),
        async || database.count(waits).await == 1 && database.count(done).await == 2,
    )
    .await;
    assert!(server.log().contains("messages do not open"), "{}", server.log());
    server.kill();
    rewrite(&server, &format!("{there}{}", keys(&[("new", "02"), ("old", "01")])));
    let (is_fine, said) = listed(&server, &["reseal", "--clear"]);
    assert!(is_fine && said["resealed_n"] == 2, "{said}");
    // Now the old key may go.
    rewrite(&server, &format!("{there}{}", keys(&[("new", "02")])));
    let (is_fine, said) = listed(&server, &[]);
    assert!(is_fine && said["used"].as_array().unwrap().iter().all(|one| one["key_id"] == "new"), "{said}");
    server.spawn().await;
    until("all are sent", Duration::from_mins(1), || server.log(), async || database.count(done).await == 3)
        .await;
    let keys = database.call_keys().await;
    assert!(keys.iter().all(|key| stub.counts(key).0 == 1), "each once: {keys:?}");
}

async fn destinations_get_the_received_body_and_operators_the_redacted_one(database: &Database) {
    let more = "redact = [\"/data/object/amount_paid\"]\n\
                [[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\n";
    let app = TestApp::start(database, stripe_kind(), more).await;
    let body = event_body("evt_1", "invoice.paid", 4711);
    assert_eq!(app.post(&body).await.1, "accepted");
    assert_eq!(app.post(&body).await.1, "duplicate", "by what was received");
    assert_eq!(
        app.post(&event_body("evt_1", "invoice.paid", 4712)).await.1,
        "conflict",
        "by what was received"
    );
    until("it is sent", Duration::from_secs(30), String::new, async || !app.destination.calls().is_empty())
        .await;
    assert_eq!(app.destination.calls()[0].1, body, "to the byte");
    // The other content waits for a person, with all of it.
    let wholes = "SELECT COUNT(*) FROM webhook_payloads WHERE whole IS NOT NULL";
    until("what is no longer needed is gone", Duration::from_secs(40), String::new, async || {
        database.count(wholes).await == 1
    })
    .await;
    app.running.stop().await;
    let store = database.store().await;
    let key = EventKey { provider: Name::parse("stripe").unwrap(), event_id: "evt_1".to_owned() };
    let content = store.event_content(&key).await.unwrap().unwrap();
    assert_eq!(String::from_utf8(content.body).unwrap(), body.replace("4711", "\"[redacted]\""));
    assert_eq!(content.redacted_n, Some(1));
    let row = store.event_get(&key).await.unwrap().unwrap();
    // By value: members sorted by name, without white space.
    let by_value = serde_json::from_str::<serde_json::Value>(&body).unwrap().to_string();
    assert_eq!(row.digest, <sha2::Sha256 as sha2::Digest>::digest(by_value).to_vec(), "of what was received");
}

/// Runs `hooklatch` with the configuration of this server, for 20 s at most: whether it ended well, and what it wrote.
fn run(server: &Server, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new("timeout");
    command
        .args(["20", env!("CARGO_BIN_EXE_hooklatch")])
        .args(arguments)
        .arg("--config")
        .arg(server.config());
    let output = command.output().unwrap();
    (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

async fn a_sealed_database_without_keys_is_refused_unless_that_is_meant(database: &Database) {
    let away = routed("http://127.0.0.1:9");
    let mut server = Server::start(&database.url, &format!("{away}{}", keys(&[("k1", "01")]))).await;
    let url = server.url("/webhooks/stripe");
    assert_eq!(post_stripe(&client(), &url, "evt_1").await.as_deref(), Ok("accepted"));
    server.kill();
    rewrite(&server, &away);
    let (is_fine, said) = run(&server, &["serve"]);
    assert!(!is_fine && said.contains("hooklatch: encryption.keys: there is no key"), "{said}");
    assert!(said.contains("`k1`") && said.contains("write encryption.clear = \"accept\""), "{said}");
    rewrite(&server, &format!("{away}[encryption]\nclear = \"accept\"\n"));
    server.spawn().await;
    assert_eq!(post_stripe(&client(), &url, "evt_2").await.as_deref(), Ok("accepted"));
    server.kill();
    assert_eq!(database.count("SELECT COUNT(*) FROM webhook_payloads WHERE key_id IS NULL").await, 1);
}

async fn another_key_under_a_known_id_is_refused(database: &Database) {
    let stub = Stub::start().await;
    let routes = routed(&format!("http://{}/calls", stub.addr));
    let mut server =
        Server::start(&database.url, &format!("{}{}", routed("http://127.0.0.1:9"), keys(&[("k1", "01")])))
            .await;
    let url = server.url("/webhooks/stripe");
    assert_eq!(post_stripe(&client(), &url, "evt_1").await.as_deref(), Ok("accepted"));
    server.kill();
    let check_values = "SELECT COUNT(*) FROM encryption_keys WHERE key_id = 'k1'";
    assert_eq!(database.count(check_values).await, 1);
    let copy = server.config().with_file_name("copy.db").display().to_string();
    let backup = ["backup", copy.as_str()];
    // Also where it is not the key that seals.
    for wrong in [&[("k1", "02")][..], &[("k2", "03"), ("k1", "02")]] {
        rewrite(&server, &format!("{routes}{}", keys(wrong)));
        let taken_over: &[&str] = &["restore-check", "--yes", "--reason", "disk"];
        let copied = database.url.starts_with("sqlite").then_some(&backup[..]);
        let all =
            [&["serve"][..], &["keys"], &["keys", "reseal"], &["doctor"], &["restore-check"], taken_over];
        for arguments in all.into_iter().chain(copied) {
            let (is_fine, said) = run(&server, arguments);
            assert!(!is_fine, "{arguments:?}: {said}");
            let place =
                format!("encryption.keys[{}].key: the key under the id `k1` is not the key", wrong.len() - 1);
            assert!(said.contains(&place) && said.contains("hooklatch.toml: "), "{arguments:?}: {said}");
            assert!(said.contains("put that key back under `k1`"), "{arguments:?}: {said}");
        }
    }
    assert_eq!(database.count("SELECT COUNT(*) FROM encryption_keys").await, 1, "nothing was written");
    assert!(!std::path::Path::new(&copy).exists(), "nothing was copied");
    assert_eq!(database.count("SELECT COUNT(*) FROM restores").await, 0, "nothing was taken over");
    // A key that is not there is named before the take-over, and by each copy.
    rewrite(&server, &format!("{routes}{}", keys(&[("k2", "02")])));
    if database.url.starts_with("sqlite") {
        let (is_fine, said) = run(&server, &["backup", &copy]);
        assert!(is_fine && said.contains("encrypted with the key `k1`, which [encryption] keys"), "{said}");
        assert!(said.contains("k1: keep these keys as long as the copy"), "{said}");
    }
    let (_, said) = run(&server, &["restore-check", "--json"]);
    assert!(said.contains(r#""keys_missing":["k1"]"#), "{said}");
    rewrite(&server, &routes);
    let (is_fine, said) =
        run(&server, &["restore-check", "--yes", "--reason", "disk", "--backed-up-at", "2026-11-22T03:00Z"]);
    assert!(!is_fine && said.contains("encryption.keys: there is no key"), "{said}");
    assert_eq!(database.count("SELECT COUNT(*) FROM restores").await, 0, "nothing was taken over");
    // The right key, and the other one under an id of its own.
    rewrite(&server, &format!("{routes}{}", keys(&[("k2", "02"), ("k1", "01")])));
    server.spawn().await;
    let done = "SELECT COUNT(*) FROM outbox_finished WHERE state = 'done'";
    until("it is sent", Duration::from_mins(1), || server.log(), async || database.count(done).await == 1)
        .await;
    server.kill();
    // An older backup may lack the row.
    database.run("DELETE FROM encryption_keys").await.unwrap();
    server.spawn().await;
    assert_eq!(database.count(check_values).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_nodes_with_different_keys_under_one_id_one_is_refused() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let nodes: Vec<Server> = ["01", "02"]
        .map(|byte| {
            Server::prepare(
                &database.url,
                &format!("{}{}", routed("http://127.0.0.1:9"), keys(&[("k1", byte)])),
            )
        })
        .into();
    let start = |node: &Server| {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_hooklatch"));
        let log = std::fs::File::create(node.config().with_file_name("log")).unwrap();
        command.args(["serve", "--config"]).arg(node.config()).stderr(log).kill_on_drop(true).spawn().unwrap()
    };
    let mut running: Vec<_> = nodes.iter().map(start).collect();
    let is_ready = async |node: &Server| {
        let sent = client().get(format!("http://{}/readyz", node.admin)).send().await;
        sent.is_ok_and(|response| response.status().is_success())
    };
    let logs = || nodes.iter().map(Server::log).collect::<Vec<_>>().join("\n----\n");
    let mut states = [(false, false); 2];
    until("one runs and one has ended", Duration::from_mins(1), logs, async || {
        for (n, node) in nodes.iter().enumerate() {
            states[n] =
                (is_ready(node).await, running[n].try_wait().unwrap().is_some_and(|ended| !ended.success()));
        }
        states.contains(&(true, false)) && states.contains(&(false, true))
    })
    .await;
    let refused = nodes[usize::from(states[1].1)].log();
    assert!(
        refused.contains("the key under the id `k1` is not the key that this database was sealed with"),
        "{refused}"
    );
}

const OPERATOR: &str = "operator-token-0123456789";

/// The same, with a token that may decide and read.
fn operated(url: &str) -> String {
    let operator = format!("[[admin.tokens]]\nname = \"ann\"\nrole = \"operator\"\ntoken = \"{OPERATOR}\"\n");
    format!("{}{operator}", routed(url))
}

/// Sends these events to a destination that is away, and stops the server when each has failed once.
async fn failed_once(database: &Database, server: &mut Server, ids: &[&str]) {
    for id in ids {
        let answer = post_stripe(&client(), &server.url("/webhooks/stripe"), id).await;
        assert_eq!(answer.as_deref(), Ok("accepted"));
    }
    let failed = "SELECT COUNT(*) FROM outbox_queue WHERE state = 'ready' AND last_error IS NOT NULL";
    until(
        "all failed",
        Duration::from_mins(1),
        || server.log(),
        async || database.count(failed).await == i64::try_from(ids.len()).unwrap(),
    )
    .await;
    server.kill();
}

const DUE: &str = "UPDATE outbox_queue SET visible_at_ms = 1";

async fn what_does_not_open_waits_and_goes_on_when_it_is_put_right(database: &Database) {
    let key = keys(&[("k1", "01")]);
    let mut server = Server::start(&database.url, &format!("{}{key}", operated("http://127.0.0.1:9"))).await;
    failed_once(database, &mut server, &["evt_damaged", "evt_a", "evt_b", "evt_moved"]).await;
    let burned = "SELECT CAST(SUM(attempts_n - attempts_before_n) AS BIGINT) FROM outbox_queue";
    let burned_n = database.count(burned).await;
    let swapped = "UPDATE processed_webhook_events SET event_id = 'x' WHERE event_id = 'evt_a';
        UPDATE processed_webhook_events SET event_id = 'evt_a' WHERE event_id = 'evt_b';
        UPDATE processed_webhook_events SET event_id = 'evt_b' WHERE event_id = 'x'";
    let changed = format!(
        "CREATE TABLE kept AS SELECT event_seq, body FROM webhook_payloads;
         UPDATE webhook_payloads SET body = substr(body, 2) WHERE event_seq =
             (SELECT event_seq FROM processed_webhook_events WHERE event_id = 'evt_damaged');
         {swapped};
         UPDATE processed_webhook_events SET provider = 'shop' WHERE event_id = 'evt_moved'; {DUE}"
    );
    database.run(&changed).await.unwrap();
    let stub = Stub::start().await;
    rewrite(&server, &format!("{}{key}", operated(&stub.url())));
    server.spawn().await;
    let waits = "SELECT COUNT(*) FROM outbox_queue WHERE state = 'ready'
        AND last_error LIKE '%does not open with the key `k1`%'";
    until("all wait", Duration::from_mins(1), || server.log(), async || database.count(waits).await == 4)
        .await;
    assert_eq!(database.count(burned).await, burned_n, "no attempt was counted");
    let ann = Operator::new(server.admin, OPERATOR);
    for path in ["stripe/evt_damaged", "stripe/evt_a", "stripe/evt_b", "shop/evt_moved"] {
        assert_eq!(ann.get(&format!("/events/{path}/body")).await.status, 409, "{path}");
    }
    let metrics = server.admin_text("/metrics").await;
    assert!(metrics.contains("hooklatch_unopened_total{of=\"message\"}"), "{metrics}");
    server.kill();
    assert_eq!(stub.requests_n(), 0);
    let put_right = format!(
        "UPDATE webhook_payloads SET body = (SELECT k.body FROM kept k WHERE k.event_seq = webhook_payloads.event_seq);
         DROP TABLE kept; {swapped};
         UPDATE processed_webhook_events SET provider = 'stripe' WHERE event_id = 'evt_moved'; {DUE}"
    );
    database.run(&put_right).await.unwrap();
    server.spawn().await;
    let done = "SELECT COUNT(*) FROM outbox_finished WHERE state = 'done'";
    until("all are sent", Duration::from_mins(1), || server.log(), async || database.count(done).await == 4)
        .await;
    let keys = database.call_keys().await;
    assert!(keys.iter().all(|key| stub.counts(key).0 == 1), "each once: {keys:?}");
}

async fn a_row_in_clear_is_neither_shown_nor_sent_where_that_is_refused(database: &Database) {
    let (away, key) = (operated("http://127.0.0.1:9"), keys(&[("k1", "01")]));
    let mut server = Server::start(&database.url, &away).await;
    // One from before there was a key, and one that is overwritten in the database.
    failed_once(database, &mut server, &["evt_old"]).await;
    rewrite(&server, &format!("{away}{key}"));
    server.spawn().await;
    assert_eq!(
        post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_forged").await.as_deref(),
        Ok("accepted")
    );
    let failed = "SELECT COUNT(*) FROM outbox_queue WHERE state = 'ready' AND last_error IS NOT NULL";
    until("both failed", Duration::from_mins(1), || server.log(), async || database.count(failed).await == 2)
        .await;
    server.kill();
    let body = match database.on() {
        On::Sqlite => "CAST('{\"forged\":true}' AS BLOB)",
        On::Postgres => "convert_to('{\"forged\":true}', 'UTF8')",
    };
    let forged = format!(
        "UPDATE webhook_payloads SET key_id = NULL, headers = '{{}}', body = {body} WHERE key_id = 'k1';
         UPDATE outbox_queue SET state = 'held', last_error = NULL"
    );
    database.run(&forged).await.unwrap();
    let stub = Stub::start().await;
    let there = operated(&stub.url());
    let refusing = format!("{there}{key}clear = \"refuse\"\n");
    rewrite(&server, &refusing);
    server.spawn().await;
    let ann = Operator::new(server.admin, OPERATOR);
    let messages = database.texts("SELECT CAST(message_id AS TEXT) FROM outbox_queue").await;
    for id in &messages {
        let (code, said) = server.command(OPERATOR, &["messages", "send", id, "--reason", "they lost it"]);
        assert_eq!(code, 0, "{said}");
    }
    let waits =
        "SELECT COUNT(*) FROM outbox_queue WHERE state = 'ready' AND last_error LIKE '%it is in clear%'";
    until("both wait", Duration::from_mins(1), || server.log(), async || database.count(waits).await == 2)
        .await;
    for id in ["evt_old", "evt_forged"] {
        assert_eq!(ann.get(&format!("/events/stripe/{id}/body")).await.status, 409, "{id}");
    }
    let found = ann.get("/search?id=in_evt_old").await.body;
    assert!(found["found"].as_array().unwrap().is_empty(), "{found}");
    server.kill();
    assert_eq!(stub.requests_n(), 0);
    let (is_fine, said) = run(&server, &["keys", "reseal", "--clear"]);
    assert!(!is_fine && said.contains("may have been written by somebody else"), "{said}");
    // Where they are accepted both count.
    rewrite(&server, &format!("{there}{key}clear = \"accept\"\n"));
    database.run(DUE).await.unwrap();
    server.spawn().await;
    let done = "SELECT COUNT(*) FROM outbox_finished WHERE state = 'done'";
    until("both are sent", Duration::from_mins(1), || server.log(), async || database.count(done).await == 2)
        .await;
    let ann = Operator::new(server.admin, OPERATOR);
    assert_eq!(ann.get("/events/stripe/evt_forged/body").await.bytes, b"{\"forged\":true}");
    let found = ann.get("/search?id=in_evt_old").await.body;
    assert_eq!(found["found"].as_array().map(Vec::len), Some(1), "{found}");
    server.kill();
    // Encrypted before it is refused, what is genuine is shown.
    let (is_fine, said) = listed(&server, &["reseal", "--clear"]);
    assert!(is_fine && said["resealed_n"] == 2, "{said}");
    rewrite(&server, &refusing);
    server.spawn().await;
    assert_eq!(ann.get("/events/stripe/evt_old/body").await.status, 200);
}

#[test]
fn keys_are_checked_and_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hooklatch.toml");
    let check_with = |keys: &str, more: &str| {
        std::fs::write(&file, format!("[encryption]\nkeys = [{keys}]\n{more}\n")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
        let output =
            command.args(["check", "--config"]).arg(&file).current_dir(folder.path()).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    let check = |keys: &str| check_with(keys, "");
    let (good, other) = (format!("01{}", "3c".repeat(31)), format!("02{}", "3c".repeat(31)));
    let (is_fine, said) = check("");
    assert!(is_fine && said.contains("encryption at rest is off"), "{said}");
    let two = format!("{{ id = \"b\", key = \"{good}\" }}, {{ id = \"a\", key = \"{other}\" }}");
    let (is_fine, said) = check(&two);
    assert!(is_fine && said.contains("encryption at rest is on: `b` seals, 1 more open"), "{said}");
    let (is_fine, said) = check_with(&format!("{{ id = \"a\", key = \"{good}\" }}"), "clear = \"refuse\"");
    assert!(
        is_fine && said.contains("encryption at rest is on: `a` seals, rows in clear are refused"),
        "{said}"
    );
    for (clear, why) in [("\"refuse\"", "encryption.keys: is missing"), ("\"no\"", "is not one of the words")]
    {
        let (is_fine, said) = check_with("", &format!("clear = {clear}"));
        assert!(!is_fine && said.contains(why), "{said}");
    }
    for (keys, why) in [
        ("{ id = \"a\" }".to_owned(), "encryption.keys[0].key"),
        (format!("{{ key = \"{good}\" }}"), "encryption.keys[0].id"),
        (format!("{{ id = \"A b\", key = \"{good}\" }}"), "is not a name"),
        ("{ id = \"a\", key = \"c2hvcnQ=\" }".to_owned(), "32 bytes"),
        (format!("{{ id = \"a\", key = \"{}\" }}", "00".repeat(32)), "nobody made at random"),
        (
            format!("{{ id = \"a\", key = \"{good}\" }}, {{ id = \"a\", key = \"{other}\" }}"),
            "id of two keys",
        ),
        (format!("{{ id = \"a\", key = \"{good}\" }}, {{ id = \"b\", key = \"{good}\" }}"), "another entry"),
    ] {
        let (is_fine, said) = check(&keys);
        assert!(!is_fine && said.contains(why), "{keys}: {said}");
        assert!(!said.contains(&"3c".repeat(31)) && !said.contains("c2hvcnQ"), "{said}");
    }
}
