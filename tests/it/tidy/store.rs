//! The rules of `crates/store`: each statement has a name, and uses the words of the index that it needs.

use std::fs;

use super::{files, nothing, root};

#[test]
fn each_statement_says_which_operation_it_is_of() {
    let mut nameless = Vec::new();
    let is_driver = |name: &str| name.starts_with("crates/store/src/db/") || name.ends_with("/sqlite.rs");
    for (name, text) in files("crates/store/src", ".rs").into_iter().filter(|(name, _)| !is_driver(name)) {
        for (n, line) in text.lines().enumerate() {
            let starts = ["\"SELECT ", "\"INSERT INTO", "\"UPDATE ", "\"DELETE FROM", "\"WITH "];
            if starts.iter().any(|start| line.contains(start)) {
                nameless.push(format!("{name}:{}", n + 1));
            }
        }
    }
    nothing("begin these with `/* operation */`, as `pg_stat_statements` shows it", &nameless);
}

#[test]
fn statements_for_open_events_repeat_the_condition_of_their_index() {
    let words = "state IN ('retry', 'failed', 'unreadable', 'conflict')";
    // As they are translated for SQLite: two at a time.
    let translated = "state IN ('retry', 'failed') OR state IN ('unreadable', 'conflict')";
    for (database, words) in [("postgres", words), ("sqlite", translated)] {
        let index = fs::read_to_string(root().join(format!("migrations/{database}/0001_hooklatch.sql")));
        assert!(
            index.unwrap().contains(&format!("WHERE {words};")),
            "SQLite takes a partial index for its own words alone"
        );
    }
    let mut strays = Vec::new();
    for (name, text) in files("crates/store/src", ".rs") {
        for statement in text.split("\"/* ").skip(1).filter_map(|rest| rest.split("\",").next()) {
            let is_open = ["retry", "failed", "unreadable", "conflict"]
                .iter()
                .any(|state| statement.contains(&format!("state = '{state}'")));
            // What is due has an index of its own.
            let due = [
                "state = 'retry' AND due_at_ms <= $",
                "state = 'retry' AND e.due_at_ms <= $",
                "ORDER BY e.provider, e.due_at_ms LIMIT 1",
            ];
            let is_due = due.iter().any(|part| statement.contains(part));
            let is_by_key =
                is_due || statement.contains("event_seq = $") || statement.contains("event_id = $");
            if is_open && !is_by_key && !statement.contains(words) {
                strays.push(format!("{name}: {}", statement.split(" */").next().unwrap()));
            }
        }
    }
    nothing("these read every event that there ever was", &strays);
}
