//! The examples, as their readers would run them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use http::{HeaderMap, Uri};

use crate::database::{Database, on_both};
use crate::process::{SECRET, client, free_port, now_s, post_stripe, stripe_header, until};

on_both!(the_ledger_has_all_of_an_event_or_nothing, routes_alone_need_no_rust);

/// The binary of an example, built beside ours.
fn example(name: &str) -> PathBuf {
    let ours = Path::new(env!("CARGO_BIN_EXE_hooklatch"));
    let path = ours.parent().unwrap().join("examples").join(name);
    assert!(path.exists(), "{} is not built: cargo build --examples", path.display());
    path
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Starts `command` and waits until the operator side at `admin` is ready.
async fn started(command: &mut Command, admin: &str) -> Running {
    let running = Running(command.stdout(Stdio::null()).spawn().unwrap());
    let client = client();
    until("the example is ready", Duration::from_secs(20), String::new, async || {
        let ready = client.get(format!("http://{admin}/readyz")).send().await;
        ready.is_ok_and(|response| response.status().is_success())
    })
    .await;
    running
}

/// A destination that gives every path it is asked for, and its body, to a channel.
async fn destination() -> (String, tokio::sync::mpsc::UnboundedReceiver<(String, String)>) {
    type Calls = tokio::sync::mpsc::UnboundedSender<(String, String)>;
    async fn call(State(calls): State<Calls>, uri: Uri, headers: HeaderMap, body: String) {
        assert!(headers.contains_key("idempotency-key"));
        calls.send((uri.path().to_owned(), body)).unwrap();
    }
    let (calls, called) = tokio::sync::mpsc::unbounded_channel();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(call).with_state(calls)).await });
    (url, called)
}

async fn the_ledger_has_all_of_an_event_or_nothing(database: &Database) {
    let (url, mut called) = destination().await;
    let (receiver, admin) = (free_port().to_string(), free_port().to_string());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ledger.toml");
    let toml = format!(
        "[server]\nlisten = \"{receiver}\"\n[admin]\nlisten = \"{admin}\"\n[database]\nurl = \"{}\"\n\
         [providers.stripe]\nsecrets = [\"{SECRET}\"]\n[destinations.receipts]\nurl = \"{url}/receipts\"\n",
        database.url
    );
    std::fs::write(&file, toml).unwrap();
    let _running = started(Command::new(example("ledger")).arg(&file), &admin).await;
    let client = client();
    let send = async |id: &str, amount: i64| {
        let body = format!(
            r#"{{"id":"{id}","type":"invoice.paid","data":{{"object":{{"id":"in_{id}","amount_paid":{amount}}}}}}}"#
        );
        let header = stripe_header(&body, now_s());
        let url = format!("http://{receiver}/webhooks/stripe");
        let sent = client.post(url).header("stripe-signature", header).body(body).send().await.unwrap();
        sent.headers()["hooklatch-outcome"].to_str().unwrap().to_owned()
    };
    assert_eq!(send("evt_1", 1_999).await, "accepted");
    assert_eq!(send("evt_1", 1_999).await, "duplicate");
    assert_eq!(send("evt_2", 5_000_000).await, "accepted", "kept, to be handled again");
    let call = called.recv().await.unwrap();
    assert_eq!(call, ("/receipts".to_owned(), r#"{"invoice":"in_evt_1"}"#.to_owned()));
    assert_eq!(
        database.count("SELECT COUNT(*) FROM ledger").await,
        2,
        "two entries of the first, none of the second"
    );
    assert_eq!(database.count("SELECT CAST(SUM(amount) AS BIGINT) FROM ledger").await, 0);
    assert_eq!(database.count("SELECT COUNT(*) FROM outbox_messages").await, 1);
    let retried =
        "SELECT COUNT(*) FROM processed_webhook_events WHERE event_id = 'evt_2' AND state = 'retry'";
    assert_eq!(database.count(retried).await, 1);
}

async fn routes_alone_need_no_rust(database: &Database) {
    let (url, mut called) = destination().await;
    let (receiver, admin) = (free_port().to_string(), free_port().to_string());
    let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
    command
        .args(["serve", "--config", "examples/routes.toml"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("STRIPE_WEBHOOK_SECRET", SECRET)
        .env("HOOKLATCH__SERVER__LISTEN", &receiver)
        .env("HOOKLATCH__ADMIN__LISTEN", &admin)
        .env("HOOKLATCH__DATABASE__URL", &database.url)
        .env("HOOKLATCH__DESTINATIONS__BILLING__URL", format!("{url}/billing"));
    let _running = started(&mut command, &admin).await;
    let outcome = post_stripe(&client(), &format!("http://{receiver}/webhooks/stripe"), "evt_1").await;
    assert_eq!(outcome.as_deref(), Ok("accepted"));
    let (path, body) = called.recv().await.unwrap();
    assert_eq!(path, "/billing");
    assert!(body.contains("\"id\":\"evt_1\""), "the event as received");
}

#[test]
fn a_dropped_in_kind_is_listed_signs_and_is_believed() {
    let run = |arguments: &[&str]| {
        let output = Command::new(example("drop_in")).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(run(&["providers"]).contains("Acme"));
    let signed = run(&["sign", "acme", "--now", "1767225600", "--id", "7"]);
    assert!(signed.contains("acme-signature: t=1767225600,v1="), "{signed}");
}
