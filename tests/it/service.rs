//! The real process under a service manager: its notifications, the sockets it takes, and how it stops under load.

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::database::{Database, On, on_both};
use crate::process::{SECRET, Server, client, post_stripe, until};

on_both!(
    a_stop_with_a_delay_turns_the_readiness_and_refuses_and_resets_nothing,
    a_restart_on_a_socket_that_stays_open_refuses_nothing,
);

/// Senders that go on, some on connections that they keep, and what became of their events.
struct Senders {
    accepted_n: Arc<AtomicU32>,
    is_over: Arc<AtomicBool>,
    tasks: JoinSet<Vec<String>>,
}

impl Senders {
    fn start(url: &str) -> Self {
        let mut senders = Self { accepted_n: Arc::default(), is_over: Arc::default(), tasks: JoinSet::new() };
        for sender in 0..8 {
            let (url, accepted_n, is_over) =
                (url.to_owned(), Arc::clone(&senders.accepted_n), Arc::clone(&senders.is_over));
            senders.tasks.spawn(async move {
                let client = if sender % 2 == 0 { client() } else { forgetful_client() };
                let mut failed = Vec::new();
                let mut n = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let id = format!("evt_{sender}_{n}");
                    n += 1;
                    match post_stripe(&client, &url, &id).await.as_deref() {
                        Ok("accepted") => drop(accepted_n.fetch_add(1, Ordering::Relaxed)),
                        other => failed.push(format!("{id}: {other:?}")),
                    }
                }
                failed
            });
        }
        senders
    }

    fn accepted_n(&self) -> u32 {
        self.accepted_n.load(Ordering::Relaxed)
    }

    /// Waits for `n` more.
    async fn more(&self, n: u32, server: &Server) {
        let wanted_n = self.accepted_n() + n;
        let log = || server.log();
        until("more are accepted", Duration::from_secs(20), log, async || self.accepted_n() >= wanted_n)
            .await;
    }

    /// Ends them; how many were accepted, and what failed.
    async fn end(self) -> (u32, Vec<String>) {
        self.is_over.store(true, Ordering::Relaxed);
        let failed = self.tasks.join_all().await.concat();
        (self.accepted_n.load(Ordering::Relaxed), failed)
    }
}

/// A client that keeps no connection.
fn forgetful_client() -> reqwest::Client {
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder()
        .no_proxy()
        .pool_max_idle_per_host(0)
        .timeout(Duration::from_secs(30))
        .build()
        .unwrap()
}

async fn is_ready(server: &Server) -> Option<bool> {
    let answer = client().get(format!("http://{}/readyz", server.admin)).send().await.ok()?;
    Some(answer.status().is_success())
}

async fn a_stop_with_a_delay_turns_the_readiness_and_refuses_and_resets_nothing(database: &Database) {
    let mut server = Server::prepare(&database.url, "");
    server.server_keys("stop_delay_ms = 300000");
    server.spawn().await;
    let senders = Senders::start(&server.url("/webhooks/stripe"));
    senders.more(50, &server).await;
    server.signal();
    until(
        "it says that it goes",
        Duration::from_secs(20),
        || server.log(),
        async || is_ready(&server).await == Some(false),
    )
    .await;
    assert!(server.admin_text("/readyz").await.contains(r#""accepting":"away""#));
    // A load balancer has not looked yet.
    senders.more(200, &server).await;
    let kept = client();
    let answer = kept.get(server.url("/nowhere")).send().await.unwrap();
    assert_eq!(answer.headers()["connection"], "close", "who asks again asks another one");
    let (accepted_n, failed) = senders.end().await;
    assert!(failed.is_empty(), "{failed:?}");
    server.signal();
    assert!(server.wait(), "a second signal ends the delay, in order");
    let kept_n = database.count("SELECT COUNT(*) FROM processed_webhook_events").await;
    assert_eq!(kept_n, i64::from(accepted_n));
}

async fn a_restart_on_a_socket_that_stays_open_refuses_nothing(database: &Database) {
    let mut server = Server::prepare(&database.url, "");
    server.server_keys("stop_delay_ms = 300");
    let socket = TcpListener::bind(server.receiver).unwrap();
    server
        .start_with(socket, "exec 3<&0 </dev/null; export LISTEN_FDS=1 LISTEN_FDNAMES=server LISTEN_PID=$$");
    server.spawn().await;
    let senders = Senders::start(&server.url("/webhooks/stripe"));
    for _ in 0..3 {
        senders.more(50, &server).await;
        server.signal();
        let server = &mut server;
        let ended = tokio::task::block_in_place(|| server.wait());
        assert!(ended, "in order");
        server.spawn().await;
    }
    senders.more(50, &server).await;
    let (accepted_n, failed) = senders.end().await;
    assert!(failed.is_empty(), "{failed:?}");
    assert!(server.terminate(), "in order");
    let kept_n = database.count("SELECT COUNT(*) FROM processed_webhook_events").await;
    assert_eq!(kept_n, i64::from(accepted_n));
}

#[tokio::test]
async fn a_partial_request_head_does_not_delay_the_shutdown() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let mut server = Server::prepare(&database.url, "[outbox]\nstop_timeout_ms = 60000\n");
    server.server_keys("header_timeout_ms = 60000");
    server.spawn().await;
    let strangers = [server.receiver, server.admin].map(|address| {
        let mut stranger = std::net::TcpStream::connect(address).unwrap();
        stranger.write_all(b"POST /webh").unwrap();
        stranger
    });
    // Their bytes are there once a later connection was answered.
    assert!(is_ready(&server).await.is_some());
    assert_eq!(
        post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.as_deref(),
        Ok("accepted")
    );
    let began = Instant::now();
    assert!(server.terminate(), "in order");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert!(!server.log().contains("given up"), "{}", server.log());
    drop(strangers);
}

#[tokio::test]
async fn an_unread_or_full_log_delays_neither_events_nor_shutdown() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let (mut near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    while near.write(&[b'x'; 4_096]).is_ok() {}
    near.set_nonblocking(false).unwrap();
    let mut unread = Some(near);
    for (n, into) in ["2>&0 </dev/null", "2>/dev/full"].into_iter().enumerate() {
        let mut server = Server::prepare(&database.url, "");
        let before = format!("exec {into}; export HOOKLATCH__LOG__FILTER=info");
        match unread.take() {
            Some(unread) => server.start_with(unread, before),
            None => server.start_after(before),
        }
        server.spawn().await;
        for event in 0..50 {
            let sent =
                post_stripe(&client(), &server.url("/webhooks/stripe"), &format!("evt_{n}_{event}")).await;
            assert_eq!(sent.as_deref(), Ok("accepted"));
        }
        let counted = server.admin_text("/metrics").await;
        assert!(counted.contains("\nhooklatch_log_lines_left_out_total "), "{into}: {counted}");
        assert!(server.terminate(), "{into}: in order");
    }
}

/// Where a service manager listens.
struct ServiceManager {
    socket: UnixDatagram,
    folder: TempDir,
}

impl ServiceManager {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self { socket, folder }
    }

    /// The shell command by which its successor notifies us.
    fn exported(&self) -> String {
        format!("export NOTIFY_SOCKET={}", self.folder.path().join("notify").display())
    }

    fn next(&self) -> String {
        let mut bytes = [0; 4_096];
        let n = self.socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..n].to_vec()).unwrap()
    }

    /// Everything up to the first one that has this in it.
    fn up_to(&self, part: &str) -> Vec<String> {
        let mut all = Vec::new();
        while !all.last().is_some_and(|one: &String| one.contains(part)) {
            all.push(self.next());
        }
        all
    }
}

#[tokio::test]
async fn a_service_manager_is_notified_of_readiness_status_watchdog_and_stop_timeout() {
    let (database, manager) = (Database::create(On::Sqlite).await.unwrap(), ServiceManager::new());
    let mut server = Server::prepare(&database.url, "[outbox]\nstop_timeout_ms = 2000\n");
    server.start_after(format!("{} WATCHDOG_USEC=400000 WATCHDOG_PID=$$", manager.exported()));
    server.spawn().await;
    let notified = manager.up_to("READY=1").join("\n");
    assert!(notified.starts_with("STATUS=starting"), "{notified}");
    let status = format!("STATUS=ready: receiver on {}, operators on {}", server.receiver, server.admin);
    assert!(notified.ends_with(&format!("READY=1\n{status}\n")), "{notified}");
    for _ in 0..3 {
        assert_eq!(manager.next(), "WATCHDOG=1\n");
    }
    assert!(server.terminate(), "in order");
    let notified = manager.up_to("STOPPING=1").pop().unwrap();
    // 2 s for what is under way, 10 s for what follows.
    assert!(
        notified.contains("STATUS=stopping") && notified.contains("EXTEND_TIMEOUT_USEC=12000000"),
        "{notified}"
    );
}

#[tokio::test]
async fn a_manager_that_reads_nothing_holds_up_neither_the_start_nor_the_stop() {
    let (database, manager) = (Database::create(On::Sqlite).await.unwrap(), ServiceManager::new());
    let others = UnixDatagram::unbound().unwrap();
    others.set_nonblocking(true).unwrap();
    while others.send_to(b"X=1", manager.folder.path().join("notify")).is_ok() {}
    let mut server = Server::prepare(&database.url, "[outbox]\nstop_timeout_ms = 2000\n");
    server.start_after(format!("{} WATCHDOG_USEC=400 WATCHDOG_PID=$$", manager.exported()));
    server.spawn().await;
    assert_eq!(is_ready(&server).await, Some(true));
    assert!(server.terminate(), "in order");
}

/// Ends it even if the test does not come to its end.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A start of the server in `folder` with variables, before which a shell does something.
fn started(server: &Server, before: &str) -> Ended {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{before}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_hooklatch"), "serve"]);
    command.arg("--config").arg(server.config()).stdout(Stdio::null()).stderr(Stdio::piped());
    Ended(command.spawn().unwrap())
}

fn complaint(server: &Server, before: &str) -> String {
    let mut process = started(server, before);
    let mut said = String::new();
    std::io::Read::read_to_string(process.0.stderr.as_mut().unwrap(), &mut said).unwrap();
    assert_eq!(process.0.wait().unwrap().code(), Some(1), "{said}");
    said
}

#[test]
fn a_start_that_waits_for_its_database_obeys_a_stop() {
    let manager = ServiceManager::new();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://x:y@{}/z", closed.local_addr().unwrap());
    drop(closed);
    let server = Server::prepare(&url, "");
    let mut process = started(&server, &manager.exported());
    manager.up_to("STATUS=starting");
    assert!(Command::new("kill").args(["-TERM", &process.0.id().to_string()]).status().unwrap().success());
    assert!(process.0.wait().unwrap().success(), "in order");
}

#[test]
fn sockets_that_do_not_fit_are_refused_with_what_to_do() {
    #[track_caller]
    fn check(server: &Server, before: &str, part: &str) {
        let said = complaint(server, before);
        assert!(said.contains(part), "{before}: {said}");
    }
    let server = Server::prepare("sqlite://sockets.db", "");
    let listen = |n: u32, names: &str| format!("export LISTEN_FDS={n} LISTEN_FDNAMES={names} LISTEN_PID=$$");
    check(&server, &listen(3, "a:b:c"), "3 sockets were handed to us");
    check(&server, &listen(u32::MAX, ""), "4294967295 sockets were handed to us");
    check(&server, &listen(2, "server:web"), "is called `web`");
    check(&server, &format!("{}; exec 3</dev/null", listen(1, "server")), "fd 3 is not a socket");
}

#[tokio::test]
async fn a_secret_may_be_a_credential_of_the_manager() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let mut server = Server::prepare(&database.url, "");
    let text = std::fs::read_to_string(server.config()).unwrap();
    let from = "{ credential = \"stripe.secret\" }";
    std::fs::write(server.config(), text.replace(&format!("\"{SECRET}\""), from)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let exported = format!("export CREDENTIALS_DIRECTORY={}", folder.path().display());
    let said = complaint(&server, &exported);
    assert!(said.contains("LoadCredential=stripe.secret:PATH to the unit"), "{said}");
    assert!(complaint(&server, "unset CREDENTIALS_DIRECTORY").contains("$CREDENTIALS_DIRECTORY is not set"));
    std::fs::write(folder.path().join("stripe.secret"), format!("{SECRET}\n")).unwrap();
    server.start_after(exported);
    server.spawn().await;
    let sent = post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await;
    assert_eq!(sent.as_deref(), Ok("accepted"));
}

#[tokio::test]
async fn health_requests_the_configured_address() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = Server::start(&database.url, "").await;
    let health = |variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
        command.arg("health").arg("--config").arg(server.config()).envs(variables.iter().copied());
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(health(&[]), (true, String::new()));
    let everywhere = format!("0.0.0.0:{}", server.admin.port());
    assert!(health(&[("HOOKLATCH__ADMIN__LISTEN", &everywhere)]).0, "all interfaces are reached by loopback");
    let (_, said) = health(&[("HOOKLATCH__SERVER__LISTN", "x")]);
    assert!(said.starts_with("hooklatch: asking http://127.0.0.1:8081: "), "{said}");
}
