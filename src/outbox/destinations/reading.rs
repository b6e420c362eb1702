//! One `[destinations.NAME]` while it is read.

use crate::config::{Checker, Field, Table};

/// The table of a destination, and where problems go.
pub(super) struct Reading<'r, 'c> {
    /// Collects what is wrong.
    pub(super) checker: &'r mut Checker<'c>,
    /// The keys that nobody took yet.
    pub(super) table: &'r mut Table,
    /// `url`, with the text that it stands for; `None` when it is absent or could not be read.
    pub(super) url: Option<(Field, String)>,
    /// `outbox.lease_ms`; `None` when it could not be read. Milliseconds.
    pub(super) lease_ms: Option<u64>,
}

/// The word of `unknown`, before the keys of `query` are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnknownWord {
    /// Send it again under the same key.
    Retry,
    /// Ask whether it happened, first.
    Query,
    /// A person decides what becomes of it.
    Hold,
}

impl Reading<'_, '_> {
    /// Takes `unknown`; `Retry` when it is absent and after a problem.
    pub(super) fn unknown(&mut self) -> UnknownWord {
        let words =
            [("retry", UnknownWord::Retry), ("query", UnknownWord::Query), ("hold", UnknownWord::Hold)];
        self.table.word(self.checker, "unknown", &words).unwrap_or(UnknownWord::Retry)
    }
}
