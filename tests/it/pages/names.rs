//! What pages and comments name exists: files, folders, kinds, targets of links.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::text::{inline, page, pages, root};

/// Files of other people's repositories.
const NOT_OURS: [&str; 1] = ["spec/standard-webhooks.md"];

/// Every file and folder of this repository, from the root; folders end in `/`.
fn everything() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root().to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            let is_ours = !matches!(name.as_str(), ".git" | "target" | "fuzz/target" | ".hooklatch");
            if path.is_dir() && is_ours {
                found.insert(format!("{name}/"));
                folders.push(path);
            } else if is_ours {
                found.insert(name);
            }
        }
    }
    found
}

/// A name of a file or folder, from the root or by its last parts.
fn is_there(all: &BTreeSet<String>, name: &str) -> bool {
    let name = name.trim_start_matches("../").trim_start_matches("./");
    let behind = format!("/{name}");
    let folder = format!("{name}/");
    // An ADR may go by its number.
    let is_numbered =
        name.starts_with("docs/adr/") && all.iter().any(|one| one.starts_with(&format!("{name}-")));
    is_numbered || all.contains(name) || all.contains(&folder) || all.iter().any(|one| one.ends_with(&behind))
}

/// True when a text names a file or a folder of the package, and not a pattern, a URL or a place on another machine.
fn is_path(text: &str) -> bool {
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c));
    let has_place =
        ["src/", "crates/", "tests/", "docs/", "scripts/", "benches/", "examples/", "fuzz/", "migrations/"]
            .iter()
            .any(|place| text.starts_with(place));
    let has_ending = [".rs", ".md"].iter().any(|ending| text.ends_with(ending) && text.len() > ending.len());
    // `providers/NAME/mod.rs` and `docs/runbooks/NAME.md` say where a file is to be written.
    let stem = |part| [".rs", ".md"].iter().find_map(|end| str::strip_suffix(part, end)).unwrap_or(part);
    let is_placeholder = |name: &str| name.len() > 1 && name.chars().all(|c| c.is_ascii_uppercase());
    let has_placeholder = text.split('/').map(stem).any(is_placeholder);
    is_plain
        && !text.starts_with('/')
        && !has_placeholder
        && (has_place || has_ending)
        && !NOT_OURS.contains(&text)
}

#[test]
fn files_that_pages_name_are_there() {
    let all = everything();
    let mut gone = Vec::new();
    for name in pages() {
        let spans = inline(&page(&name));
        let missing = spans.iter().filter(|text| is_path(text) && !is_there(&all, text));
        gone.extend(
            missing.filter(|text| !NOT_OURS.contains(&text.as_str())).map(|text| format!("{name}: {text}")),
        );
    }
    assert!(gone.is_empty(), "these files are not there:\n  {}", gone.join("\n  "));
}

#[test]
fn files_that_comments_name_are_there() {
    let all = everything();
    let mut gone = Vec::new();
    let is_code = |name: &&String| {
        let is_place =
            ["src/", "crates/", "tests/", "benches/", "examples/", "providers/", "fuzz/src/", "scripts/"];
        is_place.iter().any(|place| name.starts_with(place))
            && Path::new(name).extension().is_some_and(|ending| ending == "rs")
    };
    for name in all.iter().filter(is_code) {
        let text = fs::read_to_string(root().join(name)).unwrap();
        for line in text.lines().filter_map(|line| line.trim_start().strip_prefix("//")) {
            let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || "._-/".contains(c)));
            let words = words.map(|word| word.trim_end_matches('.').to_owned());
            let with_place = words.filter(|word| word.contains('/') && !word.contains("//"));
            let named = with_place.chain(inline(line)).filter(|word| is_path(word));
            gone.extend(named.filter(|word| !is_there(&all, word)).map(|word| format!("{name}: {word}")));
        }
    }
    assert!(gone.is_empty(), "these files are not there:\n  {}", gone.join("\n  "));
}

/// What a heading is called in a link.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn links_lead_to_pages_and_to_their_headings() {
    let mut dead = Vec::new();
    for name in pages() {
        let text = page(&name);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (target, heading) = link.split_once('#').unwrap_or((link, ""));
            if target.contains("://") {
                continue;
            }
            let file = if target.is_empty() {
                root().join(&name)
            } else {
                root().join(&name).parent().unwrap().join(target)
            };
            let is_good = match (file.is_dir(), fs::read(&file)) {
                (true, _) => true,
                (false, Err(_)) => false,
                (false, Ok(there)) => {
                    // A picture is no text, and has no headings.
                    let there = String::from_utf8_lossy(&there);
                    let mut headings = there.lines().filter(|line| line.starts_with('#'));
                    heading.is_empty() || headings.any(|line| anchor(line) == heading)
                }
            };
            if !is_good {
                dead.push(format!("{name}: {link}"));
            }
        }
    }
    assert!(dead.is_empty(), "these links are dead:\n  {}", dead.join("\n  "));
}

#[test]
fn the_readme_names_kinds_that_exist() {
    let text = page("README.md");
    let section = text.split("\n## Senders\n").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
    let table: String = section.lines().filter(|line| line.starts_with('|')).collect::<Vec<_>>().join("\n");
    let kinds = inline(&table);
    let gone: Vec<&String> = kinds
        .iter()
        .filter(|kind| !root().join("providers").join(kind).join("provider.toml").exists())
        .collect();
    assert!(!kinds.is_empty() && gone.is_empty(), "no such kinds: {gone:?} of {kinds:?}");
}

#[test]
fn the_gate_checks_each_feature_by_itself() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let section = manifest.split("\n[features]\n").nth(1).unwrap().split("\n[").next().unwrap();
    let features = section.lines().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name);
    // What the others share is of no use by itself, and what all are together is linted with all.
    let alone: BTreeSet<&str> =
        features.filter(|name| !matches!(*name, "default" | "brokers" | "full")).collect();
    let gate = fs::read_to_string(root().join("scripts/test")).unwrap();
    let list = gate.split("for feature in ").nth(1).unwrap().split(';').next().unwrap();
    let checked: BTreeSet<&str> = list.split_whitespace().filter(|name| *name != "\"\"").collect();
    assert_eq!(checked, alone, "scripts/test and Cargo.toml list other features");
}
