//! A connection of the driver as what a pool has to know of one.

use sqlx::postgres::PgConnection;
use sqlx::{Connection, Postgres as Driver};
use sqlx_core::database::Database;
use sqlx_core::transaction::TransactionManager;

use crate::stop::to_end;
use crate::store::db::door::Door;
use crate::store::db::error::DbResult;
use crate::store::db::session::Session;
use crate::store::db::warnings::refused_with_warning;

type Transactions = <Driver as Database>::TransactionManager;

impl Session for PgConnection {
    async fn begin(&mut self) -> DbResult<()> {
        Ok(Transactions::begin(self, None).await?)
    }

    async fn commit(&mut self) -> DbResult<()> {
        refused_with_warning(async { Ok(Transactions::commit(self).await?) }).await
    }

    async fn roll_back(&mut self) -> DbResult<()> {
        Ok(Transactions::rollback(self).await?)
    }

    fn is_in_transaction(&self) -> bool {
        Transactions::get_transaction_depth(self) > 0
    }

    /// The driver reads on before it says the next thing.
    fn is_lost(&self) -> bool {
        false
    }

    async fn close(self) {
        // An error means that it is closed already.
        to_end(Connection::close(self)).await;
    }

    fn door(&mut self) -> Door<'_> {
        Door::Postgres(self)
    }
}
