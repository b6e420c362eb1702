//! Compares an event that was not inserted with the stored one, and keeps its content beside it: see `apart.rs`.

use std::sync::Arc;

use super::Candidate;
use super::batch::{EventInsert, ExistingRows};
use super::transaction::AdmissionTx;
use crate::apart::{conflict_ids, conflict_note, event_content, is_beside, replay_places};
use crate::db::{DbResult, Executor, StoreError};
use crate::event::{EventRow, EventUpdate, Latched, event_get, events_update, events_with};
use crate::signal::repeat_claim;
use hooklatch_core::json::is_rendering;
use hooklatch_core::seal::KeyRing;
use hooklatch_core::types::{BodyDigest, EventKey, EventState, IncomingEvent, Name, OnConflict};

/// Other content under the key of an event.
pub struct ConflictingEvent<'a> {
    pub event: &'a Arc<IncomingEvent>,
    /// Its number: nothing else has it, as it was not admitted under it.
    pub event_seq: i64,
    /// The id that stands.
    pub first_event_id: String,
    /// The provider's rule for it: keep it, or dispatch it too.
    pub on_conflict: OnConflict,
}

impl<'a> ConflictingEvent<'a> {
    pub fn of(candidate: &'a Candidate, first_event_id: &str, on_conflict: OnConflict) -> Self {
        let first_event_id = first_event_id.to_owned();
        Self { event: &candidate.event, event_seq: candidate.event_seq, first_event_id, on_conflict }
    }

    /// True when `row` is of this very content.
    fn is_kept_as(&self, row: &EventRow) -> bool {
        row.digest == self.event.digest && row.event_type == self.event.event_type
    }

    /// The row of what is kept.
    fn row(&self, kept: IncomingEvent) -> EventInsert {
        let replay_key = kept.replay_key;
        EventInsert {
            event: Arc::new(kept),
            event_seq: self.event_seq,
            state: EventState::Conflict,
            replay_key,
        }
    }

    /// Returns what it is kept as, at the place with this id: with its body in one piece where the parts are encrypted,
    /// because those open under the received id alone.
    fn kept_as(&self, event_id: String, replay_key: Option<BodyDigest>, ring: &KeyRing) -> IncomingEvent {
        let key = EventKey { provider: self.event.key.provider.clone(), event_id };
        let stored_parts_n = self.event.stored_parts_n.filter(|_| !ring.is_on());
        IncomingEvent { key, replay_key, stored_parts_n, ..IncomingEvent::clone(self.event) }
    }
}

impl AdmissionTx {
    /// Compares one event with the stored rows. The signed text counts before the id, which anyone may have written:
    /// a text sent before is a replay under a known id, too, and other content under it has the
    /// place of one signed text only.
    pub async fn compare_existing<'a>(
        &mut self,
        candidate: &'a Candidate,
        holder: ExistingRows,
        conflicts: &mut Vec<ConflictingEvent<'a>>,
    ) -> Result<Option<Latched>, StoreError> {
        let event = &candidate.event;
        let own_id = &event.key.event_id;
        let is_known = holder.same_key.is_some();
        let is_anothers = |(id, _): &(String, Vec<u8>)| id != own_id && !(is_known && is_beside(id, own_id));
        let same_text = holder.same_text.filter(is_anothers);
        let (first_event_id, digest, on_conflict) = match (same_text, holder.same_key) {
            (_, Some((digest, _))) if digest == event.digest => return Ok(Some(Latched::Duplicate)),
            (Some((first_event_id, digest)), _) if digest == event.digest => {
                if event.is_repeatable
                    && !is_known
                    && let Some(latched) = self.repeat_accept(candidate, &first_event_id).await?
                {
                    return Ok(Some(latched));
                }
                self.replay_keep(candidate, is_known).await?;
                return Ok(Some(Latched::Replayed { first_event_id }));
            }
            (Some((first_event_id, digest)), _) => (first_event_id, digest, event.on_conflict),
            // A holder of one signed request can occupy any id: such a row does not block an event with new content.
            (None, Some((digest, state))) if state == EventState::Replayed.as_str() => {
                (own_id.clone(), digest, OnConflict::Dispatch)
            }
            (None, Some(_)) if self.is_rendering(event).await? => return Ok(Some(Latched::Duplicate)),
            (None, Some((digest, _))) => (own_id.clone(), digest, event.on_conflict),
            (None, None) => return Ok(None),
        };
        let first = digest
            .try_into()
            .map_err(|_| StoreError::inconsistent("processed_webhook_events", "digest", &first_event_id))?;
        conflicts.push(ConflictingEvent::of(candidate, &first_event_id, on_conflict));
        Ok(Some(Latched::Conflict { first, first_event_id }))
    }

    /// True when the event that stands under this key is this one, which its sender wrote in another way. Where its
    /// body is no longer kept, or not as received, it is `false`.
    async fn is_rendering(&mut self, event: &IncomingEvent) -> Result<bool, StoreError> {
        let Some(renderings) = &event.renderings else { return Ok(false) };
        let first = in_tx!(self.tx, event_content(&event.key, &self.ring))?;
        Ok(first.is_some_and(|first| is_rendering(renderings, &first.body, &event.body)))
    }

    /// Accepts a text whose like may come again as an event of its own, due at once, unless its provider had another
    /// one accepted within the last ten minutes: a holder of one signed request could repeat it without end. `None`
    /// where it is to be kept as a replay.
    async fn repeat_accept(
        &mut self,
        candidate: &Candidate,
        first_event_id: &str,
    ) -> Result<Option<Latched>, StoreError> {
        let event = &candidate.event;
        let provider = event.key.provider.as_str();
        let repeat_n = in_tx!(self.tx, repeat_claim(provider, event.received_at_ms))?;
        let count = |outcome| {
            metrics::counter!("hooklatch_repeats_total", "provider" => provider.to_owned(), "outcome" => outcome)
                .increment(1);
        };
        if let Some(repeat_n) = repeat_n {
            let identity =
                format!("{}, repeat no. {repeat_n} of {provider}, as {first_event_id}", event.identity);
            let again = IncomingEvent { identity, replay_key: None, ..IncomingEvent::clone(event) };
            let row = EventInsert {
                event: Arc::new(again),
                event_seq: candidate.event_seq,
                state: candidate.state,
                replay_key: None,
            };
            if self.is_inserted(row).await? {
                count("accepted");
                self.repeat_due(candidate).await?;
                return Ok(Some(Latched::Repeated));
            }
        }
        // Another node may have taken this very event meanwhile.
        let row = in_tx!(self.tx, event_get(&event.key))?;
        if row.is_some_and(|row| row.digest == event.digest) {
            return Ok(Some(Latched::Duplicate));
        }
        count("replayed");
        Ok(None)
    }

    /// Has the retries dispatch a repeat, if there is a handler for it: here what follows from new events is decided
    /// already.
    async fn repeat_due(&mut self, candidate: &Candidate) -> Result<(), StoreError> {
        if candidate.state != EventState::Handled {
            return Ok(());
        }
        let received_at_ms = candidate.event.received_at_ms;
        let update = EventUpdate {
            event_seq: candidate.event_seq,
            key: candidate.event.key.clone(),
            state: EventState::Retry,
            error: None,
            attempts_n: 0,
            due_at_ms: Some(received_at_ms),
            processed_at_ms: received_at_ms,
        };
        in_tx!(self.tx, events_update(&[&update]))
    }

    /// Leaves a row of another copy, unless there are enough of that text, or the id has a row already.
    async fn replay_keep(&mut self, candidate: &Candidate, is_known: bool) -> Result<(), StoreError> {
        let event = &candidate.event;
        let places =
            event.replay_key.filter(|_| !is_known).map(|text| replay_places(&text)).unwrap_or_default();
        let taken = in_tx!(self.tx, replay_keys_taken(&event.key.provider, &places))?;
        let is_free = |place: &&BodyDigest| !taken.iter().any(|one| one.as_slice() == place.as_slice());
        for place in places.iter().filter(is_free) {
            // Another node may have taken it meanwhile.
            let row = EventInsert {
                event: Arc::clone(event),
                event_seq: candidate.event_seq,
                state: EventState::Replayed,
                replay_key: Some(*place),
            };
            if self.is_inserted(row).await? {
                return Ok(());
            }
        }
        note_unrecorded(event);
        Ok(())
    }

    async fn is_inserted(&mut self, row: EventInsert) -> Result<bool, StoreError> {
        Ok(self.rows_insert(vec![row]).await?.is_empty())
    }

    /// Keeps other contents of events that stand, each once, in the one order in which all nodes do.
    pub(super) async fn conflicts_keep(
        &mut self,
        mut found: Vec<ConflictingEvent<'_>>,
    ) -> Result<(), StoreError> {
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

    async fn conflict_keep(&mut self, conflicting: &ConflictingEvent<'_>) -> Result<(), StoreError> {
        let event = conflicting.event;
        let (provider, mut replay_key) = (&event.key.provider, event.replay_key);
        let ids = conflict_ids(&conflicting.first_event_id);
        let rows: Vec<EventRow> = in_tx!(self.tx, events_with(provider, &ids))?;
        if rows.iter().any(|row| conflicting.is_kept_as(row)) {
            return Ok(());
        }
        for id in ids.into_iter().filter(|id| rows.iter().all(|row| row.key.event_id != *id)) {
            let kept = conflicting.kept_as(id, replay_key, &self.ring);
            let key = kept.key.clone();
            let row = conflicting.row(kept);
            if self.is_inserted(row.clone()).await? {
                return self.conflict_kept(conflicting, key).await;
            }
            // Another node may have taken the place meanwhile, or another row has the signed text.
            match in_tx!(self.tx, event_get(&key))? {
                Some(row) if conflicting.is_kept_as(&row) => return Ok(()),
                Some(_) => continue,
                None if replay_key.take().is_none() => continue,
                None => {}
            }
            if self.is_text_of_equal(event).await? {
                note_unrecorded(event);
                return Ok(());
            }
            if self.is_inserted(EventInsert { replay_key: None, ..row }).await? {
                return self.conflict_kept(conflicting, key).await;
            }
            let row = in_tx!(self.tx, event_get(&key))?;
            if row.is_some_and(|row| conflicting.is_kept_as(&row)) {
                return Ok(());
            }
        }
        let first_event_id = conflicting.first_event_id.clone();
        in_tx!(self.tx, conflict_count(&EventKey { provider: provider.clone(), event_id: first_event_id }))?;
        metrics::counter!("hooklatch_conflicts_unkept_total", "provider" => provider.to_string())
            .increment(1);
        Ok(())
    }

    /// True when the signed text is that of an event with equal content, under whatever id.
    async fn is_text_of_equal(&mut self, event: &Arc<IncomingEvent>) -> Result<bool, StoreError> {
        let holders = self.events_holders(&[Arc::clone(event)]).await?;
        Ok(holders.iter().filter_map(|one| one.same_text.as_ref()).any(|(_, digest)| *digest == event.digest))
    }

    /// Updates its state, and its due time if it is to be dispatched.
    async fn conflict_kept(
        &mut self,
        conflicting: &ConflictingEvent<'_>,
        key: EventKey,
    ) -> Result<(), StoreError> {
        metrics::counter!("hooklatch_conflicts_kept_total", "provider" => key.provider.to_string())
            .increment(1);
        let is_dispatched = conflicting.on_conflict == OnConflict::Dispatch;
        let received_at_ms = conflicting.event.received_at_ms;
        let update = EventUpdate {
            event_seq: conflicting.event_seq,
            state: if is_dispatched { EventState::Retry } else { EventState::Conflict },
            error: Some(conflict_note(&conflicting.first_event_id)),
            attempts_n: 0,
            due_at_ms: is_dispatched.then_some(received_at_ms),
            processed_at_ms: received_at_ms,
            key,
        };
        in_tx!(self.tx, events_update(&[&update]))
    }
}

fn note_unrecorded(event: &IncomingEvent) {
    let provider = event.key.provider.to_string();
    metrics::counter!("hooklatch_replays_unrecorded_total", "provider" => provider).increment(1);
}

/// Returns those of `places` whose replay key a row has already.
async fn replay_keys_taken(
    db: &mut Executor<'_>,
    provider: &Name,
    places: &[BodyDigest],
) -> DbResult<Vec<Vec<u8>>> {
    let mut taken = Vec::new();
    for place in places {
        let row = db
            .fetch_optional(
                "/* replay_keys_taken */ SELECT replay_key FROM processed_webhook_events
                 WHERE provider = $1 AND replay_key = $2",
                &[provider.as_str().into(), place.as_slice().into()],
            )
            .await?;
        taken.extend(row.map(|row| row.bytes("replay_key")).transpose()?);
    }
    Ok(taken)
}

async fn conflict_count(db: &mut Executor<'_>, first: &EventKey) -> DbResult<()> {
    db.execute(
        "/* conflict_count */ INSERT INTO conflict_counts (provider, event_id, unkept_n) VALUES ($1, $2, 1)
         ON CONFLICT (provider, event_id) DO UPDATE SET unkept_n = conflict_counts.unkept_n + 1",
        &[first.provider.as_str().into(), first.event_id.as_str().into()],
    )
    .await
    .map(drop)
}
