//! Alerts about a node itself.

use std::process::Command;
use std::time::Duration;

use super::watched::Watched;
use crate::database::{Database, On, on_sqlite};
use crate::process::{client, free_port};
use crate::stub::{Mode, Stub};
use crate::tls_listeners::Authority;

on_sqlite!(
    a_missing_key_fires_an_alert,
    hostile_connections_and_mistakes_fire_alerts,
    an_unreachable_collector_fires_an_alert,
);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_receiver_and_expired_senders_fire_alerts() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let never = "[providers.shop]\nkind = \"woocommerce\"\ntypes = [\"order.*\"]\nsecrets = [\"0123456789abcdef0123456789abcdef\"]\n";
    let Some(mut watched) = Watched::start(&database, never).await else { return };
    let all = ["ReceiverGone warning", "ReceiverGone critical", "ReceiverGoneLong critical"];
    watched.prometheus.is_quiet_about(&all).await;
    watched.prometheus.was_ready().await;
    watched.server.kill();
    watched.prometheus.fires(&all).await;
    watched.server.spawn().await;
    watched.prometheus.is_quiet_about(&all).await;
}

async fn a_missing_key_fires_an_alert(database: &Database) {
    let key = |id: &str, byte: &str| {
        format!("[encryption]\nkeys = [{{ id = \"{id}\", key = \"{byte}{}\" }}]\n", "3c".repeat(31))
    };
    let stub = Stub::start().await;
    let routes = format!(
        "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\n[destinations.billing]\nurl = \"{}\"\n",
        stub.url()
    );
    let Some(mut watched) = Watched::start(database, &format!("{routes}{}", key("old", "01"))).await else {
        return;
    };
    stub.next(&vec![Mode::Status(503); 50]);
    assert_eq!(watched.event("evt_1", "paid").await, 200);
    watched.prometheus.is_quiet_about(&["SealedUnopened critical"]).await;
    watched.server.kill();
    let text = std::fs::read_to_string(watched.server.config()).unwrap();
    std::fs::write(watched.server.config(), text.replace(&key("old", "01"), &key("new", "02"))).unwrap();
    watched.server.spawn().await;
    watched.prometheus.fires(&["SealedUnopened critical"]).await;
}

async fn hostile_connections_and_mistakes_fire_alerts(database: &Database) {
    let mut server =
        Watched::prepared(database, "[server.tls]\ncert_file = \"cert.pem\"\nkey_file = \"key.pem\"\n");
    // All but one of twenty are 95 % and no more; with these there are always more.
    server.start_after(
        "exec 3</dev/null 4</dev/null 5</dev/null 6</dev/null 7</dev/null 8</dev/null 9</dev/null",
    );
    let folder = server.config().parent().unwrap().to_owned();
    let authority = Authority::new();
    authority.write_until(&folder, Duration::from_hours(48));
    let Some(watched) = Watched::of(server).await else { return };
    watched.prometheus.fires(&["TlsEnds warning", "TlsEnds critical"]).await;
    watched
        .prometheus
        .is_quiet_about(&[
            "TlsBroken warning",
            "ReloadFailed warning",
            "OpenFiles warning",
            "OperatorGuessed warning",
        ])
        .await;
    authority.write(&folder);
    watched.prometheus.is_quiet_about(&["TlsEnds warning", "TlsEnds critical"]).await;
    assert_refused_reload_fires_an_alert(&watched).await;
    std::fs::write(folder.join("key.pem"), "half a key").unwrap();
    watched.prometheus.fires(&["TlsBroken warning"]).await;
    let url = format!("http://{}/v1/me", watched.server.admin);
    let guess = async || {
        let sent = client().get(&url).bearer_auth("wrong-token-0123456789").send().await.unwrap();
        assert!([401, 429].contains(&sent.status().as_u16()), "{}", sent.status());
    };
    guess().await;
    watched.prometheus.has_looked().await;
    for _ in 0..40 {
        guess().await;
    }
    watched.prometheus.fires(&["OperatorGuessed warning"]).await;
    // It takes no more connections than it has files for, so its limit is what is broken.
    let limit = |files_n: usize| {
        let id = watched.server.process_id().to_string();
        let limited = Command::new("prlimit").args(["--pid", &id, &format!("--nofile={files_n}:")]).status();
        assert!(limited.unwrap().success());
    };
    // It follows what is open: connections of before may end after the first count.
    let follow = async {
        loop {
            limit(watched.server.usage().1 + 1);
            watched.prometheus.has_looked().await;
        }
    };
    tokio::select! {
        () = follow => {}
        () = watched.prometheus.fires(&["OpenFiles warning", "OpenFiles critical"]) => {}
    }
    limit(1024);
    watched.prometheus.is_quiet_about(&["OpenFiles warning", "OpenFiles critical"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_restarts_repeatedly_fires_an_alert() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let Some(mut watched) = Watched::start(&database, "").await else { return };
    for _ in 0..3 {
        watched.prometheus.is_quiet_about(&["Restarts warning"]).await;
        watched.server.kill();
        watched.server.spawn().await;
        watched.prometheus.has_looked().await;
    }
    watched.prometheus.fires(&["Restarts warning"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_is_not_hooklatch_fires_an_alert() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let Some(mut watched) = Watched::start(&database, "").await else { return };
    let all = ["ReceiverGone warning", "ReceiverGone critical"];
    watched.prometheus.is_quiet_about(&all).await;
    watched.server.kill();
    // Another program has its port now, and answers 200 to everything.
    let listener = tokio::net::TcpListener::bind(watched.server.admin).await.unwrap();
    let other = axum::Router::new().fallback(async || "of_somebody_else 1\n");
    let serving = tokio::spawn(async move { axum::serve(listener, other).await });
    watched.prometheus.is_up().await;
    watched.prometheus.fires(&all).await;
    serving.abort();
    watched.server.spawn().await;
    watched.prometheus.is_quiet_about(&all).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_two_versions_fire_an_alert() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let mut server = Watched::prepared(&database, "");
    server.spawn().await;
    // A program of another version: ours, with another number in it.
    let version = env!("CARGO_PKG_VERSION");
    let (front, last) = version.split_at(version.len() - 1);
    let another = format!("{front}{}", if last == "7" { "8" } else { "7" });
    let program = server.config().with_file_name("another");
    let mut command = Command::new("sh");
    command.args(["-c", "sed \"s/$2/$3/g\" \"$0\" > \"$1\" && chmod 755 \"$1\""]).env("LC_ALL", "C");
    command.arg(env!("CARGO_BIN_EXE_hooklatch")).arg(&program).arg(version.replace('.', "\\.")).arg(&another);
    assert!(command.status().unwrap().success());
    let mut beside = Watched::prepared(&database, "");
    beside.start_after(format!("exec '{}' \"$@\"", program.display()));
    beside.spawn().await;
    let metrics = beside.admin_text("/metrics").await;
    assert!(metrics.contains(&format!("hooklatch_build_info{{version=\"{another}\"")), "{metrics}");
    let Some(watched) = Watched::look(server, &[beside.admin], &[]).await else { return };
    watched.prometheus.fires(&["VersionsDiffer warning"]).await;
    assert!(beside.terminate());
    watched.prometheus.is_quiet_about(&["VersionsDiffer warning"]).await;
}

async fn an_unreachable_collector_fires_an_alert(database: &Database) {
    let tracing =
        format!("[tracing]\nendpoint = \"http://{}\"\nqueue_n_max = 20\ntimeout_ms = 500\n", free_port());
    let Some(watched) = Watched::start(database, &tracing).await else { return };
    watched.prometheus.is_quiet_about(&["SpansDropped warning"]).await;
    let send = async {
        loop {
            assert_eq!(watched.event(&format!("evt_{}", fastrand::u64(..)), "paid").await, 200);
        }
    };
    tokio::select! {
        () = send => {}
        () = watched.prometheus.fires(&["SpansDropped warning"]) => {}
    }
}

/// A refused configuration fires an alert until a valid one is loaded.
async fn assert_refused_reload_fires_an_alert(watched: &Watched) {
    let reload = |text: &str| {
        std::fs::write(watched.server.config(), text).unwrap();
        let id = watched.server.process_id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    };
    let good = std::fs::read_to_string(watched.server.config()).unwrap();
    reload("[providers.stripe");
    watched.prometheus.fires(&["ReloadFailed warning"]).await;
    reload(&good);
    watched.prometheus.is_quiet_about(&["ReloadFailed warning"]).await;
}
