//! A database that falls silent: connections stay open, and no query is answered.

use std::time::{Duration, Instant};

use super::load::Load;
use super::proxy::SilentProxy;
use super::server::Postgres;
use crate::process::{Server, client, until};

/// How soon events are taken again when new connections work.
const LEFT_WITHIN: Duration = Duration::from_secs(15);
/// How soon `/readyz` shows the real state.
const READY_WITHIN: Duration = Duration::from_secs(5);
/// What a test waits for what is bound otherwise.
const TIMEOUT: Duration = Duration::from_mins(1);

async fn is_ready(client: &reqwest::Client, server: &Server) -> bool {
    let asked = client.get(format!("http://{}/readyz", server.admin)).send().await;
    asked.is_ok_and(|answer| answer.status().is_success())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_falls_silent_behind_one_address_is_left_and_found_again() {
    let Some(postgres) = Postgres::start(&[]).await else { return };
    let proxy = SilentProxy::before(postgres.port).await;
    let mut server = Server::start(&proxy.url(), "").await;
    let client = client();
    let load = Load::start(&[&server], 4);
    load.flows(50, TIMEOUT).await;

    let cut = Instant::now();
    proxy.silence_open_connections(postgres.port);
    let gap = load.gap(cut, Duration::from_millis(200), TIMEOUT).await;
    assert!(gap < LEFT_WITHIN, "first event taken {gap:?} after the cut");
    load.flows(50, TIMEOUT).await;
    until("it is ready", READY_WITHIN, || server.log(), async || is_ready(&client, &server).await).await;

    proxy.silence_everything();
    until("it is not ready", READY_WITHIN, || server.log(), async || !is_ready(&client, &server).await).await;
    proxy.silence_open_connections(postgres.port);
    until("it is ready again", READY_WITHIN, || server.log(), async || is_ready(&client, &server).await)
        .await;
    load.flows(50, LEFT_WITHIN).await;

    proxy.silence_everything();
    let stopping = Instant::now();
    assert!(tokio::task::block_in_place(|| server.terminate()), "SIGTERM ends it well");
    assert!(stopping.elapsed() < Duration::from_secs(30), "it took {:?} to stop", stopping.elapsed());
    assert_eq!(load.lost(postgres.event_ids()).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unresponsive_host_does_not_prevent_a_connection_to_the_next() {
    let Some(postgres) = Postgres::start(&[]).await else { return };
    let proxy = SilentProxy::before(postgres.port).await;
    let url = format!("postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres", proxy.port, postgres.port);
    let server = Server::start(&url, "").await;
    let client = client();
    let load = Load::start(&[&server], 2);
    load.flows(20, TIMEOUT).await;
    let cut = Instant::now();
    proxy.silence_everything();
    let gap = load.gap(cut, Duration::from_millis(200), TIMEOUT).await;
    assert!(gap < LEFT_WITHIN, "first event taken {gap:?} after the cut");
    until("it is ready", READY_WITHIN, || server.log(), async || is_ready(&client, &server).await).await;
    // A node that starts now finds the other one as well.
    drop(Server::start(&url, "").await);
    assert_eq!(load.lost(postgres.event_ids()).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_pointed_to_a_standby_for_a_while_is_used_again_when_it_points_to_the_primary() {
    let Some(primary) = Postgres::start(&[]).await else { return };
    let standby = primary.standby("one", &[]).await;
    let proxy = SilentProxy::before(primary.port).await;
    let server = Server::start(&proxy.url(), "").await;
    let client = client();
    let load = Load::start(&[&server], 2);
    load.flows(20, TIMEOUT).await;
    proxy.cut(standby.port);
    until("it is not ready", READY_WITHIN, || server.log(), async || !is_ready(&client, &server).await).await;
    // What stands by now, stands on the standby, and is not cut.
    proxy.point_to(primary.port);
    until("it is ready again", READY_WITHIN, || server.log(), async || is_ready(&client, &server).await)
        .await;
    load.flows(20, TIMEOUT).await;
    assert_eq!(load.lost(primary.event_ids()).await, Vec::<String>::new());
}
