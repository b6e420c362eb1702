//! Helpers that the tests of destinations share; and a test that the list of kinds, the features and the page agree.

use std::collections::BTreeSet;

use super::kinds::KINDS;
use crate::destinations::kinds::DestinationKind;
use crate::policy::tests::first_attempt;
use hooklatch_store::LeasedMessage;

/// The first attempt of `key-1`, at times that texts of tests can name.
pub(crate) fn message() -> LeasedMessage {
    LeasedMessage {
        created_at_ms: 1_000,
        first_sent_at_ms: 1_000,
        key_valid_until_ms: 1_000_000,
        lease_until_ms: 31_000,
        ..first_attempt()
    }
}

/// Checks the rule of a key against values that a destination takes and values that it does not take.
#[track_caller]
pub(crate) fn check_rule(key: &str, is_right: fn(&str) -> bool, right: &[&str], wrong: &[&str]) {
    for text in right {
        assert!(is_right(text), "{key} may be `{text}`");
    }
    for text in wrong {
        assert!(!is_right(text), "{key} may not be `{text}`");
    }
}

fn page(path: &str) -> String {
    std::fs::read_to_string(std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path))
        .expect(path)
}

/// The kinds, HTTP left out: it has no section of its own and no feature.
fn brokers() -> impl Iterator<Item = &'static DestinationKind> {
    KINDS.iter().filter(|kind| kind.name != "http")
}

#[test]
fn schemes_names_and_keys_belong_to_one_kind_each() {
    let schemes: Vec<_> = KINDS.iter().flat_map(|kind| kind.schemes).collect();
    let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
    let keys: Vec<_> = KINDS.iter().flat_map(DestinationKind::key_names).collect();
    assert_eq!(schemes.iter().collect::<BTreeSet<_>>().len(), schemes.len(), "{schemes:?}");
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len(), "{keys:?}");
}

#[test]
fn the_features_of_the_package_are_those_that_the_kinds_name() {
    let manifest: toml::Table = page("Cargo.toml").parse().expect("a manifest");
    let features = manifest["features"].as_table().expect("features");
    let named: BTreeSet<&str> = KINDS.iter().filter_map(|kind| kind.feature).collect();
    let built: BTreeSet<&str> = features
        .iter()
        .filter(|(_, needs)| {
            needs.as_array().expect("a list").iter().any(|need| need.as_str() == Some("brokers"))
        })
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(named, built, "each feature of a destination needs `brokers`, and a kind names it");
    let full: BTreeSet<&str> =
        features["full"].as_array().expect("a list").iter().filter_map(|one| one.as_str()).collect();
    assert!(named.is_subset(&full), "every kind is in what images and packages have");
}

#[test]
fn the_page_about_destinations_lists_every_kind_with_its_feature_and_its_keys() {
    let page = page("docs/destinations.md");
    for kind in &KINDS {
        let schemes: Vec<String> = kind.schemes.iter().map(|scheme| format!("`{scheme}://`")).collect();
        let row = format!("| {} | ", schemes.join(" "));
        let row =
            page.lines().find(|line| line.starts_with(&row)).unwrap_or_else(|| panic!("no row `{row}`"));
        let feature = kind.feature.map_or_else(String::new, |feature| format!("`{feature}`"));
        assert_eq!(row.split('|').nth(3).map(str::trim), Some(feature.as_str()), "{row}");
    }
    for (kind, key) in brokers().flat_map(|kind| kind.key_names().map(move |key| (kind, key))) {
        let line = format!("\n{key} = ");
        assert!(page.contains(&line), "no example of `{}` for {}", key, kind.name);
    }
}
