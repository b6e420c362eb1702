//! File permissions: customers' data and secrets are not readable by other users of the machine.

use std::fs::{Permissions, metadata, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::database::{Database, On};
use crate::process::{Server, client, post_stripe};

fn mode(path: &Path) -> u32 {
    metadata(path).unwrap().permissions().mode() & 0o777
}

/// The files of a server's database, which is `hl.db` in its folder.
fn files(server: &Server) -> Vec<PathBuf> {
    let folder = server.config().parent().unwrap().to_owned();
    ["hl.db", "hl.db-wal", "hl.db-shm", "hl.db.lock", "hl.db.witness"].map(|name| folder.join(name)).into()
}

#[tokio::test]
async fn the_databases_files_are_for_us_alone_also_those_of_earlier_versions() {
    let mut server = Server::prepare("sqlite://hl.db", "");
    server.start_after("umask 022");
    server.spawn().await;
    post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.unwrap();
    for file in files(&server) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    server.kill();
    for file in files(&server) {
        set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    }
    server.spawn().await;
    post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_2").await.unwrap();
    for file in files(&server) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    assert!(server.log().contains("every user could read this file"), "{}", server.log());
    server.kill();
    let database = files(&server).remove(0);
    set_permissions(&database, Permissions::from_mode(0o640)).unwrap();
    server.spawn().await;
    assert_eq!(mode(&database), 0o640, "a group that may read it was meant to");
}

fn check(config: &Path) -> String {
    let run = Command::new(env!("CARGO_BIN_EXE_hooklatch"))
        .args(["check", "--config"])
        .arg(config)
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stderr).unwrap()
}

#[tokio::test]
async fn a_world_readable_file_with_secrets_warns() {
    const WARNING: &str = "can be read by everybody";
    let database = Database::create(On::Sqlite).await.unwrap();
    let mut server = Server::prepare(&database.url, "");
    let config = server.config();
    let folder = config.parent().unwrap();
    let secret = folder.join("secret");
    std::fs::write(&secret, "whsec_file_0123456789abcdef").unwrap();
    set_permissions(&config, Permissions::from_mode(0o644)).unwrap();
    set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    set_permissions(folder, Permissions::from_mode(0o700)).unwrap();
    assert!(!check(&config).contains(WARNING), "no other user reads its folder");
    set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    let output = check(&config);
    assert!(output.contains(WARNING) && output.contains("hooklatch.toml"), "{output}");
    server.spawn().await;
    assert!(server.log().contains(WARNING), "{}", server.log());
    server.kill();

    let text = std::fs::read_to_string(&config).unwrap();
    let text = text.replace(&format!("\"{}\"", crate::process::SECRET), "{ file = \"secret\" }");
    std::fs::write(&config, text).unwrap();
    assert!(!check(&config).contains(WARNING), "it holds none any more");
    set_permissions(&secret, Permissions::from_mode(0o644)).unwrap();
    let output = check(&config);
    assert!(output.contains(WARNING) && output.contains("secret") && !output.contains("whsec_"), "{output}");
}
