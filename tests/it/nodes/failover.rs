//! A primary that fails, a standby that takes over, and what a synchronous standby guarantees.

use std::time::{Duration, Instant};

use super::database;
use super::load::Load;
use super::server::Postgres;
use crate::process::{Server, client, post_stripe, until};

const TIMEOUT: Duration = Duration::from_mins(1);
/// From the moment a host takes writes until events are taken through it.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(20);

/// Makes the standby of that name one that commits wait for, and waits until it is.
async fn wait_for_standby(primary: &Postgres, name: &str) {
    primary.execute(&format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'")).await;
    primary.execute("SELECT pg_reload_conf()").await;
    until("the standby is synchronous", TIMEOUT, String::new, async || {
        let is_sync: bool = primary
            .scalar("SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming')")
            .await;
        is_sync
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_standby_is_followed_and_nothing_that_was_taken_is_lost() {
    let Some(mut primary) = Postgres::start(&[]).await else { return };
    let standby = primary.standby("one", &["synchronous_standby_names="]).await;
    wait_for_standby(&primary, "one").await;
    let url = format!("postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres", primary.port, standby.port);
    let one = Server::start(&url, "").await;
    let other = Server::start(&format!("{url}?target_session_attrs=read-write"), "").await;
    let load = Load::start(&[&one, &other], 4);
    load.flows(100, TIMEOUT).await;

    primary.kill();
    standby.promote().await;
    let promoted = Instant::now();
    let gap = load.gap(promoted, Duration::ZERO, TIMEOUT).await;
    assert!(gap < FOLLOWED_WITHIN, "first event taken {gap:?} after the promotion");
    load.flows(100, TIMEOUT).await;
    // Both nodes: each has senders of its own.
    let client = client();
    for server in [&one, &other] {
        let taken = async || post_stripe(&client, &server.url("/webhooks/stripe"), "evt_last").await.is_ok();
        until("the node takes events", TIMEOUT, || server.log(), taken).await;
    }
    assert_eq!(load.lost(standby.event_ids()).await, Vec::<String>::new());
}

/// PostgreSQL ends such a wait with a WARNING, and then confirms the commit all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_wait_for_the_synchronous_standby_is_no_2xx() {
    let Some(primary) = Postgres::start(&[]).await else { return };
    let mut standby = primary.standby("one", &["synchronous_standby_names="]).await;
    wait_for_standby(&primary, "one").await;
    let server = Server::start(&database(&primary.url(), "replicated = true"), "").await;
    let (client, url) = (client(), server.url("/webhooks/stripe"));
    assert_eq!(post_stripe(&client, &url, "evt_1").await, Ok("accepted".to_owned()));

    standby.stop();
    let (again_client, again_url) = (client.clone(), url.clone());
    let sent = tokio::spawn(async move { post_stripe(&client, &url, "evt_2").await });
    let cancelled = async || {
        let n: i64 = primary
            .scalar(
                "SELECT COUNT(*) FROM (SELECT pg_cancel_backend(pid) FROM pg_stat_activity
                 WHERE wait_event = 'SyncRep' AND application_name = 'hooklatch') AS cancelled",
            )
            .await;
        n > 0 || sent.is_finished()
    };
    until("a commit waits and is cancelled", TIMEOUT, || server.log(), cancelled).await;
    assert_eq!(sent.await.unwrap(), Err("503".to_owned()));
    // The event is there, and on no standby: that a copy of it writes nothing is no reason to acknowledge it.
    assert_eq!(post_stripe(&again_client, &again_url, "evt_2").await, Err("503".to_owned()));
    standby.run(&["synchronous_standby_names="]).await;
    let acknowledged = async || post_stripe(&again_client, &again_url, "evt_2").await.is_ok();
    until("the standby has it and it is acknowledged", TIMEOUT, || server.log(), acknowledged).await;
}

/// A reload after the check must not undo a required setting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_waiting_for_its_standby_while_we_run_confirms_nothing() {
    let Some(primary) = Postgres::start(&[]).await else { return };
    let mut standby = primary.standby("one", &["synchronous_standby_names="]).await;
    wait_for_standby(&primary, "one").await;
    let server = Server::start(&database(&primary.url(), "replicated = true"), "").await;
    let (client, url) = (client(), server.url("/webhooks/stripe"));
    assert_eq!(post_stripe(&client, &url, "evt_1").await, Ok("accepted".to_owned()));

    standby.stop();
    primary.execute("ALTER SYSTEM SET synchronous_commit = local").await;
    primary.execute("SELECT pg_reload_conf()").await;
    assert_eq!(post_stripe(&client, &url, "evt_2").await, Err("503".to_owned()));

    primary.execute("ALTER SYSTEM RESET synchronous_commit").await;
    primary.execute("ALTER SYSTEM SET synchronous_standby_names = ''").await;
    primary.execute("SELECT pg_reload_conf()").await;
    let mut n = 0;
    let refused = async || {
        n += 1;
        post_stripe(&client, &url, &format!("evt_while_{n}")).await == Err("503".to_owned())
    };
    until("it is refused", Duration::from_secs(5), || server.log(), refused).await;
    for n in 0..5 {
        assert_eq!(post_stripe(&client, &url, &format!("evt_then_{n}")).await, Err("503".to_owned()));
    }
}

/// Only the holder's own commit ends a transaction that both nodes want to write in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_under_the_same_events_never_deadlock() {
    let Some(postgres) = Postgres::start(&[]).await else { return };
    let one = Server::start(&postgres.url(), "").await;
    let other = Server::start(&postgres.url(), "").await;
    // The same ids on both sides, in different orders and batches.
    let (here, there) = (Load::start(&[&one, &other], 8), Load::start(&[&other, &one], 8));
    here.flows(600, TIMEOUT).await;
    there.flows(600, TIMEOUT).await;
    let deadlocks_n: i64 = postgres.scalar("SELECT SUM(deadlocks)::bigint FROM pg_stat_database").await;
    assert_eq!(deadlocks_n, 0);
    // A node that stalls in a commit answers 503, and the sender retries the event.
    assert_eq!((here.failed(), there.failed()), (Vec::new(), Vec::new()));
    assert_eq!(here.lost(postgres.event_ids()).await, Vec::<String>::new());
    assert_eq!(there.lost(postgres.event_ids()).await, Vec::<String>::new());
}
