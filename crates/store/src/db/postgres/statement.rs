//! Statements on PostgreSQL: values as arguments, rows with the names of their columns.
//!
//! The driver's connection as a [`Session`] of the pool.

use std::sync::Arc;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Column, Connection, PgConnection, Postgres, Row as _, TypeInfo, ValueRef};
use sqlx_core::database::Database;
use sqlx_core::transaction::TransactionManager;

use crate::db::error::{DbError, DbResult};
use crate::db::executor::Executor;
use crate::db::pool::Session;
use crate::db::value::{Cell, Row, Value};
use crate::db::warnings::refused_with_warning;
use hooklatch_core::stop::to_end;

fn bound<'q>(sql: &'static str, values: &'q [Value]) -> Query<'q, Postgres, PgArguments> {
    values.iter().fold(sqlx::query(sql), |query, value| match value {
        Value::Int(number) => query.bind(number),
        Value::Text(text) => query.bind(text.as_deref()),
        Value::Bytes(bytes) => query.bind(bytes.as_deref()),
        Value::Texts(texts) => query.bind(texts),
        Value::Ints(numbers) => query.bind(numbers),
    })
}

/// All rows that `sql` gives back.
pub(crate) async fn fetch(db: &mut PgConnection, sql: &'static str, values: &[Value]) -> DbResult<Vec<Row>> {
    let rows = bound(sql, values).fetch_all(db).await?;
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    let columns: Arc<[String]> = first.columns().iter().map(|column| column.name().to_owned()).collect();
    rows.iter().map(|found| row(found, &columns)).collect()
}

/// Returns how many rows `sql` changed.
pub(crate) async fn execute(db: &mut PgConnection, sql: &'static str, values: &[Value]) -> DbResult<u64> {
    Ok(bound(sql, values).execute(db).await?.rows_affected())
}

/// Returns the rows that a statement gave back.
pub(crate) fn row(found: &PgRow, columns: &Arc<[String]>) -> DbResult<Row> {
    let cells = (0..columns.len()).map(|n| cell(found, n)).collect::<DbResult<_>>()?;
    Ok(Row::new(Arc::clone(columns), cells))
}

fn cell(found: &PgRow, n: usize) -> DbResult<Cell> {
    let raw = found.try_get_raw(n)?;
    if raw.is_null() {
        return Ok(Cell::Null);
    }
    let kind = raw.type_info().name().to_owned();
    Ok(match kind.as_str() {
        "INT8" => Cell::Int(found.try_get(n)?),
        "INT4" => Cell::Int(found.try_get::<i32, _>(n)?.into()),
        "INT2" => Cell::Int(found.try_get::<i16, _>(n)?.into()),
        "BOOL" => Cell::Int(found.try_get::<bool, _>(n)?.into()),
        "NUMERIC" => {
            let bytes = raw.as_bytes().map_err(DbError::lost)?;
            whole(bytes).map_or(Cell::Other("NUMERIC that is no 64-bit whole number".to_owned()), Cell::Int)
        }
        "TEXT" | "VARCHAR" | "CHAR" | "NAME" | "UNKNOWN" => Cell::Text(found.try_get(n)?),
        "BYTEA" => Cell::Bytes(found.try_get(n)?),
        "VOID" => Cell::Null,
        _ => Cell::Other(kind),
    })
}

/// A NUMERIC as it comes over the wire, such as a sum of BIGINTs: how many digits to the base of 10,000, the weight of
/// the first, the sign, how many decimal places are shown, the digits. `None` for what is no 64-bit whole number.
fn whole(bytes: &[u8]) -> Option<i64> {
    let mut words =
        bytes.chunks_exact(2).map(|pair| pair.try_into().map(u16::from_be_bytes).unwrap_or_default());
    let (digits_n, weight, sign, _) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let weight = i32::from(weight.cast_signed());
    let mut sum: i128 = 0;
    for n in 0..i32::from(digits_n) {
        let digit = i128::from(words.next()?);
        match u32::try_from(weight - n) {
            // A further group of digits would not fit into 64 bits.
            Ok(power @ 0..=4) => sum += digit * 10_000_i128.pow(power),
            _ if digit != 0 => return None,
            _ => {}
        }
    }
    match sign {
        0 => i64::try_from(sum).ok(),
        0x4000 => i64::try_from(-sum).ok(),
        _ => None,
    }
}

type Transactions = <Postgres as Database>::TransactionManager;

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

    fn executor(&mut self) -> Executor<'_> {
        Executor::Postgres(self)
    }
}

#[cfg(test)]
mod tests {
    use super::whole;

    #[test]
    fn a_sum_that_is_a_whole_number_is_read_as_one() {
        let numeric = |weight: i16, sign: u16, digits: &[u16]| {
            let head = [u16::try_from(digits.len()).unwrap(), weight.cast_unsigned(), sign, 0];
            whole(&head.iter().chain(digits).flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>())
        };
        for (found, wanted) in [
            (numeric(0, 0, &[]), Some(0)),
            (numeric(0, 0, &[7]), Some(7)),
            (numeric(1, 0, &[1, 2]), Some(10_002)),
            (numeric(2, 0, &[5]), Some(500_000_000)),
            (numeric(0, 0x4000, &[42]), Some(-42)),
            (numeric(4, 0, &[922, 3372, 368, 5477, 5807]), Some(i64::MAX)),
            (numeric(4, 0, &[922, 3372, 368, 5477, 5808]), None),
            (numeric(4, 0x4000, &[922, 3372, 368, 5477, 5808]), Some(i64::MIN)),
            (numeric(5, 0, &[1]), None),
            (numeric(0, 0, &[1, 5000]), None),
            (numeric(0, 0xC000, &[]), None),
        ] {
            assert_eq!(found, wanted);
        }
    }
}
