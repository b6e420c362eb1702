//! Destinations as a person may see them: what waits for each, and whether a person has paused it. What the
//! configuration and the running outbox know of it is added by whoever asks.

use std::collections::{BTreeMap, BTreeSet};

use super::message_sources::open_destinations;
use super::person::{People, PeopleError};
use crate::api::{BacklogCount, PauseView};
use crate::store::db::{DbResult, Door, Row};
use crate::store::message::message_state;
use crate::types::{MessageState, Name, Reach, UnixMs};

/// Most messages of a destination that are counted in each of its states.
const COUNTED_N_MAX: i64 = 10_000;

/// What is counted of one destination: in the order in which they are due, then by state. Each part is a range of one
/// index, in its own order: a state that is said as one value would let PostgreSQL walk all messages by number and leave
/// out those in other states.
const BACKLOG: &str =
    "/* people_backlog */ SELECT state, COUNT(*) AS n, MIN(visible_at_ms) AS oldest_ms FROM (
    SELECT * FROM (SELECT q.state, q.visible_at_ms FROM outbox_queue q
        WHERE q.destination = $1 AND q.state IN ('ready', 'leased')
        ORDER BY q.visible_at_ms, q.message_id LIMIT $2) due
    UNION ALL SELECT * FROM (SELECT q.state, q.visible_at_ms FROM outbox_queue q
        WHERE q.destination = $1 AND q.state >= 'waiting' AND q.state <= 'waiting'
          AND q.state IN ('held', 'dead', 'waiting') ORDER BY q.state, q.message_id LIMIT $2) waiting
    UNION ALL SELECT * FROM (SELECT q.state, q.visible_at_ms FROM outbox_queue q
        WHERE q.destination = $1 AND q.state >= 'held' AND q.state <= 'held'
          AND q.state IN ('held', 'dead', 'waiting') ORDER BY q.state, q.message_id LIMIT $2) held
    UNION ALL SELECT * FROM (SELECT q.state, q.visible_at_ms FROM outbox_queue q
        WHERE q.destination = $1 AND q.state >= 'dead' AND q.state <= 'dead'
          AND q.state IN ('held', 'dead', 'waiting') ORDER BY q.state, q.message_id LIMIT $2) dead) counted
    GROUP BY state ORDER BY state";

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
        let (store, reach) = (&self.store, self.principal.destinations.clone());
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
        let (store, text) = (&self.store, name.to_string());
        let found = snapshot!(store.people_destination(&text, now_ms))?;
        let is_there = is_configured || found.pause.is_some() || !found.backlog.is_empty();
        if is_there { Ok(found) } else { Err(PeopleError::NotFound) }
    }
}

async fn people_destinations(
    db: &mut Door<'_>,
    mut names: BTreeSet<String>,
    reach: &Reach,
    now_ms: UnixMs,
) -> DbResult<Vec<DestinationStanding>> {
    names.extend(open_destinations(db).await?);
    let mut pauses = pauses(db, PAUSES).await?;
    names.extend(pauses.keys().cloned());
    let mut found = Vec::with_capacity(names.len());
    for name in names.into_iter().filter(|name| reach.has(name)) {
        let pause = pauses.remove(&name);
        found.push(standing(db, name, pause, now_ms).await?);
    }
    Ok(found)
}

async fn people_destination(db: &mut Door<'_>, name: &str, now_ms: UnixMs) -> DbResult<DestinationStanding> {
    let pause = pauses(db, PAUSES).await?.remove(name);
    standing(db, name.to_owned(), pause, now_ms).await
}

pub(super) const PAUSES: &str =
    "/* people_pauses */ SELECT destination AS name, actor, reason, paused_at_ms, until_ms
    FROM destination_pauses ORDER BY destination LIMIT 1000";

/// The pauses by name: as many as people have made.
pub(super) async fn pauses(db: &mut Door<'_>, sql: &'static str) -> DbResult<BTreeMap<String, PauseView>> {
    let pause = |row: &Row| {
        let view = PauseView {
            actor: row.text("actor")?,
            reason: row.text("reason")?,
            paused_at_ms: row.int("paused_at_ms")?,
            until_ms: row.int_or_null("until_ms")?,
        };
        Ok((row.text("name")?, view))
    };
    db.fetch(sql, &[]).await?.iter().map(pause).collect()
}

async fn standing(
    db: &mut Door<'_>,
    name: String,
    pause: Option<PauseView>,
    now_ms: UnixMs,
) -> DbResult<DestinationStanding> {
    let rows = db.fetch(BACKLOG, &[(&name).into(), COUNTED_N_MAX.into()]).await?;
    let count = |row: &Row| {
        Ok(BacklogCount {
            state: message_state(row)?,
            messages_n: row.int("n")?.unsigned_abs(),
            is_more: false,
            oldest_visible_at_ms: row.int("oldest_ms")?,
        })
    };
    let backlog: Vec<BacklogCount> = rows.iter().map(count).collect::<DbResult<_>>()?;
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
