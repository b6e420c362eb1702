//! The doctor on a machine that lacks disk space or open files.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::{OPERATOR, examine};
use crate::database::{Database, On};
use crate::needs;
use crate::process::{Server, client, post_stripe, until};

/// A small disk of its own, which goes with this value.
struct SmallDisk(
    PathBuf,
    #[expect(dead_code, reason = "the folder that it is mounted on")] tempfile::TempDir,
);

impl SmallDisk {
    /// `None` where we may not mount one; the test is skipped then.
    fn new(mib: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().to_owned();
        let size = format!("size={mib}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(&place).output();
        if mounted.is_ok_and(|done| done.status.success()) {
            return Some(Self(place, folder));
        }
        needs::skip("the right to mount a small disk");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

#[tokio::test]
async fn a_full_disk_is_reported_with_its_folder() {
    for (mib, verdict) in [(100, "failure"), (1_000, "warning")] {
        let Some(disk) = SmallDisk::new(mib) else { return };
        let url = format!("sqlite://{}", disk.0.join("hl.db").display());
        let mut server = Server::start(&url, OPERATOR).await;
        let found = examine(&server, &["--no-probe"]).await;
        let finding = found.find("disk", None);
        assert_eq!(finding["verdict"], verdict, "{finding}");
        let words = finding["found"].as_str().unwrap();
        assert!(words.contains("MiB") && words.contains(disk.0.to_str().unwrap()), "{words}");
        assert_eq!(finding["remedy"], "make room, or shorten [retention]");
        assert_eq!(found.code, if verdict == "failure" { 1 } else { 8 }, "{}", found.text);
        assert!(server.terminate());
    }
}

#[tokio::test]
async fn a_full_disk_is_reported_with_its_evidence_until_there_is_room() {
    let Some(disk) = SmallDisk::new(24) else { return };
    let url = format!("sqlite://{}", disk.0.join("hl.db").display());
    let mut server = Server::start(&url, OPERATOR).await;
    let (client, url) = (client(), server.url("/webhooks/stripe"));
    assert_eq!(post_stripe(&client, &url, "evt_1").await.unwrap(), "accepted");
    let fill = disk.0.join("fill");
    let block = vec![0; 1 << 16];
    let mut file = std::fs::File::create(&fill).unwrap();
    while std::io::Write::write_all(&mut file, &block).is_ok() {}
    drop(file);
    let mut refused_n = 0;
    for n in 0..40 {
        refused_n += u32::from(post_stripe(&client, &url, &format!("evt_full_{n}")).await.is_err());
    }
    assert!(refused_n > 0, "the disk is full");
    let found = examine(&server, &["--no-probe"]).await;
    assert_eq!(found.find("disk", None)["verdict"], "failure", "{}", found.text);
    std::fs::remove_file(&fill).unwrap();
    until(
        "it takes events again",
        Duration::from_secs(30),
        || server.log(),
        async || post_stripe(&client, &url, "evt_after").await.is_ok(),
    )
    .await;
    assert!(server.terminate());
    server.spawn().await;
}

/// The pages of the whole file are not read at a start, so it is ready, and its probe writes what is whole.
#[tokio::test]
async fn a_damaged_file_that_refuses_every_event_is_a_failure_of_the_server() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let mut server = Server::start(&database.url, OPERATOR).await;
    let client = client();
    assert_eq!(post_stripe(&client, &server.url("/webhooks/stripe"), "evt_1").await.unwrap(), "accepted");
    assert!(server.terminate());
    let root = database.count("SELECT rootpage FROM sqlite_master WHERE name = 'event_blocks'").await;
    let page_bytes = database.count("SELECT page_size FROM pragma_page_size").await;
    let at = u64::try_from((root - 1) * page_bytes).unwrap();
    let path = database.url.strip_prefix("sqlite://").unwrap();
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&[0xa5; 512], at).unwrap();
    server.spawn().await;
    assert!(post_stripe(&client, &server.url("/webhooks/stripe"), "evt_2").await.is_err());
    let found = examine(&server, &["--no-probe", "--deep"]).await;
    for (check, words) in
        [("server", "answered every request with 5xx since"), ("database.pages", "malformed")]
    {
        let finding = found.find(check, None);
        assert_eq!(finding["verdict"], "failure", "{finding}");
        assert!(finding["found"].as_str().unwrap().contains(words), "{finding}");
    }
    found.ends_with(1);
}

#[tokio::test]
async fn a_low_limit_of_files_is_reported_with_how_to_raise_it() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let mut server = Server::prepare(&database.url, OPERATOR);
    server.start_after("ulimit -n 300");
    server.spawn().await;
    let mut found = examine(&server, &["--no-probe"]).await;
    let finding = found.find("files", Some("server.connections_n_max"));
    assert_eq!(finding["verdict"], "warning", "{finding}");
    let text = format!("{} {}", finding["found"], finding["remedy"]);
    for word in ["connections fit of the", "server.connections_n_max wants", "LimitNOFILE=", "ulimit -n"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    found.ends_with(8);
    if Command::new("prlimit").arg("--version").output().is_err() {
        needs::skip("prlimit");
        return;
    }
    // The limit is a little more than what is open: it follows, since connections of before may end after the count.
    let id = server.process_id().to_string();
    until(
        "it is reported",
        Duration::from_secs(30),
        || server.log(),
        async || {
            let limit = format!("--nofile={}:", server.usage().1 + 3);
            let done = Command::new("prlimit").args(["--pid", &id, &limit]).status();
            assert!(done.unwrap().success());
            found = examine(&server, &["--no-probe"]).await;
            found.findings.iter().any(|one| one["check"] == "files" && one["verdict"] == "failure")
        },
    )
    .await;
    let finding = found.find("files", None);
    assert_eq!(finding["verdict"], "failure", "{finding}");
    assert!(finding["found"].as_str().unwrap().contains("are open"), "{finding}");
    found.ends_with(1);
}
