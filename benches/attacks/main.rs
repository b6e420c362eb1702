//! What honest senders notice of attacks, and what those cost: for each attack a fresh server, its memory, and the 99th
//! percentile of honest requests before and during it. Ratios within one run; two cores do both sides.
//!
//!   cargo bench --bench attacks                 all of them, half a minute each
//!   cargo bench --bench attacks -- quick        a few seconds each, to see that it works
//!   cargo bench --bench attacks -- idle         those with that in their names
#![expect(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a bench")]

mod requests;
mod strangers;

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use strangers::Attack;
use tempfile::TempDir;

/// The server's binary.
pub(crate) const HOOKLATCH: &str = env!("CARGO_BIN_EXE_hooklatch");
/// What bodies may take (`server.inflight_bytes_max`), and what everything else of an attack may. MiB.
const INFLIGHT_MIB: u64 = 256;
const SLACK_MIB: u64 = 64;
/// Most that the honest 99th percentile may rise.
const RATIO_MAX: f64 = 3.0;
/// An honest request every so often.
const PACE: Duration = Duration::from_millis(10);
/// An honest sender gives up then.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server of its own for one attack: `serve --dev`, so that every kind is there.
pub(crate) struct Server {
    pub(crate) receiver: SocketAddr,
    pub(crate) admin: SocketAddr,
    child: Child,
    _folder: TempDir,
}

impl Server {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (receiver, admin) = (free(), free());
        // Keys that are asked for are never found: nothing listens at the proxy.
        let config = format!(
            "[server]\nlisten = \"{receiver}\"\n[admin]\nlisten = \"{admin}\"\n[log]\nfilter = \"info\"\n\
             [fetch]\nproxy = \"http://127.0.0.1:9\"\n[providers.pubsub]\nkind = \"google_pubsub\"\n\
             settings = {{ audience = \"https://example.com/pubsub\", service_account = \"a@b.example\" }}\n"
        );
        std::fs::write(folder.path().join("hooklatch.toml"), config).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let child = Command::new(HOOKLATCH)
            .args(["serve", "--dev"])
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let server = Self { receiver, admin, child, _folder: folder };
        let began = Instant::now();
        while requests::status(admin, b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n").await != Some(200) {
            assert!(began.elapsed() < Duration::from_mins(1), "the server does not start");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        server
    }

    /// The most memory it had so far, or has now. MiB.
    fn memory_mib(&self, line: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let found = status.lines().find_map(|one| one.strip_prefix(line)).unwrap();
        found.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Honest requests for so long, each on a connection of its own: how long they took, and how many were not accepted.
async fn honest(server: &Server, lasts: Duration, n: &AtomicU64) -> (Histogram<u64>, u64) {
    let mut took_us = Histogram::new_with_bounds(1, 60_000_000, 3).unwrap();
    let mut failed_n = 0;
    let began = Instant::now();
    while began.elapsed() < lasts {
        let request = requests::stripe(n.fetch_add(1, Ordering::Relaxed));
        let sent = Instant::now();
        let status = tokio::time::timeout(PATIENCE, requests::status(server.receiver, &request)).await;
        failed_n += u64::from(status != Ok(Some(200)));
        took_us.saturating_record(u64::try_from(sent.elapsed().as_micros()).unwrap());
        tokio::time::sleep(PACE.saturating_sub(sent.elapsed())).await;
    }
    (took_us, failed_n)
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds for people")]
fn p99_ms(took_us: &Histogram<u64>) -> f64 {
    took_us.value_at_quantile(0.99) as f64 / 1_000.0
}

/// One row of the table; whether it is as it must be.
async fn row(attack: &Attack, (quiet_for, lasts): (Duration, Duration)) -> bool {
    let server = Arc::new(Server::start().await);
    let n = AtomicU64::new(0);
    honest(&server, quiet_for / 4, &n).await;
    let (quiet, quiet_failed_n) = honest(&server, quiet_for, &n).await;
    let idle_mib = server.memory_mib("VmRSS:");
    let is_over = Arc::new(AtomicBool::new(false));
    let strangers = attack.begin(&server, &is_over);
    let (under, failed_n) = honest(&server, lasts, &n).await;
    let peak_mib = server.memory_mib("VmHWM:");
    is_over.store(true, Ordering::Relaxed);
    drop(strangers);
    let (quiet_ms, under_ms) = (p99_ms(&quiet), p99_ms(&under));
    let ratio = under_ms / quiet_ms;
    let is_good = ratio <= RATIO_MAX
        && peak_mib <= idle_mib + INFLIGHT_MIB + SLACK_MIB
        && quiet_failed_n + failed_n == 0;
    println!(
        "| {:<42} | {idle_mib:>4} | {peak_mib:>5} | {quiet_ms:>7.2} | {under_ms:>8.2} | {ratio:>6.1} | {:>5} | {failed_n:>6} | {} |",
        attack.name,
        under.len(),
        if is_good { "held" } else { "NOT " },
    );
    is_good
}

fn main() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let is_quick = words.iter().any(|word| word == "quick");
    let wanted: Vec<&String> = words.iter().filter(|word| *word != "quick").collect();
    let seconds = |quick, full| Duration::from_secs(if is_quick { quick } else { full });
    let times = (seconds(2, 10), seconds(3, 20));
    println!("| {:<42} | idle |  peak | quiet   | under    | ratio  |   n   | failed |      |", "attack");
    println!("| {:<42} |  MiB |   MiB | p99, ms | p99, ms  |        |       |        |      |", "");
    println!("|{:-<44}|------|-------|---------|----------|--------|-------|--------|------|", "");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut held_n = 0;
    let attacks: Vec<Attack> = strangers::attacks()
        .into_iter()
        .filter(|attack| wanted.is_empty() || wanted.iter().any(|word| attack.name.contains(word.as_str())))
        .collect();
    for attack in &attacks {
        held_n += usize::from(runtime.block_on(row(attack, times)));
    }
    println!(
        "\n{held_n} of {} held: honest p99 at most {RATIO_MAX} times its quiet value, none refused, memory below idle + \
         {INFLIGHT_MIB} + {SLACK_MIB} MiB",
        attacks.len()
    );
}
