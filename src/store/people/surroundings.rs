//! What the tables know of messages beside their own rows, for whoever judges them: whether there is something to send,
//! what is at the head of their lane, which destinations are paused.

use std::collections::{BTreeMap, BTreeSet};

use super::destinations::{PAUSES, pauses};
use super::person::{People, PeopleError};
use crate::api::{MessageContent, MessageView, PauseView};
use crate::seal::KeyRing;
use crate::store::db::{DbResult, Door, Row};
use crate::store::message::message_state;
use crate::types::{MessageState, UnixMs};

/// Most lanes whose heads are looked up for one list.
const LANES_N_MAX: usize = 20;

/// Scalar subqueries: no row of a table that grows is found by a join.
const CONTENTS: &str = "/* people_surroundings */ SELECT q.message_id, q.generation,
        (SELECT e.generation FROM processed_webhook_events e
             WHERE e.event_seq = q.message_id / 1024) AS event_generation,
        (SELECT CASE WHEN c.body IS NULL THEN 0 ELSE 1 END FROM outbox_contents c
             WHERE c.message_id = q.message_id) AS has_own,
        (SELECT c.key_id FROM outbox_contents c WHERE c.message_id = q.message_id) AS own_key_id,
        (SELECT CASE WHEN p.redacted_n IS NOT NULL AND p.whole IS NULL THEN 0 ELSE 1 END FROM webhook_payloads p
             WHERE p.event_seq = q.message_id / 1024) AS has_event,
        (SELECT p.key_id FROM webhook_payloads p WHERE p.event_seq = q.message_id / 1024) AS event_key_id
    FROM outbox_queue q WHERE q.message_id = ANY($1)";
const HEAD: &str = "/* people_surroundings */ SELECT state FROM outbox_queue
    WHERE destination = $1 AND lane = $2 AND lane IS NOT NULL ORDER BY destination, lane, lane_seq LIMIT 1";

/// The statements by name, for tests that look at their plans.
pub(super) const STATEMENTS: &[(&str, &str)] =
    &[("contents of messages", CONTENTS), ("head of a lane", HEAD)];

/// A lane: its destination and its key.
type LaneName = (String, String);

/// What the tables know of some messages beside their own rows.
#[derive(Debug, Default)]
pub struct Surroundings {
    contents: BTreeMap<i64, MessageContent>,
    /// Those whose events were run again after they were written.
    of_earlier_runs: BTreeSet<i64>,
    heads: BTreeMap<LaneName, MessageState>,
    pauses: BTreeMap<String, PauseView>,
}

impl Surroundings {
    /// Whether there is something to send of this message.
    pub fn content(&self, message: &MessageView) -> MessageContent {
        self.contents.get(&message.message_id.number()).copied().unwrap_or(MessageContent::Kept)
    }

    /// True when the event of this message was run again after it was written.
    pub fn is_rerun(&self, message: &MessageView) -> bool {
        self.of_earlier_runs.contains(&message.message_id.number())
    }

    /// State of the message that this one waits for, where it does and it was looked up.
    pub fn head(&self, message: &MessageView) -> Option<MessageState> {
        self.heads.get(&lane_of(message)?).copied()
    }

    /// The pause of a destination, if it is paused.
    pub fn pause(&self, destination: &str) -> Option<&PauseView> {
        self.pauses.get(destination)
    }
}

/// The lane in which a message waits.
fn lane_of(message: &MessageView) -> Option<LaneName> {
    let lane = message.lane.as_ref().filter(|_| message.state == MessageState::Waiting)?;
    Some((message.destination.clone(), lane.clone()))
}

impl People {
    /// Looks up what there is to know of these messages beside their own rows; they were shown to the caller before.
    pub async fn surroundings<'a>(
        &self,
        messages: impl IntoIterator<Item = &'a MessageView>,
        now_ms: UnixMs,
    ) -> Result<Surroundings, PeopleError> {
        let (mut ids, mut lanes) = (Vec::new(), BTreeSet::new());
        for message in messages {
            if !matches!(message.state, MessageState::Done | MessageState::Discarded) {
                ids.push(message.message_id.number());
            }
            lanes.extend(lane_of(message));
        }
        if ids.is_empty() {
            return Ok(Surroundings::default());
        }
        let (store, ring) = (&self.store, self.store.ring.clone());
        let found: Surroundings = alone!(store.people.people_surroundings(&ids, &lanes, &ring))?;
        let is_on = |pause: &PauseView| pause.until_ms.is_none_or(|until_ms| until_ms > now_ms);
        Ok(Surroundings {
            pauses: found.pauses.into_iter().filter(|(_, pause)| is_on(pause)).collect(),
            ..found
        })
    }
}

async fn people_surroundings(
    db: &mut Door<'_>,
    ids: &[i64],
    lanes: &BTreeSet<LaneName>,
    ring: &KeyRing,
) -> DbResult<Surroundings> {
    let mut found = Surroundings { pauses: pauses(db, PAUSES).await?, ..Surroundings::default() };
    for row in db.fetch(CONTENTS, &[ids.to_vec().into()]).await? {
        let message_id = row.int("message_id")?;
        found.contents.insert(message_id, content(&row, ring)?);
        if row.int_or_null("event_generation")? > Some(row.int("generation")?) {
            found.of_earlier_runs.insert(message_id);
        }
    }
    for (destination, lane) in lanes.iter().take(LANES_N_MAX) {
        if let Some(row) = db.fetch_optional(HEAD, &[destination.into(), lane.into()]).await? {
            found.heads.insert((destination.clone(), lane.clone()), message_state(&row)?);
        }
    }
    Ok(found)
}

/// Whether a message could be sent, by the same facts as when it is claimed.
fn content(row: &Row, ring: &KeyRing) -> DbResult<MessageContent> {
    let (has_own, own_key_id) = (row.int_or_null("has_own")?, row.text_or_null("own_key_id")?);
    if has_own.is_some() && !ring.has(own_key_id.as_deref()) {
        return Ok(MessageContent::Sealed);
    }
    if has_own == Some(1) {
        return Ok(MessageContent::Kept);
    }
    let event_key_id = row.text_or_null("event_key_id")?;
    Ok(match row.int_or_null("has_event")? {
        Some(1) if ring.has(event_key_id.as_deref()) => MessageContent::Kept,
        Some(1) => MessageContent::Sealed,
        _ => MessageContent::Gone,
    })
}
