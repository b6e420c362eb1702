//! Rows that cannot be read: a value of theirs is none that any version writes (no state of ours, no UTF-8, NULL where
//! there is none). On SQLite a file may be damaged; on both databases another program may have written to the tables.
//!
//! A function that reads many rows reads them with [`intact`]: a damaged row is skipped, counted and logged, and the
//! others are processed. A function for one row returns the error, with table and key ([`of_row`]). Claims of messages
//! hold such a row (`message/claimed.rs`), and so does the look for due events (`event/mod.rs`).

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use super::db::{DbError, DbResult, Row};
use hooklatch_contract::DamagedRow;

/// Rows that are remembered as logged: beyond that a damaged row is counted at each look, and not logged.
const REMEMBERED_N_MAX: usize = 1_000;

/// The rows of a page, those that are damaged apart.
#[derive(Debug)]
pub(super) struct IntactRows<T> {
    pub rows: Vec<T>,
    pub damaged: Vec<DamagedRow>,
}

impl<T> Default for IntactRows<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), damaged: Vec::new() }
    }
}

impl<T> IntactRows<T> {
    /// Adds a row of `table` with the key in `column`; one that is damaged is noted instead.
    pub(crate) fn add(
        &mut self,
        table: &'static str,
        column: &str,
        row: &Row,
        read: impl FnOnce(&Row) -> DbResult<T>,
    ) -> DbResult<()> {
        match read(row) {
            Ok(one) => self.rows.push(one),
            Err(error) => self.damaged.push(note(table, &row.key_text(column), error)?),
        }
        Ok(())
    }
}

/// Reads each of these rows of `table`, whose key is in `column`. Any other error than a damaged row is one.
pub(super) fn intact<T>(
    table: &'static str,
    column: &str,
    rows: &[Row],
    mut read: impl FnMut(&Row) -> DbResult<T>,
) -> DbResult<IntactRows<T>> {
    let mut found = IntactRows { rows: Vec::with_capacity(rows.len()), damaged: Vec::new() };
    for row in rows {
        found.add(table, column, row, &mut read)?;
    }
    Ok(found)
}

/// Counts and logs a row that `error` says cannot be read; gives back every other error.
pub(crate) fn note(table: &'static str, key: &str, error: DbError) -> DbResult<DamagedRow> {
    if !error.is_damage() {
        return Err(error);
    }
    record(table, key, &error);
    Ok(DamagedRow { table: table.to_owned(), key: key.to_owned(), why: error.to_string() })
}

/// Counts and logs a damaged row, once each.
fn record(table: &'static str, key: &str, error: &DbError) {
    if let Some(is_remembered) = is_first_time(table, key) {
        metrics::counter!("hooklatch_damaged_rows_total", "table" => table).increment(1);
        if is_remembered {
            tracing::error!(
                table,
                key,
                error = error.to_string(),
                "row is damaged and was left out; repair it as docs/runbooks/row-damaged.md says"
            );
        }
    }
}

/// The result of reading the one row that was asked for: damage is counted, logged, and an error that names the row.
pub(super) fn of_row<T>(table: &'static str, key: &str, read: DbResult<T>) -> DbResult<T> {
    read.map_err(|error| {
        if error.is_damage() {
            record(table, key, &error);
        }
        error.of_row(table, key)
    })
}

/// `Some` when this process reads the damaged row for the first time: true when it is remembered from now on.
fn is_first_time(table: &'static str, key: &str) -> Option<bool> {
    static MET: Mutex<BTreeSet<(&'static str, String)>> = Mutex::new(BTreeSet::new());
    let mut met = MET.lock().unwrap_or_else(PoisonError::into_inner);
    if met.contains(&(table, key.to_owned())) {
        return None;
    }
    let is_remembered = met.len() < REMEMBERED_N_MAX;
    if is_remembered {
        met.insert((table, key.to_owned()));
    }
    Some(is_remembered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_row_is_met_for_the_first_time_once() {
        assert_eq!(is_first_time("a", "1"), Some(true));
        assert_eq!((is_first_time("a", "1"), is_first_time("b", "1")), (None, Some(true)));
        for n in 0..REMEMBERED_N_MAX {
            is_first_time("many", &n.to_string());
        }
        assert_eq!(is_first_time("one more", "1"), Some(false), "counted, and not logged");
    }

    #[test]
    fn only_damage_is_left_out() {
        let damaged = note("outbox_queue", "7", DbError::decode("state", "`x`")).unwrap();
        assert_eq!((damaged.table.as_str(), damaged.key.as_str()), ("outbox_queue", "7"));
        assert!(damaged.why.contains("`state`"));
        assert!(note("outbox_queue", "7", DbError::no_column("state")).is_err(), "a statement that is wrong");
        let named = of_row::<()>("outbox_queue", "7", Err(DbError::decode("state", "`x`"))).unwrap_err();
        assert_eq!(named.to_string(), "`outbox_queue` row `7`: column `state` holds `x`");
        assert!(named.is_damage());
    }
}
