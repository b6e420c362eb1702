//! The transaction of one batch: insert first, then whatever follows, one commit.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::apart::Conflicting;
use super::tx::TxKind;
use super::{
    Backend, BornLease, DueEvent, EventRow, EventUpdate, Latched, NewMessage, Store, StoreError, Tx, limit,
    postgres, sqlite,
};
use crate::types::{
    BodyDigest, EventKey, EventState, IncomingEvent, MessageState, Name, ObjectVersion, UnixMs,
};

/// One open transaction. Dropping it rolls back.
pub struct Admission {
    pub(super) tx: Tx,
}

/// One row to insert.
pub(super) struct EventInsert<'a> {
    pub(super) event: &'a IncomingEvent,
    pub(super) state: EventState,
    /// What no other row of the provider may have.
    pub(super) replay_key: Option<BodyDigest>,
}

impl EventInsert<'_> {
    /// How often the event was dispatched by the end of this transaction.
    pub(super) fn attempts_n(&self) -> i64 {
        i64::from(self.state == EventState::Done)
    }

    /// The one order in which all nodes insert: whoever shares bytes under other ids, or ids, meets the others at the
    /// same row first. Without a replay key: last, by id.
    fn order(&self) -> (&Name, bool, Option<&[u8]>, &str) {
        let key = &self.event.key;
        (&key.provider, self.replay_key().is_none(), self.replay_key(), &key.event_id)
    }

    pub(super) fn replay_key(&self) -> Option<&[u8]> {
        self.replay_key.as_ref().map(<[u8; 32]>::as_slice)
    }
}

/// One message to insert, with its place in its lane.
pub(super) struct MessageInsert<'a> {
    pub(super) message: &'a NewMessage,
    pub(super) state: MessageState,
    pub(super) lane_seq: Option<i64>,
}

impl MessageInsert<'_> {
    /// The lease it is written with.
    pub(super) fn lease(&self) -> Option<&BornLease> {
        self.message.lease.as_ref().filter(|_| self.state == MessageState::Leased)
    }
}

/// What is there instead of a row that was not inserted.
pub(super) struct Holder {
    /// Position in the list that was asked about.
    pub(super) position: usize,
    /// Digest and state of the row with the same key.
    pub(super) same_key: Option<(Vec<u8>, String)>,
    /// Id and digest of the row with the same replay key.
    pub(super) same_text: Option<(String, Vec<u8>)>,
}

/// Events of one transaction, each key once.
struct Batch<'a> {
    events: &'a [&'a IncomingEvent],
    /// Where each key is first.
    firsts: HashMap<&'a EventKey, usize>,
    /// The first of each key, sorted.
    rows: Vec<EventInsert<'a>>,
}

impl<'a> Batch<'a> {
    fn new(events: &'a [&'a IncomingEvent], states: &[EventState]) -> Self {
        let mut firsts: HashMap<&EventKey, usize> = HashMap::with_capacity(events.len());
        for (position, event) in events.iter().enumerate() {
            firsts.entry(&event.key).or_insert(position);
        }
        let mut rows: Vec<EventInsert<'_>> = events
            .iter()
            .zip(states)
            .enumerate()
            .filter(|(position, (event, _))| firsts.get(&event.key) == Some(position))
            .map(|(_, (event, state))| EventInsert { event, state: *state, replay_key: event.replay_key })
            .collect();
        rows.sort_by(|a, b| a.order().cmp(&b.order()));
        Self { events, firsts, rows }
    }

    /// The positions that have to be asked about: firsts that were not inserted, and other content under a key that is
    /// there twice.
    fn lost(&self, inserted: &HashSet<EventKey>) -> Vec<usize> {
        let is_lost = |(position, event): &(usize, &&IncomingEvent)| match self.firsts.get(&event.key) {
            Some(first) if first != position => {
                self.events.get(*first).is_none_or(|one| one.digest != event.digest)
            }
            _ => !inserted.contains(&event.key),
        };
        self.events.iter().enumerate().filter(is_lost).map(|(position, _)| position).collect()
    }

    /// What is known of each event without another question: `inserted` are new, and their equal copies are not.
    fn surely(&self, inserted: &HashSet<EventKey>) -> Vec<Option<Latched>> {
        let one = |(position, event): (usize, &&IncomingEvent)| {
            let first = self.firsts.get(&event.key).copied().filter(|_| inserted.contains(&event.key))?;
            let is_equal = self.events.get(first).is_some_and(|one| one.digest == event.digest);
            if first == position { Some(Latched::New) } else { is_equal.then_some(Latched::Duplicate) }
        };
        self.events.iter().enumerate().map(one).collect()
    }
}

/// What [`Store::admit_at_once`] did.
#[derive(Debug)]
pub struct AtOnce {
    /// What was found, event by event; `None` where that could not be asked any more. What is new is committed,
    /// whatever became of the rest.
    pub latched: Vec<Option<Latched>>,
    /// The destinations that are paused: messages to those were written without their lease.
    pub paused: HashSet<String>,
    /// Why the rest could not be asked.
    pub failure: Option<StoreError>,
}

impl Store {
    /// A whole admission whose messages are known beforehand, as they are when no handler is asked: latches
    /// the events, writes the messages of those that are new, commits, and says of each event what was
    /// found. On PostgreSQL this is one statement instead of four. Events must have no replay key, messages no lane.
    pub async fn admit_at_once(
        &self,
        events: &[&IncomingEvent],
        states: &[EventState],
        messages: &[NewMessage],
    ) -> Result<AtOnce, StoreError> {
        let Backend::Postgres(db) = &self.0 else {
            let mut tx = self.admission_begin().await?;
            let latched = tx.events_insert(events, states).await?;
            let new: HashSet<&EventKey> = events
                .iter()
                .zip(&latched)
                .filter(|(_, latched)| **latched == Latched::New)
                .map(|(event, _)| &event.key)
                .collect();
            let messages: Vec<NewMessage> =
                messages.iter().filter(|message| new.contains(&message.key)).cloned().collect();
            let paused = tx.messages_insert(&messages).await?;
            tx.commit().await?;
            return Ok(AtOnce { latched: latched.into_iter().map(Some).collect(), paused, failure: None });
        };
        let batch = Batch::new(events, states);
        let (inserted, paused) = postgres::admitted_at_once(db, &batch.rows, messages)
            .await
            .map_err(StoreError::from_commit)
            .inspect_err(|_| db.writer().trust().doubt())?;
        if inserted.len() == events.len() {
            return Ok(AtOnce { latched: vec![Some(Latched::New); events.len()], paused, failure: None });
        }
        // What is new is committed. What is not has written nothing, and may leave a record of a conflict.
        Ok(match self.judge_rest(&batch, &inserted).await {
            Ok(latched) => AtOnce { latched: latched.into_iter().map(Some).collect(), paused, failure: None },
            Err(failure) => AtOnce { latched: batch.surely(&inserted), paused, failure: Some(failure) },
        })
    }

    async fn judge_rest(
        &self,
        batch: &Batch<'_>,
        inserted: &HashSet<EventKey>,
    ) -> Result<Vec<Latched>, StoreError> {
        let mut tx = self.admission_begin().await?;
        match tx.judge(batch, inserted).await {
            Ok(latched) => tx.commit().await.map(|()| latched),
            Err(failure) => {
                drop(tx.rollback().await);
                Err(failure)
            }
        }
    }
}

impl Admission {
    pub(super) fn new(tx: Tx) -> Self {
        Self { tx }
    }

    /// The transaction, for a transactional handler.
    pub fn tx(&mut self) -> &mut Tx {
        &mut self.tx
    }

    /// For the rest of this transaction: how long a statement waits for a row that another one holds. Milliseconds;
    /// nothing changes on SQLite, which has one writer.
    pub async fn lock_wait_set(&mut self, wait_ms: i64) -> Result<(), StoreError> {
        in_tx!(self.tx, lock_wait_set(wait_ms))
    }

    /// Inserts what nobody has, each with its state, and says of each what was found, in the given order.
    /// They are sorted before the insert, so that two nodes with the same events cannot deadlock.
    pub async fn events_insert(
        &mut self,
        events: &[&IncomingEvent],
        states: &[EventState],
    ) -> Result<Vec<Latched>, StoreError> {
        let batch = Batch::new(events, states);
        let inserted = in_tx!(self.tx, events_insert(&batch.rows))?;
        self.judge(&batch, &inserted).await
    }

    /// Says of each event what was found, once `inserted` are in.
    async fn judge(
        &mut self,
        batch: &Batch<'_>,
        inserted: &HashSet<EventKey>,
    ) -> Result<Vec<Latched>, StoreError> {
        let mut conflicts = Vec::new();
        let found = self.events_lost(batch, &batch.lost(inserted), &mut conflicts).await?;
        let mut all: Vec<Latched> = Vec::with_capacity(batch.events.len());
        for (position, event) in batch.events.iter().enumerate() {
            let first = batch.firsts.get(&event.key).copied().unwrap_or(position);
            let earlier = batch.events.get(first).zip(all.get(first)).filter(|_| first != position);
            let latched = match (found.get(&position), earlier) {
                (Some(latched), _) => latched.clone(),
                (None, None) if inserted.contains(&event.key) => Latched::New,
                // Neither inserted nor there: somebody deleted it in between.
                (None, None) => {
                    return Err(StoreError::Conflict { op: "judge", source: sqlx::Error::RowNotFound });
                }
                // The same key twice in one batch, and no row with it: what stands is what the earlier copy met.
                (None, Some((earlier, met))) => {
                    let (first, first_event_id) = match met {
                        Latched::Conflict { first, first_event_id } => (*first, first_event_id),
                        _ => (earlier.digest, &event.key.event_id),
                    };
                    if first == event.digest {
                        Latched::Duplicate
                    } else {
                        conflicts.push(Conflicting::of(event, first_event_id, event.on_conflict));
                        Latched::Conflict { first, first_event_id: first_event_id.clone() }
                    }
                }
            };
            all.push(latched);
        }
        self.conflicts_keep(conflicts).await?;
        Ok(all)
    }

    /// What is there instead of those at the positions `lost`; what is to be kept of it is added to `conflicts`.
    async fn events_lost<'a>(
        &mut self,
        batch: &Batch<'a>,
        lost: &[usize],
        conflicts: &mut Vec<Conflicting<'a>>,
    ) -> Result<HashMap<usize, Latched>, StoreError> {
        let events: Vec<&'a IncomingEvent> =
            lost.iter().filter_map(|position| batch.events.get(*position).copied()).collect();
        let mut found = HashMap::with_capacity(lost.len());
        if events.is_empty() {
            return Ok(found);
        }
        for holder in in_tx!(self.tx, events_holders(&events))? {
            let (Some(event), Some(position)) = (events.get(holder.position), lost.get(holder.position))
            else {
                continue;
            };
            let Some(latched) = self.met(event, holder, conflicts).await? else { continue };
            found.insert(*position, latched);
        }
        Ok(found)
    }

    /// Raises each object's highest version and says of each whether it is the newest seen. Of several
    /// versions of one object only the highest is.
    pub async fn versions_raise(
        &mut self,
        versions: &[(&Name, &ObjectVersion, &str)],
    ) -> Result<Vec<bool>, StoreError> {
        let mut highest: Vec<(&Name, &ObjectVersion, &str)> = versions.to_vec();
        // Stable: of equal versions the first in the given order stays first.
        highest.sort_by(|a, b| (a.0, &a.1.object, b.1.version).cmp(&(b.0, &b.1.object, a.1.version)));
        highest.dedup_by(|later, first| later.0 == first.0 && later.1.object == first.1.object);
        let raised = in_tx!(self.tx, versions_raise(&highest))?;
        let is_newest = |(name, object, event_id): &(&Name, &ObjectVersion, &str)| {
            raised.contains(&(name.to_string(), object.object.clone()))
                && highest.iter().any(|one| one.0 == *name && one.1 == *object && one.2 == *event_id)
        };
        Ok(versions.iter().map(is_newest).collect())
    }

    /// Writes messages, due at once, leased as they say, or when their turn comes: those of one lane in the given
    /// order. Says which destinations are paused, if any message has a lease: those to them are written without.
    pub async fn messages_insert(&mut self, messages: &[NewMessage]) -> Result<HashSet<String>, StoreError> {
        let has_leases = messages.iter().any(|message| message.lease.is_some());
        let paused: HashSet<String> =
            if has_leases { in_tx!(self.tx, paused_names())? } else { HashSet::new() };
        let mut lanes: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        for message in messages {
            if let Some(lane) = &message.lane {
                *lanes.entry((&message.destination, lane)).or_default() += 1;
            }
        }
        let wanted: Vec<(&str, &str, i64)> = lanes.iter().map(|((to, lane), n)| (*to, *lane, *n)).collect();
        let places = if wanted.is_empty() { Vec::new() } else { in_tx!(self.tx, lanes_extend(&wanted))? };
        // Head of each lane, and the place of its next message.
        let mut turns: HashMap<(&str, &str), (i64, i64)> = wanted
            .iter()
            .zip(places)
            .map(|((to, lane, n), (head_seq, tail_seq))| ((*to, *lane), (head_seq, tail_seq - n + 1)))
            .collect();
        let rows: Vec<MessageInsert<'_>> = messages
            .iter()
            .map(|message| {
                let lane = message.lane.as_deref().map(|lane| (message.destination.as_str(), lane));
                let Some((head_seq, next_seq)) = lane.and_then(|lane| turns.get_mut(&lane)) else {
                    let is_leased = message.lease.is_some() && !paused.contains(&message.destination);
                    let state = if is_leased { MessageState::Leased } else { MessageState::Ready };
                    return MessageInsert { message, state, lane_seq: None };
                };
                let lane_seq = *next_seq;
                *next_seq += 1;
                let state = if lane_seq == *head_seq { MessageState::Ready } else { MessageState::Waiting };
                MessageInsert { message, state, lane_seq: Some(lane_seq) }
            })
            .collect();
        in_tx!(self.tx, messages_insert(&rows))?;
        Ok(paused)
    }

    /// Writes where events stand.
    pub async fn events_update(&mut self, updates: &[EventUpdate]) -> Result<(), StoreError> {
        let mut sorted: Vec<&EventUpdate> = updates.iter().collect();
        sorted.sort_by(|a, b| a.key.cmp(&b.key));
        in_tx!(self.tx, events_update(&sorted))
    }

    /// One event's row, as this transaction sees it.
    pub async fn event_get(&mut self, key: &EventKey) -> Result<Option<EventRow>, StoreError> {
        in_tx!(self.tx, event_get(key))
    }

    /// Takes the longest due event in `retry` of these providers, locked until the transaction ends;
    /// nobody waits for one that another node has.
    pub async fn event_take_due(
        &mut self,
        now_ms: UnixMs,
        providers: &[Name],
    ) -> Result<Option<DueEvent>, StoreError> {
        in_tx!(self.tx, event_take_due(now_ms, providers))
    }

    /// Commits. Only after `Ok` may a sender hear 200.
    pub async fn commit(self) -> Result<(), StoreError> {
        self.tx.commit().await
    }

    /// Leaves nothing behind.
    pub async fn rollback(self) -> Result<(), StoreError> {
        self.tx.roll_back().await
    }
}
