//! Probes of strangers: without a valid token they are ordinary requests.

use std::time::Duration;

use serde_json::Value;

use super::OPERATOR;
use crate::contract::Operator;
use crate::database::{Database, On};
use crate::process::{Server, client, until};

/// Status, headers that say something, and body of an answer.
async fn asked(
    server: &Server,
    path: &str,
    token: Option<&str>,
    body: &str,
) -> (u16, Option<String>, String) {
    let mut request = client().post(server.url(path)).body(body.to_owned());
    if let Some(token) = token {
        request = request.header("hooklatch-probe", token);
    }
    let response = request.send().await.unwrap();
    let kind = response.headers().get("content-type").map(|value| value.to_str().unwrap().to_owned());
    (response.status().as_u16(), kind, response.text().await.unwrap())
}

#[tokio::test]
async fn who_has_no_good_token_is_answered_as_if_there_were_no_probes() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let other = Database::create(On::Sqlite).await.unwrap();
    let server = Server::start(&database.url, OPERATOR).await;
    let neighbour = Server::start(&other.url, OPERATOR).await;
    let token = async |server: &Server| {
        let operator = Operator::new(server.admin, "anns-token-0123456789");
        let response = operator.ask("POST", "/probes", &[], None).await;
        assert_eq!(response.status, 200, "{}", response.body);
        response.body["token"].as_str().unwrap().to_owned()
    };
    let (good, foreign) = (token(&server).await, token(&neighbour).await);
    let (until_ms, rest) = good.split_once('.').unwrap();
    let later = format!("{}.{rest}", until_ms.parse::<i64>().unwrap() + 1);
    let long = "9".repeat(5_000);
    for path in ["/webhooks/stripe", "/webhooks/absent", "/elsewhere", "/webhooks/stripe/key"] {
        let plain = asked(&server, path, None, "{}").await;
        assert!(plain.0 >= 400, "{plain:?}");
        for bad in ["", "x", "..", &foreign, &later, &long] {
            assert_eq!(asked(&server, path, Some(bad), "{}").await, plain, "{path} {bad}");
            let in_query = format!("{path}?hooklatch-probe={bad}");
            assert_eq!(asked(&server, &in_query, None, "{}").await, plain, "{in_query}");
        }
        // With a valid one the answer shows what arrived, each time, and nothing else happens.
        for _ in 0..2 {
            let (status, kind, text) = asked(&server, path, Some(&good), "{\"a\":\"secret of mine\"}").await;
            assert_eq!((status, kind.as_deref()), (200, Some("application/json")), "{path}: {text}");
            assert!(!text.contains("secret of mine") && !text.contains(&good), "{text}");
            let answer: Value = serde_json::from_str(&text).unwrap();
            let arrived: Value = serde_json::from_str(answer["arrived"].as_str().unwrap()).unwrap();
            assert_eq!((&arrived["path"], &arrived["body_bytes_n"]), (&path.into(), &22.into()));
        }
    }
    // Its body is bounded like any other.
    let (status, _, _) = asked(&server, "/webhooks/stripe", Some(&good), &"x".repeat(3 << 20)).await;
    assert_eq!(status, 413);
    let noted = "SELECT COUNT(*) FROM rejected_requests";
    until(
        "refusals are noted",
        Duration::from_secs(20),
        || server.log(),
        async || database.count(noted).await > 0,
    )
    .await;
    let kept = database.texts("SELECT headers FROM rejected_requests").await.concat();
    assert!(!kept.contains(&good), "a good token is in no row: {kept}");
    assert_eq!(database.count("SELECT COUNT(*) FROM processed_webhook_events").await, 0);
}
