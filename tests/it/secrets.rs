//! Secrets of the running program: rotated without a refusal, never shown, and without defaults.

use std::time::Duration;

use crate::database::{Database, On, on_sqlite};
use crate::process::{SECRET, Server, client, now_s, post_stripe, stripe_signed, until};
use crate::stub::{Mode, Stub};

on_sqlite!(while_a_secret_is_rotated_nothing_signed_by_either_is_refused);

const NEW_SECRET: &str = "whsec_the_next_one_0123456789";

async fn sent(server: &Server, id: &str, secret: &str) -> u16 {
    let body = format!(r#"{{"id":"{id}","type":"invoice.paid"}}"#);
    let request = client().post(server.url("/webhooks/stripe"));
    let signed = request.header("stripe-signature", stripe_signed(&body, secret, now_s()));
    signed.body(body).send().await.unwrap().status().as_u16()
}

async fn while_a_secret_is_rotated_nothing_signed_by_either_is_refused(database: &Database) {
    let mut server = Server::start(&database.url, "").await;
    let both = format!("\"{NEW_SECRET}\", \"{SECRET}\"");
    let new = format!("\"{NEW_SECRET}\"");
    assert_eq!(sent(&server, "evt_1", SECRET).await, 200);
    let configure = |from: &str, to: &str| {
        let config = std::fs::read_to_string(server.config()).unwrap();
        std::fs::write(server.config(), config.replace(&format!("[{from}]"), &format!("[{to}]"))).unwrap();
    };
    configure(&format!("\"{SECRET}\""), &both);
    assert!(server.terminate(), "in order");
    server.spawn().await;
    for n in 0..10 {
        // The sender signs by the old one until it has the new one everywhere, and repeats what was under way.
        let secret = if n % 3 == 0 { SECRET } else { NEW_SECRET };
        assert_eq!(sent(&server, &format!("evt_2_{n}"), secret).await, 200);
    }
    assert_eq!(sent(&server, "evt_1", NEW_SECRET).await, 200, "a copy by another secret is a copy");
    let config = std::fs::read_to_string(server.config()).unwrap();
    std::fs::write(server.config(), config.replace(&format!("[{both}]"), &format!("[{new}]"))).unwrap();
    assert!(server.terminate(), "in order");
    server.spawn().await;
    assert_eq!(sent(&server, "evt_3", NEW_SECRET).await, 200);
    assert_eq!(sent(&server, "evt_4", SECRET).await, 401, "what is retired is believed no more");
    assert_eq!(database.count("SELECT COUNT(*) FROM processed_webhook_events").await, 12);
}

const TOKEN: &str = "canary-token-0123456789abcdef";

#[tokio::test]
async fn no_secret_signature_or_body_is_in_logs_or_metrics_or_answers() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let destination = Stub::start().await;
    destination.next(&[Mode::Status(500), Mode::Status(400)]);
    let more = format!(
        "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"bank\"\n[destinations.bank]\nurl = \"{}?k=canary-url\"\n\
         headers = {{ authorization = \"Bearer canary-header\" }}\nsign_secret = \"whsec_Y2FuYXJ5LXNpZ25lci0wMTIzNDU2Nzg5\"\n\
         retry = {{ first_ms = 1 }}\n",
        destination.url()
    );
    let mut server = Server::prepare(&database.url, &more);
    let tokens =
        format!("tokens = [{{ name = \"ops\", role = \"operator\", token = \"{TOKEN}\" }}]\n[database]");
    let config = std::fs::read_to_string(server.config()).unwrap();
    let config = config.replace("[database]", &tokens).replace("filter = \"warn\"", "filter = \"trace\"");
    std::fs::write(server.config(), config).unwrap();
    server.spawn().await;
    let body = r#"{"id":"evt_1","type":"invoice.paid","data":{"object":{"note":"canary-body"}}}"#;
    let signature = stripe_signed(body, SECRET, now_s());
    let mut answers = String::new();
    for (body, signature) in [
        (body, &signature),
        (body, &signature),
        ("canary-body", &signature),
        (body, &"canary-forged".to_owned()),
    ] {
        let request = client().post(server.url("/webhooks/stripe")).header("stripe-signature", signature);
        answers += &request.body(body).send().await.unwrap().text().await.unwrap();
    }
    for token in [TOKEN, "canary-guessed-0123456789"] {
        let url = format!("http://{}/v1/messages", server.admin);
        answers += &client().get(url).bearer_auth(token).send().await.unwrap().text().await.unwrap();
    }
    let settled = "SELECT COUNT(*) FROM outbox_messages WHERE state = 'dead'";
    until(
        "the call is refused in the end",
        Duration::from_secs(20),
        || server.log(),
        async || database.count(settled).await == 1,
    )
    .await;
    answers += &server.admin_text("/metrics").await;
    answers += &server.admin_text("/readyz").await;
    assert!(server.terminate());
    answers += &server.log();
    assert!(answers.contains("TRACE") && answers.contains("evt_1"), "everything was written");
    let mac = signature.rsplit_once('=').unwrap().1;
    let canaries = ["canary", SECRET, mac, "Y2FuYXJ5LXNpZ25lci0wMTIzNDU2Nzg5"];
    for line in answers.lines() {
        let shown = canaries.iter().find(|canary| line.contains(*canary));
        assert!(shown.is_none(), "`{}` is shown: {line}", shown.unwrap());
    }
}

#[tokio::test]
async fn without_a_configured_token_every_request_is_refused() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = Server::start(&database.url, "").await;
    for path in ["/messages", "/events", "/rejected", "/messages/x"] {
        let url = format!("http://{}/v1{path}", server.admin);
        for token in ["", "admin", "0123456789abcdef0123456789abcdef"] {
            let answer = client().get(&url).bearer_auth(token).send().await.unwrap();
            // After some wrong ones it is not even looked at.
            assert!([401, 429].contains(&answer.status().as_u16()), "{path} {token}");
        }
        assert!(client().get(&url).send().await.unwrap().status().is_client_error(), "{path}");
    }
    post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.unwrap();
}
