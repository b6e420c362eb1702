//! What this process changes in the file: counted, and told to who keeps the witness (`witness.rs`).
//!
//! SQLite counts the rows that a connection changes; its thread compares before and after each piece of work. Nothing is
//! missed that way, whoever wrote it, and nothing waits. A transaction that is rolled back counts, too: that costs one
//! more look and nothing else.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

/// Operations that change nothing that a restore could lose: that a node is there, and the witness itself. A file that
/// was started and stopped without anything else is the one that it was.
const QUIET: [&str; 3] = ["node_seen", "node_gone", "witness_step"];

/// Changes of this process. What is told of them is one word, however many there were.
#[derive(Default)]
pub(in crate::store) struct FileChanges {
    works_n: AtomicU64,
    is_quiet: AtomicBool,
    told: Notify,
}

/// While this is there, what the writer does is not counted. Its owner holds the writer.
pub(in crate::store::db) struct QuietWork<'a>(&'a FileChanges);

impl Drop for QuietWork<'_> {
    fn drop(&mut self) {
        self.0.is_quiet.store(false, Ordering::SeqCst);
    }
}

impl FileChanges {
    /// Counts one piece of work that changed rows.
    pub(super) fn note(&self) {
        if !self.is_quiet.load(Ordering::SeqCst) {
            self.works_n.fetch_add(1, Ordering::SeqCst);
            self.told.notify_one();
        }
    }

    /// How often something was changed. What is not committed yet may be in it.
    pub(in crate::store) fn works_n(&self) -> u64 {
        self.works_n.load(Ordering::SeqCst)
    }

    /// Waits for a change since this was asked last. For one who asks.
    pub(in crate::store) async fn changed(&self) {
        self.told.notified().await;
    }

    /// To be held together with the writer.
    pub(in crate::store::db) fn quiet(&self, op: &'static str) -> Option<QuietWork<'_>> {
        QUIET.contains(&op).then(|| {
            self.is_quiet.store(true, Ordering::SeqCst);
            QuietWork(self)
        })
    }
}
