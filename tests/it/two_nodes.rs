//! Identical events at once, to one node and to two on one database: one is accepted.

use std::collections::HashMap;

use crate::database::{Database, On, on_both};
use crate::process::{Server, client, post_stripe};

/// Number of copies that arrive at once.
const COPIES_N: usize = 64;
const ROUTE: &str = "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"nowhere\"\n\
     [destinations.nowhere]\nurl = \"http://127.0.0.1:9/\"\n";

/// A server that has time for all copies.
async fn start(database: &Database) -> Server {
    let mut server = Server::prepare(&database.url, ROUTE);
    server.server_keys("answer_timeout_ms = 20000");
    server.spawn().await;
    server
}

/// Sends the copies, spread over `urls`, and counts the outcomes.
async fn send_copies(urls: &[String], id: &'static str) -> HashMap<String, usize> {
    let client = client();
    let copies: Vec<_> = (0..COPIES_N)
        .map(|n| {
            let (client, url) = (client.clone(), urls[n % urls.len()].clone());
            tokio::spawn(async move { post_stripe(&client, &url, id).await.unwrap() })
        })
        .collect();
    let mut outcomes = HashMap::new();
    for copy in copies {
        *outcomes.entry(copy.await.unwrap()).or_default() += 1;
    }
    outcomes
}

fn one_accepted() -> HashMap<String, usize> {
    HashMap::from([("accepted".to_owned(), 1), ("duplicate".to_owned(), COPIES_N - 1)])
}

on_both!(of_64_copies_at_once_one_is_accepted);

async fn of_64_copies_at_once_one_is_accepted(database: &Database) {
    let server = start(database).await;
    assert_eq!(send_copies(&[server.url("/webhooks/stripe")], "evt_1").await, one_accepted());
    assert_eq!(database.count("SELECT COUNT(*) FROM outbox_messages").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_64_copies_at_once_to_two_nodes_one_is_accepted() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let (one, other) = (start(&database).await, start(&database).await);
    let urls = [one.url("/webhooks/stripe"), other.url("/webhooks/stripe")];
    for id in ["evt_1", "evt_2", "evt_3"] {
        assert_eq!(send_copies(&urls, id).await, one_accepted());
    }
    assert_eq!(database.count("SELECT COUNT(*) FROM outbox_messages").await, 3);
}

/// Here and not among the faults: those run one by one, and this one only waits.
#[tokio::test]
async fn nightly_a_node_that_was_stopped_for_a_minute_under_a_long_call_changes_nothing() {
    crate::faults::stopped_for(std::time::Duration::from_mins(1), "heartbeat = true\n").await;
}
