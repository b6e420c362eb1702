//! A server that is restored to a point in time from its archive, by PostgreSQL's own means, as docs/backup.md says.

use std::process::Command;
use std::time::Duration;

use super::server::{Postgres, folder};
use super::{database, refused};
use crate::process::{Server, client, post_stripe, until};

/// Runs `restore-check` with these arguments: its exit code, and all of its output.
fn check(server: &Server, arguments: &[&str]) -> (i32, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_hooklatch"))
        .arg("restore-check")
        .args(arguments)
        .arg("--config")
        .arg(server.config())
        .output()
        .unwrap();
    (ran.status.code().unwrap(), String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_restored_to_a_point_in_time_is_noticed_and_taken_over() {
    let archive = folder();
    let at = archive.path().display();
    let command = format!("archive_command=cp %p {at}/%f");
    let Some(mut first) = Postgres::start(&["archive_mode=on", &command]).await else { return };
    let mut server = Server::start(&first.url(), "").await;
    let post = async |server: &Server, id: &str| {
        post_stripe(&client(), &server.url("/webhooks/stripe"), id).await.unwrap()
    };
    assert_eq!(post(&server, "evt_1").await, "accepted");
    let mut base = first.base();
    assert_eq!(post(&server, "evt_2").await, "accepted");
    let moment: String = first.scalar("SELECT CAST(clock_timestamp() AS TEXT)").await;
    assert_eq!(post(&server, "evt_3").await, "accepted");
    let last: String = first.scalar("SELECT pg_walfile_name(pg_switch_wal())").await;
    let is_archived = || std::fs::exists(archive.path().join(&last)).unwrap();
    until("it is archived", Duration::from_secs(30), String::new, async || is_archived()).await;
    server.kill();
    first.kill();

    base.recovers();
    let restore = format!("restore_command=cp {at}/%f %p");
    let target = format!("recovery_target_time={moment}");
    base.run(&[&restore, &target, "recovery_target_action=promote"]).await;
    until("it takes writes", Duration::from_secs(30), String::new, async || {
        !base.scalar::<bool>("SELECT pg_is_in_recovery()").await
    })
    .await;
    let mut ids = base.event_ids().await;
    ids.sort();
    assert_eq!(ids, ["evt_1", "evt_2"]);

    let said = refused(&base.url(), "");
    assert!(
        said.contains("restored to an earlier point in time") && said.contains("restore-check"),
        "{said}"
    );
    let mut again = Server::prepare(&database(&base.url(), ""), "");
    let (code, said) = check(&again, &["--json"]);
    assert!(code == 7 && said.contains("\"state\":\"point_in_time\""), "{said}");
    let (code, said) = check(&again, &["--yes", "--reason", "r", "--backed-up-at", "1m"]);
    assert_eq!(code, 0, "{said}");
    again.spawn().await;
    assert_eq!(post(&again, "evt_2").await, "duplicate");
    assert_eq!(post(&again, "evt_3").await, "accepted", "the sender was asked for it");
    // Its settings still name the target; one take-over is enough.
    assert!(again.terminate());
    again.spawn().await;
}
