//! `hooklatch backup`: beside a server under load, copied completely or not at all, and readable by its owner alone.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::world::World;
use crate::database::{Database, On};
use crate::process::{client, now_s, post_stripe};

fn names(folder: &Path) -> Vec<String> {
    let all = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = all.map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Sends until `is_over`; returns the ids that were confirmed, and the slowest answer.
async fn traffic(url: String, is_over: Arc<AtomicBool>) -> (Vec<String>, Duration) {
    let (client, mut confirmed, mut slowest) = (client(), Vec::new(), Duration::ZERO);
    while !is_over.load(Ordering::Relaxed) {
        let (id, started) = (format!("evt_load_{}", confirmed.len()), Instant::now());
        post_stripe(&client, &url, &id).await.unwrap();
        slowest = slowest.max(started.elapsed());
        confirmed.push(id);
    }
    (confirmed, slowest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_is_made_beside_a_server_under_load_and_holds_what_was_confirmed_before() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let world = World::start(&database).await;
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("hooks.db");
    let is_over = Arc::new(AtomicBool::new(false));
    let sending = tokio::spawn(traffic(world.server.url("/webhooks/stripe"), Arc::clone(&is_over)));
    for n in 0..50 {
        world.post(&format!("evt_{n}"), now_s()).await;
    }
    let started = Instant::now();
    let (code, out, err) = world.run(&["backup", to.to_str().unwrap(), "--json"]);
    let took = started.elapsed();
    is_over.store(true, Ordering::Relaxed);
    let (confirmed, slowest) = sending.await.unwrap();
    assert_eq!(code, 0, "{out}{err}");
    eprintln!(
        "MEASURED: a copy took {took:?}; {} admitted beside it, the slowest in {slowest:?}",
        confirmed.len()
    );
    let said: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(said["events_n"].as_u64().unwrap() >= 50, "{said}");
    let copy = Database::at(format!("sqlite://{}", to.display()));
    let first = "SELECT COUNT(*) FROM processed_webhook_events WHERE event_id NOT LIKE 'evt_load%'";
    assert_eq!(copy.count(first).await, 50);
    let bodiless = "SELECT COUNT(*) FROM processed_webhook_events e WHERE NOT EXISTS (
        SELECT 1 FROM webhook_payloads p WHERE p.event_seq = e.event_seq)";
    assert_eq!(copy.count(bodiless).await, 0, "of one moment");
    assert_eq!(database.count("SELECT COUNT(*) FROM installation WHERE backup_at_ms IS NOT NULL").await, 0);
    assert_eq!(std::fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(names(folder.path()), ["hooks.db"], "one file, nothing beside it");
}

#[tokio::test]
async fn what_would_be_lost_or_half_written_is_refused_and_leaves_nothing() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let mut world = World::start(&database).await;
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("there.db");
    std::fs::write(&there, "a backup of before").unwrap();
    let own = database.url.strip_prefix("sqlite://").unwrap().to_owned();
    let nowhere = folder.path().join("no/folder.db");
    let (link, folder_there) = (folder.path().join("link"), folder.path().join("folder"));
    std::os::unix::fs::symlink(&there, &link).unwrap();
    std::fs::create_dir(&folder_there).unwrap();
    for (to, more, wanted) in [
        (link.to_str().unwrap(), &["--replace"][..], "is no file that could be replaced"),
        (folder_there.to_str().unwrap(), &["--replace"], "is no file that could be replaced"),
        (there.to_str().unwrap(), &[], "say --replace"),
        (&own, &["--replace"], "is the database itself"),
        (&format!("{own}-wal"), &["--replace"], "belongs to the database itself"),
        (&format!("{own}-journal"), &[], "belongs to the database itself"),
        (nowhere.to_str().unwrap(), &[], "there is no folder"),
    ] {
        let (code, out, err) = world.run(&[&["backup", to][..], more].concat());
        assert!(code == 1 && err.contains(wanted), "{to}: {code} {out}{err}");
    }
    assert_eq!(std::fs::read_to_string(&there).unwrap(), "a backup of before");
    assert_eq!(names(folder.path()), ["folder", "link", "there.db"]);
    assert_eq!(world.run(&["backup", there.to_str().unwrap(), "--replace"]).0, 0);
    // It also works without a running server.
    assert!(world.server.terminate());
    assert_eq!(world.run(&["backup", there.to_str().unwrap(), "--replace"]).0, 0);
    let config = std::fs::read_to_string(world.server.config()).unwrap();
    // What is in the copy of a copy is as old as that one.
    let again = folder.path().join("again.db");
    std::fs::write(world.server.config(), config.replace(&own, there.to_str().unwrap())).unwrap();
    assert_eq!(world.run(&["backup", again.to_str().unwrap()]).0, 0);
    let moment = "SELECT backup_at_ms FROM installation";
    let mut moments = Vec::new();
    for path in [&there, &again] {
        moments.push(Database::at(format!("sqlite://{}", path.display())).count(moment).await);
    }
    assert_eq!(moments[0], moments[1]);
    std::fs::write(world.server.config(), config.replace(&database.url, "postgres://localhost/x")).unwrap();
    let (code, _, err) = world.run(&["backup", there.to_str().unwrap()]);
    assert!(code == 2 && err.contains("pg_dump"), "{err}");
}

#[tokio::test]
async fn killed_in_the_middle_it_leaves_the_backup_of_before() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let world = World::start(&database).await;
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("hooks.db");
    assert_eq!(world.run(&["backup", to.to_str().unwrap()]).0, 0);
    let rows = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 20000)
        INSERT INTO webhook_payloads (event_seq, shard, headers, body) SELECT 900000 + n, 0, '{}', randomblob(4000) FROM c";
    database.run(rows).await.unwrap();
    // The system kills it (SIGXFSZ) when it writes beyond a tenth of the copy, however fast that is.
    let ended = Command::new("sh")
        .args(["-c", "ulimit -c 0 && ulimit -f 16384 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_hooklatch")])
        .args(["backup", "--replace", to.to_str().unwrap(), "--config"])
        .arg(world.server.config())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(ended.signal().is_some(), "{ended}");
    let copy = Database::at(format!("sqlite://{}", to.display()));
    assert_eq!(copy.count("SELECT COUNT(*) FROM installation WHERE backup_at_ms IS NOT NULL").await, 1);
    assert_eq!(copy.count("SELECT COUNT(*) FROM webhook_payloads").await, 0, "it is the one of before");
    assert_eq!(world.post("evt_1", now_s()).await, "accepted");
    // The next one deletes what that one left, once it is no longer being written; and nothing of other programs.
    let left = names(folder.path()).into_iter().find(|name| name.ends_with(".partial")).unwrap();
    let left = std::fs::File::options().append(true).open(folder.path().join(left)).unwrap();
    left.set_modified(std::time::SystemTime::now() - Duration::from_mins(1)).unwrap();
    let others = folder.path().join("hooks.db.mine.partial");
    std::fs::write(&others, "").unwrap();
    std::fs::File::options().append(true).open(&others).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(world.run(&["backup", "--replace", to.to_str().unwrap()]).0, 0);
    assert_eq!(names(folder.path()), ["hooks.db", "hooks.db.mine.partial"]);
}

#[tokio::test]
async fn a_copy_that_is_put_beside_the_log_of_another_one_is_refused_and_not_written_to() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let mut world = World::start(&database).await;
    assert_eq!(world.post("evt_1", now_s()).await, "accepted");
    let own = database.url.strip_prefix("sqlite://").unwrap().to_owned();
    let (saved, log) = (format!("{own}.saved"), format!("{own}-wal"));
    assert_eq!(world.run(&["backup", &saved]).0, 0);
    assert_eq!(world.post("evt_2", now_s()).await, "accepted");
    world.server.kill();
    assert!(std::fs::metadata(&log).unwrap().len() > 0);
    std::fs::copy(&saved, &own).unwrap();
    for words in [&["serve"][..], &["restore-check"], &["backup", &format!("{own}.other")]] {
        let (code, out, err) = world.run(words);
        assert!(code == 1 && err.contains("is the log of the database that was there before"), "{out}{err}");
    }
    assert_eq!(std::fs::read(&saved).unwrap(), std::fs::read(&own).unwrap());
    for ending in ["-wal", "-shm"] {
        drop(std::fs::remove_file(format!("{own}{ending}")));
    }
    assert_eq!(world.run(&["restore-check"]).0, 7);
}
