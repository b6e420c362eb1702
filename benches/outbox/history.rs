//! What a message costs when many went before it: a ratio to the cost with little history.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;

use hooklatch_bench::Spread;
use hooklatch_core::types::Name;

use super::engine::{config, drain};
use super::tables::{Tables, Written};
use super::{CONCURRENCY_N, MESSAGES_N, per_second};

/// Rows of history, few to many.
const HISTORIES: [u64; 3] = [10_000, 1_000_000, 5_000_000];

/// Prints the cost of a message after each history, relative to the first.
#[expect(clippy::print_stdout, reason = "a bench")]
pub(super) async fn measure(url: &str, calls_n: &AtomicUsize, server: Option<&str>, rounds_n: usize) {
    let name = if server.is_some() { "PostgreSQL" } else { "SQLite" };
    let mut first = None;
    for rows_n in HISTORIES {
        let mut tables = Tables::new(server).await;
        tables.fill(&["far"], rows_n, Written::Finished).await;
        let mut rates = Vec::new();
        for _ in 0..rounds_n {
            tables.fill(&["far"], MESSAGES_N as u64, Written::Ready).await;
            let to = BTreeMap::from([(Name::parse("far").unwrap(), config(url, CONCURRENCY_N))]);
            rates.push(per_second(MESSAGES_N, drain(&tables, to, calls_n, MESSAGES_N, None).await));
        }
        tables.close().await;
        let rate = Spread::of(rates.into_iter());
        let cost = 1.0 / rate.median;
        let first = *first.get_or_insert(cost);
        println!("{name}: {rows_n} rows of history, {rate}/s, cost {:.2} of the first", cost / first);
    }
}
