//! Transactions that never stand: handlers are run in one to see what they would do.
//!
//! To roll back at the end is not enough. A handler has the connection, and some say COMMIT, or are rolled back by a
//! statement and write on. So until the trial is over, nothing that this connection does can become lasting:
//!
//! - SQLite asks a hook before each commit, and the hook says no;
//! - on PostgreSQL a rule is broken that is looked at with the commit, and whatever comes after this transaction is
//!   read-only; the connection is closed then. Behind a pooler that lends sessions for a transaction each, the session
//!   is not ours to set, so there the broken rule is all.

use super::error::DbResult;
use super::limit::limited;
use super::store_error::StoreError;
use super::tx::{Tx, TxKind};

/// Outside of the transaction, which is begun anew after it.
const READ_ONLY: [&str; 3] = ["ROLLBACK", "SET default_transaction_read_only = on", "BEGIN READ WRITE"];
/// A rule that is broken from the beginning.
const BROKEN: &str =
    "CREATE TEMP TABLE hooklatch_trial (one INTEGER UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP;
     INSERT INTO pg_temp.hooklatch_trial (one) VALUES (1), (1)";

impl Tx {
    /// Sees to it that nothing of this transaction ever stands, and nothing that whoever gets it does after it. To be
    /// called first, and ended with [`Tx::trial_ends`].
    pub(in crate::store) async fn trial_begins(&mut self) -> Result<(), StoreError> {
        self.around = ("", "");
        let answer = match &self.kind {
            TxKind::Sqlite(_) => self.run_sqlite(|db| Ok(db.commit_hook(Some(|| true))?)).await,
            TxKind::Postgres(_, tidy) => {
                let is_our_session = !tidy.session.is_empty();
                self.broken(is_our_session).await
            }
        };
        self.noted("trial_begins", answer)
    }

    async fn broken(&mut self, is_our_session: bool) -> DbResult<()> {
        let mut door = self.door()?;
        if is_our_session {
            for sql in READ_ONLY {
                limited(door.batch(sql)).await?;
            }
        }
        limited(door.batch(BROKEN)).await
    }

    /// Rolls back, and gives the connection back as it was.
    pub(crate) async fn trial_ends(mut self) -> Result<(), StoreError> {
        match &self.kind {
            TxKind::Sqlite(_) if !self.is_abandoned => {
                let freed = self.run_sqlite(|db| Ok(db.commit_hook(None::<fn() -> bool>)?)).await;
                if freed.is_err() {
                    self.abandon();
                }
            }
            // Closed with its connection; no statement runs in it.
            TxKind::Postgres(..) if !self.is_abandoned => {
                self.process = None;
                self.abandon();
            }
            TxKind::Sqlite(_) | TxKind::Postgres(..) => {}
        }
        self.roll_back().await
    }
}
