//! The rule of `crates/operator/src/http/api`: it reaches the store through `OperatorQueries` alone, which checks roles and
//! scopes.

use std::collections::BTreeSet;

use super::{code, files, nothing};

/// What the API's routes must not name: they reach the store through `OperatorQueries`, which checks roles and scopes.
const NOT_IN_ROUTES: [&str; 4] = ["Store", "store:", ".store", ".parts"];

#[test]
fn routes_reach_the_store_through_people_alone() {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let names = |line: &str, word: &str| {
        line.match_indices(word).any(|(at, _)| {
            let (before, after) = (line.split_at(at).0, line.split_at(at + word.len()).1);
            (word.starts_with('.') || !before.ends_with(is_of_word)) && !after.starts_with(is_of_word)
        })
    };
    for line in
        ["store: Store,", "state.store.event_get(&key)", "people.store.parts.backend", "Store::open(x)"]
    {
        assert!(NOT_IN_ROUTES.iter().any(|word| names(line, word)), "{line}");
    }
    for line in ["use hooklatch_store::OperatorQueries;", "StoreError", "stored_text(&reason)"] {
        assert!(!NOT_IN_ROUTES.iter().any(|word| *word != "store:" && names(line, word)), "{line}");
    }
    let mut strays = BTreeSet::new();
    for (name, text) in files("crates/operator/src/http/api", ".rs") {
        for line in code(&text).lines().filter(|line| !line.trim_start().starts_with("//")) {
            let line = line.replace("store::", "").replace("OperatorError::Store", "");
            if NOT_IN_ROUTES.iter().any(|word| names(&line, word)) {
                strays.insert(name.clone());
            }
        }
    }
    let strays: Vec<String> = strays.into_iter().collect();
    nothing("these hold a store: use `Caller::people`", &strays);
}
