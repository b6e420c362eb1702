//! The operators' API on the real binary: many at once, and a process that is killed between the effect and its answer.

use std::time::Duration;

use serde_json::json;

use crate::database::{Database, on_both};
use crate::needs::kills_n;
use crate::process::{Server, client, until};

on_both!(
    a_hundred_decisions_under_one_key_are_one,
    killed_between_the_effect_and_the_answer_a_repeated_request_acts_once,
);

const OPERATOR: &str = "operator-token-0123456789";

async fn serve(database: &Database) -> Server {
    let more = "[destinations.billing]\nurl = \"http://127.0.0.1:9/\"\n";
    let mut server = Server::prepare(&database.url, more);
    let config = std::fs::read_to_string(server.config()).unwrap();
    let token =
        format!("tokens = [{{ name = \"ops\", role = \"operator\", token = \"{OPERATOR}\" }}]\n[database]");
    std::fs::write(server.config(), config.replace("[database]", &token)).unwrap();
    server.server_keys("peer_share_percent = 100");
    server.spawn().await;
    server
}

/// Status, whether it is a replay, and body; `None` without an answer.
async fn decide(admin: std::net::SocketAddr, key: &str, act: &str) -> Option<(u16, bool, String)> {
    let url = format!("http://{admin}/v1/destinations/billing/decide");
    let order = json!({ "act": act, "reason": "looked" }).to_string();
    let request = client().post(url).bearer_auth(OPERATOR).header("idempotency-key", key).body(order);
    let response = request.send().await.ok()?;
    let (status, is_again) =
        (response.status().as_u16(), response.headers().contains_key("idempotency-replayed"));
    Some((status, is_again, response.text().await.ok()?))
}

async fn a_hundred_decisions_under_one_key_are_one(database: &Database) {
    let server = serve(database).await;
    let admin = server.admin;
    let all: Vec<_> = (0..100).map(|_| tokio::spawn(decide(admin, "k", "pause"))).collect();
    let (mut new_n, mut again_n, mut busy_n) = (0, 0, 0);
    for one in all {
        match one.await.unwrap().unwrap() {
            (200, false, _) => new_n += 1,
            (200, true, _) => again_n += 1,
            (409, _, body) if body.contains("idempotency_key_in_use") => busy_n += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((new_n, again_n + busy_n), (1, 99));
    assert_eq!(database.count("SELECT COUNT(*) FROM audit_log").await, 1);
    assert_eq!(database.count("SELECT COUNT(*) FROM idempotency_keys WHERE state = 'succeeded'").await, 1);
}

async fn killed_between_the_effect_and_the_answer_a_repeated_request_acts_once(database: &Database) {
    let mut server = serve(database).await;
    for n in 0..kills_n() {
        let (key, act) = (format!("k-{n}"), if n % 2 == 0 { "pause" } else { "resume" });
        let asked = tokio::spawn({
            let (admin, key) = (server.admin, key.clone());
            async move { decide(admin, &key, act).await }
        });
        // A moment drawn at random, somewhere before, between and after the effect and its answer.
        tokio::time::sleep(Duration::from_micros(fastrand::u64(0..9_000))).await;
        server.kill();
        drop(asked.await);
        server.spawn().await;
        let admin = server.admin;
        until(
            "it is decided",
            Duration::from_secs(20),
            || server.log(),
            async || decide(admin, &key, act).await.is_some_and(|response| response.0 == 200),
        )
        .await;
        let response = decide(admin, &key, act).await.unwrap();
        assert_eq!((response.0, response.1), (200, true), "{response:?}");
    }
    let decisions_n = i64::from(kills_n());
    assert_eq!(database.count("SELECT COUNT(*) FROM audit_log").await, decisions_n, "each acted once");
    let kept = "SELECT COUNT(*) FROM idempotency_keys WHERE state = 'succeeded' AND body IS NOT NULL";
    assert_eq!(database.count(kept).await, decisions_n);
}
