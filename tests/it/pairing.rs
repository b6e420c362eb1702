//! A secret that a sender posts to the URL: kept while an operator pairs, and shown to an operator once.

use std::process::Command;
use std::time::Duration;

use crate::database::{Database, on_sqlite};
use crate::process::{Server, client, until};

on_sqlite!(
    a_token_posted_by_notion_is_shown_once_and_only_to_an_operator,
    a_token_that_could_not_be_recorded_is_recorded_later
);

const OPERATOR: &str = "operator-token-0123456789";
const VIEWER: &str = "viewer-token-0123456789";
const TOKEN: &str = "secret_tMrlL1qK5vuQAh1b6cZGhFChZTSYJlce98V0pYn7yBl";

const PROVIDERS: &str = r#"
[providers.notion]
secrets = ["notion-secret-0123456789"]
[providers.pairing]
kind = "notion"
secrets = ["notion-secret-0123456789"]
settings = { pairing = "open" }
"#;

/// `hooklatch pairing PROVIDER` with this token: whether it succeeded, its output, and its errors.
fn pairing(server: &Server, provider: &str, token: &str) -> (bool, String, String) {
    let run = Command::new(env!("CARGO_BIN_EXE_hooklatch"))
        .arg("--config")
        .arg(server.config())
        .args(["pairing", provider, "--token", token])
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap().trim().to_owned();
    (run.status.success(), text(run.stdout), text(run.stderr))
}

async fn a_token_posted_by_notion_is_shown_once_and_only_to_an_operator(database: &Database) {
    let mut server = Server::prepare(&database.url, PROVIDERS);
    let config = std::fs::read_to_string(server.config()).unwrap();
    let tokens = format!(
        "tokens = [{{ name = \"ops\", role = \"operator\", token = \"{OPERATOR}\" }}, \
         {{ name = \"looker\", role = \"viewer\", token = \"{VIEWER}\" }}]\n[database]"
    );
    let config = config.replace("[database]", &tokens).replace("filter = \"warn\"", "filter = \"info\"");
    std::fs::write(server.config(), config).unwrap();
    server.spawn().await;
    let post = async |provider: &str, body: String| {
        let url = server.url(&format!("/webhooks/{provider}"));
        client().post(url).body(body).send().await.unwrap().status().as_u16()
    };
    let token = format!(r#"{{"verification_token":"{TOKEN}"}}"#);
    assert_eq!(post("notion", token.clone()).await, 401, "pairing is off");
    for body in [
        "{}",
        r#"{"verification_token":""}"#,
        r#"{"verification_token":"a b"}"#,
        r#"{"verification_token":{}}"#,
    ] {
        assert_eq!(post("pairing", body.to_owned()).await, 401, "{body}");
    }
    let long = format!(r#"{{"verification_token":"{}"}}"#, "a".repeat(513));
    assert_eq!(post("pairing", long).await, 401, "too long");
    assert_eq!(post("pairing", r#"{"verification_token":"an-older-one"}"#.to_owned()).await, 200);
    assert_eq!(post("pairing", token).await, 200);

    let log = || server.log();
    let rows = "SELECT COUNT(*) FROM pairing_secrets WHERE secret LIKE 'secret_tMrl%'";
    until("it is kept", Duration::from_secs(10), log, async || database.count(rows).await == 1).await;
    assert_eq!(database.count("SELECT COUNT(*) FROM pairing_secrets").await, 1, "the newest alone");
    let (is_good, said, complained) = pairing(&server, "pairing", VIEWER);
    assert!(!is_good && !said.contains(TOKEN) && complained.contains("403"), "{said} {complained}");
    assert!(!pairing(&server, "notion", OPERATOR).0);
    let (is_good, said, complained) = pairing(&server, "pairing", OPERATOR);
    assert!(is_good && said == TOKEN, "{said} {complained}");
    let (is_good, said, complained) = pairing(&server, "pairing", OPERATOR);
    let is_named = complained.contains("there is no pairing secret of provider `pairing` here")
        && complained.contains("404");
    assert!(!is_good && said.is_empty() && is_named, "{said} {complained}");
    let log = server.log();
    assert!(log.contains("hooklatch pairing") && !log.contains(TOKEN), "{log}");
}

async fn a_token_that_could_not_be_recorded_is_recorded_later(database: &Database) {
    let server = Server::start(&database.url, PROVIDERS).await;
    database.run("ALTER TABLE pairing_secrets RENAME TO gone").await.unwrap();
    let body = format!(r#"{{"verification_token":"{TOKEN}"}}"#);
    let sent = client().post(server.url("/webhooks/pairing")).body(body).send().await.unwrap();
    assert_eq!(sent.status(), 200, "its sender does not send it again");
    let log = || server.log();
    let failed = async || server.log().contains("could not record a secret that was received during pairing");
    until("it failed", Duration::from_secs(10), log, failed).await;
    database.run("ALTER TABLE gone RENAME TO pairing_secrets").await.unwrap();
    let rows = "SELECT COUNT(*) FROM pairing_secrets";
    until("it is recorded", Duration::from_secs(10), log, async || database.count(rows).await == 1).await;
}
