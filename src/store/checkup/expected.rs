//! The tables, indexes and triggers that migrations make, from their texts.

use std::collections::{BTreeMap, BTreeSet};

/// Names of what migrations make.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) tables: BTreeSet<String>,
    pub(super) triggers: BTreeSet<String>,
    /// Indexes, and whether they are unique.
    pub(super) indexes: BTreeMap<String, bool>,
}

impl Expected {
    /// Reads the texts in the order in which they are applied.
    pub(super) fn of<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut expected = Self::default();
        for line in texts.flat_map(str::lines) {
            expected.read(line);
        }
        expected
    }

    fn read(&mut self, line: &str) {
        let skipped = ["CONCURRENTLY", "IF", "NOT", "EXISTS"];
        let mut words =
            line.split([' ', '(', ';']).filter(|word| !word.is_empty() && !skipped.contains(word));
        let (verb, mut noun) = (words.next(), words.next());
        let is_unique = noun == Some("UNIQUE");
        if is_unique {
            noun = words.next();
        }
        let Some(name) = words.next().map(str::to_owned) else { return };
        match (verb, noun) {
            (Some("CREATE"), Some("TABLE")) => drop(self.tables.insert(name)),
            (Some("CREATE"), Some("TRIGGER")) => drop(self.triggers.insert(name)),
            (Some("CREATE"), Some("INDEX")) => drop(self.indexes.insert(name, is_unique)),
            (Some("DROP"), Some("TABLE")) => drop(self.tables.remove(&name)),
            (Some("DROP"), Some("TRIGGER")) => drop(self.triggers.remove(&name)),
            (Some("DROP"), Some("INDEX")) => drop(self.indexes.remove(&name)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_migrations_write_them() {
        let text = "CREATE TABLE a (\n    x BIGINT\n);\nCREATE UNIQUE INDEX a_x ON a (x);\nCREATE INDEX a_y ON a (y)\n\
            CREATE TRIGGER a_t BEFORE UPDATE ON a FOR EACH ROW\n    SELECT 1;\n-- CREATE TABLE no";
        let further = "DROP INDEX CONCURRENTLY IF EXISTS a_y;\nCREATE INDEX CONCURRENTLY a_z ON a (z);\nCREATE TABLE IF NOT EXISTS b (";
        let found = Expected::of([text, further].into_iter());
        assert_eq!(found.tables, ["a", "b"].map(str::to_owned).into());
        assert_eq!(found.triggers, ["a_t"].map(str::to_owned).into());
        assert_eq!(found.indexes, [("a_x".to_owned(), true), ("a_z".to_owned(), false)].into());
    }

    #[test]
    fn both_databases_have_the_same_indexes() {
        let [one, other] = [
            include_str!("../../../migrations/sqlite/0001_hooklatch.sql"),
            include_str!("../../../migrations/postgres/0001_hooklatch.sql"),
        ]
        .map(|text| Expected::of(std::iter::once(text)));
        // A table without another key has its key in a unique index, or is it.
        let of_both: Vec<&String> =
            one.indexes.keys().filter(|name| other.indexes.contains_key(*name)).collect();
        assert!(of_both.len() > 15 && other.tables.len() > 20, "{of_both:?}");
        assert!(one.triggers.len() >= 4 && other.triggers.len() >= 4);
    }
}
