//! What is kept beside an event that stands: the same signed text under other ids, and other content under the same id.
//! Whoever holds one signed request can go on for ever, so only so many have a row; further ones are counted.

use sha2::{Digest, Sha256};

use super::admission::{Admission, EventInsert};
use super::tx::TxKind;
use super::{Backend, EventRow, EventUpdate, Store, StoreError, limit, postgres, sqlite, warnings};
use crate::types::{BodyDigest, EventKey, EventState, IncomingEvent, OnConflict};

/// Most copies under other ids that are kept of the same signed text.
const REPLAYS_N_MAX: u8 = 16;
/// Most other contents that are kept of one event.
const CONFLICTS_N_MAX: u8 = 16;
/// What the ids of kept conflicts start with: no sender's own id does.
const CONFLICT: &str = "conflict:";

/// Other content under the key of an event.
pub(super) struct Conflicting<'a> {
    pub(super) event: &'a IncomingEvent,
    /// The id that stands.
    pub(super) first_event_id: String,
}

impl Conflicting<'_> {
    /// Its own key: of its content, so that each content is kept once.
    fn key(&self) -> EventKey {
        let first = u64::try_from(self.first_event_id.len()).unwrap_or(u64::MAX).to_be_bytes();
        let digest = Sha256::new()
            .chain_update(first)
            .chain_update(&self.first_event_id)
            .chain_update(self.event.digest)
            .chain_update(&self.event.event_type);
        EventKey {
            provider: self.event.key.provider.clone(),
            event_id: format!("{CONFLICT}{}", hex::encode(digest.finalize())),
        }
    }
}

/// A content that was kept beside an event, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptContent {
    /// Its headers as a JSON object, secrets and signatures blanked.
    pub headers: String,
    /// Its bytes.
    pub body: Vec<u8>,
}

/// What is kept of other contents of an event, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conflicts {
    /// Each under an id of its own, the oldest first.
    pub kept: Vec<(EventRow, Option<KeptContent>)>,
    /// How many more came that were not kept, copies included.
    pub unkept_n: u64,
}

/// The replay keys of the rows that may be kept, so that the index which keeps the first one alone bounds the others:
/// digests that no signed text has.
fn places(word: &str, of: &[u8], n_max: u8) -> Vec<BodyDigest> {
    let place = |n: u8| Sha256::new_with_prefix(word).chain_update(of).chain_update([n]).finalize().into();
    (0..n_max).map(place).collect()
}

fn conflict_places(first_event_id: &str) -> Vec<BodyDigest> {
    places(CONFLICT, first_event_id.as_bytes(), CONFLICTS_N_MAX)
}

impl Admission {
    /// Leaves a row of another copy, unless there are enough of that text.
    pub(super) async fn replay_keep(&mut self, event: &IncomingEvent) -> Result<(), StoreError> {
        let places = event.replay_key.map(|key| places("replayed", &key, REPLAYS_N_MAX)).unwrap_or_default();
        if !self.keep_at(event, EventState::Replayed, &places).await? {
            let provider = event.key.provider.to_string();
            metrics::counter!("hooklatch_replays_unrecorded_total", "provider" => provider).increment(1);
        }
        Ok(())
    }

    /// Keeps other contents of events that stand, each once, in the one order in which all nodes do.
    pub(super) async fn conflicts_keep(&mut self, mut found: Vec<Conflicting<'_>>) -> Result<(), StoreError> {
        found.sort_by(|a, b| {
            (&a.event.key.provider, &a.first_event_id, a.event.digest).cmp(&(
                &b.event.key.provider,
                &b.first_event_id,
                b.event.digest,
            ))
        });
        for one in &found {
            self.conflict_keep(one).await?;
        }
        Ok(())
    }

    async fn conflict_keep(&mut self, conflicting: &Conflicting<'_>) -> Result<(), StoreError> {
        let key = conflicting.key();
        if in_tx!(self.tx, event_get(&key))?.is_some() {
            return Ok(());
        }
        let provider = key.provider.to_string();
        let event = IncomingEvent { key, ..conflicting.event.clone() };
        let places = conflict_places(&conflicting.first_event_id);
        if !self.keep_at(&event, EventState::Conflict, &places).await? {
            // Another node may have kept this very content meanwhile.
            if in_tx!(self.tx, event_get(&event.key))?.is_none() {
                let first = EventKey {
                    provider: event.key.provider.clone(),
                    event_id: conflicting.first_event_id.clone(),
                };
                in_tx!(self.tx, conflict_count(&first))?;
                metrics::counter!("hooklatch_conflicts_unkept_total", "provider" => provider).increment(1);
            }
            return Ok(());
        }
        metrics::counter!("hooklatch_conflicts_kept_total", "provider" => provider).increment(1);
        let is_dispatched = event.on_conflict == OnConflict::Dispatch;
        let update = EventUpdate {
            state: if is_dispatched { EventState::Retry } else { EventState::Conflict },
            error: Some(format!("other content under {}", conflicting.first_event_id)),
            attempts_n: 0,
            due_at_ms: is_dispatched.then_some(event.received_at_ms),
            processed_at_ms: event.received_at_ms,
            key: event.key,
        };
        in_tx!(self.tx, events_update(&[&update]))
    }

    /// Puts a row at the first of `places` that is free; `false` when none is, or the row's key is taken.
    async fn keep_at(
        &mut self,
        event: &IncomingEvent,
        state: EventState,
        places: &[BodyDigest],
    ) -> Result<bool, StoreError> {
        let taken = in_tx!(self.tx, replay_keys_taken(&event.key.provider, places))?;
        for place in places.iter().filter(|place| !taken.iter().any(|one| one.as_slice() == place.as_slice()))
        {
            let row = EventInsert { event, state, replay_key: Some(*place) };
            // Another node may have taken it meanwhile.
            if !in_tx!(self.tx, events_insert(&[row]))?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Store {
    /// What else came under the key of this event.
    pub async fn event_conflicts(&self, key: &EventKey) -> Result<Conflicts, StoreError> {
        let (store, key) = (self.clone(), key.clone());
        let (provider, places) = (key.provider.clone(), conflict_places(&key.event_id));
        let rows: Vec<EventRow> = alone!(self.people.events_at(&provider, &places))?;
        let mut kept = Vec::with_capacity(rows.len());
        for row in rows {
            let content = store.event_content(&row.key).await?;
            kept.push((row, content));
        }
        let unkept_n: Option<i64> = alone!(self.people.conflicts_unkept(&key))?;
        Ok(Conflicts { kept, unkept_n: unkept_n.unwrap_or_default().unsigned_abs() })
    }

    /// The headers and bytes of an event, as long as they are kept.
    pub async fn event_content(&self, key: &EventKey) -> Result<Option<KeptContent>, StoreError> {
        let key = key.clone();
        let found: Option<(String, Vec<u8>)> = alone!(self.people.event_content(&key))?;
        Ok(found.map(|(headers, body)| KeptContent { headers, body }))
    }
}
