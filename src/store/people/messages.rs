//! Messages as a person may see them: lists a page at a time, and counts, both bounded in rows looked at.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::choice::within;
use super::message_sources::Wanted;
use super::person::{People, PeopleError};
use super::walk::{ORDER_MS, number_after};
use crate::api::{CountView, MessageFilter, MessageView, Page};
use crate::store::db::{DbResult, Door, Row};
use crate::store::message::{MessageRow, message_rows};
use crate::types::{MESSAGES_N_MAX, MessageId, UnixMs};

/// Rows that one page looks at in each of its sources, at most.
const PAGE_LOOKED_N: i64 = 10_000;
/// Rows that a count looks at, in all its sources together.
const COUNT_LOOKED_N: i64 = 100_000;
/// Rows that a page looks at first, for each that it shows: most filters find enough among them.
const FIRST_LOOKED_N: i64 = 4;

impl People {
    /// The newest messages that `filter` finds, older than the one with the id `before`. What a filter cannot find by
    /// an index it finds among so many rows for each page, and says how far it looked.
    pub async fn messages(
        &self,
        filter: MessageFilter,
        before: Option<MessageId>,
        limit: u32,
    ) -> Result<Page<MessageView>, PeopleError> {
        let wanted = self.wanted(filter);
        if wanted.is_nothing() {
            return Ok(Page::whole(Vec::new()));
        }
        let (store, installation_id) = (&self.store, self.store.installation_id().await?);
        let found = alone!(store.people.people_messages(&wanted, before, limit, &installation_id));
        Ok(found?)
    }

    /// Counts the messages that `filter` finds; its state should be set.
    pub async fn messages_count(&self, filter: MessageFilter) -> Result<CountView, PeopleError> {
        let wanted = self.wanted(filter);
        if wanted.is_nothing() {
            return Ok(CountView { counted_n: 0, is_more: false });
        }
        let store = &self.store;
        Ok(alone!(store.people.people_count(&wanted))?)
    }

    fn wanted(&self, filter: MessageFilter) -> Wanted {
        Wanted {
            destinations: within(&self.principal.destinations, filter.destination.as_deref()),
            providers: within(&self.principal.providers, filter.provider.as_deref()),
            filter,
        }
    }
}

/// The number below which a list begins: that of the page before, or the first one of a time.
async fn start(db: &mut Door<'_>, before: Option<MessageId>, at_ms: Option<UnixMs>) -> DbResult<i64> {
    let before = before.map_or(i64::MAX, MessageId::number);
    let Some(at_ms) = at_ms else { return Ok(before) };
    Ok(number_after(db, at_ms).await?.saturating_mul(i64::from(MESSAGES_N_MAX)).min(before))
}

async fn people_messages(
    db: &mut Door<'_>,
    wanted: &Wanted,
    before: Option<MessageId>,
    limit: u32,
    installation_id: &Uuid,
) -> DbResult<Page<MessageView>> {
    let before = start(db, before, wanted.filter.created_before_ms).await?;
    let sources = wanted.sources(db).await?;
    let mut page = Page::whole(Vec::new());
    for looked_n in [(FIRST_LOOKED_N * i64::from(limit)).min(PAGE_LOOKED_N), PAGE_LOOKED_N] {
        let mut from = None;
        if !wanted.is_everything() {
            for source in &sources {
                from = from.max(wanted.bound(db, source, before, looked_n).await?.1);
            }
        }
        let mut found = BTreeMap::new();
        for source in &sources {
            for row in wanted.page(db, source, (before, from.unwrap_or(0)), limit).await? {
                found.insert(row.int("message_id")?, row);
            }
        }
        let rows: Vec<(i64, Row)> = found.into_iter().rev().take(limit as usize).collect();
        let last = rows.last().map(|(message_id, _)| message_id.to_string());
        let (is_full, rows): (bool, Vec<Row>) =
            (rows.len() == limit as usize, rows.into_iter().map(|(_, row)| row).collect());
        let messages = message_rows(&rows, installation_id)?;
        page.items = messages.rows.into_iter().map(message_view).collect();
        page.damaged = messages.damaged;
        if is_full {
            // A full page may have a next one.
            page.next = last;
            return Ok(page);
        }
        let Some(from) = from else { return Ok(page) };
        if looked_n == PAGE_LOOKED_N {
            page.next = Some(from.to_string());
            // Numbers follow time but roughly: what was not looked at may have come a little later.
            let at_ms = came_at_ms(db, from).await?;
            page.looked_back_to_ms = at_ms.map(|at_ms| at_ms.saturating_add(ORDER_MS));
        }
    }
    Ok(page)
}

/// The time when the event of a message came.
async fn came_at_ms(db: &mut Door<'_>, message_id: i64) -> DbResult<Option<UnixMs>> {
    let sql =
        "/* people_messages */ SELECT received_at_ms FROM processed_webhook_events WHERE event_seq = $1";
    let event_seq = MessageId::from_column(message_id).event_seq();
    db.fetch_optional(sql, &[event_seq.into()]).await?.map(|row| row.int("received_at_ms")).transpose()
}

async fn people_count(db: &mut Door<'_>, wanted: &Wanted) -> DbResult<CountView> {
    let before = start(db, None, wanted.filter.created_before_ms).await?;
    let (mut counted_n, mut left_n, mut is_more) = (0, COUNT_LOOKED_N, false);
    for source in &wanted.sources(db).await? {
        let (looked_n, from) = wanted.bound(db, source, before, left_n).await?;
        counted_n += wanted.count(db, source, (before, from.unwrap_or(0))).await?;
        left_n -= looked_n;
        is_more |= from.is_some();
        if left_n <= 0 {
            is_more = true;
            break;
        }
    }
    Ok(CountView { counted_n: counted_n.unsigned_abs(), is_more })
}

/// A message as people see it.
pub(in crate::store) fn message_view(row: MessageRow) -> MessageView {
    MessageView {
        message_id: row.message_id,
        synthetic: row.key.is_synthetic(),
        provider: row.key.provider.to_string(),
        event_id: row.key.event_id,
        event_type: row.event_type,
        effect_name: row.effect_name,
        idempotency_key: row.idempotency_key,
        destination: row.destination,
        state: row.state,
        lane: row.lane,
        attempts_n: row.attempts_n,
        generation: row.generation.unsigned_abs(),
        visible_at_ms: row.visible_at_ms,
        created_at_ms: row.created_at_ms,
        first_sent_at_ms: row.first_sent_at_ms,
        key_valid_until_ms: row.key_valid_until_ms,
        finished_at_ms: row.finished_at_ms,
        last_result: row.last_result,
        last_error: row.last_error,
        sent_under: row.sent_under,
        judgement: None,
    }
}
