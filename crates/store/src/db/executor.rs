//! One connection of either database, for statements written once for both: all that are not performance-critical.
//!
//! SQL is written in PostgreSQL's dialect and translated here. All that SQLite writes differently is in this table:
//!
//! | PostgreSQL | SQLite |
//! |---|---|
//! | `= ANY($1)`, a list | `IN (SELECT value FROM json_each($1))` |
//! | `<> ALL($1)`, a list | `NOT IN (SELECT value FROM json_each($1))` |
//! | `x IN ('a', 'b', 'c')`, three words or more | `(x IN ('a', 'b') OR x = 'c')`: two at a time |
//! | `LEAST(`, `GREATEST(` | `MIN(`, `MAX(` |
//! | `FOR UPDATE`, also with `OF x` and `SKIP LOCKED` | nothing: there is one writer |
//! | `BYTEA)`, of a cast | `BLOB)` |
//! | `{clock_ms}`: the database's clock, in milliseconds | the end of all time: the node's own clock goes first |
//!
//! SQLite makes a table of a list of three words or more before it looks into it: for an index with such a condition at
//! each row that is inserted, which took a quarter of what it did for an event. So its indexes say it in this other way.
//!
//! Quoted texts and comments stay as they are. Casts are written `CAST(x AS BIGINT)`, which both databases accept.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use sqlx::{AssertSqlSafe, PgConnection};

use super::backend::BoxedWork;
use super::error::{DbError, DbResult};
use super::limit::limited;
use super::sqlite::SqliteSession;
use super::value::{Row, Value};
use super::{postgres, sqlite};

/// One connection. Texts are in PostgreSQL's dialect, as far as the table above translates it, and never hold a value:
/// values are bound to `$1`, `$2`, …. A text may be built, of parts of the program alone: its translation is cached,
/// and each connection prepares it once. Each statement ends within seconds, or its connection is lost.
pub(crate) enum Executor<'a> {
    /// A connection to a file.
    Sqlite(&'a mut SqliteSession),
    /// A session at READ COMMITTED.
    Postgres(&'a mut PgConnection),
}

impl Executor<'_> {
    pub(crate) fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// PostgreSQL's connection; an error on SQLite. The caller sets a limit.
    pub(crate) fn pg(&mut self) -> DbResult<&mut PgConnection> {
        match self {
            Self::Postgres(db) => Ok(db),
            Self::Sqlite(_) => Err(DbError::unsaid("this is for PostgreSQL, and SQLite is what there is")),
        }
    }

    /// All rows that a statement gives back, in its order.
    pub(crate) async fn fetch(
        &mut self,
        sql: impl Into<Cow<'static, str>>,
        values: &[Value],
    ) -> DbResult<Vec<Row>> {
        self.fetched(sql.into(), values).await
    }

    /// Boxed, so that its code is compiled here, and not in each crate that awaits it.
    fn fetched<'s>(
        &'s mut self,
        sql: Cow<'static, str>,
        values: &'s [Value],
    ) -> BoxedWork<'s, DbResult<Vec<Row>>> {
        Box::pin(limited(async move {
            match self {
                Self::Sqlite(db) => fetch_on_sqlite(db, sqlite(sql), values).await,
                Self::Postgres(db) => postgres::fetch(db, postgres(sql), values).await,
            }
        }))
    }

    /// The first row, if there is one.
    pub(crate) async fn fetch_optional(
        &mut self,
        sql: impl Into<Cow<'static, str>>,
        values: &[Value],
    ) -> DbResult<Option<Row>> {
        Ok(self.fetch(sql, values).await?.into_iter().next())
    }

    /// The first row, which must be there.
    pub(crate) async fn fetch_one(
        &mut self,
        sql: impl Into<Cow<'static, str>>,
        values: &[Value],
    ) -> DbResult<Row> {
        self.fetch_optional(sql, values).await?.ok_or_else(DbError::vanished)
    }

    /// Returns how many rows a statement changed.
    pub(crate) async fn execute(
        &mut self,
        sql: impl Into<Cow<'static, str>>,
        values: &[Value],
    ) -> DbResult<u64> {
        self.executed(sql.into(), values).await
    }

    fn executed<'s>(
        &'s mut self,
        sql: Cow<'static, str>,
        values: &'s [Value],
    ) -> BoxedWork<'s, DbResult<u64>> {
        Box::pin(limited(async move {
            match self {
                Self::Sqlite(db) => execute_on_sqlite(db, sqlite(sql), values).await,
                Self::Postgres(db) => postgres::execute(db, postgres(sql), values).await,
            }
        }))
    }

    /// Runs a statement as it stands, for as long as it takes; for statements of handlers.
    pub(super) async fn execute_as_is(&mut self, sql: &'static str, values: &[Value]) -> DbResult<u64> {
        match self {
            Self::Sqlite(db) => execute_on_sqlite(db, sql, values).await,
            Self::Postgres(db) => postgres::execute(db, sql, values).await,
        }
    }

    /// All rows of a statement as it stands, for as long as it takes; for those of handlers, and those that read all
    /// there is.
    pub(crate) async fn fetch_as_is(&mut self, sql: &'static str, values: &[Value]) -> DbResult<Vec<Row>> {
        match self {
            Self::Sqlite(db) => fetch_on_sqlite(db, sql, values).await,
            Self::Postgres(db) => postgres::fetch(db, sql, values).await,
        }
    }

    /// Several statements without values, one after the other, as they stand, for as long as they take.
    pub(crate) async fn batch(&mut self, sql: impl Into<String>) -> DbResult<()> {
        self.batched(sql.into()).await
    }

    fn batched(&mut self, sql: String) -> BoxedWork<'_, DbResult<()>> {
        Box::pin(async move {
            match self {
                Self::Sqlite(db) => db.run(move |db| Ok(db.execute_batch(&sql)?)).await,
                Self::Postgres(db) => {
                    Ok(sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut **db).await.map(drop)?)
                }
            }
        })
    }
}

async fn fetch_on_sqlite(db: &mut SqliteSession, sql: &'static str, values: &[Value]) -> DbResult<Vec<Row>> {
    let values = values.to_vec();
    db.run(move |db| sqlite::fetch(db, sql, &values)).await
}

async fn execute_on_sqlite(db: &mut SqliteSession, sql: &'static str, values: &[Value]) -> DbResult<u64> {
    let values = values.to_vec();
    db.run(move |db| sqlite::execute(db, sql, &values)).await
}

/// The database's own clock. In Unix milliseconds.
const CLOCK_MS: &str = "{clock_ms}";
const CLOCK_MS_POSTGRES: &str = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)";
const CLOCK_MS_SQLITE: &str = "9223372036854775807";

/// Translations by the text that they were made from.
type Texts = RwLock<HashMap<Cow<'static, str>, &'static str>>;
static OF_POSTGRES: LazyLock<Texts> = LazyLock::new(Texts::default);
static OF_SQLITE: LazyLock<Texts> = LazyLock::new(Texts::default);

/// Returns the statement in PostgreSQL's dialect.
pub(crate) fn postgres(sql: Cow<'static, str>) -> &'static str {
    match sql {
        Cow::Borrowed(sql) if !sql.contains(CLOCK_MS) => sql,
        sql => kept(&OF_POSTGRES, sql, to_postgres),
    }
}

/// Returns the statement in SQLite's dialect.
pub(crate) fn sqlite(sql: Cow<'static, str>) -> &'static str {
    kept(&OF_SQLITE, sql, to_sqlite)
}

/// Translates each text of the program once and keeps the translation permanently: texts are built of the program's own
/// parts, never of values, so there are few.
fn kept(texts: &Texts, sql: Cow<'static, str>, translate: fn(&str) -> String) -> &'static str {
    if let Some(translated) = texts.read().unwrap_or_else(PoisonError::into_inner).get(&sql) {
        return translated;
    }
    let translated = translate(&sql);
    texts.write().unwrap_or_else(PoisonError::into_inner).entry(sql).or_insert_with(|| translated.leak())
}

fn to_postgres(sql: &str) -> String {
    sql.replace(CLOCK_MS, CLOCK_MS_POSTGRES)
}

pub(crate) fn to_sqlite(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len() + 64);
    let mut rest = sql;
    // True when a word begins here.
    let mut is_start = true;
    while let Some(first) = rest.chars().next() {
        let (text, after) = untouched(rest).or_else(|| replaced(rest, is_start)).unwrap_or_else(|| {
            let (text, after) = rest.split_at_checked(first.len_utf8()).unwrap_or((rest, ""));
            (text.to_owned(), after)
        });
        is_start = !text.ends_with(|c| is_of_word(c) || c == '.');
        if text.is_empty() {
            out.truncate(out.trim_end().len());
        }
        out.push_str(&text);
        rest = after;
    }
    out
}

/// A quoted text or a comment at the beginning of `sql`, and the text after it.
fn untouched(sql: &str) -> Option<(String, &str)> {
    let (open, close) = [("'", "'"), ("\"", "\""), ("/*", "*/"), ("--", "\n")]
        .into_iter()
        .find(|(open, _)| sql.starts_with(open))?;
    let inside = sql.strip_prefix(open)?;
    let (inside, after) = inside.split_once(close).unwrap_or((inside, ""));
    Some((format!("{open}{inside}{close}"), after))
}

/// Returns SQLite's translation of the beginning of `sql`, and the text after it.
fn replaced(sql: &str, is_start: bool) -> Option<(String, &str)> {
    if let Some(after) = sql.strip_prefix(CLOCK_MS) {
        return Some((CLOCK_MS_SQLITE.to_owned(), after));
    }
    for (list, membership) in [("= ANY(", "IN"), ("<> ALL(", "NOT IN")] {
        if let Some((value, after)) = sql.strip_prefix(list).and_then(|rest| rest.split_once(')')) {
            return Some((format!("{membership} (SELECT value FROM json_each({value}))"), after));
        }
    }
    if !is_start {
        return None;
    }
    if let Some(after) = sql.strip_prefix("FOR UPDATE") {
        let after = after.strip_prefix(" OF ").map_or(after, |table| table.trim_start_matches(is_of_word));
        return Some((String::new(), after.strip_prefix(" SKIP LOCKED").unwrap_or(after)));
    }
    let names = [("LEAST(", "MIN("), ("GREATEST(", "MAX("), ("BYTEA)", "BLOB)")];
    let Some((name, other)) = names.into_iter().find(|(name, _)| sql.starts_with(name)) else {
        return one_of_words(sql);
    };
    Some((other.to_owned(), sql.strip_prefix(name)?))
}

/// `column IN ('a', 'b', 'c')` at the beginning of `sql` with two words in each list, and the text after it. Not with
/// one: a condition on one state would then find an index of several states.
fn one_of_words(sql: &str) -> Option<(String, &str)> {
    let (column, list) = sql.split_once(" IN ('")?;
    let (words, after) = list.split_once("')")?;
    let is_of_column = |c: char| c.is_ascii_lowercase() || c == '_' || c == '.';
    let words: Vec<&str> = words.split("', '").collect();
    let is_column = !column.is_empty() && column.chars().all(is_of_column);
    if words.len() < 3 || !is_column || !words.concat().chars().all(is_of_word) {
        return None;
    }
    let two = |words: &[&str]| match words {
        [one] => format!("{column} = '{one}'"),
        several => format!("{column} IN ('{}')", several.join("', '")),
    };
    let lists: Vec<String> = words.chunks(2).map(two).collect();
    Some((format!("({})", lists.join(" OR ")), after))
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod translate_tests {
    use super::*;

    #[test]
    fn sqlite_says_these_otherwise() {
        for (sql, wanted) in [
            ("SELECT 1", "SELECT 1"),
            ("WHERE a = ANY($1) AND b = $2", "WHERE a IN (SELECT value FROM json_each($1)) AND b = $2"),
            ("WHERE a <> ALL($12)", "WHERE a NOT IN (SELECT value FROM json_each($12))"),
            ("AND e.a IN ('b', 'c', 'd') AND", "AND (e.a IN ('b', 'c') OR e.a = 'd') AND"),
            ("(a IN ('b', 'c', 'd', 'e')) IS TRUE", "((a IN ('b', 'c') OR a IN ('d', 'e'))) IS TRUE"),
            ("LEAST(a, GREATEST(b, 1))", "MIN(a, MAX(b, 1))"),
            ("t1.a IN ('b', 'c', 'd')", "t1.a IN ('b', 'c', 'd')"),
            ("AT_LEAST(a)", "AT_LEAST(a)"),
            ("LIMIT $1 FOR UPDATE SKIP LOCKED)", "LIMIT $1)"),
            ("LIMIT 1 FOR UPDATE", "LIMIT 1"),
            ("LIMIT 1\n    FOR UPDATE SKIP LOCKED\n), x", "LIMIT 1\n), x"),
            ("BEFORE UPDATE ON", "BEFORE UPDATE ON"),
            ("LIMIT 1 FOR UPDATE OF q SKIP LOCKED", "LIMIT 1"),
            ("MIN($1, {clock_ms})", "MIN($1, 9223372036854775807)"),
            ("/* LEAST( */ 'LEAST(' \"LEAST(\" LEAST(1)", "/* LEAST( */ 'LEAST(' \"LEAST(\" MIN(1)"),
            ("'it''s LEAST(' || é", "'it''s LEAST(' || é"),
            ("CAST($1 AS BIGINT) -- FOR UPDATE\n", "CAST($1 AS BIGINT) -- FOR UPDATE\n"),
        ] {
            assert_eq!(to_sqlite(sql), wanted);
        }
    }

    #[test]
    fn in_sql_for_postgres_only_the_clock_is_replaced() {
        assert_eq!(postgres("SELECT 1 FOR UPDATE".into()), "SELECT 1 FOR UPDATE");
        let wanted = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)";
        assert_eq!(postgres("SELECT {clock_ms}".into()), wanted);
    }

    #[test]
    fn a_text_is_translated_once() {
        let sql = "SELECT GREATEST(1, 2)";
        assert_eq!(sqlite(sql.into()), "SELECT MAX(1, 2)");
        assert_eq!(sqlite(sql.into()).as_ptr(), sqlite(sql.to_owned().into()).as_ptr());
    }

    #[test]
    fn what_only_looks_like_a_word_of_ours_stays() {
        for sql in [
            "SELECT 'unfinished LEAST(",
            "SELECT 1 /* unfinished FOR UPDATE",
            "-- LEAST( to the end",
            "SELECT 'a' || '{clock_ms}'",
            "a <>ALL($1)",
            "least(a)",
            "x_GREATEST(a)",
            "WHERE a IN ('b', 'c')",
            "WHERE a NOT IN ('b', 'c', 'd')",
            "WHERE a IN ('b', $1, 'd')",
            "WHERE f(a) IN ('b', 'c', 'd')",
            "/* a IN ('b', 'c', 'd') */ 'a IN (' || a",
        ] {
            assert!(to_sqlite(sql).starts_with(sql), "{sql}: {}", to_sqlite(sql));
        }
        assert_eq!(to_sqlite("FOR UPDATE FOR UPDATE OF q"), "");
        let twice =
            to_sqlite(&to_sqlite("WHERE a = ANY($1) AND LEAST(b, {clock_ms}) > 0 FOR UPDATE SKIP LOCKED"));
        assert_eq!(
            twice, "WHERE a IN (SELECT value FROM json_each($1)) AND MIN(b, 9223372036854775807) > 0",
            "what SQLite says is SQLite's already"
        );
    }
}
