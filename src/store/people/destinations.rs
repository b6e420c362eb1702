//! Destinations as a person may see them: what waits for each, and whether a person has paused it. What the
//! configuration and the running outbox know of it is added by whoever asks.

use std::collections::{BTreeMap, BTreeSet};

use super::message_sources::open_destinations;
use super::person::{People, PeopleError};
use crate::api::{BacklogCount, PauseView};
use crate::store::damaged::{intact, note};
use crate::store::db::{DbResult, Door, Row};
use crate::store::message::message_state;
use crate::types::{MessageState, Name, Reach, UnixMs};

/// Most messages of a destination that are counted in each of its states.
const COUNTED_N_MAX: i64 = 10_000;

/// What is looked at of one destination: in the order in which they are due, then by state. Each part is a range of one
/// index, in its own order: a state that is said as one value would let PostgreSQL walk all messages by number and leave
/// out those in other states.
macro_rules! backlog_rows {
    () => {
        "(SELECT * FROM (SELECT q.state, q.visible_at_ms, q.message_id FROM outbox_queue q
        WHERE q.destination = $1 AND q.state IN ('ready', 'leased')
        ORDER BY q.visible_at_ms, q.message_id LIMIT $2) due
    UNION ALL SELECT * FROM (SELECT q.state, q.visible_at_ms, q.message_id FROM outbox_queue q
        WHERE q.destination = $1 AND q.state >= 'waiting' AND q.state <= 'waiting'
          AND q.state IN ('held', 'dead', 'waiting') ORDER BY q.state, q.message_id LIMIT $2) waiting
    UNION ALL SELECT * FROM (SELECT q.state, q.visible_at_ms, q.message_id FROM outbox_queue q
        WHERE q.destination = $1 AND q.state >= 'held' AND q.state <= 'held'
          AND q.state IN ('held', 'dead', 'waiting') ORDER BY q.state, q.message_id LIMIT $2) held
    UNION ALL SELECT * FROM (SELECT q.state, q.visible_at_ms, q.message_id FROM outbox_queue q
        WHERE q.destination = $1 AND q.state >= 'dead' AND q.state <= 'dead'
          AND q.state IN ('held', 'dead', 'waiting') ORDER BY q.state, q.message_id LIMIT $2) dead) counted"
    };
}
const BACKLOG: &str = concat!(
    "/* people_backlog */ SELECT state, COUNT(*) AS n, MIN(visible_at_ms) AS oldest_ms FROM ",
    backlog_rows!(),
    " GROUP BY state ORDER BY state"
);
/// The same of these providers alone.
const BACKLOG_OF: &str = concat!(
    "/* people_backlog */ SELECT counted.state, COUNT(*) AS n, MIN(counted.visible_at_ms) AS oldest_ms FROM ",
    backlog_rows!(),
    " JOIN processed_webhook_events e ON e.event_seq = counted.message_id / 1024
     WHERE e.provider = ANY($3) GROUP BY counted.state ORDER BY counted.state"
);

/// The statements by name, for tests that look at their plans.
pub(super) const STATEMENTS: &[(&str, &str)] = &[("backlog", BACKLOG)];

/// What the tables know of a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationStanding {
    /// Name of the destination.
    pub name: String,
    /// The pause, if a person has paused it.
    pub pause: Option<PauseView>,
    /// Open messages by state.
    pub backlog: Vec<BacklogCount>,
    /// Time when its oldest due message became due.
    pub oldest_due_at_ms: Option<UnixMs>,
}

impl People {
    /// Every destination in scope: those that are `configured`, those that messages wait for, those that are paused.
    pub async fn destinations<'a>(
        &self,
        configured: impl IntoIterator<Item = &'a Name>,
        now_ms: UnixMs,
    ) -> Result<Vec<DestinationStanding>, PeopleError> {
        let names: BTreeSet<String> = configured.into_iter().map(Name::to_string).collect();
        let (store, reach) =
            (&self.store, (self.principal.destinations.clone(), self.principal.providers.names()));
        Ok(snapshot!(store.people_destinations(names, &reach, now_ms))?)
    }

    /// One destination; there is none when it is neither configured nor anything waits for it.
    pub async fn destination(
        &self,
        name: &Name,
        is_configured: bool,
        now_ms: UnixMs,
    ) -> Result<DestinationStanding, PeopleError> {
        self.needs_destination(name.as_str())?;
        let (store, text, providers) = (&self.store, name.to_string(), self.principal.providers.names());
        let found = snapshot!(store.people_destination(&text, providers.as_deref(), now_ms))?;
        let is_there = is_configured || found.pause.is_some() || !found.backlog.is_empty();
        if is_there { Ok(found) } else { Err(PeopleError::NotFound) }
    }
}

async fn people_destinations(
    db: &mut Door<'_>,
    mut names: BTreeSet<String>,
    (reach, providers): &(Reach, Option<Vec<String>>),
    now_ms: UnixMs,
) -> DbResult<Vec<DestinationStanding>> {
    names.extend(open_destinations(db).await?);
    let mut pauses = pauses(db, PAUSES).await?;
    names.extend(pauses.keys().cloned());
    let mut found = Vec::with_capacity(names.len());
    for name in names.into_iter().filter(|name| reach.has(name)) {
        let pause = pauses.remove(&name);
        found.push(standing(db, (name, pause), providers.as_deref(), now_ms).await?);
    }
    Ok(found)
}

async fn people_destination(
    db: &mut Door<'_>,
    name: &str,
    providers: Option<&[String]>,
    now_ms: UnixMs,
) -> DbResult<DestinationStanding> {
    let pause = pauses(db, PAUSES).await?.remove(name);
    standing(db, (name.to_owned(), pause), providers, now_ms).await
}

pub(super) const PAUSES: &str =
    "/* people_pauses */ SELECT destination AS name, actor, reason, paused_at_ms, until_ms
    FROM destination_pauses ORDER BY destination LIMIT 1000";

/// The pauses by name: as many as people have made.
pub(super) async fn pauses(db: &mut Door<'_>, sql: &'static str) -> DbResult<BTreeMap<String, PauseView>> {
    let pause = |row: &Row| {
        let name = row.text("name")?;
        // Its destination or provider is paused whatever else of the row can be read.
        let or_damaged = |read: DbResult<String>| match read {
            Ok(text) => Ok(text),
            Err(error) => note("pauses", &name, error).map(|_| "(damaged)".to_owned()),
        };
        let view = PauseView {
            actor: or_damaged(row.text("actor"))?,
            reason: or_damaged(row.text("reason"))?,
            paused_at_ms: row.int("paused_at_ms")?,
            until_ms: row.int_or_null("until_ms")?,
        };
        Ok((name, view))
    };
    let rows = db.fetch(sql, &[]).await?;
    Ok(intact("pauses", "name", &rows, pause)?.rows.into_iter().collect())
}

async fn standing(
    db: &mut Door<'_>,
    (name, pause): (String, Option<PauseView>),
    providers: Option<&[String]>,
    now_ms: UnixMs,
) -> DbResult<DestinationStanding> {
    let rows = match providers {
        None => db.fetch(BACKLOG, &[(&name).into(), COUNTED_N_MAX.into()]).await?,
        Some(these) => {
            db.fetch(BACKLOG_OF, &[(&name).into(), COUNTED_N_MAX.into(), these.to_vec().into()]).await?
        }
    };
    let count = |row: &Row| {
        Ok(BacklogCount {
            state: message_state(row)?,
            messages_n: row.int("n")?.unsigned_abs(),
            is_more: false,
            oldest_visible_at_ms: row.int("oldest_ms")?,
        })
    };
    let backlog = intact("outbox_queue", "state", &rows, count)?.rows;
    let backlog = with_bounds(backlog);
    let due = backlog.iter().find(|one| one.state == MessageState::Ready);
    let oldest_due_at_ms = due.map(|one| one.oldest_visible_at_ms).filter(|at_ms| *at_ms <= now_ms);
    Ok(DestinationStanding { name, pause, backlog, oldest_due_at_ms })
}

/// Says of each count whether it reached its bound; messages that are ready and those that are leased have one bound
/// together.
fn with_bounds(mut backlog: Vec<BacklogCount>) -> Vec<BacklogCount> {
    let is_due = |state| matches!(state, MessageState::Ready | MessageState::Leased);
    let due_n: u64 = backlog.iter().filter(|one| is_due(one.state)).map(|one| one.messages_n).sum();
    for one in &mut backlog {
        let looked_n = if is_due(one.state) { due_n } else { one.messages_n };
        one.is_more = looked_n >= COUNTED_N_MAX.unsigned_abs();
    }
    backlog
}
