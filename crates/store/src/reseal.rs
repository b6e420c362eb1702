//! The keys that stored values are sealed with: which are in use, and how values are sealed again with the newest one.
//!
//! Both are bounded: a key is found by an index that has a row for each sealed value and none for the others, and
//! values are sealed again a few at a time, each batch in its own transaction. A value read meanwhile is sealed with
//! one of the two keys, and its row says with which.

use super::db::{DbError, DbResult, Executor, Row, StoreError, Value};
use super::event::{event_key, stored_body};
use super::handle::Store;
use super::queries::search_block;
use hooklatch_core::seal::{KeyRing, SealError, SealedPlace};
use hooklatch_core::types::EventKey;

/// Rows that one step of a count looks at, and the oldest rows of each table among which those in the clear are
/// counted.
pub const SEALED_COUNTED_N: u32 = 10_000;

/// A table with sealed values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealedTable {
    /// What was received with events.
    Payloads,
    /// What messages say that say something of their own.
    Contents,
    /// Pieces of answers that `capture` kept.
    Answers,
}

/// A table that has rows which are sealed with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyUse {
    /// Table that has them.
    pub table: SealedTable,
    /// Id of their key.
    pub key_id: String,
}

/// Place from which a table is gone through: the rows behind it are next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResealPlace {
    number: i64,
    attempt_n: u32,
}

impl ResealPlace {
    fn of(row: &Row) -> DbResult<Self> {
        Ok(Self { number: row.int("number")?, attempt_n: row.count("attempt_n")? })
    }
}

/// Result of one batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResealStep {
    /// Place to go on from; `None`: there is nothing behind it.
    pub next: Option<ResealPlace>,
    /// Rows that are sealed with the newest key now.
    pub resealed_n: u32,
    /// Rows that do not open, and stay as they are.
    pub unopened_n: u32,
}

/// The key of the event with this number (an expression), for which columns are encrypted.
fn own_event(event_seq: &str) -> String {
    let column = |name: &str| {
        format!(
            ", (SELECT e.{name} FROM processed_webhook_events e WHERE e.event_seq = {event_seq}) AS {name}"
        )
    };
    column("provider") + &column("event_id")
}

impl SealedTable {
    /// All of them, in the order in which they are gone through.
    pub const ALL: [Self; 3] = [Self::Payloads, Self::Contents, Self::Answers];

    /// Its name in the schema.
    pub fn table(self) -> &'static str {
        match self {
            Self::Payloads => "webhook_payloads",
            Self::Contents => "outbox_contents",
            Self::Answers => "outbox_attempts",
        }
    }

    fn text_column(self) -> &'static str {
        if self == Self::Answers { "response" } else { "headers" }
    }

    /// The two columns of its place, and its order.
    fn place_columns(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Payloads => ("event_seq", "0", "event_seq"),
            Self::Contents => ("message_id", "0", "message_id"),
            Self::Answers => ("message_id", "attempt_n", "message_id, attempt_n"),
        }
    }

    /// True of the rows behind a place, by the names of its two values.
    fn behind(self, number: &str, attempt_n: &str) -> String {
        match self {
            Self::Payloads => format!("event_seq > {number} AND CAST({attempt_n} AS BIGINT) >= 0"),
            Self::Contents => format!("message_id > {number} AND CAST({attempt_n} AS BIGINT) >= 0"),
            Self::Answers => format!("(message_id, attempt_n) > ({number}, {attempt_n})"),
        }
    }

    /// Columns and source of the rows of the key `$1` behind the place of `$2` and `$3`.
    fn of_key_sql(self) -> String {
        let (number, attempt_n, order) = self.place_columns();
        format!(
            "{number} AS number, {attempt_n} AS attempt_n FROM {} WHERE key_id = $1 AND {} ORDER BY key_id, {order}",
            self.table(),
            self.behind("$2", "$3")
        )
    }

    /// Finds up to `$3` rows behind the place of `$1` and `$2`: those of the key `$4`, or with an empty one those of
    /// any and none, of which what is sealed is gone past without its columns.
    fn rows_sql(self, has_key: bool) -> String {
        const NULL: &str = "CAST(NULL AS BYTEA)";
        let (number, attempt_n, order) = self.place_columns();
        let (body, whole, further) = match self {
            Self::Payloads => {
                (stored_body!("p"), "whole", ", search_ids".to_owned() + &own_event("p.event_seq"))
            }
            Self::Contents => ("body", NULL, own_event("p.message_id / 1024")),
            Self::Answers => (NULL, NULL, String::new()),
        };
        let column = |sql: &str| {
            if has_key { sql.to_owned() } else { format!("CASE WHEN key_id IS NULL THEN {sql} END") }
        };
        format!(
            "/* reseal */ SELECT {number} AS number, {attempt_n} AS attempt_n, key_id, {} AS sealed_text, {} AS body,
                 {} AS whole{further}
             FROM {} p WHERE {} AND {} ORDER BY {order} LIMIT $3",
            column(self.text_column()),
            column(body),
            column(whole),
            self.table(),
            if has_key { "key_id = $4" } else { "CAST($4 AS TEXT) = ''" },
            self.behind("$1", "$2"),
        )
    }

    /// Writes the row at the place of `$1` and `$2`, if it has the key `$3`: text, body, whole and their key.
    fn write_sql(self) -> &'static str {
        match self {
            // Its `whole` may be gone by now. A body in parts is in one piece afterwards.
            Self::Payloads => {
                "/* reseal */ UPDATE webhook_payloads SET headers = $4, body = COALESCE($5, body), parts_n = NULL,
                    whole = CASE WHEN whole IS NOT NULL THEN $6 END, key_id = $7
                 WHERE event_seq = $1 AND CAST($2 AS BIGINT) = 0 AND COALESCE(key_id, '') = $3"
            }
            Self::Contents => {
                "/* reseal */ UPDATE outbox_contents SET headers = $4, body = $5, key_id = $7
                 WHERE message_id = $1 AND CAST($2 AS BIGINT) = 0 AND COALESCE(key_id, '') = $3
                   AND CAST($6 AS BYTEA) IS NULL"
            }
            Self::Answers => {
                "/* reseal */ UPDATE outbox_attempts SET response = $4, key_id = $7
                 WHERE message_id = $1 AND attempt_n = $2 AND COALESCE(key_id, '') = $3 AND response IS NOT NULL
                   AND CAST($5 AS BYTEA) IS NULL AND CAST($6 AS BYTEA) IS NULL"
            }
        }
    }
}

impl Store {
    /// Returns the keys that something is sealed with, each with the tables that have it: a probe of an index for each.
    pub async fn keys_in_use(&self) -> Result<Vec<KeyUse>, StoreError> {
        alone!(self, operators, "keys_in_use", |db| {
            let mut found: Vec<KeyUse> = Vec::new();
            for table in SealedTable::ALL {
                let sql = format!(
                    "/* keys_in_use */ SELECT MIN(key_id) AS key_id FROM {} WHERE key_id > $1",
                    table.table()
                );
                let mut last = String::new();
                while let Some(key_id) =
                    db.fetch_one(sql.clone(), &[last.as_str().into()]).await?.text_or_null("key_id")?
                {
                    last.clone_from(&key_id);
                    found.push(KeyUse { table, key_id });
                }
            }
            Ok(found)
        })
    }

    /// Counts the rows of a key, [`SEALED_COUNTED_N`] at a time: how many there are behind `from`, and where to go on.
    pub async fn key_rows(
        &self,
        of: &KeyUse,
        from: ResealPlace,
    ) -> Result<(u32, Option<ResealPlace>), StoreError> {
        let (rows, key_id) = (of.table.of_key_sql(), of.key_id.clone());
        alone!(self, operators, "key_rows", |db| {
            let values = [key_id.into(), from.number.into(), from.attempt_n.into(), SEALED_COUNTED_N.into()];
            let last = format!("/* key_rows */ SELECT {rows} LIMIT 1 OFFSET CAST($4 AS BIGINT) - 1");
            if let Some(row) = db.fetch_optional(last, &values).await? {
                return Ok((SEALED_COUNTED_N, Some(ResealPlace::of(&row)?)));
            }
            let counted = format!("/* key_rows */ SELECT COUNT(*) AS n FROM (SELECT {rows} LIMIT $4) few");
            Ok((db.fetch_one(counted, &values).await?.count("n")?, None))
        })
    }

    /// Returns how many of the oldest [`SEALED_COUNTED_N`] rows of each table are in the clear, where any is.
    pub async fn clear_rows(&self) -> Result<Vec<(SealedTable, u32)>, StoreError> {
        alone!(self, operators, "clear_rows", |db| {
            let mut found = Vec::new();
            for table in SealedTable::ALL {
                // What has no answer has nothing to seal.
                let key_id = match table {
                    SealedTable::Answers => "CASE WHEN response IS NULL THEN '' ELSE key_id END",
                    SealedTable::Payloads | SealedTable::Contents => "key_id",
                };
                let (.., order) = table.place_columns();
                let sql = format!(
                    "/* clear_rows */ SELECT COUNT(*) AS n FROM (
                         SELECT {key_id} AS key_id FROM {} ORDER BY {order} LIMIT $1) oldest WHERE key_id IS NULL",
                    table.table()
                );
                let rows_n = db.fetch_one(sql, &[SEALED_COUNTED_N.into()]).await?.count("n")?;
                found.extend((rows_n > 0).then_some((table, rows_n)));
            }
            Ok(found)
        })
    }

    /// Seals up to `limit` rows anew with the newest key: those of the key `of`, or with `None` those in the clear.
    /// Without a newest key nothing is done.
    pub async fn reseal(
        &self,
        table: SealedTable,
        of: Option<&str>,
        from: ResealPlace,
        limit: u32,
    ) -> Result<ResealStep, StoreError> {
        let (of, ring) = (of.map(str::to_owned), self.ring().clone());
        together!(self.reseal((table, of.as_deref()), from, limit, &ring))
    }
}

async fn reseal(
    db: &mut Executor<'_>,
    (table, of): (SealedTable, Option<&str>),
    from: ResealPlace,
    limit: u32,
    ring: &KeyRing,
) -> DbResult<ResealStep> {
    let mut step = ResealStep::default();
    if !ring.is_on() || of == ring.key_id() {
        return Ok(step);
    }
    let values = [from.number.into(), from.attempt_n.into(), limit.into(), of.unwrap_or_default().into()];
    let rows = db.fetch(table.rows_sql(of.is_some()), &values).await?;
    for row in &rows {
        let at = ResealPlace::of(row)?;
        step.next = Some(at).filter(|_| rows.len() >= limit as usize);
        if row.text_or_null("key_id")?.as_deref() != of || row.text_or_null("sealed_text")?.is_none() {
            continue;
        }
        let place = RowPlace::of(table, at, row)?;
        let found = match sealed_anew(&place, row, of, ring) {
            Ok(columns) => search_ids(db, &place, row, (of, ring)).await.map(|ids| (columns, ids)),
            Err(error) => Err(error),
        };
        match found {
            Ok((columns, ids)) => {
                let mut values = vec![at.number.into(), at.attempt_n.into(), of.unwrap_or_default().into()];
                values.extend(columns);
                values.push(ring.key_id().into());
                if db.execute(table.write_sql(), &values).await? == 0 {
                    continue;
                }
                step.resealed_n += 1;
                if table == SealedTable::Payloads {
                    let sql = "/* reseal */ DELETE FROM webhook_body_parts WHERE event_seq = $1";
                    db.execute(sql, &[at.number.into()]).await?;
                    reseal_search_ids(db, &place, ids, ring).await?;
                }
            }
            Err(ResealError::Sealed) => step.unopened_n += 1,
            Err(ResealError::Row(error)) => return Err(error),
        }
    }
    Ok(step)
}

/// A row whose columns are encrypted anew, and the event for which they are; `None`: it is gone, or these are answers.
struct RowPlace {
    table: SealedTable,
    at: ResealPlace,
    event: Option<EventKey>,
}

impl RowPlace {
    fn of(table: SealedTable, at: ResealPlace, row: &Row) -> DbResult<Self> {
        let is_known = table != SealedTable::Answers && row.text_or_null("provider")?.is_some();
        Ok(Self { table, at, event: is_known.then(|| event_key(row)).transpose()? })
    }

    fn column(&self, column: &'static str) -> Result<SealedPlace<'_>, ResealError> {
        let (number, event) = (self.at.number, self.event.as_ref().ok_or(ResealError::Sealed));
        Ok(match self.table {
            SealedTable::Payloads => SealedPlace::of_event(column, number, event?.as_pair()),
            SealedTable::Contents => SealedPlace::of_message(column, number, event?.as_pair()),
            SealedTable::Answers => SealedPlace::of_answer(number, self.at.attempt_n),
        })
    }
}

/// The search ids of an event: sealed with its body, or in the clear in their table.
async fn search_ids(
    db: &mut Executor<'_>,
    place: &RowPlace,
    row: &Row,
    (of, ring): (Option<&str>, &KeyRing),
) -> Result<Vec<String>, ResealError> {
    if place.table != SealedTable::Payloads {
        return Ok(Vec::new());
    }
    if of.is_none() {
        let event_seq = place.at.number;
        let sql = "/* reseal */ SELECT search_key FROM event_search_ids WHERE block = $1 AND event_seq = $2 ORDER BY search_key";
        let rows = db.fetch(sql, &[search_block(event_seq).into(), event_seq.into()]).await?;
        return Ok(rows.iter().map(|row| row.text("search_key")).collect::<DbResult<_>>()?);
    }
    let Some(sealed) = row.text_or_null("search_ids")? else { return Ok(Vec::new()) };
    let clear = ring.open_text(of, &place.column("search_ids")?, sealed)?;
    Ok(clear.lines().map(str::to_owned).collect())
}

/// Writes the digests of these search ids anew, and the ids themselves beside the body that was just sealed.
async fn reseal_search_ids(
    db: &mut Executor<'_>,
    place: &RowPlace,
    ids: Vec<String>,
    ring: &KeyRing,
) -> DbResult<()> {
    let (event_seq, Some(event)) = (place.at.number, &place.event) else { return Ok(()) };
    if ids.is_empty() {
        return Ok(());
    }
    let sql = "/* reseal */ UPDATE event_search_ids SET search_key = $1 WHERE block = $2 AND search_key = ANY($3) AND event_seq = $4";
    for id in &ids {
        let block = search_block(event_seq);
        let values = [
            ring.search_key(id).as_ref().into(),
            block.into(),
            ring.search_keys(id).into(),
            event_seq.into(),
        ];
        db.execute(sql, &values).await?;
    }
    let (place, clear) = (SealedPlace::of_event("search_ids", event_seq, event.as_pair()), ids.join("\n"));
    let sealed = ring.seal_text(&place, &clear)?.into_owned();
    let sql = "/* reseal */ UPDATE webhook_payloads SET search_ids = $2 WHERE event_seq = $1";
    db.execute(sql, &[event_seq.into(), sealed.into()]).await.map(drop)
}

/// Reason why a row stays as it is.
enum ResealError {
    /// It does not open, and `hooklatch keys` says which key it is of.
    Sealed,
    Row(DbError),
}

impl From<SealError> for ResealError {
    fn from(_: SealError) -> Self {
        Self::Sealed
    }
}

impl From<DbError> for ResealError {
    fn from(error: DbError) -> Self {
        Self::Row(error)
    }
}

/// The columns of a row under the newest key: text, body, whole.
fn sealed_anew(
    row_place: &RowPlace,
    row: &Row,
    of: Option<&str>,
    ring: &KeyRing,
) -> Result<[Value; 3], ResealError> {
    let place = row_place.column(row_place.table.text_column())?;
    let clear = ring.open_text(of, &place, row.text("sealed_text")?)?;
    let text: Value = ring.seal_text(&place, &clear)?.into_owned().into();
    let mut columns = [text, Value::Bytes(None), Value::Bytes(None)];
    for (column, value) in ["body", "whole"].into_iter().zip(columns.iter_mut().skip(1)) {
        let Some(stored) = row.bytes_or_null(column)? else { continue };
        let place = row_place.column(column)?;
        let clear = ring.open(of, &place, stored)?;
        *value = ring.seal(&place, &clear)?.into_owned().into();
    }
    Ok(columns)
}
