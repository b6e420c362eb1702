//! A file that was restored by a plain copy: detected by the witness beside it, without false alarms.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use super::world::World;
use crate::database::{Database, On};
use crate::doctor::examine;
use crate::process::{client, now_s, post_stripe, until};

/// A server on a file that is copied about.
struct Copied {
    world: World,
    database: Database,
    saved: TempDir,
    /// When all events happened at their sender: what is sent again is the same. Unix seconds.
    created_s: i64,
}

impl Copied {
    async fn start() -> Self {
        let database = Database::create(On::Sqlite).await.unwrap();
        let (world, saved) = (World::start(&database).await, tempfile::tempdir().unwrap());
        Self { world, database, saved, created_s: now_s() }
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(self.database.url.strip_prefix("sqlite://").unwrap())
    }

    fn beside(&self, ending: &str) -> PathBuf {
        PathBuf::from(format!("{}{ending}", self.path().display()))
    }

    fn witness(&self) -> String {
        std::fs::read_to_string(self.beside(".witness")).unwrap_or_default()
    }

    /// The number that the witness has.
    fn seen_n(&self) -> i64 {
        self.witness().split(' ').nth(2).and_then(|n| n.parse().ok()).unwrap_or(-1)
    }

    /// Sends an event; returns once the witness has it.
    async fn post(&self, id: &str) {
        let before_n = self.seen_n();
        assert_eq!(self.world.post(id, self.created_s).await, "accepted");
        let log = || format!("{} {}", self.witness(), self.world.server.log());
        until("it is witnessed", Duration::from_secs(20), log, async || self.seen_n() > before_n).await;
    }

    fn stop(&mut self) {
        assert!(self.world.server.terminate());
        assert!(self.witness().ends_with(" closed\n"), "{}", self.witness());
    }

    /// A plain copy, with the log if there is one.
    fn save(&self, name: &str) {
        for ending in ["", "-wal"] {
            drop(std::fs::copy(self.beside(ending), self.saved.path().join(format!("{name}{ending}"))));
        }
    }

    /// Puts a copy back, and leaves everything else as it is.
    fn put_back(&self, name: &str) {
        for ending in ["", "-wal", "-shm"] {
            drop(std::fs::remove_file(self.beside(ending)));
            drop(std::fs::copy(self.saved.path().join(format!("{name}{ending}")), self.beside(ending)));
        }
    }

    /// The server and the command report that it is older.
    #[track_caller]
    fn is_refused(&self) {
        let (code, out, err) = self.world.run(&["serve"]);
        assert!(code == 1 && err.contains("is older than what ran last"), "{code} {out}{err}");
        let (code, out, err) = self.world.run(&["restore-check", "--json"]);
        assert_eq!(code, 7, "{out}{err}");
        let report: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(report["state"], "older", "{report}");
        assert!(report["ran_until_ms"].as_i64().unwrap() > now_s() * 1_000 - 600_000, "{report}");
    }
}

#[tokio::test]
async fn a_copy_of_earlier_that_is_put_back_is_refused_until_it_is_taken_over() {
    let mut it = Copied::start().await;
    it.post("evt_1").await;
    // While it runs, with its log, and after a stop.
    it.save("running");
    it.stop();
    it.save("stopped");
    it.world.server.spawn().await;
    it.post("evt_2").await;
    it.world.server.kill();
    it.save("killed");
    for name in ["running", "stopped"] {
        it.put_back(name);
        it.is_refused();
    }
    let found = examine(&it.world.server, &[]).await;
    let finding = found.find("database.witness", None);
    assert!(
        finding["verdict"] == "failure" && finding["remedy"].as_str().unwrap().contains("restore-check"),
        "{finding}"
    );
    found.ends_with(1);
    let (code, out, _) = it.world.run(&["restore-check"]);
    assert!(
        code == 7 && out.contains("a copy of its file was put back") && out.contains("here until"),
        "{out}"
    );
    // The log was lost: what was in it alone is missing.
    it.put_back("killed");
    std::fs::remove_file(it.beside("-wal")).unwrap();
    it.is_refused();
    it.put_back("stopped");
    let before_n = it.seen_n();
    let (code, out, err) = it.world.run(&["restore-check", "--yes", "--reason", "the disk of db1"]);
    assert!(code == 0 && out.contains("Taken over"), "{out}{err}");
    assert!(it.seen_n() > before_n, "{before_n} {}", it.witness());
    assert_eq!(it.world.run(&["restore-check"]).0, 0);
    it.world.server.spawn().await;
    it.post("evt_2").await;
    it.stop();
    it.world.far.check_names();
    // The same copy once more, and what was there before the first one.
    for name in ["stopped", "killed"] {
        it.put_back(name);
        it.is_refused();
    }
    assert_eq!(it.world.run(&["restore-check", "--yes", "--moved", "--reason", "a trial"]).0, 0);
    it.world.server.spawn().await;
}

#[tokio::test]
async fn what_is_stopped_moved_copied_or_begun_anew_is_not_refused() {
    let mut it = Copied::start().await;
    it.post("evt_1").await;
    let log = || it.world.server.log();
    let open = "SELECT COUNT(*) FROM outbox_queue";
    until("its calls are made", Duration::from_secs(20), log, async || it.database.count(open).await == 0)
        .await;
    it.stop();
    it.save("stopped");
    // Started and stopped without an event or a call: what is put back is what was there.
    let before = it.witness();
    it.world.server.spawn().await;
    it.stop();
    assert_eq!(it.witness().split(' ').nth(2), before.split(' ').nth(2), "{before}");
    it.put_back("stopped");
    it.world.server.spawn().await;
    it.post("evt_2").await;
    // A backup carries its own mark; it has no witness.
    let backup = it.saved.path().join("backup").display().to_string();
    assert_eq!(it.world.run(&["backup", &backup]).0, 0);
    assert!(!Path::new(&format!("{backup}.witness")).exists());
    let (code, _, err) = it.world.run(&["backup", "--replace", it.beside(".witness").to_str().unwrap()]);
    assert!(code == 1 && err.contains("belongs to the database itself"), "{err}");
    it.stop();
    it.save("newest");
    it.put_back("backup");
    let (code, out, _) = it.world.run(&["restore-check"]);
    assert!(code == 7 && out.contains("is a backup"), "{out}");
    it.put_back("newest");
    // Its witness is lost or unreadable.
    for text in [None, Some(""), Some("hooklatch-witness/9 x 1 1 open\n"), Some("\u{0}\u{0}\u{0}")] {
        match text {
            None => std::fs::remove_file(it.beside(".witness")).unwrap(),
            Some(text) => std::fs::write(it.beside(".witness"), text).unwrap(),
        }
        let (code, out, _) = it.world.run(&["restore-check"]);
        assert_eq!(code, 0, "{text:?}: {out}");
        it.world.server.spawn().await;
        it.stop();
    }
    assert!(it.world.server.log().contains("the witness of the database cannot be read"));
    // In another place.
    let moved = it.saved.path().join("moved.db");
    let config = std::fs::read_to_string(it.world.server.config()).unwrap();
    std::fs::rename(it.path(), &moved).unwrap();
    let elsewhere = config.replace(&it.database.url, &format!("sqlite://{}", moved.display()));
    std::fs::write(it.world.server.config(), elsewhere).unwrap();
    it.world.server.spawn().await;
    assert!(it.world.server.terminate());
    // Begun anew, on purpose: the witness is gone, too. Then another one with events is put there.
    std::fs::write(it.world.server.config(), config).unwrap();
    let of_before = it.witness();
    std::fs::remove_file(it.beside(".witness")).unwrap();
    assert!(!it.path().exists());
    it.world.server.spawn().await;
    it.post("evt_1").await;
    it.stop();
    std::fs::write(it.beside(".witness"), of_before).unwrap();
    it.world.server.spawn().await;
    it.stop();
    let logged_n =
        it.world.server.log().matches("of another installation than the one that ran here last").count();
    assert_eq!(logged_n, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_under_load_starts_again_every_time() {
    let mut it = Copied::start().await;
    let is_over = Arc::new(AtomicBool::new(false));
    let senders: Vec<_> = (0..4)
        .map(|sender| {
            let (url, is_over) = (it.world.server.url("/webhooks/stripe"), Arc::clone(&is_over));
            tokio::spawn(async move {
                let (client, mut sent_n) = (client(), 0);
                while !is_over.load(Ordering::Relaxed) {
                    sent_n += i32::from(
                        post_stripe(&client, &url, &format!("evt_{sender}_{sent_n}")).await.is_ok(),
                    );
                }
                sent_n
            })
        })
        .collect();
    let mut numbers = vec![it.seen_n()];
    for n in 0..crate::needs::kills_n() {
        // A moment drawn at random.
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..400))).await;
        it.world.server.kill();
        let (code, out, err) =
            if n % 5 == 0 { it.world.run(&["restore-check"]) } else { (0, String::new(), String::new()) };
        assert_eq!(code, 0, "{out}{err}");
        it.world.server.spawn().await;
        numbers.push(it.seen_n());
    }
    is_over.store(true, Ordering::Relaxed);
    let mut sent_n = 0;
    for sender in senders {
        sent_n += sender.await.unwrap();
    }
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    eprintln!("MEASURED: {sent_n} events over {} kills, witness {numbers:?}", crate::needs::kills_n());
    it.stop();
    it.world.server.spawn().await;
}

#[tokio::test]
async fn an_unwritable_witness_is_logged_once_and_stops_nothing() {
    let mut it = Copied::start().await;
    it.post("evt_1").await;
    it.stop();
    std::fs::remove_file(it.beside(".witness")).unwrap();
    std::fs::create_dir(it.beside(".witness")).unwrap();
    it.world.server.spawn().await;
    for n in 0..30 {
        assert_eq!(it.world.post(&format!("evt_more_{n}"), now_s()).await, "accepted");
        // The pause between two events, so that there are several steps.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(it.world.server.log().matches("the witness of the database cannot be written").count(), 1);
    let found = examine(&it.world.server, &["--no-probe"]).await;
    let finding = found.find("database.witness", None);
    assert_eq!(finding["verdict"], "warning", "{finding}");
    assert!(
        finding["found"].as_str().unwrap().contains(it.beside(".witness").to_str().unwrap()),
        "{finding}"
    );
    found.ends_with(8);
    std::fs::remove_dir(it.beside(".witness")).unwrap();
    it.post("evt_last").await;
    let found = examine(&it.world.server, &["--no-probe"]).await;
    assert_eq!(found.find("database.witness", None)["verdict"], "well");
    it.stop();
}
