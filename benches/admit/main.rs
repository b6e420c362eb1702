//! Admitted events per second, end to end, as ratios within one run:
//! (a) a handler as a competent team writes it, one transaction per request;
//! (b) Hooklatch answering after verification alone (a signed challenge of the same size);
//! (c) Hooklatch admitting: verified, latched, one outbox message, committed, answered;
//! (d) the same for a kind that goes by its content instead of the sender's id.
//!
//!   scripts/bench                         both databases, 64 and 256 connections, 5 rounds
//!   scripts/bench --quick                 a look
//!   cargo bench --bench admit -- --db sqlite
//!
//! Each contestant is a process of its own with a database of its own; rounds are interleaved, and every
//! ratio is of two neighbours in time. Quote ratios: the machine is shared by sender, server and database.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a bench")]
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a bench")]

mod contestant;
mod hand_written;
mod load;

use std::time::Duration;

use contestant::{Contestant, Db};

const CONTESTANTS_N: usize = 4;

/// How long and how often.
struct Plan {
    rounds_n: usize,
    warm_up: Duration,
    window: Duration,
    connections: Vec<usize>,
    dbs: Vec<Db>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--hand-written") {
        return hand_written::serve(&arguments[at + 1], &arguments[at + 2]);
    }
    let plan = plan(&arguments);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for db in &plan.dbs {
            for connections_n in &plan.connections {
                compare(*db, *connections_n, &plan).await;
            }
        }
    });
}

fn plan(arguments: &[String]) -> Plan {
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let after = |word: &str| {
        arguments.iter().position(|argument| argument == word).map(|at| arguments[at + 1].as_str())
    };
    let has_postgres = std::env::var("HOOKLATCH_TEST_POSTGRES_URL").is_ok();
    let dbs = match after("--db") {
        Some("sqlite") => vec![Db::Sqlite],
        Some("postgres") => vec![Db::Postgres],
        _ if has_postgres => vec![Db::Postgres, Db::Sqlite],
        _ => {
            println!(
                "without HOOKLATCH_TEST_POSTGRES_URL only SQLite is compared; scripts/bench starts a PostgreSQL"
            );
            vec![Db::Sqlite]
        }
    };
    let (rounds_n, window) = if has("--quick") { (2, 1) } else { (5, 3) };
    Plan {
        rounds_n: after("--rounds").map_or(rounds_n, |n| n.parse().unwrap()),
        warm_up: Duration::from_millis(if has("--quick") { 300 } else { 1_000 }),
        window: Duration::from_secs(window),
        connections: after("--connections").map_or(vec![64, 256], |n| vec![n.parse().unwrap()]),
        dbs,
    }
}

async fn compare(db: Db, connections_n: usize, plan: &Plan) {
    println!(
        "\n{db:?}, {connections_n} connections, 2 KiB signed bodies, durable settings, {} rounds",
        plan.rounds_n
    );
    let all =
        [Contestant::HandWritten, Contestant::VerifyOnly, Contestant::Hooklatch, Contestant::ContentKeys];
    let mut rounds: Vec<[load::Measured; CONTESTANTS_N]> = Vec::new();
    for _ in 0..plan.rounds_n {
        let mut round = [load::Measured::default(); CONTESTANTS_N];
        for (slot, contestant) in round.iter_mut().zip(all) {
            *slot = contestant.measure(db, connections_n, plan.warm_up, plan.window).await;
        }
        rounds.push(round);
    }
    println!(
        "{:<34} {:>26} {:>9} {:>9} {:>13}",
        "", "events/s median [range]", "p50 ms", "p99 ms", "CPU us/event"
    );
    for (n, contestant) in all.iter().enumerate() {
        let of = |what: fn(&load::Measured) -> f64| Spread::of(rounds.iter().map(|round| what(&round[n])));
        let rate = of(|one| one.per_second);
        println!(
            "{:<34} {:>26} {:>9.2} {:>9.2} {:>13.1}",
            contestant.title(),
            format!("{:.0} [{:.0}..{:.0}]", rate.median, rate.min, rate.max),
            of(|one| one.p50_ms).median,
            of(|one| one.p99_ms).median,
            of(|one| one.cpu_us).median,
        );
    }
    let ratio = |what: &str, of: fn(&[load::Measured; CONTESTANTS_N]) -> f64| {
        let spread = Spread::of(rounds.iter().map(of));
        println!("{what:<58} {:.2} [{:.2}..{:.2}]", spread.median, spread.min, spread.max);
    };
    ratio("admitted events, Hooklatch / hand-written (c/a)", |r| r[2].per_second / r[0].per_second);
    ratio("admitted events / verified only, both Hooklatch (c/b)", |r| r[2].per_second / r[1].per_second);
    ratio("CPU per event, hand-written / Hooklatch (a/c)", |r| r[0].cpu_us / r[2].cpu_us);
    ratio("CPU per event, content keys / sender keys (d/c)", |r| r[3].cpu_us / r[2].cpu_us);
    ratio("p99, Hooklatch / hand-written (c/a)", |r| r[2].p99_ms / r[0].p99_ms);
}

/// Median and range of a few figures.
struct Spread {
    min: f64,
    median: f64,
    max: f64,
}

impl Spread {
    fn of(figures: impl Iterator<Item = f64>) -> Self {
        let mut all: Vec<f64> = figures.collect();
        all.sort_by(f64::total_cmp);
        Self { min: all[0], median: all[all.len() / 2], max: all[all.len() - 1] }
    }
}
