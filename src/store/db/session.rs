//! A connection, as far as a pool has to know it.

use std::future::Future;

use super::door::Door;
use super::error::DbResult;

/// One connection to a database. Dropping it closes it, and interrupts what still runs in it.
pub(in crate::store) trait Session: Sized + Send + 'static {
    /// Opens a transaction that may write, where this connection may.
    fn begin(&mut self) -> impl Future<Output = DbResult<()>> + Send;

    /// Commits. An error unless the transaction was open and the database confirmed it without a warning.
    fn commit(&mut self) -> impl Future<Output = DbResult<()>> + Send;

    /// Rolls back; works on a connection whose statement was interrupted, too.
    fn roll_back(&mut self) -> impl Future<Output = DbResult<()>> + Send;

    /// True when a transaction is open in it, as far as is known.
    fn is_in_transaction(&self) -> bool;

    /// True when a statement was given up in the middle: it can only be closed.
    fn is_lost(&self) -> bool;

    /// Says goodbye to the database and closes the connection.
    fn close(self) -> impl Future<Output = ()> + Send;

    /// Opens the door for statements that both databases know.
    fn door(&mut self) -> Door<'_>;
}
