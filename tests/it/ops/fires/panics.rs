//! A handler that panics, in a program of its own: ours has none.

use std::time::Duration;

use hooklatch::prelude::*;

use super::watched::Watched;
use crate::database::{Database, on_sqlite};
use crate::process::until;

on_sqlite!(one_panic_and_repeated_panics_of_a_handler_fire_alerts);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by `one_panic_and_repeated_panics_of_a_handler_fire_alerts`, as its server"]
async fn a_program_whose_handler_panics() {
    let file = std::path::PathBuf::from(std::env::var_os("HOOKLATCH_TEST_CONFIG").unwrap());
    let panics = |_: Event<serde_json::Value>| -> Handled { panic!("as a handler does that has a defect") };
    let stripe = kind("stripe").on("paid", panics).on_tx("charged", panics_in_its_transaction);
    App::load(Some(&file), vec![stripe]).unwrap().run().await.unwrap();
}

async fn panics_in_its_transaction(_: &mut Tx, _: Event<serde_json::Value>) -> Handled {
    panic!("as another one does")
}

async fn one_panic_and_repeated_panics_of_a_handler_fire_alerts(database: &Database) {
    let mut server = Watched::prepared(database, "");
    let program = std::env::current_exe().unwrap();
    let name = "ops::fires::panics::a_program_whose_handler_panics";
    server.start_after(format!(
        "HOOKLATCH_TEST_CONFIG=\"$3\" exec '{}' --ignored --exact --nocapture {name}",
        program.display()
    ));
    let Some(watched) = Watched::of(server).await else { return };
    watched.prometheus.is_quiet_about(&["Panics warning", "Panics critical"]).await;
    assert_eq!(watched.event("evt_0", "paid").await, 200);
    watched.prometheus.fires(&["Panics warning"]).await;
    watched.prometheus.is_quiet_about(&["Panics critical"]).await;
    for n in 1..20 {
        let kind = if n % 2 == 0 { "paid" } else { "charged" };
        assert_eq!(watched.event(&format!("evt_{n}"), kind).await, 200);
    }
    watched.prometheus.fires(&["Panics critical"]).await;
    // Each is kept, and waits for a handler without that defect.
    let log = || watched.server.log();
    let counted = async || {
        let metrics = watched.server.admin_text("/metrics").await;
        let n =
            metrics.lines().find_map(|line| line.strip_prefix("hooklatch_panics_total{part=\"handler\"} "));
        n.is_some_and(|n| n.parse::<u32>().unwrap() >= 20)
    };
    until("each is counted", Duration::from_secs(20), log, counted).await;
    let kept = "SELECT COUNT(*) FROM processed_webhook_events WHERE state = 'retry'";
    until("all are kept", Duration::from_secs(20), log, async || database.count(kept).await == 20).await;
}
