//! Each alert fires when what it watches is broken, and ends when that is mended: a server as it is, a real Prometheus with
//! our rules (which only wait less long), and a fault. Receiving (`incoming.rs`), sending (`outgoing.rs`), the
//! database (`database.rs`), the node (`node.rs`), a program with a handler that panics (`panics.rs`).

mod database;
mod incoming;
mod node;
mod outgoing;
mod panics;
mod watched;

use crate::ops::texts::rules;
use crate::tidy::files;

#[test]
fn every_alert_is_made_to_fire_in_each_severity() {
    let tests: String = files("tests/it/ops/fires", ".rs").into_iter().map(|(_, text)| text).collect();
    let named = |rule: &serde_json::Value| {
        let alert = rule["alert"].as_str().unwrap().trim_start_matches("Hooklatch");
        format!("\"{alert} {}\"", rule["severity"].as_str().unwrap())
    };
    let missing: Vec<String> =
        rules().iter().map(named).filter(|name| !tests.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "break what these watch: {missing:?}");
}
