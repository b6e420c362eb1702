//! Messages a second through the outbox against the same destination called directly with the same concurrency: ratios
//! within one run, on SQLite and (with `HOOKLATCH_TEST_POSTGRES_URL`) PostgreSQL. Through a claim, HTTP and settlement;
//! and handed over in memory by admission, which saves the claim.
//!
//!   scripts/bench outbox                  both databases, 5 rounds
//!   scripts/bench outbox fair             eight good destinations, alone and beside a dead and a slow one
//!   scripts/bench outbox history          cost of a message after 10 k, 1 M, 5 M others
//!   scripts/bench outbox lanes            one lane against calls made one after the other
//!   scripts/bench outbox peers            against another engine (`scripts/peers` installs it)
//!   cargo bench --bench outbox -- --db sqlite --rounds 3
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a bench"
)]

mod destination;
mod engine;
mod history;
mod peers;
mod tables;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use hooklatch_bench::{CpuUs, Spread, WatchedProcesses, listener_of};
use hooklatch_core::types::Name;

use destination::{Client, call_directly};
use engine::{config, drain};
use tables::{Tables, Written};

const MESSAGES_N: usize = 20_000;
const CONCURRENCY_N: u32 = 64;

/// Calls a second, and CPU time of this process and of PostgreSQL for each. Microseconds.
#[derive(Debug, Clone, Copy)]
struct Figures {
    per_second: f64,
    cpu_us: f64,
}

fn main() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let args: Vec<String> = std::env::args().collect();
    let has = |word: &str| args.iter().any(|arg| arg == word);
    let after = |word: &str| args.iter().position(|arg| arg == word).map(|at| args[at + 1].as_str());
    let quick_n = if has("--quick") { 2 } else { 5 };
    let rounds_n = after("--rounds").map_or(quick_n, |n| n.parse().unwrap());
    let server = std::env::var("HOOKLATCH_TEST_POSTGRES_URL").ok();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let (url, calls_n) = destination::start().await;
        for db in ["sqlite", "postgres"] {
            let server = (db == "postgres").then_some(server.as_deref());
            if after("--db").is_some_and(|wanted| wanted != db) {
                continue;
            }
            if server == Some(None) {
                println!("PostgreSQL: HOOKLATCH_TEST_POSTGRES_URL is not set");
                continue;
            }
            let server = server.flatten();
            if has("history") {
                history::measure(&url, &calls_n, server, rounds_n).await;
            } else if has("peers") {
                against_peers(&url, &calls_n, server, rounds_n).await;
            } else if has("lanes") {
                in_one_lane(&url, &calls_n, server, rounds_n).await;
            } else if has("fair") {
                beside_bad_ones(&url, &calls_n, server, rounds_n).await;
            } else {
                against_direct_calls(&url, &calls_n, server, rounds_n).await;
            }
        }
    });
}

fn title(server: Option<&str>) -> &'static str {
    if server.is_some() { "PostgreSQL" } else { "SQLite" }
}

async fn against_direct_calls(url: &str, calls_n: &AtomicUsize, server: Option<&str>, rounds_n: usize) {
    let mut rounds: Vec<[Figures; 4]> = Vec::new();
    for _ in 0..rounds_n {
        let hyper = directly(Client::Hyper, url).await;
        let claimed = through(url, calls_n, server, Written::Ready).await;
        let handed = through(url, calls_n, server, Written::Leased).await;
        let reqwest = directly(Client::Reqwest, url).await;
        rounds.push([hyper, reqwest, claimed, handed]);
    }
    println!("\n{}, {MESSAGES_N} messages, {CONCURRENCY_N} at once, {rounds_n} rounds", title(server));
    let names = ["directly, hyper", "directly, reqwest", "outbox, through a claim", "outbox, handed over"];
    for (n, name) in names.into_iter().enumerate() {
        let of = |what: fn(Figures) -> f64| Spread::of(rounds.iter().map(|round| what(round[n])));
        println!(
            "{name:<26} {:>26} calls/s, CPU {} µs a call",
            of(|one| one.per_second).to_string(),
            of(|one| one.cpu_us)
        );
    }
    for (what, over, under) in [
        ("through a claim / directly, hyper", 2, 0),
        ("through a claim / directly, reqwest", 2, 1),
        ("handed over / directly, hyper", 3, 0),
        ("handed over / directly, reqwest", 3, 1),
    ] {
        let calls = Spread::of(rounds.iter().map(|round| round[over].per_second / round[under].per_second));
        let cpu = Spread::of(rounds.iter().map(|round| round[under].cpu_us / round[over].cpu_us));
        println!("{what:<40} calls {calls}, CPU the other way round {cpu}");
    }
}

async fn against_peers(url: &str, calls_n: &AtomicUsize, server: Option<&str>, rounds_n: usize) {
    let Some(server) = server else { return };
    for (is_tuned, name) in [(false, "graphile-worker"), (true, "graphile-worker, tuned")] {
        let mut ratios = Vec::new();
        for _ in 0..rounds_n {
            let Some(peer) = peers::graphile_worker(server, url, is_tuned).await else {
                println!("{name} is not installed, or failed: scripts/peers");
                return;
            };
            let through = through(url, calls_n, Some(server), Written::Ready).await.per_second;
            println!("{name} {peer:.0}/s, through the outbox {through:.0}/s");
            ratios.push(through / peer);
        }
        println!("PostgreSQL: outbox / {name} {}", Spread::of(ratios.into_iter()));
    }
}

/// One lane, whose messages go one after the other: against direct calls, and against what a call and a commit take.
async fn in_one_lane(url: &str, calls_n: &AtomicUsize, server: Option<&str>, rounds_n: usize) {
    for (to, url, messages_n) in
        [("at once", url.to_owned(), 2_000), ("after 20 ms", format!("{url}/20ms"), 150)]
    {
        let (mut of_direct, mut of_bound) = (Vec::new(), Vec::new());
        for _ in 0..rounds_n {
            let started = Instant::now();
            call_directly(Client::Hyper, &url, messages_n, 1).await;
            let direct = per_second(messages_n, started.elapsed());
            let mut tables = Tables::new(server).await;
            tables.fill(&["far"], messages_n as u64, Written::Laned).await;
            let config = config(&url, CONCURRENCY_N);
            let to = BTreeMap::from([(Name::parse("far").unwrap(), config)]);
            let lane = per_second(messages_n, drain(&tables, to, calls_n, messages_n, None).await);
            let commit_s = tables.commit_s().await;
            tables.close().await;
            println!(
                "one after the other {direct:.0}/s, in a lane {lane:.0}/s, a commit {:.2} ms",
                commit_s * 1e3
            );
            of_direct.push(lane / direct);
            of_bound.push(lane * (1.0 / direct + commit_s));
        }
        let (of_direct, of_bound) = (Spread::of(of_direct.into_iter()), Spread::of(of_bound.into_iter()));
        println!(
            "{}, answered {to}: lane / one after the other {of_direct}, lane / (call and commit) {of_bound}",
            title(server)
        );
    }
}

/// Eight good destinations, with a dead and a slow one beside them or alone: calls a second of the good ones.
async fn beside_bad_ones(url: &str, calls_n: &AtomicUsize, server: Option<&str>, rounds_n: usize) {
    let mut ratios = Vec::new();
    for _ in 0..rounds_n {
        let alone = among_others(url, calls_n, server, false).await;
        let beside = among_others(url, calls_n, server, true).await;
        println!("eight alone {alone:.0}/s, beside a dead and a slow one {beside:.0}/s");
        ratios.push(beside / alone);
    }
    println!(
        "{}: eight beside a dead and a slow one / alone {}",
        title(server),
        Spread::of(ratios.into_iter())
    );
}

#[expect(clippy::cast_precision_loss, reason = "a figure")]
fn per_second(n: usize, took: Duration) -> f64 {
    n as f64 / took.as_secs_f64()
}

/// This process, in which the destination is as well, and PostgreSQL.
fn cpu(server: Option<&str>) -> CpuUs {
    let port = server.and_then(|url| url.rsplit_once('/')?.0.rsplit_once(':')?.1.parse().ok());
    WatchedProcesses { server: None, database: port.and_then(listener_of) }.read()
}

#[expect(clippy::cast_precision_loss, reason = "a figure")]
fn figures(used: CpuUs, took: Duration) -> Figures {
    let us = used.generator.unwrap_or_default() + used.database.unwrap_or_default();
    Figures { per_second: per_second(MESSAGES_N, took), cpu_us: us as f64 / MESSAGES_N as f64 }
}

async fn directly(client: Client, url: &str) -> Figures {
    let (before, started) = (cpu(None), Instant::now());
    call_directly(client, url, MESSAGES_N, CONCURRENCY_N).await;
    figures(cpu(None).since(before), started.elapsed())
}

async fn through(url: &str, calls_n: &AtomicUsize, server: Option<&str>, written: Written) -> Figures {
    let mut tables = Tables::new(server).await;
    let first = tables.fill(&["far"], MESSAGES_N as u64, written).await;
    let to = BTreeMap::from([(Name::parse("far").unwrap(), config(url, CONCURRENCY_N))]);
    let before = cpu(server);
    let handed = (written == Written::Leased).then_some(first);
    let took = drain(&tables, to, calls_n, MESSAGES_N, handed).await;
    let used = cpu(server).since(before);
    assert_eq!(tables.open_n().await, 0, "all are settled once it has stopped");
    tables.close().await;
    figures(used, took)
}

async fn among_others(url: &str, calls_n: &AtomicUsize, server: Option<&str>, has_bad: bool) -> f64 {
    const GOOD: [&str; 8] = ["g1", "g2", "g3", "g4", "g5", "g6", "g7", "g8"];
    const EACH_N: usize = 2_500;
    let mut tables = Tables::new(server).await;
    tables.fill(&GOOD, EACH_N as u64, Written::Ready).await;
    let mut to: BTreeMap<Name, _> =
        GOOD.iter().map(|name| (Name::parse(name).unwrap(), config(url, 8))).collect();
    if has_bad {
        tables.fill(&["dead", "slow"], EACH_N as u64, Written::Ready).await;
        to.insert(Name::parse("dead").unwrap(), config("http://127.0.0.1:9/", 8));
        to.insert(Name::parse("slow").unwrap(), config(&format!("{url}/slow"), 8));
    }
    let wanted_n = GOOD.len() * EACH_N;
    let took = drain(&tables, to, calls_n, wanted_n, None).await;
    tables.close().await;
    per_second(wanted_n, took)
}
