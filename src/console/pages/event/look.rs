//! How much of a ledger is to be shown, from the address of the page.

use axum::extract::RawQuery;

use crate::console::parts::field;

/// How the page is to be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LedgerLook {
    /// True when the body is to be shown as it was sent, not indented.
    pub(super) is_as_sent: bool,
    /// True when all entries are to be shown, however many.
    pub(super) has_all_entries: bool,
}

impl LedgerLook {
    /// Reads `body=sent` and `entries=all`.
    pub(super) fn of(raw: &RawQuery) -> Self {
        let values = field::values(raw);
        Self {
            is_as_sent: field::value(&values, "body") == Some("sent"),
            has_all_entries: field::value(&values, "entries") == Some("all"),
        }
    }
}
