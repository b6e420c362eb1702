//! The operators' view of the real binary, and its responses to senders at its limits.

use std::time::Duration;

use sqlx::{Connection, Executor, SqliteConnection};

use crate::database::{Database, On, on_both};
use crate::process::{Server, client, now_s, post_stripe, stripe, until};

on_both!(metrics_count_what_happened);

const ROUTED: &str = "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"nowhere\"\n\
                      [destinations.nowhere]\nurl = \"http://127.0.0.1:9\"\nunknown = \"hold\"\n";

async fn send(server: &Server, id: &str) -> Result<String, String> {
    post_stripe(&client(), &server.url("/webhooks/stripe"), id).await
}

async fn metrics_count_what_happened(database: &Database) {
    let server = Server::start(&database.url, ROUTED).await;
    for _ in 0..2 {
        send(&server, "evt_1").await.unwrap();
    }
    let (body, _) = stripe("evt_2", now_s());
    let forged =
        client().post(server.url("/webhooks/stripe")).header("stripe-signature", "t=1,v1=00").body(body);
    assert_eq!(forged.send().await.unwrap().status(), 401);
    let wanted = [
        r#"hooklatch_requests_total{provider="stripe",outcome="accepted"} 1"#,
        r#"hooklatch_requests_total{provider="stripe",outcome="duplicate"} 1"#,
        r#"hooklatch_requests_total{provider="stripe",outcome="rejected"} 1"#,
        r#"hooklatch_admit_seconds_count{provider="stripe"} 2"#,
        "hooklatch_batch_events_count 2",
        r#"hooklatch_attempts_total{destination="nowhere",result="retry"}"#,
        r#"hooklatch_outbox_messages{destination="nowhere",state="ready"} 1"#,
        r#"hooklatch_outbox_oldest_due_seconds{destination="nowhere",state="ready"}"#,
    ];
    // The tables are counted every 5 seconds.
    until(
        "every figure is there",
        Duration::from_mins(1),
        || server.log(),
        async || {
            let text = server.admin_text("/metrics").await;
            wanted.iter().all(|line| text.contains(line))
        },
    )
    .await;
    assert_eq!(server.admin_text("/livez").await, "alive\n");
    let ready: serde_json::Value = serde_json::from_str(&server.admin_text("/readyz").await).unwrap();
    assert_eq!((&ready["ready"], &ready["outbox"]), (&true.into(), &"ok".into()));
}

#[tokio::test]
async fn a_database_that_goes_away_means_503_and_nothing_is_lost() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let server = Server::start(&database.url, "").await;
    database.allow_connections(false).await;
    assert_eq!(send(&server, "evt_1").await, Err("503".to_owned()));
    until(
        "it is not ready",
        Duration::from_secs(20),
        || server.log(),
        async || server.admin_text("/readyz").await.contains(r#""database":"away""#),
    )
    .await;
    assert_eq!(server.admin_text("/livez").await, "alive\n", "a restart would not bring the database back");
    database.allow_connections(true).await;
    until(
        "it takes events again",
        Duration::from_secs(20),
        || server.log(),
        async || send(&server, "evt_1").await.is_ok(),
    )
    .await;
}

#[tokio::test]
async fn a_sender_beyond_its_limits_is_asked_to_retry() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let mut server = Server::prepare(&database.url, "");
    let config = std::fs::read_to_string(server.config()).unwrap();
    let bounds = "queue_n_max = 1\nanswer_timeout_ms = 1000\ninflight_bytes_max = 1048576\n[admin]";
    std::fs::write(server.config(), config.replace("[admin]", bounds)).unwrap();
    server.spawn().await;
    let mut writer = SqliteConnection::connect(&database.url).await.unwrap();
    writer.execute("BEGIN IMMEDIATE").await.unwrap();
    let mut senders = tokio::task::JoinSet::new();
    for n in 0..20 {
        let (body, signature) = stripe(&format!("evt_{n}"), now_s());
        let url = server.url("/webhooks/stripe");
        let request = client().post(url).header("stripe-signature", signature).body(body);
        senders.spawn(async move { request.send().await.unwrap() });
    }
    while let Some(answer) = senders.join_next().await {
        let answer = answer.unwrap();
        assert_eq!(answer.status(), 503);
        assert!(answer.headers().contains_key("retry-after"));
    }
    writer.execute("ROLLBACK").await.unwrap();
    until(
        "it takes events again",
        Duration::from_secs(20),
        || server.log(),
        async || send(&server, "evt_1").await.is_ok(),
    )
    .await;
    // A body without a declared length takes the room of the largest one, which is all there is.
    let (body, signature) = stripe("evt_2", now_s());
    let frame = hyper::body::Frame::data(bytes::Bytes::from(body));
    let chunked =
        http_body_util::StreamBody::new(futures_util::stream::iter([Ok::<_, std::io::Error>(frame)]));
    let request = client()
        .post(server.url("/webhooks/stripe"))
        .header("stripe-signature", signature)
        .body(reqwest::Body::wrap(chunked));
    assert_eq!(request.send().await.unwrap().status(), 200);
    assert!(server.terminate(), "it stops in order");
}
