//! The SQLite file as an inode: the file at the path must be the one that the server has open, under one name, for one
//! process.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use http::StatusCode;
use sqlx::{Connection, Executor, SqliteConnection};
use tempfile::TempDir;

use crate::database::{Database, On};
use crate::doctor::examine;
use crate::needs;
use crate::process::{Server, client, post_stripe, until};

#[tokio::test]
async fn where_none_may_be_created_a_missing_database_refuses_the_start() {
    for on in [On::Sqlite, On::Postgres] {
        if let Some(database) = Database::empty(on).await {
            refuses_a_missing_one(&database).await;
        }
    }
}

/// A server on `data/hl.db`, and a destination that fails for now, so that calls are due again and again.
struct World {
    server: Server,
    home: TempDir,
    calls_n: Arc<AtomicUsize>,
}

impl World {
    async fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let calls_n = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls_n);
        let router = Router::new().fallback(async move || {
            counted.fetch_add(1, Ordering::SeqCst);
            StatusCode::SERVICE_UNAVAILABLE
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        let more = format!(
            "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\n[outbox]\npoll_ms = 50\nstop_timeout_ms = 1000\n\
             [destinations.billing]\nurl = \"{url}\"\n\
             retry = {{ first_ms = 100, max_ms = 100, attempts_n = 1000 }}\nbreaker_failures_n = 1000\n"
        );
        let path = home.path().join("data/hl.db");
        let mut server = Server::prepare(&format!("sqlite://{}", path.display()), &more);
        let config = std::fs::read_to_string(server.config()).unwrap();
        let tokens = "tokens = [{ name = \"ops\", role = \"operator\", token = \"operator-token-0123456789\" }]\n[database]";
        std::fs::write(server.config(), config.replace("[database]", tokens)).unwrap();
        server.spawn().await;
        Self { server, home, calls_n }
    }

    fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.data().join(name)
    }

    async fn post(&self, id: &str) -> Result<String, String> {
        post_stripe(&client(), &self.server.url("/webhooks/stripe"), id).await
    }

    async fn is_ready(&self) -> bool {
        let ready = client().get(format!("http://{}/readyz", self.server.admin)).send().await;
        ready.unwrap().status().is_success()
    }

    /// Waits until it is not ready, for as long as that may take; how long it took.
    async fn turns(&self) -> Duration {
        let since = Instant::now();
        let log = || self.server.log();
        until("it is not ready", Duration::from_secs(2), log, async || !self.is_ready().await).await;
        since.elapsed()
    }

    fn database(&self) -> Database {
        Database::at(format!("sqlite://{}", self.file("hl.db").display()))
    }

    /// Copies what the server still has open out of it, as docs/backup.md says.
    fn save_open(&self, name: &str, to: &Path) {
        let folder = PathBuf::from(format!("/proc/{}/fd", self.server.process_id()));
        let wanted = format!("{} (deleted)", self.file(name).display());
        let open = std::fs::read_dir(folder).unwrap().map(|one| one.unwrap().path());
        let open = open.filter(|one| std::fs::read_link(one).is_ok_and(|to| to.as_os_str() == &*wanted));
        std::fs::copy(open.last().unwrap_or_else(|| panic!("{wanted} is not open")), to).unwrap();
    }
}

/// Faults of the database file under a running server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileFault {
    Moved,
    Deleted,
    ReplacedByCopy,
    FolderRenamed,
    LogDeleted,
    /// An earlier state was put into it, by SQLite.
    PutBack,
}

const FILE_FAULTS: [FileFault; 5] = [
    FileFault::Moved,
    FileFault::Deleted,
    FileFault::ReplacedByCopy,
    FileFault::FolderRenamed,
    FileFault::LogDeleted,
];

impl FileFault {
    fn inject(self, world: &World) {
        let (file, other) = (world.file("hl.db"), world.home.path().join("other"));
        match self {
            Self::Moved => std::fs::rename(file, other).unwrap(),
            Self::Deleted => {
                for name in ["hl.db", "hl.db-wal", "hl.db-shm"] {
                    std::fs::remove_file(world.file(name)).unwrap();
                }
            }
            Self::ReplacedByCopy => {
                std::fs::copy(&file, &other).unwrap();
                std::fs::rename(other, file).unwrap();
            }
            Self::FolderRenamed => {
                std::fs::rename(world.data(), other).unwrap();
                std::fs::create_dir(world.data()).unwrap();
                // The log and the witness of another database.
                std::fs::write(world.file("hl.db-wal"), "of another one").unwrap();
                std::fs::write(world.file("hl.db.witness"), "of another one").unwrap();
            }
            Self::LogDeleted => std::fs::remove_file(world.file("hl.db-wal")).unwrap(),
            Self::PutBack => {
                let restore = format!(".restore '{}'", world.home.path().join("backup").display());
                let mut shell = Command::new("sqlite3");
                let ran = shell.arg(file).args(["-cmd", ".timeout 5000", &restore]).output().unwrap();
                assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
            }
        }
    }

    /// Stops the server and follows its log line, as docs/backup.md says.
    fn repair(self, world: &mut World) {
        let (file, other) = (world.file("hl.db"), world.home.path().join("other"));
        let saved = ["", "-wal"].map(|ending| world.home.path().join(format!("saved{ending}")));
        match self {
            Self::Deleted => {
                world.save_open("hl.db", &saved[0]);
                world.save_open("hl.db-wal", &saved[1]);
            }
            Self::ReplacedByCopy => world.save_open("hl.db", &saved[0]),
            _ => {}
        }
        assert!(world.server.terminate(), "{self:?}");
        match self {
            Self::Moved => std::fs::rename(other, file).unwrap(),
            Self::Deleted => {
                std::fs::rename(&saved[0], file).unwrap();
                std::fs::rename(&saved[1], world.file("hl.db-wal")).unwrap();
            }
            Self::ReplacedByCopy => std::fs::rename(&saved[0], file).unwrap(),
            Self::FolderRenamed => {
                for name in ["hl.db-wal", "hl.db.witness"] {
                    let text = std::fs::read_to_string(world.file(name)).unwrap();
                    assert_eq!(text, "of another one", "{name} of another database is left alone");
                }
                std::fs::remove_dir_all(world.data()).unwrap();
                std::fs::rename(other, world.data()).unwrap();
            }
            Self::LogDeleted | Self::PutBack => {}
        }
    }
}

#[tokio::test]
async fn nothing_is_acknowledged_into_a_file_that_is_not_at_its_path() {
    for fault in FILE_FAULTS {
        let mut world = World::start().await;
        assert_eq!(world.post("evt_1").await.as_deref(), Ok("accepted"));
        fault.inject(&world);
        // The very first one: it was committed before anyone could notice.
        assert_eq!(world.post("evt_2").await, Err("503".to_owned()), "{fault:?}");
        let log = world.server.log();
        let errors_n = log.matches("is not the file that this server has open").count();
        assert!(errors_n >= 1 && log.contains("Moved or deleted under a running server"), "{fault:?}: {log}");
        let called_n = world.calls_n.load(Ordering::SeqCst);
        // Long enough for several tries of its call.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let more_n = world.calls_n.load(Ordering::SeqCst) - called_n;
        assert!(more_n <= 1, "{fault:?}: one call may have been under way, {more_n} were made");
        fault.repair(&mut world);
        world.server.spawn().await;
        assert_eq!(world.post("evt_1").await.as_deref(), Ok("duplicate"), "{fault:?}");
        world.post("evt_2").await.unwrap();
        assert_eq!(world.database().texts("PRAGMA integrity_check").await, ["ok"], "{fault:?}");
    }
}

fn has_sqlite3() -> bool {
    Command::new("sqlite3").arg("--version").output().is_ok()
}

/// Makes a backup, and has something happen that is not in it.
async fn backed_up(world: &World) {
    assert_eq!(world.post("evt_before").await.as_deref(), Ok("accepted"));
    let to = world.home.path().join("backup").display().to_string();
    assert_eq!(world.server.command("", &["backup", &to]).0, 0);
    let held_n = async || world.database().count("SELECT witnessed_n FROM installation").await;
    let before_n = held_n().await;
    assert_eq!(world.post("evt_since").await.as_deref(), Ok("accepted"));
    let log = || world.server.log();
    until("it is witnessed", Duration::from_secs(5), log, async || held_n().await > before_n).await;
}

#[tokio::test]
async fn nothing_is_acknowledged_after_an_earlier_state_was_put_into_the_file() {
    if !has_sqlite3() {
        return needs::skip("sqlite3");
    }
    let mut world = World::start().await;
    backed_up(&world).await;
    FileFault::PutBack.inject(&world);
    assert_eq!(world.post("evt_since").await, Err("503".to_owned()), "it would be new");
    assert_eq!(world.post("evt_before").await, Err("503".to_owned()));
    world.turns().await;
    assert_eq!(world.server.log().matches("Put back under a running server").count(), 1);
    let called_n = world.calls_n.load(Ordering::SeqCst);
    // Long enough for several tries of a call.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(world.calls_n.load(Ordering::SeqCst) <= called_n + 1, "one call may have been under way");
    assert!(world.server.terminate());
    for (arguments, want) in
        [(&["restore-check"][..], 7), (&["restore-check", "--yes", "--reason", "a test"], 0)]
    {
        let (code, output) = world.server.command("", arguments);
        assert_eq!(code, want, "{output}");
    }
    world.server.spawn().await;
    assert_eq!(world.post("evt_before").await.as_deref(), Ok("duplicate"));
    assert_eq!(world.database().texts("PRAGMA integrity_check").await, ["ok"]);
}

#[tokio::test]
async fn readiness_fails_within_two_seconds_also_without_requests() {
    for fault in FILE_FAULTS.into_iter().chain(has_sqlite3().then_some(FileFault::PutBack)) {
        let world = World::start().await;
        if fault == FileFault::PutBack {
            backed_up(&world).await;
        }
        fault.inject(&world);
        eprintln!("MEASURED: {fault:?} was noticed after {:?}", world.turns().await);
        let found = examine(&world.server, &["--no-probe"]).await;
        let finding = found.find("database.file", None);
        assert!(finding["verdict"] == "failure" && finding["remedy"].is_string(), "{fault:?}: {finding}");
    }
}

#[tokio::test]
async fn a_file_that_is_put_back_under_a_running_server_is_written_again_only_after_a_restart() {
    let mut world = World::start().await;
    assert_eq!(world.post("evt_1").await.as_deref(), Ok("accepted"));
    FileFault::Moved.inject(&world);
    assert_eq!(world.post("evt_2").await, Err("503".to_owned()));
    std::fs::rename(world.home.path().join("other"), world.file("hl.db")).unwrap();
    assert_eq!(world.post("evt_2").await, Err("503".to_owned()));
    world.turns().await;
    assert_eq!(world.server.log().matches("Moved or deleted under a running server").count(), 1);
    assert!(world.server.terminate());
    world.server.spawn().await;
    assert_eq!(world.post("evt_1").await.as_deref(), Ok("duplicate"));
}

/// A `serve` on this file by another configuration, where `mounted` was done before, is refused with this.
#[track_caller]
fn is_refused(path: &Path, mounted: &str, part: &str) {
    let other = Server::prepare(&format!("sqlite://{}", path.display()), "");
    let mut command = Command::new(if mounted.is_empty() { "sh" } else { "unshare" });
    if !mounted.is_empty() {
        command.args(["--mount", "sh"]);
    }
    let Output { status, stderr, .. } = command
        .args(["-c", &format!("{mounted} exec timeout 30 \"$@\""), "sh", env!("CARGO_BIN_EXE_hooklatch")])
        .args(["serve", "--config"])
        .arg(other.config())
        .output()
        .unwrap();
    let text = String::from_utf8(stderr).unwrap();
    assert!(status.code() == Some(1) && text.contains(part), "{status}: {text}");
    assert!(text.contains(path.to_str().unwrap()), "{text}");
}

#[tokio::test]
async fn a_second_server_is_refused_by_whatever_name() {
    let mut world = World::start().await;
    assert_eq!(world.post("evt_1").await.as_deref(), Ok("accepted"));
    let (file, link) = (world.file("hl.db"), world.home.path().join("link.db"));
    is_refused(&file, "", "is held by another process");
    // A cleanup deletes the lock file: the database file itself is locked, too.
    std::fs::remove_file(world.file("hl.db.lock")).unwrap();
    is_refused(&file, "", "is held by another process");
    std::fs::hard_link(&file, &link).unwrap();
    is_refused(&link, "", "(hard links)");
    is_refused(&file, "", "(hard links)");
    let other = world.home.path().join("backup").display().to_string();
    let (code, text) = world.server.command("", &["backup", &other]);
    assert!(code == 1 && text.contains("(hard links)"), "{text}");
    assert_eq!(world.post("evt_2").await.as_deref(), Ok("accepted"), "the first one goes on");
    std::fs::remove_file(&link).unwrap();
    world.server.kill();
    world.server.spawn().await;
    assert_eq!(world.post("evt_2").await.as_deref(), Ok("duplicate"));
    assert!(!world.home.path().join("link.db-wal").exists());
}

#[tokio::test]
async fn a_file_that_is_mounted_by_itself_is_refused() {
    let mut world = World::start().await;
    assert!(world.server.terminate());
    let alone = world.home.path().join("a b.db");
    std::fs::write(&alone, "").unwrap();
    let mount = format!("mount --bind '{}' '{}' &&", world.file("hl.db").display(), alone.display());
    let can_mount = Command::new("unshare").args(["--mount", "sh", "-c", &format!("{mount} true")]).status();
    if !can_mount.is_ok_and(|ended| ended.success()) {
        return needs::skip("unshare");
    }
    is_refused(&alone, &mount, "Mount its folder, not the file");
    assert!(!world.home.path().join("a b.db-wal").exists());
}

#[tokio::test]
async fn no_new_database_is_created_beside_the_witness_of_an_old_one() {
    let mut world = World::start().await;
    assert_eq!(world.post("evt_1").await.as_deref(), Ok("accepted"));
    assert!(world.server.terminate());
    let (file, saved) = (world.file("hl.db"), world.home.path().join("saved.db"));
    std::fs::rename(&file, &saved).unwrap();
    let refused = "remove the witness";
    is_refused(&file, "", refused);
    let (code, text) = world.server.command("", &["migrate"]);
    assert!(code == 1 && text.contains("is missing or empty") && text.contains(refused), "{text}");
    assert!(!file.exists(), "nothing is made that would be in the way of the right file");
    std::fs::write(&file, "").unwrap();
    is_refused(&file, "", refused);
    // Nor with an empty database that was created elsewhere.
    let mut young = Server::start(&format!("sqlite://{}", world.file("young.db").display()), "").await;
    assert!(young.terminate());
    std::fs::rename(world.file("young.db"), &file).unwrap();
    let (code, text) = world.server.command("", &["serve"]);
    assert!(code == 1 && text.contains("has no event") && text.contains(refused), "{text}");
    // Whoever asks what it is, is told the same, and cannot take it over.
    for arguments in [
        &["restore-check"][..],
        &["restore-check", "--yes", "--backed-up-at", "1h", "--reason", "r"],
        &["restore-check", "--yes", "--moved", "--reason", "r"],
    ] {
        let (code, text) = world.server.command("", arguments);
        assert!(
            code == 1 && text.contains("has no event") && text.contains(refused),
            "{arguments:?}: {text}"
        );
    }
    // Nor with a file in which nothing is, as `cp` without the log makes it of a young database.
    std::fs::remove_file(&file).unwrap();
    let url = format!("sqlite://{}", file.display());
    std::fs::write(&file, "").unwrap();
    let mut bare = SqliteConnection::connect(&url).await.unwrap();
    bare.execute("PRAGMA journal_mode = WAL; PRAGMA user_version = 1").await.unwrap();
    bare.close().await.unwrap();
    for command in ["serve", "migrate", "restore-check"] {
        let (code, text) = world.server.command("", &[command]);
        let is_refused =
            text.contains("has no tables") && text.contains("its -wal") && text.contains(refused);
        assert!(code == 1 && is_refused, "{command}: {text}");
    }
    let mut bare = SqliteConnection::connect(&url).await.unwrap();
    let tables_n: i64 =
        sqlx::query_scalar("SELECT COUNT(*) FROM sqlite_master").fetch_one(&mut bare).await.unwrap();
    assert_eq!(tables_n, 0, "nothing is made that would be in the way of the right file");
    bare.close().await.unwrap();
    std::fs::rename(&saved, &file).unwrap();
    world.server.spawn().await;
    assert_eq!(world.post("evt_1").await.as_deref(), Ok("duplicate"));
    // It is meant.
    assert!(world.server.terminate());
    for name in ["hl.db", "hl.db.witness"] {
        std::fs::remove_file(world.file(name)).unwrap();
    }
    world.server.spawn().await;
    assert_eq!(world.post("evt_1").await.as_deref(), Ok("accepted"));
}

async fn refuses_a_missing_one(database: &Database) {
    let mut server = Server::prepare(&database.url, "");
    let config = std::fs::read_to_string(server.config()).unwrap();
    std::fs::write(server.config(), config.replace("[database]", "[database]\ncreate = false")).unwrap();
    let path = database.url.strip_prefix("sqlite://").map(PathBuf::from);
    for command in ["serve", "keys", "prune"] {
        let (code, text) = server.command("", &[command]);
        assert_eq!(code, 1, "{command}: {text}");
        let what =
            path.as_ref().map_or("has no tables".to_owned(), |path| format!("`{}` is", path.display()));
        for part in ["hooklatch.toml: database.create: `false`", &what, "run `hooklatch migrate`"] {
            assert!(text.contains(part), "{command}: {part}: {text}");
        }
        assert!(path.as_ref().is_none_or(|path| !path.exists()), "{command}: nothing is created");
    }
    if let Some(path) = &path {
        std::fs::write(path, "").unwrap();
        let (code, text) = server.command("", &["serve"]);
        assert!(code == 1 && text.contains("is missing or empty"), "{text}");
    }
    let (code, text) = server.command("", &["migrate"]);
    assert!(code == 0 && text.contains("applied"), "{text}");
    server.spawn().await;
    assert_eq!(
        post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.as_deref(),
        Ok("accepted")
    );
}

/// How many locks on this file the server holds that another process would see.
///
/// They are read where the process has the file open: `/proc/locks` is read in pieces, and leaves a lock out when
/// another process gives one of its own up between two of them.
fn locks_n(world: &World, name: &str) -> usize {
    let process = PathBuf::from(format!("/proc/{}", world.server.process_id()));
    let file = world.file(name);
    let open = std::fs::read_dir(process.join("fd")).unwrap().map(|one| one.unwrap().path());
    let is_it = |one: &PathBuf| std::fs::read_link(one).is_ok_and(|to| to == file);
    let texts = open.filter(is_it).map(|one| {
        let info = process.join("fdinfo").join(one.file_name().unwrap());
        // A descriptor that was closed in between holds nothing.
        std::fs::read_to_string(info).unwrap_or_default()
    });
    texts.map(|text| text.lines().filter(|line| line.contains("POSIX")).count()).sum()
}

#[tokio::test]
async fn a_program_that_opens_writes_and_closes_the_file_beside_us_takes_nothing_away() {
    if !has_sqlite3() {
        return needs::skip("sqlite3");
    }
    let mut world = World::start().await;
    let sqlite = |sql: &str| {
        let mut command = Command::new("sqlite3");
        let ran = command.arg(world.file("hl.db")).args(["-cmd", ".timeout 5000", sql]).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    };
    for n in 0..20 {
        assert_eq!(world.post(&format!("evt_{n}")).await.as_deref(), Ok("accepted"), "{n}");
        if n == 5 {
            // All that looks at the file from within.
            examine(&world.server, &["--no-probe", "--deep"]).await;
            world.server.admin_text("/metrics").await;
            let to = world.home.path().join("backup").display().to_string();
            assert_eq!(world.server.command("", &["backup", &to]).0, 0);
        }
        // The last process to close the file empties its log and deletes it: these locks show that we have it open.
        assert!(locks_n(&world, "hl.db") > 0 && locks_n(&world, "hl.db-shm") > 0, "{n}");
        sqlite("CREATE TABLE IF NOT EXISTS theirs (n); INSERT INTO theirs VALUES (1);");
        assert!(world.file("hl.db-wal").exists());
    }
    assert!(world.is_ready().await);
    assert_eq!(sqlite("SELECT COUNT(*) FROM theirs; PRAGMA integrity_check;"), "20\nok\n");
    world.server.kill();
    world.server.spawn().await;
    for n in 0..20 {
        assert_eq!(world.post(&format!("evt_{n}")).await.as_deref(), Ok("duplicate"), "{n}");
    }
}
