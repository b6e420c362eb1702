//! `openapi.json`: generated from the types, served unchanged, and correct under a fuzzer.

use std::time::Duration;

use serde_json::{Value, json};

use crate::contract::{Operator, document};
use crate::process::{Server, client, now_s, post_stripe, stripe_header, until};
use crate::stub::{Mode, Stub};

/// `UPDATE_OPENAPI=1 cargo nextest run openapi` writes it.
#[test]
fn openapi_json_matches_the_types() {
    let wanted = format!("{:#}\n", hooklatch_contract::document());
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(file, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(file).unwrap_or_default();
    assert!(
        found == wanted,
        "openapi.json is not what crates/contract says: run `UPDATE_OPENAPI=1 cargo nextest run openapi`"
    );
}

#[tokio::test]
async fn openapi_json_is_served_unchanged_without_a_token() {
    let server = Server::start("sqlite://openapi.db", "").await;
    let served: Value = serde_json::from_str(&server.admin_text("/openapi.json").await).unwrap();
    assert_eq!(&served, document());
}

/// Refused for what a schema cannot say: an id that is not there, a state that does not allow it, a version that is
/// over, a key that was used for another request, one wrong token too many.
const REFUSED: &str =
    "[checks]\npositive_data_acceptance.expected-statuses = [\"2xx\", 304, 403, 404, 409, 412, 422]\n";

/// Runs `schemathesis` against a server that has rows of every kind.
fn fuzz(server: &Server, more: &[&str]) {
    let home = std::env::var("HOOKLATCH_TEST_SDK").unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("schemathesis.toml"), REFUSED).unwrap();
    let mut command = std::process::Command::new(format!("{home}/fuzz/bin/st"));
    command
        .args(["run", concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json"), "--seed", "1"])
        .args(["--url", &format!("http://{}", server.admin), "--no-color"])
        .args(["--generation-database", "none"])
        .args(more)
        .current_dir(folder.path());
    // The fuzzer reads its own source; Python before 3.12 may fail at that, which says nothing about the server:
    // https://github.com/python/cpython/issues/106905
    let mut output = command.output().unwrap();
    for _ in 0..3 {
        if !String::from_utf8_lossy(&output.stdout).contains("AST constructor recursion depth mismatch") {
            break;
        }
        output = command.output().unwrap();
    }
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}\n{}", String::from_utf8_lossy(&output.stderr));
}

const ADMIN: &str = "admin-token-0123456789";

/// A server with a message in every possible state, a conflict, a refusal, an operation and a token.
async fn busy() -> (Server, Stub) {
    let stub = Stub::start().await;
    let more = format!(
        "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\n\
         [destinations.billing]\nurl = \"{}\"\nunknown = \"hold\"\n",
        stub.url()
    );
    let mut server = Server::prepare("sqlite://openapi.db", &more);
    let config = std::fs::read_to_string(server.config()).unwrap();
    let tokens =
        format!("tokens = [{{ name = \"root\", role = \"admin\", token = \"{ADMIN}\" }}]\n[database]");
    std::fs::write(server.config(), config.replace("[database]", &tokens)).unwrap();
    server.spawn().await;
    stub.next(&[Mode::ActThenDrop, Mode::Status(400)]);
    let url = server.url("/webhooks/stripe");
    for id in ["evt_1", "evt_2", "evt_3"] {
        post_stripe(&client(), &url, id).await.unwrap();
    }
    for body in [r#"{"id":"evt_3","type":"x"}"#, "no JSON"] {
        let signed = client().post(&url).header("stripe-signature", stripe_header(body, now_s()));
        signed.body(body).send().await.unwrap();
        client().post(&url).header("stripe-signature", "t=1,v1=00").body(body).send().await.unwrap();
    }
    let admin = Operator::new(server.admin, ADMIN);
    until(
        "calls were made",
        Duration::from_secs(20),
        || server.log(),
        async || {
            let found = admin.get("/messages?limit=10").await.body;
            found["items"].as_array().unwrap().iter().any(|one| one["state"] == "done")
        },
    )
    .await;
    let order = json!({ "act": "pause", "reason": "looked at" });
    assert_eq!(admin.post("/destinations/billing/decide", "seed-1", &order).await.status, 200);
    (server, stub)
}

#[tokio::test]
async fn a_fuzzer_finds_no_response_outside_the_contract() {
    if crate::sdk::runner::installed().is_none() {
        return;
    }
    let (server, _stub) = busy().await;
    let token = format!("Authorization: Bearer {ADMIN}");
    // Wrong tokens are throttled, which it would take for an answer to any token: `access.rs` tries those.
    let checks = ["--checks", "all", "--exclude-checks", "ignored_auth"];
    let much = ["--phases", "examples,coverage,fuzzing", "--max-examples", "25", "--workers", "2"];
    fuzz(&server, &[&["--header", token.as_str()][..], &checks, &much].concat());
}

/// Runs a program of the clients' environment, in `folder`.
fn run(program: &str, arguments: &[&str], folder: &std::path::Path) {
    let home = std::env::var("HOOKLATCH_TEST_SDK").unwrap();
    let mut command = std::process::Command::new(format!("{home}/{program}"));
    let path = format!("{home}/client/bin:{}", std::env::var("PATH").unwrap_or_default());
    let output = command.args(arguments).current_dir(folder).env("PATH", path).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{program}: {stdout}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn a_generated_python_client_makes_every_call() {
    if crate::sdk::runner::installed().is_none() {
        return;
    }
    let (server, _stub) = busy().await;
    let folder = tempfile::tempdir().unwrap();
    let document = folder.path().join("openapi.json");
    std::fs::write(&document, include_str!("../../openapi.json")).unwrap();
    let generate = [
        "generate",
        "--path",
        "openapi.json",
        "--meta",
        "none",
        "--output-path",
        "generated",
        "--fail-on-warning",
    ];
    let python = ["-c", "import sys; sys.argv[0] = 'x'; from openapi_python_client.cli import app; app()"];
    run("client/bin/python", &[&python[..], &generate].concat(), folder.path());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/openapi/client.py");
    let url = format!("http://{}", server.admin);
    run("client/bin/python", &[script, ".", &url, ADMIN], folder.path());
}

#[test]
fn a_generated_typescript_client_compiles() {
    let Some(home) = crate::sdk::runner::installed() else { return };
    // Beside its modules, where the compiler looks for them.
    let folder = tempfile::tempdir_in(home.join("typescript")).unwrap();
    let client = include_str!("../openapi/client.ts");
    std::fs::write(folder.path().join("client.ts"), client).unwrap();
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    let modules = "typescript/node_modules/.bin";
    run(&format!("{modules}/openapi-typescript"), &[document, "-o", "api.ts"], folder.path());
    let rules = ["--strict", "--noEmit", "--skipLibCheck", "--target", "es2022", "--module", "esnext"];
    let more = ["--moduleResolution", "bundler", "client.ts"];
    run(&format!("{modules}/tsc"), &[&rules[..], &more].concat(), folder.path());
}

#[tokio::test]
async fn a_fuzzer_without_a_token_finds_no_response_outside_the_contract() {
    if crate::sdk::runner::installed().is_none() {
        return;
    }
    let (server, _stub) = busy().await;
    // Each refusal on one connection is delayed longer than the last: few of them, side by side.
    let few = ["--phases", "fuzzing", "--max-examples", "2", "--workers", "8"];
    fuzz(&server, &[&["--checks", "all", "--exclude-checks", "positive_data_acceptance"][..], &few].concat());
}
