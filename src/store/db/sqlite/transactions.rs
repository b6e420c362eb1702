//! SQLite's connection as what a pool has to know of one.

use std::sync::atomic::Ordering;

use tokio::sync::oneshot;

use super::session::{Errand, SqliteSession};
use crate::stop::to_end;
use crate::store::db::door::Door;
use crate::store::db::error::{DbError, DbResult};
use crate::store::db::session::Session;

impl Session for SqliteSession {
    async fn begin(&mut self) -> DbResult<()> {
        let begin = self.begin;
        self.run(move |db| Ok(db.execute_batch(begin)?)).await
    }

    async fn commit(&mut self) -> DbResult<()> {
        self.shared.is_handlers.store(false, Ordering::SeqCst);
        self.run(|db| {
            if db.is_autocommit() {
                return Err(DbError::no_transaction());
            }
            Ok(db.execute_batch("COMMIT")?)
        })
        .await
    }

    async fn roll_back(&mut self) -> DbResult<()> {
        self.shared.is_handlers.store(false, Ordering::SeqCst);
        // Work that was given up comes first in the queue; it was interrupted, so it ends soon.
        self.hop(|db| {
            if db.is_autocommit() {
                return Err(DbError::no_transaction());
            }
            Ok(db.execute_batch("ROLLBACK")?)
        })
        .await
    }

    fn is_in_transaction(&self) -> bool {
        self.shared.is_in_transaction.load(Ordering::SeqCst)
    }

    fn is_lost(&self) -> bool {
        self.shared.is_lost()
    }

    async fn close(self) {
        let (tell, told) = oneshot::channel();
        if self.errands.send(Errand::Close(tell)).is_ok() {
            // Waiting always ends with an error: nothing is sent, and the other end is dropped.
            to_end(told).await;
        }
    }

    fn door(&mut self) -> Door<'_> {
        Door::Sqlite(self)
    }
}
