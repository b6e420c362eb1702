//! `docs/faults.md`: each row has an id of its own and names tests that exist.

use std::collections::BTreeSet;

use crate::pages::text::page;
use crate::tidy::files;

/// The cells of every row: id, fault, promise, what happens, tests.
fn rows() -> Vec<Vec<String>> {
    let text = page("docs/faults.md");
    // The table of promises stands before the first heading.
    let (_, faults) = text.split_once("\n## ").unwrap();
    let lines = faults.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| id |"));
    let cells = |line: &str| {
        let line = line.trim_matches('|').replace("\\|", "\u{0}");
        line.split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect::<Vec<_>>()
    };
    lines.map(cells).collect()
}

#[test]
fn every_row_has_an_id_and_names_tests_that_exist() {
    let sources: String = ["src", "crates", "tests", "providers"]
        .iter()
        .flat_map(|folder| files(folder, ".rs"))
        .map(|(_, text)| text)
        .collect();
    // A function, or a case of a macro that stamps functions.
    let exists =
        |name: &str| sources.contains(&format!("fn {name}(")) || sources.contains(&format!("\n    {name}:"));
    let (mut ids, mut wrong) = (BTreeSet::new(), Vec::new());
    for row in rows() {
        let [id, _, _, _, tests] = &row[..] else { panic!("five cells, not {row:?}") };
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        if !ids.insert(id.clone()) {
            wrong.push(format!("{id} is there twice"));
        }
        if names.is_empty() {
            wrong.push(format!("{id} names no test"));
        }
        wrong.extend(
            names.iter().filter(|name| !exists(name)).map(|name| format!("{id}: no test is called {name}")),
        );
    }
    assert!(!ids.is_empty() && wrong.is_empty(), "{wrong:#?}");
}
