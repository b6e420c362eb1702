//! Who is compared: each a process of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use hooklatch_bench::{Load, LoadPace, Measured, Scratch, Until, WatchedProcesses, listener_of, run};

use crate::collector::CollectorStandIn;
use crate::database::{Database, Db, server_port};
use crate::hand_written;
use crate::requests::{Body, SECRET, mix};

/// Pooled connections of each who is written by hand, over all of its processes.
pub(crate) const CONNECTIONS_N: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub(crate) enum Contestant {
    HandWritten,
    VerifyOnly,
    Hooklatch,
    /// As `Hooklatch`, of a kind that goes by the content instead of the sender's id.
    ContentKeys,
    /// As `Hooklatch`, its messages in one of fifty lanes.
    InLanes,
    /// As `Hooklatch`, telling spans to a collector that is not there.
    TracedGone,
    /// As `Hooklatch`, telling spans to a collector that never answers.
    TracedStalled,
    /// As `Hooklatch`, with a collector that takes everything.
    TracedTaken,
    FastApi,
    Express,
}

/// How one is loaded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How {
    pub(crate) connections_n: usize,
    pub(crate) pace: LoadPace,
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
}

impl Contestant {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::HandWritten => "(a) axum + sqlx by hand",
            Self::VerifyOnly => "(b) Hooklatch, verification alone",
            Self::Hooklatch => "(c) Hooklatch, admitted",
            Self::ContentKeys => "(d) the same, content keys",
            Self::InLanes => "(j) (c), in fifty lanes",
            Self::TracedGone => "(g) (c), traced, collector gone",
            Self::TracedStalled => "(h) (c), traced, collector stalls",
            Self::TracedTaken => "(i) (c), traced, collector takes",
            Self::FastApi => "(e) FastAPI + asyncpg",
            Self::Express => "(f) Express + pg",
        }
    }

    /// Whether it can be started here, and runs on this database.
    pub(crate) fn is_there(self, db: Db) -> bool {
        match self {
            Self::FastApi => db == Db::Postgres && contestants().join("python/bin/uvicorn").exists(),
            Self::Express => db == Db::Postgres && contestants().join("express/node_modules").exists(),
            _ => true,
        }
    }

    /// On an empty database of its own, made for this and dropped.
    pub(crate) async fn measure(self, db: Db, how: &How) -> Measured {
        let scratch = Scratch::new().unwrap();
        let database = Database::create(db, &scratch).await;
        let measured = self.measure_on(&database, scratch, how, "").await;
        database.drop().await;
        measured
    }

    /// On this database; `more` is configuration of Hooklatch's.
    pub(crate) async fn measure_on(
        self,
        database: &Database,
        mut scratch: Scratch,
        how: &How,
        more: &str,
    ) -> Measured {
        if matches!(self, Self::HandWritten | Self::FastApi | Self::Express) {
            hand_written::create_tables(&database.url).await;
        }
        let collector = CollectorStandIn::of(self);
        let more = format!("{more}{}", collector.as_ref().map_or_else(String::new, CollectorStandIn::config));
        self.start_on(database, &mut scratch, &more);
        let postmaster = (database.db == Db::Postgres).then(|| server_port().and_then(listener_of).unwrap());
        let load = Load {
            addr: scratch.addr(),
            connections_n: how.connections_n,
            pace: how.pace,
            warm_up: how.warm_up,
            until: Until::Elapsed(how.window),
            timeout: Duration::from_secs(30),
            watched: WatchedProcesses { server: scratch.process_id(), database: postmaster },
        };
        let body = if self == Self::VerifyOnly { Body::Challenge } else { Body::Event };
        let measured = run(&load, |_| mix(body)).await.unwrap();
        let bad: Vec<_> = measured.answers.iter().filter(|(word, _)| !word.starts_with("200")).collect();
        assert!(measured.errors_n == 0 && bad.is_empty(), "{}: {:?}", self.title(), measured.answers);
        measured
    }

    /// Starts it, and waits until it answers.
    pub(crate) fn start_on(self, database: &Database, scratch: &mut Scratch, more: &str) {
        let mut command = self.command(scratch, &database.url, more);
        scratch.start(&mut command).unwrap();
        wait_for_answers(scratch.addr());
    }

    fn command(self, scratch: &Scratch, url: &str, more: &str) -> Command {
        let workers_n = std::thread::available_parallelism().map_or(1, usize::from);
        let each_n = (CONNECTIONS_N / workers_n).max(1).to_string();
        let (addr, port) = (scratch.addr(), scratch.addr().port().to_string());
        match self {
            Self::HandWritten => {
                let mut command = Command::new(std::env::current_exe().unwrap());
                command.args(["--hand-written", &addr.to_string(), url]);
                command
            }
            Self::FastApi => {
                let mut command = Command::new(contestants().join("python/bin/uvicorn"));
                command.args(["receiver:app", "--app-dir"]).arg(contestants().join("fastapi"));
                command.args(["--host", "127.0.0.1", "--port", &port, "--workers", &workers_n.to_string()]);
                command.args([
                    "--loop",
                    "uvloop",
                    "--http",
                    "httptools",
                    "--no-access-log",
                    "--log-level",
                    "warning",
                ]);
                command.envs([("DATABASE", url), ("SECRET", SECRET), ("CONNECTIONS_N", &each_n)]);
                command
            }
            Self::Express => {
                let mut command = Command::new("node");
                command.arg(contestants().join("express/receiver.mjs")).env("NODE_ENV", "production");
                command.envs([
                    ("DATABASE", url),
                    ("SECRET", SECRET),
                    ("CONNECTIONS_N", &each_n),
                    ("PORT", &port),
                ]);
                command.env("WORKERS_N", workers_n.to_string());
                command
            }
            Self::VerifyOnly
            | Self::Hooklatch
            | Self::ContentKeys
            | Self::InLanes
            | Self::TracedGone
            | Self::TracedStalled
            | Self::TracedTaken => {
                let kinds = if self == Self::ContentKeys { content_kind(scratch.folder()) } else { "" };
                let secrets = format!(
                    "secrets = [\"{SECRET}\"]\n[providers.slack]\nsecrets = [\"{SECRET}\"]\n{more}{kinds}"
                );
                let mut config = scratch.config(url, "stripe", &secrets).unwrap();
                if self == Self::InLanes {
                    let lane = "to = \"silent\", lane = \"payload.customer\"";
                    config = config.replacen("to = \"silent\"", lane, 1);
                }
                let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
                command.args(["serve", "--config"]).arg(scratch.write_config(&config).unwrap());
                command
            }
        }
    }
}

/// Where `scripts/bench compare` puts what it installs.
fn contestants() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/contestants")
}

/// Stripe's kind once more in `folder`, identified by content; its lines of the configuration.
fn content_kind(folder: &Path) -> &'static str {
    let spec = include_str!("../../providers/stripe/provider.toml");
    let spec = spec.replacen("\nkind =", "\nreplaces_builtin = true\nkind =", 1);
    let (before, identity) = spec.split_once("is = \"sender\"").unwrap();
    // What follows the id is about other contents of one id.
    let (_, rest) = identity.split_once("\n[event_types]").unwrap();
    let spec = format!("{before}is = \"content\"\nsigned = true\n\n[event_types]{rest}");
    let kind = folder.join("kinds/stripe");
    std::fs::create_dir_all(&kind).unwrap();
    std::fs::write(kind.join("provider.toml"), spec).unwrap();
    "[kinds]\nfolder = \"kinds\"\n"
}

/// Until several connections in a row got an answer: a port may be open before all workers behind it are there.
fn wait_for_answers(addr: SocketAddr) {
    let started = Instant::now();
    let mut answered_n = 0;
    while answered_n < 20 {
        assert!(started.elapsed() < Duration::from_secs(30), "no answer on {addr}");
        let asked = TcpStream::connect(addr).and_then(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            stream.write_all(
                b"POST /webhooks/stripe HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}",
            )?;
            stream.read(&mut [0; 12])
        });
        answered_n = if asked.is_ok_and(|bytes| bytes > 0) { answered_n + 1 } else { 0 };
    }
}
