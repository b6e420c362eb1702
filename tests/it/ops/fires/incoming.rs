//! Alerts about receiving.

use std::time::Duration;

use super::watched::{Watched, body, post, reworded};
use crate::database::{Database, On, on_sqlite};
use crate::process::{SECRET, client, now_s, until};
use crate::whose::{circle, sent};

on_sqlite!(
    bursts_of_forgeries_failed_events_and_conflicts_fire_alerts,
    a_secret_changed_at_the_sender_and_its_silence_fire_alerts,
    an_old_secret_in_use_for_days_fires_an_alert,
    a_sender_whose_events_are_all_refused_fires_an_alert,
    a_sender_with_events_of_foreign_accounts_only_fires_an_alert,
    signed_texts_repeated_under_other_ids_fire_an_alert,
);

/// Events of these types go nowhere, or to a template that lacks a value.
const ROUTES: &str = "[[providers.stripe.routes]]\non = [\"broken\"]\nto = \"templated\"\n\
    [destinations.templated]\nurl = \"http://127.0.0.1:9/{{ payload.nowhere.deep }}\"\n";

async fn bursts_of_forgeries_failed_events_and_conflicts_fire_alerts(database: &Database) {
    let Some(watched) = Watched::start(database, ROUTES).await else { return };
    let all = [
        "RejectedBurst warning",
        "EventsFailed warning",
        "EventsUnreadable warning",
        "EventsConflict warning",
        "RefusedUnread warning",
    ];
    watched.prometheus.is_quiet_about(&all).await;
    // A counter begins with its first number: the burst follows it.
    assert_eq!(watched.post("{}", "whsec_another_0123456789").await, 401);
    watched.prometheus.has_looked().await;
    for _ in 0..30 {
        assert_eq!(watched.post("{}", "whsec_another_0123456789").await, 401);
    }
    // Signed, and larger than what is accepted.
    assert_eq!(watched.post(&" ".repeat((1 << 20) + 1), SECRET).await, 413);
    assert_eq!(watched.event("evt_1", "broken").await, 200);
    assert_eq!(watched.post("no JSON", SECRET).await, 200);
    assert_eq!(watched.event("evt_2", "paid").await, 200);
    assert_eq!(watched.post(&body("evt_2", "paid").replace("in_evt_2", "in_other"), SECRET).await, 200);
    watched.prometheus.fires(&all).await;
    // More contents under one id than are kept.
    watched.prometheus.is_quiet_about(&["EventsConflict critical"]).await;
    for n in 0..20 {
        assert_eq!(
            watched.post(&body("evt_2", "paid").replace("in_evt_2", &format!("in_{n}")), SECRET).await,
            200
        );
    }
    watched.prometheus.fires(&["EventsConflict critical"]).await;
    // What a handler waits for since two hours.
    let aged = "UPDATE processed_webhook_events SET state = 'retry', due_at_ms = 9000000000000,
            received_at_ms = received_at_ms - 7200000 WHERE state = 'failed'";
    database.run(aged).await.unwrap();
    watched.prometheus.fires(&["EventsRetryOld warning"]).await;
    watched.prometheus.is_quiet_about(&["EventsFailed warning"]).await;
}

async fn a_secret_changed_at_the_sender_and_its_silence_fire_alerts(database: &Database) {
    drop(database.store().await);
    // An event every minute, until three hours ago.
    let mut gaps = vec!["0.0"; 50];
    gaps[0] = "86400.0";
    let row = format!(
        "INSERT INTO provider_rhythms (provider, last_accepted_at_ms, gaps_n, gap_seconds)
         VALUES ('stripe', {}, 1000, '[{}]')",
        (now_s() - 3 * 3_600) * 1_000,
        gaps.join(",")
    );
    database.run(&row).await.unwrap();
    let Some(watched) = Watched::start(database, "").await else { return };
    watched.prometheus.fires(&["SenderSilent warning", "SenderSilent critical"]).await;
    watched.prometheus.is_quiet_about(&["RejectedBurst critical"]).await;
    for _ in 0..2 {
        assert_eq!(watched.post("{}", "whsec_another_0123456789").await, 401);
        watched.prometheus.has_looked().await;
    }
    for _ in 0..6 {
        assert_eq!(watched.post("{}", "whsec_another_0123456789").await, 401);
    }
    watched.prometheus.fires(&["RejectedBurst critical"]).await;
    assert_eq!(watched.event("evt_1", "paid").await, 200);
    let over = ["SenderSilent warning", "SenderSilent critical", "RejectedBurst critical"];
    watched.prometheus.is_quiet_about(&over).await;
}

async fn an_old_secret_in_use_for_days_fires_an_alert(database: &Database) {
    let mut server = Watched::prepared(database, "");
    let newest = "whsec_newest_0123456789abcdef";
    reworded(&server, "secrets = [", &format!("secrets = [\"{newest}\", "));
    server.spawn().await;
    // Two days ago the sender signed with the old one: Prometheus gets the server's metrics of before and after that.
    let before = server.admin_text("/metrics").await;
    assert_eq!(post(&server, &body("evt_1", "paid"), SECRET).await, 200);
    let old = |text: &str, n: u32| text.contains(&format!("{{provider=\"stripe\",slot=\"1\"}} {n}\n"));
    let mut after = before.clone();
    let log = || server.log();
    until("it is counted", Duration::from_secs(20), log, async || {
        after = server.admin_text("/metrics").await;
        old(&after, 1)
    })
    .await;
    assert!(old(&before, 0), "{before}");
    let past = [(Duration::from_hours(62), before), (Duration::from_hours(60), after)];
    let Some(watched) = Watched::look(server, &[], &past).await else { return };
    assert_eq!(watched.post(&body("evt_2", "paid"), newest).await, 200);
    watched.prometheus.has_looked().await;
    watched.prometheus.is_quiet_about(&["OldSecretMatches warning"]).await;
    assert_eq!(watched.event("evt_3", "paid").await, 200);
    watched.prometheus.fires(&["OldSecretMatches warning"]).await;
}

async fn a_sender_whose_events_are_all_refused_fires_an_alert(database: &Database) {
    let Some(watched) = Watched::start(database, ROUTES).await else { return };
    for id in ["evt_1", "evt_2"] {
        assert_eq!(watched.event(id, "payd").await, 200);
    }
    watched.prometheus.has_looked().await;
    watched.prometheus.is_quiet_about(&["EventsIgnored warning"]).await;
    assert_eq!(watched.event("evt_3", "payd").await, 200);
    watched.prometheus.fires(&["EventsIgnored warning"]).await;
    assert_eq!(watched.event("evt_4", "broken").await, 200);
    watched.prometheus.is_quiet_about(&["EventsIgnored warning"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_database_and_expired_senders_fire_alerts() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    // A sender that never repeats.
    let never = "[providers.shop]\nkind = \"woocommerce\"\ntypes = [\"order.*\"]\nsecrets = [\"0123456789abcdef0123456789abcdef\"]\n";
    let Some(watched) = Watched::start(&database, never).await else { return };
    assert_eq!(watched.event("evt_1", "paid").await, 200);
    let all = [
        "DatabaseDown warning",
        "DatabaseDown critical",
        "NotReady warning",
        "NotReady critical",
        "Answered503 warning",
        "Answered503 critical",
        "SendersGiveUp warning",
        "SendersGiveUp critical",
        "ReceiverGoneLong critical",
    ];
    watched.prometheus.is_quiet_about(&all).await;
    watched.prometheus.was_ready().await;
    database.allow_connections(false).await;
    let log = || watched.server.log();
    until("it refuses", Duration::from_secs(20), log, async || watched.event("evt_2", "paid").await == 503)
        .await;
    watched.prometheus.has_looked().await;
    for n in 3..10 {
        assert_ne!(watched.event(&format!("evt_{n}"), "paid").await, 200);
    }
    watched.prometheus.fires(&all).await;
    database.allow_connections(true).await;
    let over = ["DatabaseDown critical", "NotReady critical", "ReceiverGoneLong critical"];
    watched.prometheus.is_quiet_about(&over).await;
    until("it accepts", Duration::from_secs(20), log, async || watched.event("evt_2", "paid").await == 200)
        .await;
    watched.prometheus.is_quiet_about(&["SendersGiveUp warning", "SendersGiveUp critical"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_commits_and_a_filling_queue_fire_alerts() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let server = Watched::prepared(&database, "");
    server.server_keys("answer_timeout_ms = 2500\nqueue_n_max = 8\n");
    let Some(watched) = Watched::of(server).await else { return };
    assert_eq!(watched.event("evt_0", "paid").await, 200);
    watched.prometheus.has_looked().await;
    let all =
        ["AdmitSlow warning", "AdmitSlow critical", "AdmitQueueFull warning", "AdmitQueueFull critical"];
    watched.prometheus.is_quiet_about(&all).await;
    let is_locked = "SELECT COUNT(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted
        AND relation = 'processed_webhook_events'::regclass";
    let lock = async {
        loop {
            let held = "BEGIN; LOCK TABLE processed_webhook_events IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(1.8); COMMIT";
            database.run(held).await.unwrap();
        }
    };
    let send = async {
        loop {
            until("it is locked", Duration::from_secs(20), String::new, async || {
                database.count(is_locked).await > 0
            })
            .await;
            let ids: Vec<String> = (0..8).map(|_| format!("evt_{}", fastrand::u64(..))).collect();
            futures_util::future::join_all(ids.iter().map(|id| watched.event(id, "paid"))).await;
        }
    };
    tokio::select! {
        () = lock => {}
        () = send => {}
        () = watched.prometheus.fires(&all) => {}
    }
}

async fn signed_texts_repeated_under_other_ids_fire_an_alert(database: &Database) {
    let more = "[providers.github]\nsecrets = [\"secret_of_github_0123456789\"]\n";
    let Some(watched) = Watched::start(database, more).await else { return };
    let body = r#"{"action":"revoked","sender":{"login":"ada","id":1}}"#;
    let mut mac =
        <hmac::Hmac<sha2::Sha256> as hmac::KeyInit>::new_from_slice(b"secret_of_github_0123456789").unwrap();
    hmac::Mac::update(&mut mac, body.as_bytes());
    let signature = format!("sha256={}", hex::encode(hmac::Mac::finalize(mac).into_bytes()));
    let sent = async |id: &str| {
        let request = client().post(watched.server.url("/webhooks/github")).header("x-github-delivery", id);
        let request = request.header("x-github-event", "github_app_authorization");
        let sent = request.header("x-hub-signature-256", &signature).body(body).send().await.unwrap();
        sent.headers()["hooklatch-outcome"].to_str().unwrap().to_owned()
    };
    for (id, outcome) in [("d1", "accepted"), ("d2", "accepted"), ("d3", "replayed")] {
        assert_eq!(sent(id).await, outcome, "{id}");
    }
    watched.prometheus.has_looked().await;
    watched.prometheus.is_quiet_about(&["TextsRepeated warning"]).await;
    assert_eq!(sent("d4").await, "replayed");
    watched.prometheus.fires(&["TextsRepeated warning"]).await;
}

async fn a_sender_with_events_of_foreign_accounts_only_fires_an_alert(database: &Database) {
    let (key, more) = circle("mistyped");
    let Some(watched) = Watched::start(database, &more).await else { return };
    watched.prometheus.is_quiet_about(&["ForeignAccount critical"]).await;
    assert_eq!(sent(&watched.server, &key, "ours").await, 401);
    watched.prometheus.fires(&["ForeignAccount critical"]).await;
    assert_eq!(sent(&watched.server, &key, "mistyped").await, 200);
    watched.prometheus.is_quiet_about(&["ForeignAccount critical"]).await;
}
