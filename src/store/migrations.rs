//! The embedded migrations: equal numbers and names in both dialects, forward only.
//!
//! To add one: a file of the next number in both folders of `migrations/`, and one line here. One that only expands
//! (new tables, columns that are null or have a default) lets older binaries run beside it. One that takes away what an
//! older binary uses says so in its own text: `UPDATE schema_floor SET version = N`.

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, SqlSafeStr};

/// Number, name, SQLite's text, PostgreSQL's text.
const ALL: &[(i64, &str, &str, &str)] = &[
    (
        1,
        "latch_and_outbox",
        include_str!("../../migrations/sqlite/0001_latch_and_outbox.sql"),
        include_str!("../../migrations/postgres/0001_latch_and_outbox.sql"),
    ),
    (
        2,
        "operators",
        include_str!("../../migrations/sqlite/0002_operators.sql"),
        include_str!("../../migrations/postgres/0002_operators.sql"),
    ),
    (
        3,
        "lanes",
        include_str!("../../migrations/sqlite/0003_lanes.sql"),
        include_str!("../../migrations/postgres/0003_lanes.sql"),
    ),
    (
        4,
        "pauses",
        include_str!("../../migrations/sqlite/0004_pauses.sql"),
        include_str!("../../migrations/postgres/0004_pauses.sql"),
    ),
    (
        5,
        "responses",
        include_str!("../../migrations/sqlite/0005_responses.sql"),
        include_str!("../../migrations/postgres/0005_responses.sql"),
    ),
    (
        6,
        "evidence",
        include_str!("../../migrations/sqlite/0006_evidence.sql"),
        include_str!("../../migrations/postgres/0006_evidence.sql"),
    ),
    (
        7,
        "schema_floor",
        include_str!("../../migrations/sqlite/0007_schema_floor.sql"),
        include_str!("../../migrations/postgres/0007_schema_floor.sql"),
    ),
    (
        8,
        "identity",
        include_str!("../../migrations/sqlite/0008_identity.sql"),
        include_str!("../../migrations/postgres/0008_identity.sql"),
    ),
    (
        9,
        "taught_secrets",
        include_str!("../../migrations/sqlite/0009_taught_secrets.sql"),
        include_str!("../../migrations/postgres/0009_taught_secrets.sql"),
    ),
];

/// The version this binary wants.
pub(super) fn latest() -> i64 {
    ALL.last().map_or(0, |(version, ..)| *version)
}

pub(super) fn sqlite() -> Migrator {
    migrator(|(.., sqlite, _)| sqlite)
}

pub(super) fn postgres() -> Migrator {
    migrator(|(.., postgres)| postgres)
}

fn migrator(text: impl Fn(&(i64, &'static str, &'static str, &'static str)) -> &'static str) -> Migrator {
    let one = |migration: &(i64, &'static str, &'static str, &'static str)| {
        let sql = AssertSqlSafe(text(migration)).into_sql_str();
        Migration::new(migration.0, migration.1.into(), MigrationType::Simple, sql, false)
    };
    // A newer binary may have gone further; `schema_floor` says whether this one may run beside it. No lock of the
    // driver's: it is one of a session, which a pooler may share; ours is one of the transaction.
    Migrator {
        migrations: ALL.iter().map(one).collect(),
        ignore_missing: true,
        locking: false,
        ..Migrator::DEFAULT
    }
}

/// Whether this binary and the database's schema fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaState {
    /// As this binary wants it.
    Current,
    /// Older: migrate.
    Behind {
        /// What is there.
        found: i64,
        /// What this binary wants.
        wanted: i64,
    },
    /// Newer than this binary knows, and it may run on it: everything it uses is still there.
    Expanded {
        /// What is there.
        found: i64,
        /// What this binary wants.
        wanted: i64,
    },
    /// Newer than this binary knows, and not for it any more.
    Ahead {
        /// What is there.
        found: i64,
        /// What this binary wants.
        wanted: i64,
        /// The oldest version that a binary may want there.
        floor: i64,
    },
}

impl SchemaState {
    /// Compares version numbers; 0 is an empty database. `floor` is the oldest version that a binary may want.
    pub(super) fn of(found: i64, floor: i64, wanted: i64) -> Self {
        match found.cmp(&wanted) {
            std::cmp::Ordering::Equal => Self::Current,
            std::cmp::Ordering::Less => Self::Behind { found, wanted },
            std::cmp::Ordering::Greater if wanted >= floor => Self::Expanded { found, wanted },
            std::cmp::Ordering::Greater => Self::Ahead { found, wanted, floor },
        }
    }

    /// Whether this binary may run on it.
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
