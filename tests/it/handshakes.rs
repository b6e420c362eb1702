//! Handshake requests over HTTP: each is answered as its sender expects, and makes no event.

use crate::database::{Database, On};
use crate::process::{Server, client};

const PROVIDERS: &str = r#"
[providers.meta]
secrets = ["app-secret-0123456789"]
settings = { verify_token = "verify-me" }
[providers.untold]
kind = "meta"
secrets = ["app-secret-0123456789"]
[providers.dropbox]
secrets = ["app-secret-0123456789"]
[providers.trello]
secrets = ["app-secret-0123456789"]
[providers.cloudevents]
secrets = ["app-secret-0123456789"]
[providers.microsoft_graph]
secrets = ["client-state-0123456789"]
[providers.x_twitter]
secrets = ["consumer-secret-0123456789"]
[providers.asana]
secrets = ["hook-secret-0123456789"]
[providers.armed]
kind = "asana"
secrets = ["hook-secret-0123456789"]
settings = { pairing = "open" }
[providers.braintree]
settings = { public_key = "my_public_key", private_key = "my_private_key_0123456789" }
"#;

struct Sent<'a> {
    method: &'a str,
    path: String,
    headers: &'a [(&'a str, &'a str)],
}

#[tokio::test]
async fn handshakes_are_answered_and_nothing_else_comes_by_their_methods() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = Server::start(&database.url, PROVIDERS).await;
    let client = client();
    let check = async |sent: Sent<'_>, want: (u16, &str)| {
        let method = reqwest::Method::from_bytes(sent.method.as_bytes()).unwrap();
        let mut request = client.request(method, server.url(&sent.path));
        for (name, value) in sent.headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.unwrap();
        let what = format!("{} {}", sent.method, sent.path);
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let body = response.text().await.unwrap();
        assert_eq!(status, want.0, "{what}: {body}");
        if want.0 == 200 {
            assert_eq!(body, want.1, "{what}");
            assert_eq!(headers["x-content-type-options"], "nosniff", "{what}");
            assert!(!headers["content-type"].to_str().unwrap().contains("html"), "{what}");
        }
        headers
    };
    let get = |path: &str| Sent { method: "GET", path: path.to_owned(), headers: &[] };
    // Without a token of its own there is none: the app's secret stays out of URLs.
    for token in ["app-secret-0123456789", "", "verify-me"] {
        let asked = format!("/webhooks/untold?hub.mode=subscribe&hub.challenge=7&hub.verify_token={token}");
        check(get(&asked), (405, "")).await;
    }
    let subscribe = "/webhooks/meta?hub.mode=subscribe&hub.challenge=115&hub.verify_token=";
    check(get(&format!("{subscribe}verify-me")), (200, "115")).await;
    check(get(&format!("{subscribe}other")), (405, "")).await;
    check(get("/webhooks/meta"), (405, "")).await;
    check(get("/webhooks/dropbox?challenge=%3Cb%3E"), (200, "<b>")).await;
    let crc = r#"{"response_token":"sha256=I/a1ea5ECU0kVg7ojOeLP/gsKe5IsV8jFDX9b8fr1u0="}"#;
    let headers = check(get("/webhooks/x_twitter?crc_token=abc"), (200, crc)).await;
    assert_eq!(headers["content-type"], "application/json");
    check(Sent { method: "HEAD", path: "/webhooks/trello".to_owned(), headers: &[] }, (200, "")).await;
    check(Sent { method: "HEAD", path: "/webhooks/meta".to_owned(), headers: &[] }, (405, "")).await;
    check(Sent { method: "DELETE", path: "/webhooks/trello".to_owned(), headers: &[] }, (405, "")).await;
    let origin = [("webhook-request-origin", "emitter.example"), ("webhook-request-rate", "120")];
    let options = |headers| Sent { method: "OPTIONS", path: "/webhooks/cloudevents".to_owned(), headers };
    let headers = check(options(&origin), (200, "")).await;
    assert_eq!(
        (&headers["webhook-allowed-origin"], &headers["webhook-allowed-rate"]),
        (&"emitter.example".parse().unwrap(), &"120".parse().unwrap())
    );
    check(options(&[]), (405, "")).await;
    let post = |path: &str, headers| Sent { method: "POST", path: path.to_owned(), headers };
    check(post("/webhooks/microsoft_graph?validationToken=a%20b", &[]), (200, "a b")).await;
    check(post("/webhooks/microsoft_graph", &[]), (401, "")).await;
    let secret = [("x-hook-secret", "s3")];
    let headers = check(post("/webhooks/armed", &secret), (200, "")).await;
    assert_eq!(headers["x-hook-secret"], "s3");
    check(post("/webhooks/asana", &secret), (401, "")).await;
    let challenge = "20f9f8ed05f77439fe955c977e4c8a53";
    let answer = "my_public_key|a3d580bce795b8a7e1f15fbc542dea66c9bae7b8";
    check(get(&format!("/webhooks/braintree?bt_challenge={challenge}")), (200, answer)).await;
    check(get("/webhooks/braintree?bt_challenge=<script>"), (405, "")).await;
}
