//! Admission: events are latched first, then whatever follows from those that are new is decided, and all of it is there
//! with one commit.
//!
//! [`Store::admit`] is the whole of it in one call. What can be known of a batch before it is latched decides how:
//!
//! - on SQLite one closure does everything on the writer's thread, decisions included;
//! - on PostgreSQL one statement does, where no decision depends on what is new;
//! - otherwise an open transaction ([`Admission`]) does it step by step: where handlers decide on PostgreSQL, where a
//!   handler writes in the same transaction, and where an event met something else than its own copy.

mod batch;
mod postgres;
mod sqlite;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use batch::Batch;
pub(super) use batch::{EventInsert, Holder};
pub(super) use postgres::STATEMENTS;

use super::apart::Conflicting;
use super::db::limit::limited;
use super::db::postgres::Postgres;
use super::db::{Backend, DbError, DbResult, Door};
use super::event::{event_get, event_take_due, events_update};
use super::lane::lanes_extend;
use super::{BornLease, DueEvent, EventRow, EventUpdate, Latched, NewMessage, Store, StoreError, Tx};
use crate::types::{EventKey, EventState, IncomingEvent, MessageState, Name, ObjectVersion, UnixMs};

/// An event that asks to be admitted.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The event.
    pub event: Arc<IncomingEvent>,
    /// Its number, should it be new.
    pub event_seq: i64,
    /// The state its row is born with, so that the usual case needs no second write.
    pub state: EventState,
    /// Whether it raises the highest version that was seen of its object, should it be new.
    pub is_raising: bool,
}

/// What is to be written of new events.
#[derive(Debug, Default)]
pub struct Writes {
    /// Calls to make.
    pub messages: Vec<NewMessage>,
    /// Rows that are to say something else than what they were born with.
    pub updates: Vec<EventUpdate>,
}

/// What was decided about a batch.
#[derive(Debug)]
pub enum Plan {
    /// This is to be there with the commit.
    Write(Writes),
    /// Nothing is to be written, not even the events.
    RollBack,
}

/// Decides what follows from events. Pure: it may be asked on any thread, in the middle of a transaction.
pub trait Decide: Send + Sized + 'static {
    /// What follows from those events that are new, where that does not depend on which they are. Asked once, first.
    fn known(&mut self) -> Option<Writes>;

    /// What follows, event by event: what was found, and whether a newer version of its object had been seen.
    fn decide(&mut self, found: &[(Latched, bool)]) -> Plan;

    /// Called with messages that are about to be written: those that are to be handed over get their lease.
    fn lease(&mut self, messages: &mut [NewMessage]);
}

/// What [`Store::admit`] did.
#[derive(Debug)]
pub struct Admitted<D> {
    /// Who decided.
    pub decide: D,
    /// What was found, event by event; `None` where that could not be asked any more. What is new is committed, whatever
    /// became of the rest. Empty: it was decided that nothing be written.
    pub latched: Vec<Option<Latched>>,
    /// What was written; of messages known beforehand only those of events that were new.
    pub writes: Writes,
    /// The destinations that are paused: messages to those were written without their lease.
    pub paused: HashSet<String>,
    /// Why the rest could not be asked.
    pub failure: Option<StoreError>,
}

impl<D> Admitted<D> {
    /// Nothing so far.
    fn of(decide: D) -> Self {
        let writes = Writes::default();
        Self { decide, latched: Vec::new(), writes, paused: HashSet::new(), failure: None }
    }
}

/// What a dialect's quick way came to.
enum Quick<D> {
    Done(Box<Admitted<D>>),
    /// Nothing was written: an event met something that takes more than one look.
    Slow(D),
}

impl Store {
    /// Admits a batch: latches its events, asks `decide`, writes what it says, and commits. In a suspect batch each
    /// statement waits for another node's row `lock_wait_ms` at most.
    pub async fn admit<D: Decide>(
        &self,
        candidates: Vec<Candidate>,
        mut decide: D,
        lock_wait_ms: Option<i64>,
    ) -> Result<Admitted<D>, StoreError> {
        let candidates: Arc<[Candidate]> = candidates.into();
        let quick = match &self.0.backend {
            Backend::Sqlite(db) => {
                let quick = sqlite::admitted(db, Arc::clone(&candidates), decide).await;
                self.0.backend.note(&quick);
                quick?
            }
            Backend::Postgres(_) if lock_wait_ms.is_some() => Quick::Slow(decide),
            Backend::Postgres(db) => match decide.known().filter(Writes::is_plain) {
                Some(writes) => self.admit_at_once(db, &candidates, decide, writes).await.map(Quick::Done)?,
                None => Quick::Slow(decide),
            },
        };
        match quick {
            Quick::Done(admitted) => Ok(*admitted),
            Quick::Slow(decide) => self.admit_slowly(&candidates, decide, lock_wait_ms).await,
        }
    }

    /// All in one statement, which is a transaction by itself.
    async fn admit_at_once<D: Decide>(
        &self,
        db: &Postgres,
        candidates: &[Candidate],
        mut decide: D,
        mut writes: Writes,
    ) -> Result<Box<Admitted<D>>, StoreError> {
        decide.lease(&mut writes.messages);
        let batch = Batch::new(candidates);
        let (inserted, paused) = postgres::admitted_at_once(db, &batch, &writes.messages)
            .await
            .map_err(StoreError::from_commit)
            .inspect_err(|_| db.writer().trust().doubt())?;
        let (latched, failure) = if inserted.is_all() {
            (batch.surely(&inserted), None)
        } else {
            // What is new is committed. What is not has written nothing, and may leave a record of a conflict.
            match self.judge_rest(&batch, &inserted).await {
                Ok(latched) => (latched.into_iter().map(Some).collect(), None),
                Err(failure) => (batch.surely(&inserted), Some(failure)),
            }
        };
        writes.messages.retain(|message| inserted.has(message.message_id.event_seq()));
        Ok(Box::new(Admitted { decide, latched, writes, paused, failure }))
    }

    async fn judge_rest(
        &self,
        batch: &Batch<'_>,
        inserted: &batch::Inserted,
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

    /// Step by step.
    async fn admit_slowly<D: Decide>(
        &self,
        candidates: &[Candidate],
        decide: D,
        lock_wait_ms: Option<i64>,
    ) -> Result<Admitted<D>, StoreError> {
        let mut tx = self.admission_begin().await?;
        match tx.admit(candidates, decide, lock_wait_ms).await {
            Ok(admitted) if admitted.latched.is_empty() && !candidates.is_empty() => {
                tx.rollback().await.map(|()| admitted)
            }
            Ok(admitted) => tx.commit().await.map(|()| admitted),
            Err(failure) => {
                // A failed transaction holds nothing worth waiting for; its own error is the one to report.
                drop(tx.rollback().await);
                Err(failure)
            }
        }
    }
}

impl Writes {
    /// Whether one statement can write it: a lane's row is locked and asked for its numbers.
    fn is_plain(&self) -> bool {
        self.updates.is_empty() && self.messages.iter().all(|message| message.lane.is_none())
    }
}

/// One open transaction. Dropping it rolls back.
pub struct Admission {
    pub(super) tx: Tx,
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

/// The lanes of these messages, and how many of them each gets; in the one order in which everybody locks them.
pub(super) fn lanes_wanted(messages: &[NewMessage]) -> Vec<(&str, &str, i64)> {
    let mut lanes: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for message in messages {
        if let Some(lane) = &message.lane {
            *lanes.entry((&message.destination, lane)).or_default() += 1;
        }
    }
    lanes.into_iter().map(|((to, lane), n)| (to, lane, n)).collect()
}

/// The rows of these messages. `places` are head and new tail of each of the `lanes`.
pub(super) fn message_rows<'a>(
    messages: &'a [NewMessage],
    paused: &HashSet<String>,
    lanes: &[(&'a str, &'a str, i64)],
    places: &[(i64, i64)],
) -> Vec<MessageInsert<'a>> {
    // Head of each lane, and the place of its next message.
    let mut turns: HashMap<(&str, &str), (i64, i64)> = lanes
        .iter()
        .zip(places)
        .map(|((to, lane, n), (head_seq, tail_seq))| ((*to, *lane), (*head_seq, tail_seq - n + 1)))
        .collect();
    let row = |message: &'a NewMessage| {
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
    };
    messages.iter().map(row).collect()
}

impl Admission {
    pub(super) fn new(tx: Tx) -> Self {
        Self { tx }
    }

    /// The transaction, for a transactional handler.
    pub fn tx(&mut self) -> &mut Tx {
        &mut self.tx
    }

    async fn admit<D: Decide>(
        &mut self,
        candidates: &[Candidate],
        decide: D,
        lock_wait_ms: Option<i64>,
    ) -> Result<Admitted<D>, StoreError> {
        if let Some(wait_ms) = lock_wait_ms {
            in_tx!(self.tx, lock_wait_set(wait_ms))?;
        }
        let latched = self.events_insert(candidates).await?;
        let stale = self.versions_raise(candidates, &latched).await?;
        let found: Vec<(Latched, bool)> = latched.iter().cloned().zip(stale).collect();
        let mut admitted = Admitted::of(decide);
        match admitted.decide.decide(&found) {
            Plan::Write(writes) => admitted.writes = writes,
            Plan::RollBack => return Ok(admitted),
        }
        admitted.decide.lease(&mut admitted.writes.messages);
        admitted.paused = self.write(&admitted.writes).await?;
        admitted.latched = latched.into_iter().map(Some).collect();
        Ok(admitted)
    }

    /// Writes what was decided, messages first. Says which destinations are paused, if any message has a lease.
    pub async fn write(&mut self, writes: &Writes) -> Result<HashSet<String>, StoreError> {
        let paused = self.messages_insert(&writes.messages).await?;
        if !writes.updates.is_empty() {
            self.events_update(&writes.updates).await?;
        }
        Ok(paused)
    }

    /// Inserts what nobody has, each with its state, and says of each what was found, in the given order.
    /// They are sorted before the insert, so that two nodes with the same events cannot deadlock.
    pub async fn events_insert(&mut self, candidates: &[Candidate]) -> Result<Vec<Latched>, StoreError> {
        let batch = Batch::new(candidates);
        let lost = self.rows_insert(batch.rows()).await?;
        self.judge(&batch, &batch.inserted(&lost)).await
    }

    /// The numbers of those rows that were not inserted, because somebody had them.
    pub(super) async fn rows_insert(&mut self, rows: Vec<EventInsert>) -> Result<Vec<i64>, StoreError> {
        let answer = match self.tx.is_postgres() {
            true => match self.tx.pg() {
                Ok(db) => limited(postgres::events_insert(db, &rows)).await,
                Err(error) => Err(error),
            },
            false => self.tx.run_sqlite(move |db| sqlite::events_insert(db, &rows)).await,
        };
        self.tx.noted("events_insert", answer)
    }

    /// What stands where these events would have been, by their position.
    pub(super) async fn events_holders(
        &mut self,
        events: &[Arc<IncomingEvent>],
    ) -> Result<Vec<Holder>, StoreError> {
        let answer = match self.tx.is_postgres() {
            true => match self.tx.pg() {
                Ok(db) => limited(postgres::events_holders(db, events)).await,
                Err(error) => Err(error),
            },
            false => {
                let events = events.to_vec();
                self.tx.run_sqlite(move |db| sqlite::events_holders(db, &events)).await
            }
        };
        self.tx.noted("events_holders", answer)
    }

    /// Says of each event what was found, once `inserted` are in.
    async fn judge(
        &mut self,
        batch: &Batch<'_>,
        inserted: &batch::Inserted,
    ) -> Result<Vec<Latched>, StoreError> {
        let mut conflicts = Vec::new();
        let found = self.events_lost(batch, &batch.lost(inserted), &mut conflicts).await?;
        let mut all: Vec<Latched> = Vec::with_capacity(batch.candidates.len());
        for (position, candidate) in batch.candidates.iter().enumerate() {
            let event = &candidate.event;
            let first = batch.first_of(position);
            let earlier = batch.candidates.get(first).zip(all.get(first)).filter(|_| first != position);
            let latched = match (found.get(&position), earlier) {
                (Some(latched), _) => latched.clone(),
                (None, None) if inserted.has(candidate.event_seq) => Latched::New,
                // Neither inserted nor there: somebody deleted it in between.
                (None, None) => {
                    return Err(StoreError::Conflict { op: "judge", source: DbError::vanished() });
                }
                // The same key twice in one batch, and no row with it: what stands is what the earlier copy met.
                (None, Some((earlier, met))) => {
                    let (first, first_event_id) = match met {
                        Latched::Conflict { first, first_event_id } => (*first, first_event_id),
                        _ => (earlier.event.digest, &event.key.event_id),
                    };
                    if first == event.digest {
                        Latched::Duplicate
                    } else {
                        conflicts.push(Conflicting::of(candidate, first_event_id, event.on_conflict));
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
        let candidates: Vec<&'a Candidate> =
            lost.iter().filter_map(|position| batch.candidates.get(*position)).collect();
        let mut found = HashMap::with_capacity(lost.len());
        if candidates.is_empty() {
            return Ok(found);
        }
        let events: Vec<Arc<IncomingEvent>> = candidates.iter().map(|one| Arc::clone(&one.event)).collect();
        for holder in self.events_holders(&events).await? {
            let (Some(candidate), Some(position)) =
                (candidates.get(holder.position), lost.get(holder.position))
            else {
                continue;
            };
            let Some(latched) = self.met(candidate, holder, conflicts).await? else { continue };
            found.insert(*position, latched);
        }
        Ok(found)
    }

    /// Raises the versions of new events, and says of each whether a newer one had been seen.
    pub async fn versions_raise(
        &mut self,
        candidates: &[Candidate],
        latched: &[Latched],
    ) -> Result<Vec<bool>, StoreError> {
        let raised = batch::raised(candidates, latched);
        if raised.is_empty() {
            return Ok(vec![false; candidates.len()]);
        }
        let highest = batch::highest(candidates, &raised);
        let answer = if self.tx.is_postgres() {
            match self.tx.pg() {
                Ok(db) => limited(postgres::versions_raise(db, &highest)).await,
                Err(error) => Err(error),
            }
        } else {
            match self.tx.door() {
                Ok(mut door) => versions_raise(&mut door, &highest).await,
                Err(error) => Err(error),
            }
        };
        let is_newest = self.tx.noted("versions_raise", answer)?;
        Ok(batch::stale(candidates, &raised, &is_newest))
    }

    /// Raises the version of one object, and says whether a newer one had been seen.
    pub async fn version_raise(
        &mut self,
        provider: &Name,
        object: &ObjectVersion,
        event_seq: i64,
    ) -> Result<bool, StoreError> {
        let raise = batch::Raise {
            provider: provider.as_str(),
            object: &object.object,
            version: object.version,
            event_seq,
        };
        let is_newest = in_tx!(self.tx, versions_raise(&[raise]))?;
        Ok(!is_newest.first().copied().unwrap_or(true))
    }

    /// Writes messages, due at once, leased as they say, or when their turn comes: those of one lane in the given
    /// order. Says which destinations are paused, if any message has a lease: those to them are written without.
    async fn messages_insert(&mut self, messages: &[NewMessage]) -> Result<HashSet<String>, StoreError> {
        if messages.is_empty() {
            return Ok(HashSet::new());
        }
        let has_leases = messages.iter().any(|message| message.lease.is_some());
        let paused: HashSet<String> =
            if has_leases { in_tx!(self.tx, paused_names())? } else { HashSet::new() };
        let lanes = lanes_wanted(messages);
        let used_at_ms = messages.first().map_or(0, |message| message.created_at_ms);
        let places =
            if lanes.is_empty() { Vec::new() } else { in_tx!(self.tx, lanes_extend(&lanes, used_at_ms))? };
        let answer = match self.tx.is_postgres() {
            true => {
                let rows = message_rows(messages, &paused, &lanes, &places);
                match self.tx.pg() {
                    Ok(db) => limited(postgres::messages_insert(db, &rows)).await,
                    Err(error) => Err(error),
                }
            }
            false => {
                let (messages, paused) = (messages.to_vec(), paused.clone());
                let insert = move |db: &mut rusqlite::Connection| {
                    let lanes = lanes_wanted(&messages);
                    sqlite::messages_insert(db, &message_rows(&messages, &paused, &lanes, &places))
                };
                self.tx.run_sqlite(insert).await
            }
        };
        self.tx.noted("messages_insert", answer)?;
        Ok(paused)
    }

    /// Writes where events stand, in the order of their keys.
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

/// For the rest of this transaction: how long a statement waits for a row that another one holds. Milliseconds;
/// nothing changes on SQLite, which has one writer.
async fn lock_wait_set(db: &mut Door<'_>, wait_ms: i64) -> DbResult<()> {
    if !db.is_postgres() {
        return Ok(());
    }
    let sql = "/* lock_wait_set */ SELECT set_config('lock_timeout', $1, true) AS was";
    db.fetch(sql, &[format!("{wait_ms}ms").into()]).await.map(drop)
}

/// The destinations that are paused.
async fn paused_names(db: &mut Door<'_>) -> DbResult<HashSet<String>> {
    let rows = db.fetch("/* paused_names */ SELECT destination FROM destination_pauses", &[]).await?;
    rows.iter().map(|row| row.text("destination")).collect()
}

/// Raises these versions; of each whether it is the newest that was seen.
async fn versions_raise(db: &mut Door<'_>, versions: &[batch::Raise<'_>]) -> DbResult<Vec<bool>> {
    let mut is_newest = Vec::with_capacity(versions.len());
    for raise in versions {
        let values =
            [raise.provider.into(), raise.object.into(), raise.version.into(), raise.event_seq.into()];
        is_newest.push(db.fetch_optional(batch::VERSION_RAISE, &values).await?.is_some());
    }
    Ok(is_newest)
}
