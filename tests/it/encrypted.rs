//! Encryption at rest and redaction, through the whole program: killed, with another key, in parts in the clear.

use std::process::Command;
use std::time::Duration;

use hooklatch::types::{EventKey, Name};

use crate::app::{TestApp, event_body, stripe_kind};
use crate::database::{Database, on_both};
use crate::process::{Server, client, post_stripe, until};
use crate::stub::Stub;

on_both!(
    what_was_sealed_before_a_kill_is_sent_after_a_rotation,
    destinations_get_what_came_and_people_what_is_left,
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

/// What `hooklatch keys` says of the database of a server that does not run.
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
    // Nobody answers there.
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
    assert!(server.log().contains("messages wait for a key"), "{}", server.log());
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

async fn destinations_get_what_came_and_people_what_is_left(database: &Database) {
    let more = "redact = [\"/data/object/amount_paid\"]\n\
                [[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\n";
    let app = TestApp::start(database, stripe_kind(), more).await;
    let body = event_body("evt_1", "invoice.paid", 4711);
    assert_eq!(app.post(&body).await.1, "accepted");
    assert_eq!(app.post(&body).await.1, "duplicate", "by what came");
    assert_eq!(app.post(&event_body("evt_1", "invoice.paid", 4712)).await.1, "conflict", "by what came");
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
    assert_eq!(row.digest, <sha2::Sha256 as sha2::Digest>::digest(&body).to_vec(), "of what came");
}

#[test]
fn keys_are_checked_and_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hooklatch.toml");
    let check = |keys: &str| {
        std::fs::write(&file, format!("[encryption]\nkeys = [{keys}]\n")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
        let output =
            command.args(["check", "--config"]).arg(&file).current_dir(folder.path()).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    let (good, other) = (format!("01{}", "3c".repeat(31)), format!("02{}", "3c".repeat(31)));
    let (is_fine, said) = check("");
    assert!(is_fine && said.contains("encryption at rest is off"), "{said}");
    let two = format!("{{ id = \"b\", key = \"{good}\" }}, {{ id = \"a\", key = \"{other}\" }}");
    let (is_fine, said) = check(&two);
    assert!(is_fine && said.contains("encryption at rest is on: `b` seals, 1 more open"), "{said}");
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
