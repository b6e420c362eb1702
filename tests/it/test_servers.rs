//! Fake events are sent only to servers that are configured as test servers and say so.

use std::path::Path;
use std::process::{Command, Output};

use axum::Router;
use http::StatusCode;

use crate::console::Browser;
use crate::contract::Operator;
use crate::database::{Database, on_sqlite};
use crate::process::{Server, client, free_port, post_stripe};

on_sqlite!(
    samples_are_sent_only_to_test_servers,
    every_response_page_and_command_marks_a_test_server,
    a_server_has_its_name_on_every_page,
    the_audit_log_records_the_token_and_the_operators_name,
);

const OPERATOR: &str = "operator-token-0123456789";
const TOKENS: &str =
    "[[admin.tokens]]\nname = \"ops\"\nrole = \"operator\"\ntoken = \"operator-token-0123456789\"\n";

async fn run(config: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
    command.arg("--config").arg(config).args(arguments).current_dir(config.parent().unwrap());
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A server of another program, which answers everything with 200 and these headers.
async fn strange(headers: &'static [(&'static str, &'static str)]) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/webhooks/stripe", listener.local_addr().unwrap());
    let answer = async move || {
        let mut response = axum::response::Response::new(axum::body::Body::empty());
        *response.status_mut() = StatusCode::OK;
        for (name, value) in headers {
            response.headers_mut().insert(*name, http::HeaderValue::from_static(value));
        }
        response
    };
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
    url
}

async fn samples_are_sent_only_to_test_servers(database: &Database) {
    let server = Server::start(&database.url, TOKENS).await;
    let config = server.config();
    for command in [&["send", "stripe"][..], &["send", "stripe", "--secret", "whsec_0123456789abcdef"]] {
        let ran = run(&config, command).await;
        let stderr = text(&ran.stderr);
        assert!(
            !ran.status.success() && stderr.contains("does not say that it is a test server"),
            "{stderr}"
        );
        assert!(stderr.contains("nothing was sent") && stderr.contains("hooklatch test-event"), "{stderr}");
    }
    assert_eq!(database.count("SELECT COUNT(*) FROM processed_webhook_events").await, 0);

    let silent = strange(&[]).await;
    let other_words = strange(&[("hooklatch-test", "1")]).await;
    let closed = format!("http://{}/webhooks/stripe", free_port());
    for (url, why) in [
        (&silent, "does not say that it is a test server"),
        (&other_words, "does not say that it is a test server"),
        (&closed, "so nothing was sent"),
    ] {
        let ran = run(&config, &["send", "stripe", "--url", url]).await;
        assert!(!ran.status.success() && text(&ran.stderr).contains(why), "{}", text(&ran.stderr));
    }
    // No other request shows that it is a test server.
    for (method, path) in [
        ("HEAD", "/webhooks/stripe"),
        ("GET", "/"),
        ("POST", "/webhooks/absent"),
        ("POST", "/webhooks/stripe"),
    ] {
        let answer = client().request(method.parse().unwrap(), server.url(path)).send().await.unwrap();
        assert!(!answer.headers().contains_key("hooklatch-test"), "{method} {path}");
    }
    let me = Operator::new(server.admin, OPERATOR).get("/me").await.body;
    assert_eq!((&me["is_test"], &me["server_name"]), (&false.into(), &serde_json::Value::Null));
}

async fn every_response_page_and_command_marks_a_test_server(database: &Database) {
    let mut server = Server::prepare(&database.url, TOKENS);
    server.server_keys("test = true\nname = \"staging\"");
    server.spawn().await;
    let config = server.config();
    let body = config.with_file_name("body.json");
    std::fs::write(&body, r#"{"id":"evt_own","type":"checkout.session.completed","data":{"object":{}}}"#)
        .unwrap();
    let ran = run(&config, &["send", "stripe", "--body", body.to_str().unwrap()]).await;
    assert!(ran.status.success() && text(&ran.stdout).contains("1  200 accepted"), "{}", text(&ran.stderr));
    let own =
        database.text("SELECT event_type FROM processed_webhook_events WHERE event_id = $1", "evt_own").await;
    assert_eq!(own.as_deref(), Some("checkout.session.completed"));
    for (method, path) in [("HEAD", "/webhooks/stripe"), ("GET", "/"), ("POST", "/webhooks/absent")] {
        let answer = client().request(method.parse().unwrap(), server.url(path)).send().await.unwrap();
        assert_eq!(answer.headers()["hooklatch-test"], "true", "{method} {path}");
    }
    assert!(server.log().contains("this is a test server"), "{}", server.log());
    assert_eq!(Operator::new(server.admin, OPERATOR).get("/me").await.body["is_test"], true);
    let browser = Browser::signed_in(server.admin, OPERATOR).await;
    for path in ["/", "/events", "/events/stripe/evt_own", "/no-such-page", "/settings"] {
        let page = browser.get(path).await;
        assert!(page.text.contains(">TEST<"), "{path}: {}", page.text);
    }
    assert!(Browser::new(server.admin).get("/sign-in").await.text.contains(">TEST<"));
    assert!(text(&run(&config, &["whoami"]).await.stdout).contains("a test server"));
    let typo = run(&config, &["test-event", "stripe", "invoice.payd", "--reason", "x"]).await;
    let stderr = text(&typo.stderr);
    assert!(typo.status.code() == Some(2) && stderr.contains("did you mean `invoice.paid`?"), "{stderr}");
    let made = run(&config, &["test-event", "stripe", "invoice.paid", "--reason", "x"]).await;
    assert!(text(&made.stdout).contains("nothing follows from it"), "{}", text(&made.stderr));
}

async fn a_server_has_its_name_on_every_page(database: &Database) {
    let mut server = Server::prepare(&database.url, TOKENS);
    server.server_keys("name = \"production <eu>\"");
    server.spawn().await;
    assert_eq!(
        post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.as_deref(),
        Ok("accepted")
    );
    let browser = Browser::signed_in(server.admin, OPERATOR).await;
    for path in ["/", "/events", "/no-such-page"] {
        let page = browser.get(path).await.text;
        assert!(page.contains(" · production &lt;eu&gt; · Hooklatch</title>"), "{page}");
        assert!(
            page.contains("<span class=\"server\">production &lt;eu&gt;</span>") && !page.contains(">TEST<"),
            "{page}"
        );
    }
    let me = Operator::new(server.admin, OPERATOR).get("/me").await.body;
    assert_eq!((&me["server_name"], &me["is_test"]), (&"production <eu>".into(), &false.into()));
    assert!(text(&run(&server.config(), &["whoami"]).await.stdout).contains("production <eu>"));
}

async fn the_audit_log_records_the_token_and_the_operators_name(database: &Database) {
    let server = Server::start(&database.url, TOKENS).await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
    command.args(["test-event", "stripe", "--reason", "x", "--config"]).arg(server.config());
    command.env("HOOKLATCH_ACTOR", "ann");
    let ran = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let ops = Operator::new(server.admin, OPERATOR);
    let order = r#"{"reason":"x"}"#;
    // A claim beside the token's name: it replaces no name, and what is no such text is left out.
    for (n, claim) in ["eve@home", "bob (x", "", "a b", &"x".repeat(101), "ops)"].into_iter().enumerate() {
        let headers = [("idempotency-key", &*format!("k-{n}")), ("hooklatch-typed-by", claim)];
        let answer = ops.ask("POST", "/providers/stripe/test-events", &headers, Some(order.to_owned())).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
    }
    let audit = ops.get("/audit").await.body;
    let actors: Vec<&str> =
        audit["items"].as_array().unwrap().iter().map(|row| row["actor"].as_str().unwrap()).collect();
    let (last, first) = (actors.last().unwrap(), &actors[..5]);
    assert!(last.starts_with("ops (ann@") && last.ends_with(')'), "{actors:?}");
    assert_eq!((first, actors[5]), (&["ops"; 5][..], "ops (eve@home)"));
}
