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
