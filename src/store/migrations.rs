//! The embedded migrations: equal numbers and names for both databases, forward only.
//!
//! To add one: a file of the next number in both folders of `migrations/`, and one line here. One that only expands
//! (new tables, columns that are null or have a default) lets older binaries run beside it. One that takes away what an
//! older binary uses says so in its own text: `UPDATE schema_floor SET version = N`.

use super::db::Migration;

/// All of them, in order.
pub(super) const ALL: &[Migration] = &[Migration::new(
    1,
    "hooklatch",
    include_str!("../../migrations/sqlite/0001_hooklatch.sql"),
    include_str!("../../migrations/postgres/0001_hooklatch.sql"),
)];
