//! Admission end to end, as ratios within one run:
//! (a) a handler as a competent team writes it, one transaction per request;
//! (b) Hooklatch answering after verification alone (a signed challenge of the same size);
//! (c) Hooklatch admitting: verified, latched, one outbox message, committed, answered;
//! (d) the same for a kind that goes by its content instead of the sender's id;
//! (e, f) `FastAPI` and Express as careful teams write them, with `compare`.
//!
//!   scripts/bench                         both databases; 1, 4, 64 and 256 connections; 5 rounds
//!   scripts/bench --quick                 a look
//!   scripts/bench compare                 (a), (e), (f) and (c) on PostgreSQL
//!   scripts/bench traced                  (c) with tracing off, and on with a collector gone, stalled, taking
//!   scripts/bench lanes                   (c) with its messages in fifty lanes, and without
//!   scripts/bench remembered              CPU with 5 and 10 million ids remembered, against none
//!   scripts/bench pruning                 p99 while as much is pruned as arrives; events pruned a second; also with
//!                                         --round-trip-ms 2, --commit-ms 12
//!   cargo bench --bench admit -- --db sqlite --connections 4,64 --rounds 3 --json FILE --svg FILE
//!
//! Each contestant is a process of its own with a database of its own; rounds are interleaved, and every
//! ratio is of two neighbours in time. Quote ratios: the machine is shared by sender, server and database.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a bench")]
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a bench")]
#![expect(clippy::cast_precision_loss, reason = "figures")]

mod collector;
mod compare;
mod contestant;
mod database;
mod hand_written;
mod plan;
mod proxy;
mod pruning;
mod remembered;
mod requests;

use contestant::Contestant;
use database::Db;
use plan::Plan;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--hand-written") {
        return hand_written::serve(&arguments[at + 1], &arguments[at + 2]);
    }
    let mut plan = Plan::new(&arguments);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for db in plan.dbs.clone() {
            match plan.what.as_str() {
                "remembered" => remembered::measure(db, &mut plan).await,
                "pruning" => pruning::measure(db, &mut plan).await,
                "lanes" => in_lanes(db, &mut plan).await,
                "traced" => against_traced(db, &mut plan).await,
                "compare" => against_others(db, &mut plan).await,
                _ => against_hand_written(db, &mut plan).await,
            }
        }
    });
    plan.write();
}

async fn against_hand_written(db: Db, plan: &mut Plan) {
    let all =
        [Contestant::HandWritten, Contestant::VerifyOnly, Contestant::Hooklatch, Contestant::ContentKeys];
    for connections_n in plan.connections.clone().unwrap_or_else(|| vec![1, 4, 64, 256]) {
        compare::compare(db, connections_n, &all, plan).await;
    }
}

async fn against_traced(db: Db, plan: &mut Plan) {
    use Contestant::{Hooklatch, TracedGone, TracedStalled, TracedTaken};
    for connections_n in plan.connections.clone().unwrap_or_else(|| vec![64]) {
        compare::compare(db, connections_n, &[Hooklatch, TracedGone, TracedStalled, TracedTaken], plan).await;
    }
}

async fn in_lanes(db: Db, plan: &mut Plan) {
    for connections_n in plan.connections.clone().unwrap_or_else(|| vec![1, 64]) {
        compare::compare(db, connections_n, &[Contestant::Hooklatch, Contestant::InLanes], plan).await;
    }
}

async fn against_others(db: Db, plan: &mut Plan) {
    let all = [Contestant::HandWritten, Contestant::FastApi, Contestant::Express, Contestant::Hooklatch];
    for missing in all.iter().filter(|one| !one.is_there(db)) {
        println!("{} is left out on {db:?}: not installed, or not made for it", missing.title());
    }
    for connections_n in plan.connections.clone().unwrap_or_else(|| vec![64]) {
        compare::compare(db, connections_n, &all, plan).await;
    }
}
