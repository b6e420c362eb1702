//! The real binary as a process of its own: started, called, killed, restarted.

use std::fs::Permissions;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A server that lives in a process of its own, on ports of its own.
pub struct Server {
    pub receiver: SocketAddr,
    pub admin: SocketAddr,
    folder: TempDir,
    child: Option<Child>,
    /// What a shell does before it becomes the server.
    before: Option<String>,
    /// What it gets as its standard input.
    input: Option<OwnedFd>,
    is_dev: bool,
}

/// The secret every test's Stripe provider has.
pub const SECRET: &str = "whsec_test_0123456789abcdef";

impl Server {
    /// Writes a configuration with a `stripe` provider and `more` TOML, and starts.
    pub async fn start(database_url: &str, more: &str) -> Self {
        let mut server = Self::prepare(database_url, more);
        server.spawn().await;
        server
    }

    /// Everything but the start.
    pub fn prepare(database_url: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (receiver, admin) = free_ports();
        let config = format!(
            "[server]\nlisten = \"{receiver}\"\nheader_timeout_ms = 2000\n\
             [admin]\nlisten = \"{admin}\"\n[database]\nurl = \"{database_url}\"\n[log]\nfilter = \"warn\"\n\
             [providers.stripe]\nsecrets = [\"{SECRET}\"]\n{more}"
        );
        let file = folder.path().join("hooklatch.toml");
        std::fs::write(&file, config).unwrap();
        // It holds secrets.
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        Self { receiver, admin, folder, child: None, before: None, input: None, is_dev: false }
    }

    /// Replaces all of `[server]` but its addresses with these lines; before the start.
    pub fn server_keys(&self, keys: &str) {
        let text = std::fs::read_to_string(self.config()).unwrap();
        let (before, rest) = text.split_once("header_timeout_ms").unwrap();
        let (_, after) = rest.split_once("[admin]").unwrap();
        std::fs::write(self.config(), format!("{before}{keys}\n[admin]{after}")).unwrap();
    }

    /// A `serve --dev`, with the providers and secrets of the mode besides the test's.
    pub async fn dev() -> Self {
        let mut server = Self::prepare("sqlite://dev.db", "");
        server.is_dev = true;
        server.spawn().await;
        server
    }

    /// Starts it from a shell that has done this, such as `ulimit -n 400`.
    pub fn start_after(&mut self, command: impl Into<String>) {
        self.before = Some(command.into());
    }

    /// Starts it from a shell that has done this, with a socket as its standard input.
    pub fn start_with(&mut self, input: impl Into<OwnedFd>, command: impl Into<String>) {
        self.input = Some(input.into());
        self.start_after(command);
    }

    /// Path of its configuration file.
    pub fn config(&self) -> PathBuf {
        self.folder.path().join("hooklatch.toml")
    }

    /// Runs `hooklatch` with this server's configuration and a token: its exit code, and all of its output.
    pub fn command(&self, token: &str, arguments: &[&str]) -> (i32, String) {
        let ran = Command::new(env!("CARGO_BIN_EXE_hooklatch"))
            .args(arguments)
            .arg("--config")
            .arg(self.config())
            .env("HOOKLATCH_TOKEN", token)
            .env("HOME", self.folder.path())
            .output()
            .unwrap();
        (ran.status.code().unwrap(), String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap())
    }

    /// Text of its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Starts the process and waits until it reports that it is ready.
    pub async fn spawn(&mut self) {
        let log =
            std::fs::File::options().create(true).append(true).open(self.folder.path().join("log")).unwrap();
        let mut command = match &self.before {
            None => Command::new(env!("CARGO_BIN_EXE_hooklatch")),
            Some(before) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("{before} && exec \"$0\" \"$@\"")]);
                shell.arg(env!("CARGO_BIN_EXE_hooklatch"));
                shell
            }
        };
        let child = command
            .args(if self.is_dev { &["serve", "--dev", "--config"][..] } else { &["serve", "--config"] })
            .arg(self.config())
            .current_dir(self.folder.path())
            .stdin(self.input.as_ref().map_or_else(Stdio::null, |input| input.try_clone().unwrap().into()))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
        let admin = self.admin;
        let (log, client) = (|| self.log(), client());
        until("the server is ready", Duration::from_secs(30), log, async || {
            let ready = client.get(format!("http://{admin}/readyz")).send().await;
            ready.is_ok_and(|response| response.status().is_success())
        })
        .await;
    }

    /// SIGKILL: nothing is finished, nothing is flushed.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// SIGTERM, and whether it ended well.
    pub fn terminate(&mut self) -> bool {
        if self.child.is_none() {
            return false;
        }
        self.signal();
        self.wait()
    }

    /// SIGTERM, and no more.
    pub fn signal(&self) {
        let id = self.process_id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    }

    /// Waits for its end; returns whether it succeeded.
    pub fn wait(&mut self) -> bool {
        self.child.take().is_some_and(|mut child| child.wait().unwrap().success())
    }

    /// Id of the process that runs now.
    pub fn process_id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// The most memory it had so far, and how many files are open. Bytes; number.
    pub fn usage(&self) -> (u64, usize) {
        let id = self.process_id();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        (kib * 1024, std::fs::read_dir(format!("/proc/{id}/fd")).unwrap().count())
    }

    /// Address of `path` at its receiver.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.receiver)
    }

    /// A page of the operator side.
    pub async fn admin_text(&self, path: &str) -> String {
        client().get(format!("http://{}{path}", self.admin)).send().await.unwrap().text().await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("---- log of the server\n{}", self.log());
        }
    }
}

/// Two free ports: the second one is looked for while the first one is taken.
pub fn free_ports() -> (SocketAddr, SocketAddr) {
    let first = free_listener();
    (first.local_addr().unwrap(), free_port())
}

/// A free port that the system gives to no outgoing connection while its server is being restarted: it
/// is below those that the system gives away (from 32,768 on Linux, from 49,152 elsewhere). No other test that runs at
/// the same time is given it either, and this one is given it once.
pub fn free_port() -> SocketAddr {
    free_listener().local_addr().unwrap()
}

fn free_listener() -> TcpListener {
    /// Ports of each of the tests that run at the same time.
    const SLOT_PORTS_N: u16 = 500;
    static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| AtomicU16::new(fastrand::u16(..)));
    let slot = std::env::var("NEXTEST_TEST_GLOBAL_SLOT").ok().and_then(|slot| slot.parse::<u16>().ok());
    let (first, ports_n) = slot.map_or((12_000, 20_000), |n| (12_000 + n % 40 * SLOT_PORTS_N, SLOT_PORTS_N));
    let mut tries = (0..1_000).map(|_| {
        let port = first + NEXT.fetch_add(1, Ordering::SeqCst) % ports_n;
        TcpListener::bind(("127.0.0.1", port))
    });
    tries.find_map(Result::ok).expect("a port that is free")
}

/// Polls until `is_so`; a failure shows the text of `more`.
pub async fn until(
    what: &str,
    within: Duration,
    more: impl Fn() -> String,
    mut is_so: impl AsyncFnMut() -> bool,
) {
    let started = Instant::now();
    while !is_so().await {
        assert!(started.elapsed() < within, "not within {within:?}: {what}\n{}", more());
        // The pause between two looks, within the bound above.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A client for the tests' own requests.
pub fn client() -> reqwest::Client {
    // The first test in the process installs it; for the others it is there.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(30)).build().unwrap()
}

/// Now, in unix seconds.
pub fn now_s() -> i64 {
    hooklatch_core::types::Clock::system().now_ms() / 1_000
}

/// A Stripe event of `id`, and the header that signs it at `at_s`.
pub fn stripe(id: &str, at_s: i64) -> (String, String) {
    let body = format!(
        r#"{{"id":"{id}","type":"invoice.paid","created":1767225600,"data":{{"object":{{"id":"in_{id}","amount_paid":500}}}}}}"#
    );
    let header = stripe_header(&body, at_s);
    (body, header)
}

/// The `Stripe-Signature` of any bytes.
pub fn stripe_header(body: impl AsRef<[u8]>, at_s: i64) -> String {
    stripe_signed(body, SECRET, at_s)
}

/// The `Stripe-Signature` by another secret.
pub fn stripe_signed(body: impl AsRef<[u8]>, secret: &str, at_s: i64) -> String {
    use hmac::{Hmac, KeyInit, Mac};
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("{at_s}.").as_bytes());
    mac.update(body.as_ref());
    format!("t={at_s},v1={}", hex::encode(mac.finalize().into_bytes()))
}

/// Sends one signed event; the outcome, or the status of a refusal, or what went wrong with the connection.
pub async fn post_stripe(client: &reqwest::Client, url: &str, id: &str) -> Result<String, String> {
    let (body, header) = stripe(id, now_s());
    let sent = client.post(url).header("stripe-signature", header).body(body).send().await;
    let response = sent.map_err(|error| format!("{error:?}"))?;
    match (response.status().as_u16(), response.headers().get("hooklatch-outcome")) {
        (200, Some(outcome)) => Ok(outcome.to_str().unwrap().to_owned()),
        (status, _) => Err(status.to_string()),
    }
}
