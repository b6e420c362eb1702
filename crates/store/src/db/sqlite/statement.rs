//! Statements on SQLite: values bound by their number, rows with the names of their columns.
//!
//! SQLite's connection as a [`Session`] of the pool.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Statement};
use tokio::sync::oneshot;

use super::session::{Job, SqliteSession};
use crate::db::error::{DbError, DbResult};
use crate::db::executor::Executor;
use crate::db::pool::Session;
use crate::db::value::{Cell, Row, Value};
use hooklatch_core::stop::to_end;

/// All rows that `sql` gives back.
pub(crate) fn fetch(db: &Connection, sql: &str, values: &[Value]) -> DbResult<Vec<Row>> {
    let mut statement = db.prepare_cached(sql)?;
    bind(&mut statement, values)?;
    let columns: Arc<[String]> = statement.column_names().into_iter().map(str::to_owned).collect();
    let mut found = Vec::new();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        let cells = (0..columns.len()).map(|n| row.get_ref(n).map_err(DbError::from).map(cell));
        found.push(Row::new(Arc::clone(&columns), cells.collect::<DbResult<_>>()?));
    }
    Ok(found)
}

/// Returns how many rows `sql` changed. Rows that it gives back are left.
pub(crate) fn execute(db: &Connection, sql: &str, values: &[Value]) -> DbResult<u64> {
    let mut statement = db.prepare_cached(sql)?;
    bind(&mut statement, values)?;
    let before = db.total_changes();
    let mut rows = statement.raw_query();
    while rows.next()?.is_some() {}
    // Changes by triggers and foreign keys do not count as the statement's own.
    Ok(if db.total_changes() == before { 0 } else { db.changes() })
}

/// `$3` and `?3` are the third value, whatever comes first in the text; `?` is the next one.
fn bind(statement: &mut Statement<'_>, values: &[Value]) -> DbResult<()> {
    for place in 1..=statement.parameter_count() {
        let number = match statement.parameter_name(place) {
            Some(name) => name.get(1..).and_then(|number| number.parse().ok()),
            None => Some(place),
        };
        let value = number.and_then(|number: usize| values.get(number.checked_sub(1)?));
        let Some(value) = value else {
            let name = statement.parameter_name(place).unwrap_or("?").to_owned();
            return Err(DbError::unsaid(format!("`{name}` has no value: {} are given", values.len())));
        };
        match value {
            Value::Int(number) => statement.raw_bind_parameter(place, number)?,
            Value::Text(text) => statement.raw_bind_parameter(place, text)?,
            Value::Bytes(bytes) => statement.raw_bind_parameter(place, bytes)?,
            Value::Texts(texts) => statement.raw_bind_parameter(place, list(texts)?)?,
            Value::Ints(numbers) => statement.raw_bind_parameter(place, list(numbers)?)?,
        }
    }
    Ok(())
}

/// Writes a list as `json_each` reads it.
fn list<T: serde::Serialize>(all: &[T]) -> DbResult<String> {
    serde_json::to_string(all).map_err(DbError::unsaid)
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(number) => Cell::Int(number),
        // One such cell leaves the other cells and rows readable.
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).map_or_else(
            |_| Cell::Other("TEXT that is not UTF-8".to_owned()),
            |text| Cell::Text(text.to_owned()),
        ),
        ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_vec()),
        ValueRef::Real(_) => Cell::Other("REAL".to_owned()),
    }
}

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
        let (guard, closed) = oneshot::channel();
        if self.jobs.send(Job::Close(guard)).is_ok() {
            // Waiting always ends with an error: nothing is sent, and the other end is dropped.
            to_end(closed).await;
        }
    }

    fn executor(&mut self) -> Executor<'_> {
        Executor::Sqlite(self)
    }
}
