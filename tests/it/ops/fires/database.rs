//! Alerts about the database.

use std::process::Command;
use std::time::Duration;

use super::watched::{TOKEN, Watched, reworded};
use crate::contract::Operator;
use crate::database::{Database, On, on_both};
use crate::process::{Server, until};

on_both!(
    failing_pruning_fires_an_alert,
    pruning_rounds_that_never_finish_fire_an_alert,
    uncountable_tables_fire_an_alert,
    gauges_that_were_never_counted_fire_an_alert,
    an_exhausted_pool_fires_an_alert,
    damaged_rows_fire_an_alert,
);

async fn damaged_rows_fire_an_alert(database: &Database) {
    let Some(watched) = Watched::start(database, "").await else { return };
    let admin = Operator::new(watched.server.admin, TOKEN);
    for id in ["evt_1", "evt_2"] {
        assert_eq!(watched.event(id, "paid").await, 200);
    }
    assert_eq!(admin.get("/events").await.status, 200);
    watched.prometheus.is_quiet_about(&["RowDamaged critical"]).await;
    database.run("UPDATE processed_webhook_events SET state = 'odd' WHERE event_id = 'evt_1'").await.unwrap();
    assert_eq!(admin.get("/events").await.status, 200);
    watched.prometheus.fires(&["RowDamaged critical"]).await;
}

async fn failing_pruning_fires_an_alert(database: &Database) {
    let more = "[retention]\nevery_ms = 100\n";
    let Some(watched) = Watched::start(database, more).await else { return };
    for id in ["evt_1", "evt_2"] {
        assert_eq!(watched.event(id, "paid").await, 200);
    }
    watched.prometheus.is_quiet_about(&["RetentionLag warning"]).await;
    // The database refuses to delete bodies, which should have been pruned seventy days ago.
    let (refuse, allow) = if database.url.starts_with("sqlite") {
        (
            "CREATE TRIGGER kept BEFORE DELETE ON webhook_payloads BEGIN SELECT RAISE(ABORT, 'kept'); END",
            "DROP TRIGGER kept",
        )
    } else {
        (
            "CREATE FUNCTION kept() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'kept'; END $$;
             CREATE TRIGGER kept BEFORE DELETE ON webhook_payloads FOR EACH ROW EXECUTE FUNCTION kept()",
            "DROP TRIGGER kept ON webhook_payloads",
        )
    };
    database.run(refuse).await.unwrap();
    let aged = "UPDATE processed_webhook_events SET received_at_ms = received_at_ms - 8640000000,
            processed_at_ms = processed_at_ms - 8640000000";
    database.run(aged).await.unwrap();
    let log = || watched.server.log();
    let is_exported = async || {
        let metrics = watched.server.admin_text("/metrics").await;
        let of = "hooklatch_prune_lag_seconds{table=\"webhook_payloads\"} ";
        let lag_s = metrics.lines().find_map(|line| line.strip_prefix(of));
        lag_s.is_some_and(|lag_s| lag_s.parse::<f64>().unwrap() > 69.0 * 86_400.0)
    };
    until("the lag is exported", Duration::from_secs(20), log, is_exported).await;
    watched.prometheus.fires(&["RetentionLag warning"]).await;
    assert_eq!(database.count("SELECT COUNT(*) FROM webhook_payloads").await, 2);
    database.run(allow).await.unwrap();
    watched.prometheus.is_quiet_about(&["RetentionLag warning"]).await;
    assert_eq!(database.count("SELECT COUNT(*) FROM webhook_payloads").await, 0);
}

async fn pruning_rounds_that_never_finish_fire_an_alert(database: &Database) {
    let Some(watched) = Watched::start(database, "[retention]\nevery_ms = 100\n").await else { return };
    without_table_fires(database, &watched, "retention_marks", "RetentionLag warning").await;
}

async fn uncountable_tables_fire_an_alert(database: &Database) {
    let Some(watched) = Watched::start(database, "").await else { return };
    without_table_fires(database, &watched, "outbox_queue", "CountsOld warning").await;
}

/// Takes a table away and gives it back: the alert fires in between, and only then.
async fn without_table_fires(database: &Database, watched: &Watched, table: &str, alert: &str) {
    watched.prometheus.is_quiet_about(&[alert]).await;
    database.run(&format!("ALTER TABLE {table} RENAME TO {table}_of_somebody")).await.unwrap();
    watched.prometheus.fires(&[alert]).await;
    database.run(&format!("ALTER TABLE {table}_of_somebody RENAME TO {table}")).await.unwrap();
    watched.prometheus.is_quiet_about(&[alert]).await;
}

async fn gauges_that_were_never_counted_fire_an_alert(database: &Database) {
    drop(database.store().await);
    // The rhythms of senders: without them a silent sender is not noticed.
    database.run("ALTER TABLE provider_rhythms RENAME TO rhythms_of_somebody").await.unwrap();
    let Some(watched) = Watched::start(database, "").await else { return };
    watched.prometheus.is_quiet_about(&["CountsOld warning"]).await;
    watched.prometheus.fires(&["CountsOld warning"]).await;
    database.run("ALTER TABLE rhythms_of_somebody RENAME TO provider_rhythms").await.unwrap();
    watched.prometheus.is_quiet_about(&["CountsOld warning"]).await;
}

async fn an_exhausted_pool_fires_an_alert(database: &Database) {
    let server = Watched::prepared(database, "[retention]\nevery_ms = 100\n");
    reworded(&server, "[database]\n", "[database]\nconnections_n = 6\n");
    let Some(watched) = Watched::of(server).await else { return };
    // SQLite has one writer, whose connection is busy as long as another process writes; readers never wait.
    let (held, all) = if database.url.starts_with("sqlite") {
        ("BEGIN IMMEDIATE", &["DbConnectionsExhausted critical"][..])
    } else {
        (
            "BEGIN; LOCK TABLE nodes, provider_rhythms, processed_webhook_events, webhook_payloads, outbox_queue
                IN ACCESS EXCLUSIVE MODE",
            &["DbConnectionsExhausted warning", "DbConnectionsExhausted critical"][..],
        )
    };
    watched.prometheus.is_quiet_about(all).await;
    let forgotten = database.session(held).await;
    let send = async {
        loop {
            let ids: Vec<String> = (0..8).map(|_| format!("evt_{}", fastrand::u64(..))).collect();
            futures_util::future::join_all(ids.iter().map(|id| watched.event(id, "paid"))).await;
        }
    };
    tokio::select! {
        () = send => {}
        () = watched.prometheus.fires(all) => {}
    }
    drop(forgotten);
    let log = || watched.server.log();
    until("it accepts", Duration::from_secs(20), log, async || watched.event("evt_1", "paid").await == 200)
        .await;
    watched.prometheus.is_quiet_about(&["DbConnectionsExhausted warning"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_with_a_wrong_clock_fires_an_alert() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let (_, name) = database.url.rsplit_once('/').unwrap();
    // In this database the current time is another one.
    let off_by = async |seconds: u32| {
        let clock = format!(
            "CREATE OR REPLACE FUNCTION off.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
                $$ SELECT pg_catalog.clock_timestamp() - interval '{seconds} seconds' $$"
        );
        database.run(&clock).await.unwrap();
    };
    database.run("CREATE SCHEMA off").await.unwrap();
    off_by(25).await;
    let found_first = format!("ALTER DATABASE {name} SET search_path = public, off, pg_catalog");
    database.run(&found_first).await.unwrap();
    let Some(mut watched) = Watched::start(&database, "").await else { return };
    let all = ["ClockOff warning", "ClockOff critical"];
    watched.prometheus.fires(&all).await;
    // It looks twice a minute, and at its start.
    watched.server.kill();
    off_by(0).await;
    watched.server.spawn().await;
    watched.prometheus.is_quiet_about(&all).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filling_disk_fires_an_alert() {
    // A disk of memory, which is as large as its mount says, and which only the server and its children have.
    let own = |command: &str| {
        Command::new("unshare").args(["-rm", "sh", "-c", command]).status().is_ok_and(|ended| ended.success())
    };
    if !own("mount -t tmpfs -o size=3g hooklatch /mnt") {
        crate::needs::skip("the right to mount a small disk (unshare -rm)");
        return;
    }
    let mut server = Server::prepare("sqlite://disk/test.db", "");
    let disk = server.config().with_file_name("disk");
    std::fs::create_dir(&disk).unwrap();
    server.start_after(
        "exec unshare -rm sh -c 'mount -t tmpfs -o size=3g hooklatch disk && exec \"$0\" \"$@\"' \"$0\" \"$@\"",
    );
    let Some(watched) = Watched::of(server).await else { return };
    let is_large = |size: &str| {
        let id = watched.server.process_id().to_string();
        let mut command = Command::new("nsenter");
        command.args(["--target", &id, "--user", "--mount", "--preserve-credentials"]);
        command.args(["mount", "-o", &format!("remount,size={size}")]).arg(&disk);
        assert!(command.status().unwrap().success());
    };
    let all = ["DiskFull warning", "DiskFull critical"];
    watched.prometheus.is_quiet_about(&all).await;
    is_large("1g");
    watched.prometheus.fires(&["DiskFull warning"]).await;
    watched.prometheus.is_quiet_about(&["DiskFull critical"]).await;
    is_large("400m");
    watched.prometheus.fires(&all).await;
    is_large("3g");
    watched.prometheus.is_quiet_about(&all).await;
}
