//! The schema against the migrations.

use super::check::{SCHEMA, or_well};
use hooklatch_contract::FindingView;
use hooklatch_store::SchemaParts;

pub(crate) fn schema(parts: &SchemaParts) -> Vec<FindingView> {
    let mut found = Vec::new();
    let restore = "restore it as `migrations/` makes it, or restore from a backup";
    for (noun, names) in [("table", &parts.tables_missing), ("trigger", &parts.triggers_missing)] {
        let gone = |name: &String| {
            SCHEMA.failure(format!("the {noun} is missing, or turned off")).about(name).cure(restore)
        };
        found.extend(names.iter().map(gone));
    }
    for (name, is_unique) in &parts.indexes_missing {
        let remedy = format!("make {name} again as `migrations/` does; on PostgreSQL with CONCURRENTLY");
        found.push(SCHEMA.graded("the index is missing", (true, *is_unique), &remedy).about(name));
    }
    for (name, is_unique) in &parts.indexes_unfinished {
        let words = "the index is not valid: it was not finished, and nothing is looked up by it";
        let remedy = format!("REINDEX INDEX CONCURRENTLY {name}");
        found.push(SCHEMA.graded(words, (true, *is_unique), &remedy).about(name));
    }
    for (name, is_unique) in &parts.indexes_others {
        let words = if *is_unique {
            "a unique index that is not ours: it may refuse events"
        } else {
            "an index that is not ours: each event pays for it"
        };
        let remedy = format!("DROP INDEX {name}, unless you need it");
        found.push(SCHEMA.graded(words, (true, *is_unique), &remedy).about(name));
    }
    or_well(found, || {
        SCHEMA.well(format!("{} tables, indexes and triggers as the migrations make them", parts.fine_n))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_contract::FindingVerdict::{Failure, Warning, Well};

    #[test]
    fn a_unique_index_weighs_more_than_another() {
        let names = |name: &str| vec![name.to_owned()];
        let index = |is_unique| vec![("x".to_owned(), is_unique)];
        for (parts, want) in [
            (SchemaParts::default(), Well),
            (SchemaParts { tables_missing: names("x"), ..SchemaParts::default() }, Failure),
            (SchemaParts { triggers_missing: names("x"), ..SchemaParts::default() }, Failure),
            (SchemaParts { indexes_missing: index(true), ..SchemaParts::default() }, Failure),
            (SchemaParts { indexes_missing: index(false), ..SchemaParts::default() }, Warning),
            (SchemaParts { indexes_unfinished: index(true), ..SchemaParts::default() }, Failure),
            (SchemaParts { indexes_unfinished: index(false), ..SchemaParts::default() }, Warning),
            (SchemaParts { indexes_others: index(true), ..SchemaParts::default() }, Failure),
            (SchemaParts { indexes_others: index(false), ..SchemaParts::default() }, Warning),
        ] {
            let found = schema(&parts);
            assert_eq!((found.len(), found[0].verdict), (1, want), "{parts:?}");
        }
    }
}
