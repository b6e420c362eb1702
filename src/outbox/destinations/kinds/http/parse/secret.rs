//! Secrets that must be there, and those of which there may be two.

use ::config::ValueKind;

use crate::config::{Checker, Field, Secret, Table};

/// Takes a secret; a missing one is a problem.
pub(super) fn needed_secret(
    checker: &mut Checker<'_>,
    table: &mut Table,
    key: &'static str,
) -> Option<Secret> {
    table
        .needed(
            checker,
            key,
            "write a text, { env = \"NAME\" }, { file = \"PATH\" } or { credential = \"NAME\" }",
        )?
        .secret(checker)
}

/// Reads a secret, or a list of two: the new one and the one before it.
pub(super) fn one_or_two(checker: &mut Checker<'_>, field: Field) -> Vec<Secret> {
    let is_list = match &field.value.kind {
        ValueKind::Array(_) => true,
        // From the environment a list comes as text.
        ValueKind::String(text) => field.is_env_text() && text.trim_start().starts_with('['),
        _ => false,
    };
    if !is_list {
        return field.secret(checker).into_iter().collect();
    }
    let Some(list) = field.list(checker) else { return Vec::new() };
    if !(1..=2).contains(&list.len()) {
        let remedy = "write one, or the new one and the one before it; leave the key out to sign nothing";
        checker.problem(&field, format!("has {} secrets", list.len()), remedy);
    }
    list.into_iter().filter_map(|field| field.secret(checker)).collect()
}
