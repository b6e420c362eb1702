//! What the live tail reads: numbers of events, and the events with these numbers. Every look is a range of the index
//! by number, and so many rows at most.

use std::collections::{BTreeMap, BTreeSet};

use super::damaged::intact;
use super::db::{DbResult, Door, Row, StoreError};
use super::event::{event_columns, event_views};
use super::handle::Store;
use crate::api::EventView;
use crate::types::Reach;

const NEWEST: &str = "/* tail_newest */ SELECT event_seq FROM processed_webhook_events
    ORDER BY event_seq DESC LIMIT $1";
const NUMBERS: &str = "/* tail_numbers */ SELECT event_seq FROM processed_webhook_events
    WHERE event_seq > $1 ORDER BY event_seq LIMIT $2";
const MISSED: &str = "/* tail_missed */ SELECT event_seq, provider FROM processed_webhook_events
    WHERE event_seq > $1 ORDER BY event_seq DESC LIMIT $2";
const PROVIDERS: &str = "/* tail_providers */ SELECT provider, COUNT(*) AS n FROM processed_webhook_events
    WHERE event_seq = ANY($1) GROUP BY provider";
const EVENTS: &str = concat!(
    "/* tail_events */ SELECT ",
    event_columns!(),
    " FROM processed_webhook_events e WHERE e.event_seq = ANY($1) ORDER BY e.event_seq"
);

/// The statements by name, for tests that look at their plans.
pub(super) const STATEMENTS: &[(&str, &str)] = &[
    ("newest numbers", NEWEST),
    ("numbers from one on", NUMBERS),
    ("missed events", MISSED),
    ("providers of numbers", PROVIDERS),
    ("events by number", EVENTS),
];

impl Store {
    /// The numbers of the newest events, at most `limit`, the highest first.
    pub async fn tail_newest(&self, limit: u32) -> Result<Vec<i64>, StoreError> {
        alone!(self.people.tail_newest(limit))
    }

    /// The numbers of events above `low`, at most `limit`, the lowest first.
    pub async fn tail_numbers(&self, low: i64, limit: u32) -> Result<Vec<i64>, StoreError> {
        alone!(self.people.tail_numbers(low, limit))
    }

    /// The numbers of the newest events above `high` with their providers, at most `limit`, the highest first.
    pub async fn tail_missed(&self, high: i64, limit: u32) -> Result<Vec<(i64, String)>, StoreError> {
        alone!(self.people.tail_missed(high, limit))
    }

    /// Returns how many of the events with these numbers are of which provider.
    pub async fn tail_providers(&self, seqs: Vec<i64>) -> Result<BTreeMap<String, u64>, StoreError> {
        alone!(self.people.tail_providers(seqs))
    }

    /// The events with these numbers, in their order, those that are gone left out.
    pub async fn tail_events(&self, seqs: Vec<i64>) -> Result<Vec<(i64, EventView)>, StoreError> {
        alone!(self.people.tail_events(seqs))
    }
}

async fn tail_newest(db: &mut Door<'_>, limit: u32) -> DbResult<Vec<i64>> {
    let rows = db.fetch(NEWEST, &[limit.into()]).await?;
    rows.iter().map(|row| row.int("event_seq")).collect()
}

async fn tail_numbers(db: &mut Door<'_>, low: i64, limit: u32) -> DbResult<Vec<i64>> {
    let rows = db.fetch(NUMBERS, &[low.into(), limit.into()]).await?;
    rows.iter().map(|row| row.int("event_seq")).collect()
}

async fn tail_missed(db: &mut Door<'_>, high: i64, limit: u32) -> DbResult<Vec<(i64, String)>> {
    let rows = db.fetch(MISSED, &[high.into(), limit.into()]).await?;
    let read = |row: &Row| Ok((row.int("event_seq")?, row.text("provider")?));
    Ok(intact("processed_webhook_events", "event_seq", &rows, read)?.rows)
}

async fn tail_providers(db: &mut Door<'_>, seqs: Vec<i64>) -> DbResult<BTreeMap<String, u64>> {
    let rows = db.fetch(PROVIDERS, &[seqs.into()]).await?;
    let read = |row: &Row| Ok((row.text("provider")?, row.int("n")?.unsigned_abs()));
    Ok(intact("processed_webhook_events", "provider", &rows, read)?.rows.into_iter().collect())
}

async fn tail_events(db: &mut Door<'_>, seqs: Vec<i64>) -> DbResult<Vec<(i64, EventView)>> {
    let rows = db.fetch(EVENTS, &[seqs.into()]).await?;
    // All viewers are told the same, whatever each may see.
    Ok(event_views(db, &rows, &Reach::These(BTreeSet::new())).await?.rows)
}
