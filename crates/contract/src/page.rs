//! Lists, a page at a time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Default of `limit`, in rows.
pub const PAGE_N_DEFAULT: u32 = 50;
/// Largest `limit`, in rows.
pub const PAGE_N_MAX: u32 = 500;

/// One page of a list.
///
/// Rows that arrive meanwhile move no row from one page to another. A cursor is opaque: clients pass it back unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "{T}Page")]
pub struct Page<T> {
    /// The rows, the newest first unless the list says otherwise. At most `limit`; a page may hold fewer, even none,
    /// and still have a next one: a filter that finds little stops after so many rows were looked at.
    pub items: Vec<T>,
    /// The value of `cursor` for the rows that come after these; `null` when there are none.
    pub next: Option<String>,
    /// The value of `since` for the rows that arrive after these, where the list has that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// With a page that was cut short by the bound on rows looked at: every row that is newer than this time has been
    /// looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked_back_to_ms: Option<i64>,
    /// Rows that belong here and cannot be read, because a value of theirs is damaged. They are in no list until they are
    /// repaired; the pages of the other rows are complete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<DamagedRow>,
}

/// A row of the database that cannot be read: one of its values is none that Hooklatch writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DamagedRow {
    /// Name of its table or view.
    pub table: String,
    /// Its key: of events and messages, their number.
    pub key: String,
    /// The column that cannot be read, and what it holds.
    pub why: String,
}

impl DamagedRow {
    /// The row in one sentence, and what to do about it.
    pub fn sentence(&self) -> String {
        format!(
            "A row is damaged and is not shown: `{}` `{}`, {}. Repair it (docs/runbooks/row-damaged.md).",
            self.table, self.key, self.why
        )
    }
}

impl<T> Page<T> {
    /// A page that is the whole list.
    pub fn whole(items: Vec<T>) -> Self {
        Self { items, next: None, since: None, looked_back_to_ms: None, damaged: Vec::new() }
    }
}
