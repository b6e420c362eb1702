//! `openapi.json`: written from the types, served as it stands, and true under a fuzzer.

use serde_json::Value;

use crate::contract::document;
use crate::process::Server;

/// `UPDATE_OPENAPI=1 cargo nextest run openapi` writes it.
#[test]
fn openapi_json_is_what_the_types_say() {
    let wanted = format!("{:#}\n", hooklatch::api::document());
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(file, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(file).unwrap_or_default();
    assert!(
        found == wanted,
        "openapi.json is not what src/api says: run `UPDATE_OPENAPI=1 cargo nextest run openapi`"
    );
}

#[tokio::test]
async fn openapi_json_is_served_to_everybody_as_it_stands() {
    let server = Server::start("sqlite://openapi.db", "").await;
    let served: Value = serde_json::from_str(&server.admin_text("/openapi.json").await).unwrap();
    assert_eq!(&served, document());
}

/// The places of the document where a fuzzer is of no use: a stream does not end.
const NOT_FUZZED: [&str; 1] = ["/v1/tail"];

/// Runs `schemathesis` with all checks against a server that has rows of every kind.
fn fuzz(server: &Server, more: &[&str]) {
    let home = std::env::var("HOOKLATCH_TEST_SDK").expect("scripts/test says where the fuzzer is");
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(format!("{home}/fuzz/bin/st"));
    command
        .args(["run", concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json"), "--checks", "all", "--seed", "1"])
        .args(["--url", &format!("http://{}", server.admin), "--max-examples", "25", "--no-color"])
        .args(["--generation-database", "none", "--phases", "examples,coverage,fuzzing", "--workers", "2"])
        .args(NOT_FUZZED.iter().flat_map(|path| ["--exclude-path", path]))
        .args(more)
        .current_dir(folder.path());
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
}
