//! The senders' own SDKs sign, the real binary believes: `stripe` and `standardwebhooks` from PyPI,
//! `@octokit/webhooks-methods` from npm. `scripts/sdk` installs them.

use std::path::PathBuf;
use std::process::Command;

use crate::database::{Database, On};
use crate::process::{Server, client, now_s};

const MORE: &str = "[providers.standard_webhooks]\n\
     secrets = [\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"]\n\
     [providers.github]\nsecrets = [\"It's a Secret to Everybody\"]\n";

/// Where the SDKs are; `None`, said aloud, when they are not installed and not required.
fn sdk() -> Option<PathBuf> {
    let found = std::env::var("HOOKLATCH_TEST_SDK").ok();
    if found.is_none() {
        eprintln!("SKIPPED: the senders' SDKs are not installed; ./scripts/test installs them");
    }
    found.map(PathBuf::from)
}

/// What a script printed: header lines, an empty line, the body.
fn signed(command: &mut Command) -> (Vec<(String, String)>, String) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let (headers, body) = text.split_once("\n\n").unwrap();
    let headers = headers.lines().map(|line| line.split_once(": ").unwrap());
    (headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(), body.to_owned())
}

async fn check(server: &Server, provider: &str, (headers, body): (Vec<(String, String)>, String)) {
    let post = async |body: String| {
        let mut request = client().post(server.url(&format!("/webhooks/{provider}"))).body(body);
        for (name, value) in &headers {
            request = request.header(name, value);
        }
        let response = request.send().await.unwrap();
        let outcome =
            response.headers().get("hooklatch-outcome").map(|value| value.to_str().unwrap().to_owned());
        (response.status().as_u16(), outcome)
    };
    assert_eq!(post(body.clone()).await, (200, Some("accepted".to_owned())), "{provider}");
    assert_eq!(post(body.clone()).await, (200, Some("duplicate".to_owned())), "{provider}");
    assert_eq!(post(body.replacen('1', "2", 1)).await, (401, None), "{provider}, one byte changed");
}

#[tokio::test]
async fn what_the_senders_own_sdks_sign_is_believed() {
    let Some(sdk) = sdk() else { return };
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = Server::start(&database.url, MORE).await;
    let scripts = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/sdk");
    let python = |script: &str| {
        let mut command = Command::new(sdk.join("python/bin/python"));
        command.arg(scripts.join(script)).arg(now_s().to_string());
        command
    };
    check(&server, "stripe", signed(&mut python("stripe_sign.py"))).await;
    check(&server, "standard_webhooks", signed(&mut python("standard_webhooks_sign.py"))).await;
    let mut node = Command::new("node");
    // Beside its modules, where node looks for them.
    std::fs::copy(scripts.join("github_sign.mjs"), sdk.join("github_sign.mjs")).unwrap();
    node.arg(sdk.join("github_sign.mjs")).current_dir(&sdk);
    check(&server, "github", signed(&mut node)).await;
}
