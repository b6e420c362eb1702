//! One `[destinations.NAME]` while it is read.

use crate::config::{Checker, Field, Table};
use crate::types::UnknownWord;

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

impl Reading<'_, '_> {
    /// Takes `unknown`; `Retry` when it is absent and after a problem.
    pub(super) fn unknown(&mut self) -> UnknownWord {
        let words: Vec<_> = UnknownWord::ALL.iter().map(|word| (word.as_str(), *word)).collect();
        self.table.word(self.checker, "unknown", &words).unwrap_or(UnknownWord::Retry)
    }
}
