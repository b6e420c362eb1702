//! A secret that must be there.

use crate::config::{Checker, Secret, Table};

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
