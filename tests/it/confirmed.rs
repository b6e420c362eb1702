//! What the disk or the database did not confirm is not acknowledged; a commit with a lost confirmation is stored once.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sqlx::{Connection, Executor, PgConnection, SqliteConnection};

use crate::database::{Database, On};
use crate::process::{Server, client, post_stripe, until};

/// Number of times that all sessions are cut, one after the other.
const CUTS_N: u32 = 10;

/// Makes every flush fail while the file that `FAILS` names is there.
const FAILING_FLUSH: &str = r#"
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static int fails(void) {
    const char *name = getenv("FAILS");
    return name != NULL && access(name, F_OK) == 0;
}
int fsync(int file) {
    if (fails()) { errno = EIO; return -1; }
    return (int)syscall(SYS_fsync, file);
}
int fdatasync(int file) {
    if (fails()) { errno = EIO; return -1; }
    return (int)syscall(SYS_fdatasync, file);
}
"#;

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_disk_did_not_flush_is_not_acknowledged() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [source, shim, fails] = ["shim.c", "shim.so", "fails"].map(|name| folder.path().join(name));
    std::fs::write(&source, FAILING_FLUSH).unwrap();
    // The compiler that SQLite was built with.
    let made = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&shim, &source]).status();
    assert!(made.unwrap().success());
    let mut server = Server::prepare(&database.url, "");
    let preload = format!("LD_PRELOAD={}", shim.display());
    server.start_after(format!("export {preload} FAILS={}", fails.display()));
    server.spawn().await;
    let (client, url) = (client(), server.url("/webhooks/stripe"));
    assert_eq!(post_stripe(&client, &url, "evt_1").await.unwrap(), "accepted");
    std::fs::write(&fails, "").unwrap();
    for n in 2..6 {
        assert_eq!(post_stripe(&client, &url, &format!("evt_{n}")).await.unwrap_err(), "503");
    }
    std::fs::remove_file(&fails).unwrap();
    until(
        "it takes events again",
        Duration::from_secs(10),
        || server.log(),
        async || post_stripe(&client, &url, "evt_9").await.is_ok(),
    )
    .await;
    server.kill();
    server.spawn().await;
    assert_eq!(post_stripe(&client, &url, "evt_1").await.unwrap(), "duplicate");
    assert_eq!(post_stripe(&client, &url, "evt_9").await.unwrap(), "duplicate");
    for n in 2..6 {
        // One that was refused may be there, as after any commit of unknown outcome; none is there twice.
        post_stripe(&client, &url, &format!("evt_{n}")).await.unwrap();
    }
    assert_eq!(database.count("SELECT COUNT(*) FROM processed_webhook_events").await, 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_confirmed_with_a_warning_is_not_acknowledged() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let server = Server::start(&database.url, "").await;
    let (client, url) = (client(), server.url("/webhooks/stripe"));
    let mut db = PgConnection::connect(&database.url).await.unwrap();
    // In the words of a wait for the synchronous standby that was cancelled.
    let warn = "CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                RAISE WARNING 'canceling wait for synchronous replication due to user request'; RETURN NULL; END $$;
                CREATE CONSTRAINT TRIGGER warned AFTER INSERT ON processed_webhook_events
                DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION warn()";
    db.execute(sqlx::raw_sql(warn)).await.unwrap();
    assert_eq!(post_stripe(&client, &url, "evt_1").await.unwrap_err(), "503");
    db.execute(sqlx::raw_sql("DROP TRIGGER warned ON processed_webhook_events")).await.unwrap();
    assert_eq!(post_stripe(&client, &url, "evt_1").await.unwrap(), "duplicate", "it was there, unsafely");
    assert_eq!(post_stripe(&client, &url, "evt_2").await.unwrap(), "accepted");
}

#[cfg(feature = "brokers")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_whose_commit_was_never_confirmed_is_stored_once() {
    use crate::brokers::proxy::{Mode, Proxy};
    use crate::stub::Stub;
    let Some(database) = Database::create(On::Postgres).await else { return };
    let (before, after) = database.url.rsplit_once(':').unwrap();
    let (port, name) = after.split_once('/').unwrap();
    let proxy = Proxy::before(port.parse().unwrap(), b"evt_lost", false).await;
    let destination = Stub::start().await;
    let more = format!(
        "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"bank\"\n[outbox]\nlease_ms = 2000\npoll_ms = 50\n\
         [destinations.bank]\nurl = \"{}\"\ntimeout_ms = 1000\n",
        destination.url()
    );
    let server = Server::start(&format!("{before}:{}/{name}", proxy.port), &more).await;
    let (client, url) = (client(), server.url("/webhooks/stripe"));
    for n in 0..3 {
        let id = format!("evt_lost_{n}");
        proxy.is(Mode::LoseAnswer);
        assert_eq!(post_stripe(&client, &url, &id).await.unwrap_err(), "503", "the outcome is unknown");
        proxy.is(Mode::Pass);
        assert_eq!(post_stripe(&client, &url, &id).await.unwrap(), "duplicate", "it had been committed");
    }
    let done = "SELECT COUNT(*) FROM outbox_messages WHERE state = 'done'";
    until("each is done", Duration::from_secs(20), || server.log(), async || database.count(done).await == 3)
        .await;
    let keys = database.call_keys().await;
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| destination.call(key).effects_n == 1), "one effect each");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_are_cut_under_load_lose_nothing_that_was_acknowledged() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let server = Server::start(&database.url, "").await;
    let (acknowledged_n, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let senders: Vec<_> = (0..8)
        .map(|sender| {
            let (client, url) = (client(), server.url("/webhooks/stripe"));
            let (acknowledged_n, is_over) = (Arc::clone(&acknowledged_n), Arc::clone(&is_over));
            tokio::spawn(async move {
                let (mut acknowledged, mut n) = (Vec::new(), 0);
                while !is_over.load(Ordering::Relaxed) {
                    let id = format!("evt_{sender}_{n}");
                    n += 1;
                    if post_stripe(&client, &url, &id).await.is_ok() {
                        acknowledged.push(id);
                        acknowledged_n.fetch_add(1, Ordering::Relaxed);
                    }
                }
                acknowledged
            })
        })
        .collect();
    let mut db = PgConnection::connect(&database.url).await.unwrap();
    for _ in 0..CUTS_N {
        let before_n = acknowledged_n.load(Ordering::Relaxed);
        let goes_on = async || acknowledged_n.load(Ordering::Relaxed) > before_n;
        until("it goes on between the cuts", Duration::from_secs(20), || server.log(), goes_on).await;
        let cut = "SELECT pg_terminate_backend(pid, 1000), pg_sleep(0.05) FROM pg_stat_activity
                   WHERE application_name = 'hooklatch' AND datname = current_database()";
        db.execute(sqlx::raw_sql(cut)).await.unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    for sender in senders {
        for id in sender.await.unwrap() {
            let sql = "SELECT event_id FROM processed_webhook_events WHERE event_id = $1";
            let found: Option<String> =
                sqlx::query_scalar(sql).bind(&id).fetch_optional(&mut db).await.unwrap();
            assert!(found.is_some(), "`{id}` was acknowledged and is lost");
        }
    }
    eprintln!("{acknowledged_n:?} events acknowledged between the cuts");
}

#[tokio::test]
async fn the_sqlite_that_is_built_in_has_no_known_corruption() {
    // What the tests link is what the program links; `serve` refuses an older one.
    let mut db = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    let version: String = sqlx::query_scalar("SELECT sqlite_version()").fetch_one(&mut db).await.unwrap();
    let parts: Vec<u32> = version.split('.').map(|part| part.parse().unwrap()).collect();
    assert!(parts >= vec![3, 51, 3], "sqlite.org/wal.html#walresetbug: {version}");
}
