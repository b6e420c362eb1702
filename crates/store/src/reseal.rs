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

/// Rows that one step of a count looks at, and the oldest rows of each table among which those in the clear are counted.
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

/// The statements of one table: which keys it has, how many rows of one, how many of the oldest in the clear, the rows of a key, those of any or none, and how
/// a row is written. `$1` and `$2` are the place behind which rows are looked for.
struct SealedSql {
    next_key: &'static str,
    counted: &'static str,
    counted_to: &'static str,
    clear: &'static str,
    of_key: &'static str,
    of_none: &'static str,
    write: &'static str,
}

/// The key of the event with this number, for which its columns are encrypted.
macro_rules! own_event {
    ($event_seq:literal) => {
        concat!(
            "(SELECT e.provider FROM processed_webhook_events e WHERE e.event_seq = ",
            $event_seq,
            ") AS provider, (SELECT e.event_id FROM processed_webhook_events e WHERE e.event_seq = ",
            $event_seq,
            ") AS event_id"
        )
    };
}
macro_rules! next_key {
    ($table:literal) => {
        concat!("/* keys_in_use */ SELECT MIN(key_id) AS key_id FROM ", $table, " WHERE key_id > $1")
    };
}
/// Columns and source of the rows of a key behind a place: `$1` is the key, `$2` and `$3` the place.
macro_rules! behind {
    ($table:literal, $number:literal) => {
        concat!(
            $number,
            " AS number, 0 AS attempt_n FROM ",
            $table,
            " WHERE key_id = $1 AND ",
            $number,
            " > $2 AND CAST($3 AS BIGINT) >= 0 ORDER BY key_id, ",
            $number
        )
    };
    (answers) => {
        "message_id AS number, attempt_n FROM outbox_attempts
         WHERE key_id = $1 AND (message_id, attempt_n) > ($2, $3) ORDER BY key_id, message_id, attempt_n"
    };
}
/// How many of them there are, of at most `$4`.
macro_rules! counted {
    ($($rows:tt)*) => {
        concat!("/* key_rows */ SELECT COUNT(*) AS n FROM (SELECT ", behind!($($rows)*), " LIMIT $4) few")
    };
}
/// The `$4`-th of them, if there are so many.
macro_rules! counted_to {
    ($($rows:tt)*) => {
        concat!("/* key_rows */ SELECT ", behind!($($rows)*), " LIMIT 1 OFFSET CAST($4 AS BIGINT) - 1")
    };
}
macro_rules! clear {
    ($table:literal, $key_id:literal, $order:literal) => {
        concat!(
            "/* clear_rows */ SELECT COUNT(*) AS n FROM (SELECT ",
            $key_id,
            " AS key_id FROM ",
            $table,
            " ORDER BY ",
            $order,
            " LIMIT $1) oldest WHERE key_id IS NULL"
        )
    };
}

const PAYLOADS: SealedSql = SealedSql {
    next_key: next_key!("webhook_payloads"),
    counted: counted!("webhook_payloads", "event_seq"),
    counted_to: counted_to!("webhook_payloads", "event_seq"),
    clear: clear!("webhook_payloads", "key_id", "event_seq"),
    of_key: concat!(
        "/* reseal */ SELECT event_seq AS number, 0 AS attempt_n, key_id, headers AS sealed_text, ",
        stored_body!("p"),
        " AS body, whole, search_ids, ",
        own_event!("p.event_seq"),
        " FROM webhook_payloads p WHERE key_id = $4 AND event_seq > $1 AND CAST($2 AS BIGINT) >= 0
        ORDER BY event_seq LIMIT $3"
    ),
    // What is sealed is gone past without its columns.
    of_none: concat!(
        "/* reseal */ SELECT event_seq AS number, 0 AS attempt_n, key_id,
            CASE WHEN key_id IS NULL THEN headers END AS sealed_text,
            CASE WHEN key_id IS NULL THEN ",
        stored_body!("p"),
        " END AS body, CASE WHEN key_id IS NULL THEN whole END AS whole, ",
        own_event!("p.event_seq"),
        " FROM webhook_payloads p WHERE event_seq > $1 AND CAST($2 AS BIGINT) >= 0 AND CAST($4 AS TEXT) = ''
        ORDER BY event_seq LIMIT $3"
    ),
    // Its `whole` may be gone by now. A body in parts is in one piece afterwards.
    write: "/* reseal */ UPDATE webhook_payloads
        SET headers = $4, body = COALESCE($5, body), parts_n = NULL, whole = CASE WHEN whole IS NOT NULL THEN $6 END, key_id = $7
        WHERE event_seq = $1 AND CAST($2 AS BIGINT) = 0 AND COALESCE(key_id, '') = $3",
};
const CONTENTS: SealedSql = SealedSql {
    next_key: next_key!("outbox_contents"),
    counted: counted!("outbox_contents", "message_id"),
    counted_to: counted_to!("outbox_contents", "message_id"),
    clear: clear!("outbox_contents", "key_id", "message_id"),
    of_key: concat!(
        "/* reseal */ SELECT message_id AS number, 0 AS attempt_n, key_id, headers AS sealed_text, body,
            CAST(NULL AS BYTEA) AS whole, ",
        own_event!("c.message_id / 1024"),
        " FROM outbox_contents c WHERE key_id = $4 AND message_id > $1 AND CAST($2 AS BIGINT) >= 0
        ORDER BY message_id LIMIT $3"
    ),
    of_none: concat!(
        "/* reseal */ SELECT message_id AS number, 0 AS attempt_n, key_id,
            CASE WHEN key_id IS NULL THEN headers END AS sealed_text, CASE WHEN key_id IS NULL THEN body END AS body,
            CAST(NULL AS BYTEA) AS whole, ",
        own_event!("c.message_id / 1024"),
        " FROM outbox_contents c WHERE message_id > $1 AND CAST($2 AS BIGINT) >= 0 AND CAST($4 AS TEXT) = ''
        ORDER BY message_id LIMIT $3"
    ),
    write: "/* reseal */ UPDATE outbox_contents SET headers = $4, body = $5, key_id = $7
        WHERE message_id = $1 AND CAST($2 AS BIGINT) = 0 AND COALESCE(key_id, '') = $3 AND CAST($6 AS BYTEA) IS NULL",
};
const ANSWERS: SealedSql = SealedSql {
    next_key: next_key!("outbox_attempts"),
    counted: counted!(answers),
    counted_to: counted_to!(answers),
    // What has no answer has nothing to seal.
    clear: clear!(
        "outbox_attempts",
        "CASE WHEN response IS NULL THEN '' ELSE key_id END",
        "message_id, attempt_n"
    ),
    of_key: "/* reseal */ SELECT message_id AS number, attempt_n, key_id, response AS sealed_text,
            CAST(NULL AS BYTEA) AS body, CAST(NULL AS BYTEA) AS whole
        FROM outbox_attempts WHERE key_id = $4 AND (message_id, attempt_n) > ($1, $2)
        ORDER BY message_id, attempt_n LIMIT $3",
    of_none: "/* reseal */ SELECT message_id AS number, attempt_n, key_id,
            CASE WHEN key_id IS NULL THEN response END AS sealed_text,
            CAST(NULL AS BYTEA) AS body, CAST(NULL AS BYTEA) AS whole
        FROM outbox_attempts WHERE (message_id, attempt_n) > ($1, $2) AND CAST($4 AS TEXT) = ''
        ORDER BY message_id, attempt_n LIMIT $3",
    write: "/* reseal */ UPDATE outbox_attempts SET response = $4, key_id = $7
        WHERE message_id = $1 AND attempt_n = $2 AND COALESCE(key_id, '') = $3 AND response IS NOT NULL
          AND CAST($5 AS BYTEA) IS NULL AND CAST($6 AS BYTEA) IS NULL",
};

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

    fn sql(self) -> &'static SealedSql {
        match self {
            Self::Payloads => &PAYLOADS,
            Self::Contents => &CONTENTS,
            Self::Answers => &ANSWERS,
        }
    }

    fn text_column(self) -> &'static str {
        if self == Self::Answers { "response" } else { "headers" }
    }
}

impl Store {
    /// Returns the keys that something is sealed with, each with the tables that have it: a probe of an index for each.
    pub async fn keys_in_use(&self) -> Result<Vec<KeyUse>, StoreError> {
        alone!(self.people.keys_in_use())
    }

    /// Counts the rows of a key, [`SEALED_COUNTED_N`] at a time: how many there are behind `from`, and where to go on.
    pub async fn key_rows(
        &self,
        of: &KeyUse,
        from: ResealPlace,
    ) -> Result<(u32, Option<ResealPlace>), StoreError> {
        let of = of.clone();
        alone!(self.people.key_rows(&of, from))
    }

    /// Returns how many of the oldest [`SEALED_COUNTED_N`] rows of each table are in the clear, where any is.
    pub async fn clear_rows(&self) -> Result<Vec<(SealedTable, u32)>, StoreError> {
        alone!(self.people.clear_rows())
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
        let rows = SealedRows { table, of };
        together!(self.reseal(&rows, from, limit, &ring))
    }
}

/// The rows of a table that a key sealed, or those in the clear.
struct SealedRows {
    table: SealedTable,
    of: Option<String>,
}

async fn keys_in_use(db: &mut Executor<'_>) -> DbResult<Vec<KeyUse>> {
    let mut found = Vec::new();
    for table in SealedTable::ALL {
        let mut last = String::new();
        loop {
            let row = db.fetch_one(table.sql().next_key, &[last.as_str().into()]).await?;
            let Some(key_id) = row.text_or_null("key_id")? else { break };
            last.clone_from(&key_id);
            found.push(KeyUse { table, key_id });
        }
    }
    Ok(found)
}

async fn key_rows(
    db: &mut Executor<'_>,
    of: &KeyUse,
    from: ResealPlace,
) -> DbResult<(u32, Option<ResealPlace>)> {
    let sql = of.table.sql();
    let values =
        [of.key_id.as_str().into(), from.number.into(), from.attempt_n.into(), SEALED_COUNTED_N.into()];
    if let Some(row) = db.fetch_optional(sql.counted_to, &values).await? {
        let to = ResealPlace { number: row.int("number")?, attempt_n: row.count("attempt_n")? };
        return Ok((SEALED_COUNTED_N, Some(to)));
    }
    Ok((db.fetch_one(sql.counted, &values).await?.count("n")?, None))
}

async fn clear_rows(db: &mut Executor<'_>) -> DbResult<Vec<(SealedTable, u32)>> {
    let mut found = Vec::new();
    for table in SealedTable::ALL {
        let rows_n = db.fetch_one(table.sql().clear, &[SEALED_COUNTED_N.into()]).await?.count("n")?;
        found.extend((rows_n > 0).then_some((table, rows_n)));
    }
    Ok(found)
}

async fn reseal(
    db: &mut Executor<'_>,
    of_rows: &SealedRows,
    from: ResealPlace,
    limit: u32,
    ring: &KeyRing,
) -> DbResult<ResealStep> {
    let (table, of) = (of_rows.table, of_rows.of.as_deref());
    let mut step = ResealStep::default();
    if !ring.is_on() || of == ring.key_id() {
        return Ok(step);
    }
    let sql = if of.is_some() { table.sql().of_key } else { table.sql().of_none };
    let values = [from.number.into(), from.attempt_n.into(), limit.into(), of.unwrap_or_default().into()];
    let rows = db.fetch(sql, &values).await?;
    for row in &rows {
        let at = ResealPlace { number: row.int("number")?, attempt_n: row.count("attempt_n")? };
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
                if db.execute(table.sql().write, &values).await? == 0 {
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
