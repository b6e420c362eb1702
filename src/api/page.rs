//! Lists, a page at a time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rows of a list unless `limit` says otherwise.
pub const PAGE_N_DEFAULT: u32 = 50;
/// Most rows that `limit` may ask for.
pub const PAGE_N_MAX: u32 = 500;

/// One page of a list.
///
/// Rows that arrive meanwhile move no row from one page to another. A cursor is opaque: it is given back as it came.
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
}

impl<T> Page<T> {
    /// A page that is the whole list.
    pub fn whole(items: Vec<T>) -> Self {
        Self { items, next: None, since: None, looked_back_to_ms: None }
    }
}
