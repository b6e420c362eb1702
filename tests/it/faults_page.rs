//! `docs/faults.md`: every fault has its row, every row names tests, and every named test is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The families of rows: letter, first number, last number.
const FAMILIES: [(char, u32, u32); 10] = [
    ('A', 1, 5),
    ('B', 1, 6),
    ('C', 1, 8),
    ('D', 1, 8),
    ('F', 1, 60),
    ('H', 1, 4),
    ('I', 1, 10),
    ('L', 1, 14),
    ('N', 1, 22),
    ('S', 1, 18),
];
/// Where what has no test yet is listed.
const OPEN: &str = "## What is open";

/// A row of one of the tables.
struct Row {
    id: String,
    cells: Vec<String>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The page in two parts: the tables, and what is open.
fn page() -> (String, String) {
    let text = fs::read_to_string(root().join("docs/faults.md")).unwrap();
    let (_, text) = text.split_once("\n## ").expect("an opening, then sections");
    let (tables, open) = text.split_once(OPEN).expect("a section of what is open");
    (tables.to_owned(), open.to_owned())
}

fn rows(tables: &str) -> Vec<Row> {
    let lines = tables.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| id |"));
    let mut rows = Vec::new();
    for line in lines {
        let line = line.trim_matches('|').replace("\\|", "\u{0}");
        let cells: Vec<String> = line.split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect();
        assert_eq!(cells.len(), 5, "id, fault, promise, what happens, tests: {line}");
        rows.push(Row { id: cells[0].clone(), cells });
    }
    rows
}

/// The ids that stand in the list of what is open, each with its reason.
fn open_ids(open: &str) -> Vec<String> {
    let items = open.lines().filter_map(|line| line.strip_prefix("- **"));
    items
        .map(|item| {
            let (id, why) = item.split_once("**").unwrap();
            assert!(why.trim().len() > 20, "{id} is open without a reason");
            id.to_owned()
        })
        .collect()
}

/// What runs as a test: a function with the attribute, or one that is stamped for both databases.
fn tests_in(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim_start) {
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        if let Some((_, after)) = line.split_once("fn ").filter(|_| is_test) {
            found.insert(after.split('(').next().unwrap().to_owned());
            is_test = false;
        }
    }
    for list in text.split("on_both!(").skip(1).filter_map(|after| after.split(')').next()) {
        found.extend(list.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()));
    }
    // A list of cases: a name, and what is sent.
    for list in text.split("\nsilent! {\n").skip(1).filter_map(|after| after.split("\n}").next()) {
        let names = list.lines().filter_map(|line| line.trim().split_once(':').map(|(name, _)| name));
        found.extend(
            names
                .filter(|name| !name.contains(|c: char| !c.is_alphanumeric() && c != '_'))
                .map(str::to_owned),
        );
    }
    found
}

fn collect(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, names);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            names.extend(tests_in(&text));
        }
    }
}

/// The names of all tests.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for folder in ["src", "tests", "providers"] {
        collect(&root().join(folder), &mut names);
    }
    names
}

/// The names in backticks, and what stands before each.
fn named(cell: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = cell.split('`').collect();
    parts.chunks(2).filter(|pair| pair.len() == 2).map(|pair| (pair[0], pair[1])).collect()
}

#[test]
fn every_fault_has_its_row_or_says_why_it_is_open() {
    let (tables, open) = page();
    let mut ids: Vec<String> = rows(&tables).into_iter().map(|row| row.id).collect();
    ids.extend(open_ids(&open));
    let mut seen = BTreeSet::new();
    let twice: Vec<_> = ids.iter().filter(|id| !seen.insert(id.as_str())).collect();
    assert!(twice.is_empty(), "these ids are there twice: {twice:?}");
    let wanted: BTreeSet<String> = FAMILIES
        .iter()
        .flat_map(|(letter, first, last)| (*first..=*last).map(move |n| format!("{letter}{n}")))
        .collect();
    let is_known = |id: &str| {
        let (letter, number) = id.split_at(1);
        letter.chars().all(|c| c.is_ascii_uppercase()) && number.parse::<u32>().is_ok()
    };
    let odd: Vec<_> = ids.iter().filter(|id| !is_known(id)).collect();
    assert!(odd.is_empty(), "these are no ids: {odd:?}");
    let missing: Vec<_> = wanted.iter().filter(|id| !seen.contains(id.as_str())).collect();
    assert!(missing.is_empty(), "these rows are missing: {missing:?}");
}

#[test]
fn every_row_names_a_promise_and_tests_that_are_there() {
    let (tables, _) = page();
    let all = tests();
    let (mut without, mut unknown, mut unmarked) = (Vec::new(), Vec::new(), Vec::new());
    for Row { id, cells } in rows(&tables) {
        let promises: Vec<&str> = cells[2].split(", ").collect();
        let is_promise = |word: &&str| word.strip_prefix('P').is_some_and(|n| n.parse::<u32>().is_ok());
        assert!(promises.iter().all(is_promise), "{id} names no promise: {}", cells[2]);
        assert!(cells[1].len() > 10 && cells[3].len() > 10, "{id} says too little");
        let tests = named(&cells[4]);
        if tests.is_empty() || cells[4].contains("TODO") {
            without.push(id.clone());
        }
        for (before, name) in tests {
            if !all.contains(name) {
                unknown.push(format!("{id}: {name}"));
            }
            if name.contains("nightly_") && !before.trim_end().ends_with("(nightly)") {
                unmarked.push(format!("{id}: {name}"));
            }
        }
    }
    assert!(unknown.is_empty(), "no tests are called so: {unknown:#?}");
    assert!(unmarked.is_empty(), "say `(nightly)` before these: {unmarked:#?}");
    assert!(without.is_empty(), "{} rows name no test: {}", without.len(), without.join(" "));
}
