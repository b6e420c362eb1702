//! The state of a schema: if it fits this binary.

/// The answer to the question if this binary may run on the database's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaState {
    /// The schema is as this binary wants it.
    Current,
    /// Older than this binary wants it: it has to be migrated.
    Behind {
        /// Version that is there.
        found: i64,
        /// Version that this binary wants.
        wanted: i64,
    },
    /// Newer than this binary knows, and it may run on it: everything it uses is still there.
    Expanded {
        /// Version that is there.
        found: i64,
        /// Version that this binary wants.
        wanted: i64,
    },
    /// Newer than this binary knows, and not for it any more.
    Ahead {
        /// Version that is there.
        found: i64,
        /// Version that this binary wants.
        wanted: i64,
        /// The oldest version that a binary may want there.
        floor: i64,
    },
}

impl SchemaState {
    /// Compares version numbers; 0 is an empty database. `floor` is the oldest version that a binary may want.
    pub(in crate::store) fn of(found: i64, floor: i64, wanted: i64) -> Self {
        match found.cmp(&wanted) {
            std::cmp::Ordering::Equal => Self::Current,
            std::cmp::Ordering::Less => Self::Behind { found, wanted },
            std::cmp::Ordering::Greater if wanted >= floor => Self::Expanded { found, wanted },
            std::cmp::Ordering::Greater => Self::Ahead { found, wanted, floor },
        }
    }

    /// True when the database has none of its tables.
    pub(crate) fn is_empty(self) -> bool {
        matches!(self, Self::Behind { found: 0, .. })
    }

    /// True when this binary may run on it.
    pub fn is_usable(self) -> bool {
        matches!(self, Self::Current | Self::Expanded { .. })
    }
}

impl std::fmt::Display for SchemaState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Current => f.write_str("current"),
            Self::Behind { found, wanted } => write!(
                f,
                "at version {found}, older than {wanted}: run `hooklatch migrate`, or set database.migrate = true"
            ),
            Self::Expanded { found, wanted } => {
                write!(f, "at version {found}, newer than {wanted} and still fit for it")
            }
            Self::Ahead { found, wanted, floor } => write!(
                f,
                "at version {found}, which takes binaries from version {floor} on, and this one wants {wanted}: \
                 start the Hooklatch that brought the schema there, or a later one"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_runs_on_its_own_schema_and_on_later_ones_that_still_take_it() {
        use SchemaState::{Ahead, Behind, Current, Expanded};
        for (found, floor, wanted, state, is_usable) in [
            (3, 1, 3, Current, true),
            // The database is empty.
            (0, 0, 3, Behind { found: 0, wanted: 3 }, false),
            (2, 1, 3, Behind { found: 2, wanted: 3 }, false),
            (4, 3, 3, Expanded { found: 4, wanted: 3 }, true),
            (9, 1, 3, Expanded { found: 9, wanted: 3 }, true),
            (4, 4, 3, Ahead { found: 4, wanted: 3, floor: 4 }, false),
        ] {
            let found = SchemaState::of(found, floor, wanted);
            assert_eq!((found, found.is_usable()), (state, is_usable));
        }
        let said = SchemaState::of(2, 1, 3).to_string();
        assert!(said.contains("hooklatch migrate"), "the remedy is told: {said}");
    }
}
