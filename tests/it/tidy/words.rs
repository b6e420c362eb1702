//! The words of the house: those of `docs/glossary.md`, one meaning each, in sentences.

use std::collections::BTreeMap;

use super::{code, files, nothing};

/// Words that are used no longer, or never were, and what is said instead.
const OLD: [(&str, &str); 11] = [
    ("far side", "destination"),
    ("far_side", "destination"),
    ("FarSide", "destination"),
    ("born leased", "written as leased"),
    ("BornLease", "InitialLease"),
    ("in_hand", "reserved, or held"),
    ("InHand", "reserved, or held"),
    ("Decree", "Answered"),
    ("Setback", "the error's own name"),
    ("Wrote", "Written"),
    ("OwnAdmission", "TransactionalAdmission"),
];

/// Doc comments of this many words or fewer say nothing that the name does not say.
const WORDS_N_TOO_FEW: usize = 3;

/// True when a line has the word, not within another: `a_plain_handler` does not say `in_hand`.
fn says(line: &str, old: &str) -> bool {
    line.match_indices(old).any(|(at, _)| !line.split_at(at).0.ends_with(char::is_alphanumeric))
}

fn texts() -> Vec<(String, String)> {
    let folders =
        [("src", ".rs"), ("tests/it", ".rs"), ("benches", ".rs"), ("examples", ".rs"), ("docs", ".md")];
    folders.into_iter().flat_map(|(folder, ending)| files(folder, ending)).collect()
}

#[test]
fn old_words_do_not_come_back() {
    let mut found = Vec::new();
    for (name, text) in texts() {
        if name == "tests/it/tidy/words.rs" {
            continue;
        }
        for (n, line) in text.lines().enumerate() {
            let old = OLD.iter().filter(|(old, _)| says(line, old));
            found.extend(old.map(|(old, new)| format!("{name}:{} says `{old}`: {new}", n + 1)));
        }
    }
    nothing("say these with the words of docs/glossary.md", &found);
}

/// The doc comments of a file, each with the line that it begins at and its words.
fn doc_comments(text: &str) -> Vec<(usize, Vec<&str>)> {
    let mut comments: Vec<(usize, Vec<&str>)> = Vec::new();
    let mut is_inside = false;
    for (n, line) in text.lines().enumerate() {
        let words = line.trim_start().strip_prefix("///");
        match words {
            Some(words) if is_inside => comments.last_mut().unwrap().1.extend(words.split_whitespace()),
            Some(words) => comments.push((n + 1, words.split_whitespace().collect())),
            None => {}
        }
        is_inside = words.is_some();
    }
    comments
}

#[test]
fn every_doc_comment_says_more_than_its_name() {
    let mut short = Vec::new();
    for (name, text) in files("src", ".rs").into_iter().chain(files("tests/it", ".rs")) {
        let of = doc_comments(&text).into_iter().filter(|(_, words)| words.len() <= WORDS_N_TOO_FEW);
        short.extend(of.map(|(line, words)| format!("{name}:{line}: {}", words.join(" "))));
    }
    nothing("say what it is, with its unit and its range", &short);
}

#[test]
fn a_doc_comment_is_read_over_all_its_lines() {
    let text = "/// Which.\nfield: u8,\n/// The one\n/// of two lines.\nfn f() {}\n";
    let found = doc_comments(text);
    assert_eq!(found, [(1, vec!["Which."]), (3, vec!["The", "one", "of", "two", "lines."])]);
}

/// Names that say the same thing in every room that has one.
const SHARED_NAMES: [&str; 0] = [];

#[test]
fn a_type_has_a_name_of_its_own() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, text) in files("src", ".rs").into_iter().filter(|(name, _)| !name.ends_with("tests.rs")) {
        for line in code(&text).lines() {
            // What one file alone can see needs a name there alone.
            let Some(line) = line.trim_start().strip_prefix("pub") else { continue };
            let line =
                if line.starts_with('(') { line.split_once(')').map_or("", |(_, rest)| rest) } else { line };
            let kind =
                ["struct ", "enum ", "trait "].iter().find_map(|word| line.trim_start().strip_prefix(word));
            let Some(rest) = kind else { continue };
            let type_name: String = rest.chars().take_while(|c| c.is_alphanumeric()).collect();
            places.entry(type_name).or_default().push(name.clone());
        }
    }
    let is_shared = |name: &str| SHARED_NAMES.contains(&name);
    let twice = places.into_iter().filter(|(name, places)| places.len() > 1 && !is_shared(name));
    let told: Vec<String> = twice.map(|(name, places)| format!("{name}: {}", places.join(", "))).collect();
    nothing("one word has one meaning: rename all of these but one", &told);
}
