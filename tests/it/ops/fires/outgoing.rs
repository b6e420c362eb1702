//! Alerts about sending.

use super::watched::Watched;
use crate::database::{Database, on_sqlite};
use crate::process::until;
use crate::stub::{Mode, Stub};
use std::time::Duration;

on_sqlite!(
    held_calls_fire_an_alert_until_an_operator_decides,
    late_calls_and_expiring_keys_fire_alerts,
    a_failing_destination_and_a_response_after_its_lease_fire_alerts,
    many_failed_held_or_discarded_within_an_hour_fire_alerts,
    a_stopped_operation_fires_an_alert_until_it_is_cancelled,
);

/// Everything goes to `stub`: in a lane, held where it is unknown.
fn routed(stub: &Stub, more: &str) -> String {
    format!(
        "[[providers.stripe.routes]]\non = [\"paid\"]\nto = \"billing\"\n\
         [[providers.stripe.routes]]\non = [\"lane\"]\nto = \"billing\"\nlane = \"/customer\"\n\
         [destinations.billing]\nurl = \"{}\"\n{more}\n",
        stub.url()
    )
}

async fn held_calls_fire_an_alert_until_an_operator_decides(database: &Database) {
    let stub = Stub::start().await;
    let more = routed(&stub, "unknown = \"hold\"\nbreaker_failures_n = 0");
    let Some(watched) = Watched::start(database, &more).await else { return };
    let all = ["MessagesHeld warning", "MessagesDead warning", "LanesBlocked warning"];
    watched.prometheus.is_quiet_about(&all).await;
    stub.next(&[Mode::ActThenDrop]);
    assert_eq!(watched.event("evt_held", "paid").await, 200);
    watched.prometheus.fires(&["MessagesHeld warning"]).await;
    stub.next(&[Mode::Status(400)]);
    assert_eq!(watched.event("evt_dead", "lane").await, 200);
    watched.prometheus.fires(&all).await;
    let many = ["--destination", "billing", "--reason", "x"];
    watched.order_all(&[&["messages", "done", "--state", "held"], &many[..]].concat());
    watched.order_all(&[&["messages", "send", "--state", "dead"], &many[..]].concat());
    watched.prometheus.is_quiet_about(&all).await;
}

async fn late_calls_and_expiring_keys_fire_alerts(database: &Database) {
    let stub = Stub::start().await;
    // Two failures open the breaker for an hour, so that what is due is not sent.
    let retry = "breaker_failures_n = 2\nbreaker_open_ms = 3600000\n\
         retry = { first_ms = 86400000, max_ms = 86400000, attempts_n = 9, age_max_ms = 500000000 }\n\
         key_valid_for_ms = 600000000";
    let Some(watched) = Watched::start(database, &routed(&stub, retry)).await else { return };
    let all = [
        "MessagesOverdue warning",
        "MessagesOverdue critical",
        "KeysRunOut warning",
        "KeysRunOut critical",
        "StrayMessages warning",
    ];
    stub.next(&[Mode::Status(503), Mode::Status(503)]);
    assert_eq!(watched.event("evt_1", "paid").await, 200);
    assert_eq!(watched.event("evt_2", "paid").await, 200);
    let tried = "SELECT COUNT(*) FROM outbox_queue WHERE state = 'ready' AND first_sent_at_ms IS NOT NULL";
    let log = || watched.server.log();
    until("both were tried", Duration::from_secs(20), log, async || database.count(tried).await == 2).await;
    watched.prometheus.has_looked().await;
    watched.prometheus.is_quiet_about(&all).await;
    // Two hours late, and a minute before the end of its key; the other one goes to an unresolvable name.
    let change = "UPDATE outbox_queue SET visible_at_ms = created_at_ms - 7200000,
            key_valid_until_ms = created_at_ms + 60000
            WHERE message_id = (SELECT MIN(message_id) FROM outbox_queue);
        UPDATE outbox_queue SET destination = 'nowhere'
            WHERE message_id = (SELECT MAX(message_id) FROM outbox_queue)";
    database.run(change).await.unwrap();
    watched.prometheus.fires(&all).await;
    // What waits for a paused destination is late on purpose, as long as the pause lasts.
    watched.order(&["destinations", "pause", "billing", "--until", "4h", "--reason", "x"]);
    watched.prometheus.is_quiet_about(&["MessagesOverdue critical", "MessagesOverdue warning"]).await;
    watched.prometheus.is_quiet_about(&["PauseLong warning"]).await;
    let aged = "UPDATE destination_pauses SET paused_at_ms = paused_at_ms - 90000000, until_ms = NULL";
    database.run(aged).await.unwrap();
    watched.prometheus.fires(&["PauseLong warning"]).await;
    watched.order(&["destinations", "resume", "billing", "--reason", "x"]);
    watched.prometheus.is_quiet_about(&["PauseLong warning"]).await;
    watched.order(&["providers", "pause", "stripe", "--reason", "x"]);
    database.run("UPDATE provider_pauses SET paused_at_ms = paused_at_ms - 90000000").await.unwrap();
    watched.prometheus.fires(&["PauseLong warning"]).await;
    watched.order(&["providers", "resume", "stripe", "--reason", "x"]);
    watched.prometheus.is_quiet_about(&["PauseLong warning"]).await;
    database.run("UPDATE outbox_queue SET key_valid_until_ms = NULL").await.unwrap();
    watched.prometheus.is_quiet_about(&["KeysRunOut warning", "KeysRunOut critical"]).await;
}

async fn a_failing_destination_and_a_response_after_its_lease_fire_alerts(database: &Database) {
    let stub = Stub::start().await;
    let retry = "breaker_failures_n = 3\nbreaker_open_ms = 1500\n\
         retry = { first_ms = 1, max_ms = 10, attempts_n = 99, age_max_ms = 600000 }";
    let Some(watched) = Watched::start(database, &routed(&stub, retry)).await else { return };
    let open = ["BreakerOpen warning", "BreakerOpen critical"];
    watched.prometheus.is_quiet_about(&[&open[..], &["Fenced warning"]].concat()).await;
    stub.next(&vec![Mode::Status(500); 12]);
    assert_eq!(watched.event("evt_1", "paid").await, 200);
    watched.prometheus.fires(&open).await;
    watched.prometheus.is_quiet_about(&open).await;
    // Another worker takes the message while its call is under way.
    stub.next(&[Mode::WhenReleased]);
    assert_eq!(watched.event("evt_2", "paid").await, 200);
    let under_way = "SELECT COUNT(*) FROM outbox_queue WHERE state = 'leased'";
    let log = || watched.server.log();
    until("it is called", Duration::from_secs(20), log, async || database.count(under_way).await == 1).await;
    database.run("UPDATE outbox_queue SET attempts_n = attempts_n + 1").await.unwrap();
    stub.release();
    watched.prometheus.fires(&["Fenced warning"]).await;
}

async fn many_failed_held_or_discarded_within_an_hour_fire_alerts(database: &Database) {
    const N: usize = 22;
    let stub = Stub::start().await;
    let broken = "[[providers.stripe.routes]]\non = [\"broken\"]\nto = \"templated\"\n\
        [destinations.templated]\nurl = \"http://127.0.0.1:9/{{ payload.nowhere.deep }}\"\n";
    let more = routed(&stub, &format!("unknown = \"hold\"\nbreaker_failures_n = 0\n{broken}"));
    let mut server = Watched::prepared(database, &more);
    server.spawn().await;
    // An hour ago all was well.
    let past = [(Duration::from_secs(3_630), server.admin_text("/metrics").await)];
    let Some(watched) = Watched::look(server, &[], &past).await else { return };
    let all = ["EventsFailed critical", "MessagesHeld critical", "MessagesDead critical"];
    watched.prometheus.is_quiet_about(&all).await;
    stub.next(&vec![Mode::ActThenDrop; N]);
    for n in 0..N {
        assert_eq!(watched.event(&format!("evt_failed_{n}"), "broken").await, 200);
        assert_eq!(watched.event(&format!("evt_held_{n}"), "paid").await, 200);
    }
    watched.prometheus.fires(&["EventsFailed critical", "MessagesHeld critical"]).await;
    watched.prometheus.is_quiet_about(&["MessagesDead critical"]).await;
    stub.next(&vec![Mode::Status(400); N]);
    for n in 0..N {
        assert_eq!(watched.event(&format!("evt_dead_{n}"), "paid").await, 200);
    }
    watched.prometheus.fires(&all).await;
    let many = ["--destination", "billing", "--reason", "x"];
    watched.order_all(&[&["messages", "done", "--state", "held"], &many[..]].concat());
    watched.prometheus.is_quiet_about(&["MessagesHeld critical"]).await;
}

async fn a_stopped_operation_fires_an_alert_until_it_is_cancelled(database: &Database) {
    let stub = Stub::start().await;
    let Some(watched) = Watched::start(database, &routed(&stub, "breaker_failures_n = 0")).await else {
        return;
    };
    let all = ["OperationWaits warning"];
    stub.next(&[Mode::Status(400), Mode::Status(400)]);
    assert_eq!(watched.event("evt_1", "paid").await, 200);
    assert_eq!(watched.event("evt_2", "paid").await, 200);
    watched.prometheus.fires(&["MessagesDead warning"]).await;
    watched.prometheus.is_quiet_about(&all).await;
    stub.next(&[Mode::Status(400)]);
    let send = ["messages", "send", "--state", "dead", "--destination", "billing", "--reason", "x"];
    watched.order_all(&[&send[..], &["--steps", "1", "--no-wait"]].concat());
    watched.prometheus.fires(&all).await;
    let listed = watched.order(&["operations", "list", "--json"]);
    let first: serde_json::Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    let id = first["items"][0]["operation_id"].as_str().unwrap();
    watched.order(&["operations", "cancel", id, "--reason", "x"]);
    watched.prometheus.is_quiet_about(&all).await;
}
