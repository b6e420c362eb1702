//! What is to be measured, and where figures go besides the terminal.

use std::time::Duration;

use hooklatch_bench::{Chart, Spread, svg};

use crate::database::Db;

/// How long, how often, on what; and the results so far.
pub(crate) struct Plan {
    pub(crate) what: String,
    pub(crate) rounds_n: usize,
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
    pub(crate) connections: Option<Vec<usize>>,
    pub(crate) dbs: Vec<Db>,
    pub(crate) rows: Option<Vec<u64>>,
    pub(crate) rate: Option<u64>,
    pub(crate) round_trip_ms: u64,
    pub(crate) commit_ms: u64,
    json: Option<String>,
    svg: Option<String>,
    kept: Vec<serde_json::Value>,
    charts: Vec<Chart>,
}

impl Plan {
    /// As the arguments say.
    pub(crate) fn new(arguments: &[String]) -> Self {
        let has = |word: &str| arguments.iter().any(|argument| argument == word);
        let after = |word: &str| {
            arguments.iter().position(|argument| argument == word).map(|at| arguments[at + 1].clone())
        };
        let list = |word: &str| {
            after(word).map(|list| list.split(',').map(|n| n.parse().unwrap()).collect::<Vec<u64>>())
        };
        let has_postgres = std::env::var("HOOKLATCH_TEST_POSTGRES_URL").is_ok();
        let dbs = match after("--db").as_deref() {
            Some("sqlite") => vec![Db::Sqlite],
            Some("postgres") => vec![Db::Postgres],
            _ if has_postgres => vec![Db::Postgres, Db::Sqlite],
            _ => {
                println!(
                    "without HOOKLATCH_TEST_POSTGRES_URL only SQLite is measured; scripts/bench starts a PostgreSQL"
                );
                vec![Db::Sqlite]
            }
        };
        let (rounds_n, window_ms) = if has("--quick") { (2, 1_000) } else { (5, 3_000) };
        let words = ["admit", "compare", "traced", "remembered", "pruning", "lanes"];
        Self {
            what: words.iter().find(|word| has(word)).unwrap_or(&"admit").to_string(),
            rounds_n: after("--rounds").map_or(rounds_n, |n| n.parse().unwrap()),
            warm_up: Duration::from_millis(if has("--quick") { 300 } else { 1_000 }),
            window: Duration::from_millis(after("--window-ms").map_or(window_ms, |n| n.parse().unwrap())),
            connections: list("--connections")
                .map(|all| all.iter().map(|n| usize::try_from(*n).unwrap()).collect()),
            dbs,
            rows: list("--rows"),
            rate: after("--rate").map(|n| n.parse().unwrap()),
            round_trip_ms: after("--round-trip-ms").map_or(0, |n| n.parse().unwrap()),
            commit_ms: after("--commit-ms").map_or(0, |n| n.parse().unwrap()),
            json: after("--json"),
            svg: after("--svg"),
            kept: Vec::new(),
            charts: Vec::new(),
        }
    }

    /// Prints a ratio and keeps it.
    pub(crate) fn tell_ratio(&mut self, heading: &str, what: &str, spread: Spread) {
        println!("{what:<58} {spread}");
        self.keep(serde_json::json!({ "what": heading, "ratio": what, "spread": spread }));
    }

    pub(crate) fn keep(&mut self, figures: serde_json::Value) {
        self.kept.push(figures);
    }

    pub(crate) fn draw(&mut self, chart: Chart) {
        self.charts.push(chart);
    }

    /// Writes the files that were asked for. They are named from the package's folder on.
    pub(crate) fn write(&self) {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        if let Some(file) = &self.json {
            std::fs::write(root.join(file), serde_json::to_string_pretty(&self.kept).unwrap()).unwrap();
        }
        if let Some(file) = &self.svg {
            let how = format!("{} rounds in turns; median, and the range as a line", self.rounds_n);
            std::fs::write(root.join(file), svg(&format!("benches/admit {}", self.what), &how, &self.charts))
                .unwrap();
        }
    }
}
