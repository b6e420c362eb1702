//! Which parts of the schema are there.

use std::collections::{BTreeMap, BTreeSet};

use super::expected::Expected;
use super::facts::SchemaParts;
use crate::store::db::{DbResult, Door, Row, SchemaState, StoreError, Value};
use crate::store::handle::Store;
use crate::store::migrations;

const POSTGRES_TABLES: &str = "/* checkup_schema */ SELECT CAST(c.relname AS TEXT) AS name FROM pg_class c
    WHERE c.relnamespace = CAST(current_schema() AS regnamespace) AND c.relkind IN ('r', 'p')";
const POSTGRES_TRIGGERS: &str = "/* checkup_schema */ SELECT CAST(t.tgname AS TEXT) AS name FROM pg_trigger t
    JOIN pg_class c ON c.oid = t.tgrelid
    WHERE c.relnamespace = CAST(current_schema() AS regnamespace) AND NOT t.tgisinternal AND t.tgenabled IN ('O', 'A')";
const POSTGRES_INDEXES: &str = "/* checkup_schema */ SELECT CAST(i.relname AS TEXT) AS name,
        CAST(t.relname AS TEXT) AS of_table, x.indisunique AS is_unique,
        x.indisvalid AND x.indisready AS is_valid,
        EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = i.oid) AS is_of_constraint
    FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
    WHERE t.relnamespace = CAST(current_schema() AS regnamespace)";
const SQLITE_NAMES: &str = "/* checkup_schema */ SELECT name FROM sqlite_schema WHERE type = $1";
const SQLITE_INDEXES: &str =
    "/* checkup_schema */ SELECT i.name, i.tbl_name AS of_table, l.\"unique\" AS is_unique,
        1 AS is_valid, i.sql IS NULL AS is_of_constraint
    FROM sqlite_schema i JOIN pragma_index_list(i.tbl_name) l ON l.name = i.name WHERE i.type = 'index'";

/// One index that is there.
struct FoundIndex {
    of_table: String,
    is_unique: bool,
    is_valid: bool,
    is_of_constraint: bool,
}

impl Store {
    /// Compares the schema with what the migrations of this binary make.
    pub async fn checkup_schema(&self) -> Result<SchemaParts, StoreError> {
        let is_postgres = self.dialect() == "postgres";
        let expected = Expected::of(migrations::texts(is_postgres));
        let mut parts: SchemaParts = alone!(self.reader.checkup_schema(&expected))?;
        // A newer binary may have made some that this one does not know.
        if !matches!(self.schema_state().await?, SchemaState::Current) {
            parts.indexes_others.clear();
        }
        Ok(parts)
    }
}

async fn checkup_schema(db: &mut Door<'_>, expected: &Expected) -> DbResult<SchemaParts> {
    let (tables, triggers, indexes) = if db.is_postgres() {
        let tables = names(db, POSTGRES_TABLES, &[]).await?;
        (tables, names(db, POSTGRES_TRIGGERS, &[]).await?, indexes(db, POSTGRES_INDEXES).await?)
    } else {
        let tables = names(db, SQLITE_NAMES, &["table".into()]).await?;
        let triggers = names(db, SQLITE_NAMES, &["trigger".into()]).await?;
        (tables, triggers, indexes(db, SQLITE_INDEXES).await?)
    };
    Ok(compared(expected, &tables, &triggers, &indexes))
}

fn compared(
    expected: &Expected,
    tables: &BTreeSet<String>,
    triggers: &BTreeSet<String>,
    indexes: &BTreeMap<String, FoundIndex>,
) -> SchemaParts {
    let missing = |wanted: &BTreeSet<String>, found: &BTreeSet<String>| -> Vec<String> {
        wanted.difference(found).cloned().collect()
    };
    let wanted = |is_valid: Option<bool>| -> Vec<(String, bool)> {
        let is_so = |name: &String| indexes.get(name).map(|index| index.is_valid) == is_valid;
        let such = expected.indexes.iter().filter(|(name, _)| is_so(name));
        such.map(|(name, is_unique)| (name.clone(), *is_unique)).collect()
    };
    let is_other = |(name, index): &(&String, &FoundIndex)| {
        expected.tables.contains(&index.of_table)
            && !index.is_of_constraint
            && !expected.indexes.contains_key(*name)
    };
    let mut parts = SchemaParts {
        tables_missing: missing(&expected.tables, tables),
        triggers_missing: missing(&expected.triggers, triggers),
        indexes_missing: wanted(None),
        indexes_unfinished: wanted(Some(false)),
        indexes_others: indexes
            .iter()
            .filter(is_other)
            .map(|(name, one)| (name.clone(), one.is_unique))
            .collect(),
        fine_n: 0,
    };
    let wanted_n = expected.tables.len() + expected.triggers.len() + expected.indexes.len();
    let indexes_n = parts.indexes_missing.len() + parts.indexes_unfinished.len();
    let missing_n = parts.tables_missing.len() + parts.triggers_missing.len() + indexes_n;
    parts.fine_n = wanted_n.saturating_sub(missing_n);
    parts
}

async fn names(db: &mut Door<'_>, sql: &'static str, values: &[Value]) -> DbResult<BTreeSet<String>> {
    db.fetch(sql, values).await?.iter().map(|row| row.text("name")).collect()
}

async fn indexes(db: &mut Door<'_>, sql: &'static str) -> DbResult<BTreeMap<String, FoundIndex>> {
    let rows = db.fetch(sql, &[]).await?;
    let index = |row: &Row| {
        let index = FoundIndex {
            of_table: row.text("of_table")?,
            is_unique: row.is_true("is_unique")?,
            is_valid: row.is_true("is_valid")?,
            is_of_constraint: row.is_true("is_of_constraint")?,
        };
        Ok((row.text("name")?, index))
    };
    rows.iter().map(index).collect()
}
