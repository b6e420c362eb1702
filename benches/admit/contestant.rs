//! Who is compared: each a process of its own on a database of its own, made for one window and dropped.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::load::{self, Body, Measured, SECRET};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Db {
    Postgres,
    Sqlite,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contestant {
    HandWritten,
    VerifyOnly,
    Hooklatch,
    /// As `Hooklatch`, of a kind that goes by the content instead of the sender's id.
    ContentKeys,
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Contestant {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::HandWritten => "(a) hand-written, one transaction",
            Self::VerifyOnly => "(b) Hooklatch, verification alone",
            Self::Hooklatch => "(c) Hooklatch, admitted",
            Self::ContentKeys => "(d) the same, content keys",
        }
    }

    pub(crate) async fn measure(
        self,
        db: Db,
        connections_n: usize,
        warm_up: Duration,
        window: Duration,
    ) -> Measured {
        let folder = tempfile::tempdir().unwrap();
        let server = std::env::var("HOOKLATCH_TEST_POSTGRES_URL").unwrap_or_default();
        let name = format!("hooklatch_bench_{:x}", fastrand::u32(..));
        let url = match db {
            Db::Sqlite => format!("sqlite://{}", folder.path().join("bench.db").display()),
            Db::Postgres => {
                admin(&server, format!("CREATE DATABASE {name}")).await;
                admin(&server, "CHECKPOINT".to_owned()).await;
                format!("{}/{name}", server.rsplit_once('/').unwrap().0)
            }
        };
        let (addr, silent) = (free_port(), TcpListener::bind("127.0.0.1:0").unwrap());
        let process = Process(self.command(addr, &url, &silent, folder.path()).spawn().unwrap());
        wait_for(addr).await;
        let body = if self == Self::VerifyOnly { Body::Challenge } else { Body::Event };
        let cpu_us = || cpu_us(process.0.id(), db);
        let measured = load::run(addr, body, connections_n, (warm_up, window), cpu_us).await;
        drop(process);
        if db == Db::Postgres {
            admin(&server, format!("DROP DATABASE {name} WITH (FORCE)")).await;
        }
        measured
    }

    fn command(self, addr: SocketAddr, url: &str, silent: &TcpListener, folder: &std::path::Path) -> Command {
        if self == Self::HandWritten {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--hand-written", &addr.to_string(), url]);
            return command;
        }
        // The far side accepts and never answers, one call at a time: messages are written, and calls stay
        // out of the way.
        let config = format!(
            "[server]\nlisten = \"{addr}\"\nconnections_n_max = 4096\n[admin]\nlisten = \"{}\"\n\
             [database]\nurl = \"{url}\"\n[log]\nfilter = \"warn\"\n\
             [outbox]\nlease_ms = 600000\n\
             [destinations.silent]\nurl = \"http://{}\"\ntimeout_ms = 590000\nconcurrency_n = 1\n\
             [providers.stripe]\nsecrets = [\"{SECRET}\"]\n[[providers.stripe.routes]]\non = [\"*\"]\nto = \"silent\"\n\
             [providers.slack]\nsecrets = [\"{SECRET}\"]\n",
            free_port(),
            silent.local_addr().unwrap()
        );
        let file = folder.join("hooklatch.toml");
        let kinds = if self == Self::ContentKeys { content_kind(folder) } else { "" };
        std::fs::write(&file, format!("{config}{kinds}")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
        command.args(["serve", "--config"]).arg(file).current_dir(folder).stdout(Stdio::null());
        command
    }
}

/// Stripe's kind once more in `folder`, told apart by content; what the configuration says about it.
fn content_kind(folder: &std::path::Path) -> &'static str {
    let spec = include_str!("../../providers/stripe/provider.toml");
    let spec = spec.replacen("\nkind =", "\nreplaces_builtin = true\nkind =", 1);
    let (before, identity) = spec.split_once("is = \"sender\"").unwrap();
    let identity = identity.replacen("id = [{ json = \"/id\" }]", "", 1);
    let kind = folder.join("kinds/stripe");
    std::fs::create_dir_all(&kind).unwrap();
    std::fs::write(kind.join("provider.toml"), format!("{before}is = \"content\"{identity}")).unwrap();
    "[kinds]\nfolder = \"kinds\"\n"
}

async fn admin(server: &str, sql: String) {
    let mut db = PgConnection::connect(server).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut db).await.unwrap();
}

fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

async fn wait_for(addr: SocketAddr) {
    let started = Instant::now();
    while tokio::net::TcpStream::connect(addr).await.is_err() {
        assert!(started.elapsed() < Duration::from_secs(20), "nobody listens on {addr}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// CPU time of the server's process and of everything called `postgres`, in microseconds. Linux only; 0
/// elsewhere.
fn cpu_us(server: u32, db: Db) -> u64 {
    let mut ticks = ticks_of(&server.to_string(), false);
    if db == Db::Postgres {
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = entry.file_name().to_string_lossy().into_owned();
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            if name.trim() == "postgres" {
                ticks += ticks_of(&pid, true);
            }
        }
    }
    // A tick is a hundredth of a second on every Linux that matters here.
    ticks * 10_000
}

/// User and system time of a process in ticks, with that of its ended children if they count.
fn ticks_of(pid: &str, with_children: bool) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<u64> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .map(|field| field.parse().unwrap_or(0))
        .collect();
    let wanted = if with_children { 11..15 } else { 11..13 };
    fields.get(wanted).map_or(0, |times| times.iter().sum())
}
