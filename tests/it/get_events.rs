//! Events sent by GET: the query is the event, and a stranger's GET makes none.

use crate::database::{Database, On};
use crate::process::{Server, client};

const TOKEN: &str = "mangopay-token-0123456789";
const PROVIDERS: &str = r#"
[providers.mangopay]
secrets = ["mangopay-token-0123456789"]
"#;

#[tokio::test]
async fn an_event_by_get_is_admitted_once_and_a_strangers_get_is_refused() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = Server::start(&database.url, PROVIDERS).await;
    let client = client();
    let check = async |method: &str, path: &str, status: u16, outcome: Option<&str>| {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let response = client.request(method.clone(), server.url(path)).send().await.unwrap();
        let header = |name: &str| Some(response.headers().get(name)?.to_str().unwrap().to_owned());
        assert_eq!(
            (response.status().as_u16(), header("hooklatch-outcome").as_deref()),
            (status, outcome),
            "{method} {path}"
        );
        (header("allow"), header("cache-control"))
    };
    let event = "EventType=PAYIN_NORMAL_SUCCEEDED&RessourceId=wt_1&Date=1767225600";
    let ours = format!("/webhooks/mangopay?token={TOKEN}&{event}");
    let (_, cached) = check("GET", &ours, 200, Some("accepted")).await;
    assert_eq!(cached.as_deref(), Some("no-store"), "the next one may have the same URL");
    check("GET", &ours, 200, Some("duplicate")).await;
    check("GET", &format!("/webhooks/mangopay?{event}&token={TOKEN}"), 200, Some("duplicate")).await;
    check("GET", &ours.replace("=wt_1", "=wt_2"), 200, Some("accepted")).await;
    for stranger in [
        format!("/webhooks/mangopay?{event}"),
        "/webhooks/mangopay".to_owned(),
        format!("/webhooks/mangopay?token=&{event}"),
        format!("/webhooks/mangopay?token={TOKEN}0&{event}"),
        format!("/webhooks/mangopay?token={TOKEN}&token={TOKEN}&{event}"),
        format!("/webhooks/mangopay?token={TOKEN}&{}", "a&".repeat(1_001)),
    ] {
        check("GET", &stranger, 401, None).await;
    }
    // Every other method, and a GET to every other kind, are what they were.
    for method in ["POST", "HEAD", "OPTIONS", "PUT"] {
        let (allowed, _) = check(method, &ours, 405, None).await;
        assert_eq!(allowed.as_deref(), Some("GET"), "{method}");
    }
    let (allowed, _) = check("GET", &format!("/webhooks/stripe?token={TOKEN}&{event}"), 405, None).await;
    assert_eq!(allowed.as_deref(), Some("POST"));
}

#[tokio::test]
async fn what_is_kept_of_an_event_by_get_is_its_query_without_the_token() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = Server::start(&database.url, PROVIDERS).await;
    let client = client();
    let long = "x".repeat(5_000);
    for query in [
        format!("EventType=KYC_SUCCEEDED&token={TOKEN}&RessourceId=wt%201&Date=1767225600"),
        format!("EventType=KYC%00&token={TOKEN}&RessourceId={long}&Date=1767225600"),
    ] {
        // What a GET has as a body counts for nothing.
        let sent = client.get(server.url(&format!("/webhooks/mangopay?{query}"))).body("EventType=OTHER");
        assert_eq!(sent.send().await.unwrap().status().as_u16(), 200, "{query}");
    }
    let kept = database.texts("SELECT event_type || ' ' || CAST(body AS TEXT) FROM processed_webhook_events JOIN webhook_payloads USING (event_seq) ORDER BY event_type").await;
    assert_eq!(
        kept,
        [
            "KYC_SUCCEEDED EventType=KYC_SUCCEEDED&RessourceId=wt%201&Date=1767225600".to_owned(),
            format!("unknown EventType=KYC%00&RessourceId={long}&Date=1767225600"),
        ]
    );
    let ids = database.texts("SELECT event_id FROM processed_webhook_events ORDER BY event_type").await;
    assert!(ids[0].starts_with("content:4:wt 1,10:1767225600,"), "{ids:?}");
    assert!(ids.iter().all(|id| id.len() < 256), "{ids:?}");
    assert!(!server.log().contains(TOKEN), "{}", server.log());
}
