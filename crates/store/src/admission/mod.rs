//! Admission: latches events first, then decides what follows from the new ones, and commits all of it at once.
//!
//! [`Store::admit`](crate::Store::admit) does all of it in one call. The batch and its handlers decide the way:
//!
//! - on SQLite one closure does everything on the writer's thread, decisions included;
//! - on PostgreSQL one statement does, where no decision depends on which events are new;
//! - otherwise an open transaction ([`AdmissionTx`]) does it step by step: where handlers decide on PostgreSQL, where a
//!   handler writes in the same transaction, and where an event differs from the stored one with its key.
//!
//! The twins `postgres.rs` and `sqlite.rs` do the same and look different, because their costs differ. On PostgreSQL a
//! round trip costs most and other nodes write at the same time: rows are sent as arrays (`unnest`) in as few
//! statements as possible, and the new rows are returned as numbers. Two nodes that insert the same events wait for
//! each other, so all insert in one order (`batch.rs`). On SQLite a statement costs microseconds, and no other node
//! writes between `BEGIN IMMEDIATE` and `COMMIT`: prepared statements of one row each, and handlers are called in
//! between, on that thread. It needs no sorted order and no locks. What both share (which copies are the first of their
//! key, which versions are raised, which message heads its lane) is decided once, without I/O, in `batch.rs` and here;
//! the conformance suite runs the same cases through both.
//!
//! Reading order: `batch.rs`, then `transaction.rs` (with [`Store::admit`](crate::Store::admit)) and the twins below
//! it, and `beside.rs` (an event that was not new).

mod batch;
mod beside;
mod postgres;
mod sqlite;
#[cfg(test)]
mod tests;
mod transaction;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::db::StoreError;
use super::event::{EventUpdate, Latched};
use super::message::{InitialLease, NewMessage};
use hooklatch_core::types::{EventState, IncomingEvent, MessageId, MessageState};

#[cfg(any(test, feature = "testing"))]
pub(super) use postgres::STATEMENTS;
pub use transaction::AdmissionTx;

/// An event to admit.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The event itself, verified and read.
    pub event: Arc<IncomingEvent>,
    /// Its number, should it be new.
    pub event_seq: i64,
    /// The state its row is inserted with, so that the usual case needs no second write.
    pub state: EventState,
    /// True when it raises the highest version that was seen of its object, should it be new.
    pub is_raising: bool,
}

/// The rows that are to be written for new events.
#[derive(Debug, Default)]
pub struct Writes {
    /// Messages to insert: the calls to make.
    pub messages: Vec<NewMessage>,
    /// Rows that are to say something else than what they were inserted with.
    pub updates: Vec<EventUpdate>,
}

/// The decision about a batch.
#[derive(Debug)]
pub enum Plan {
    /// This is to be there with the commit.
    Write(Writes),
    /// Nothing is to be written, not even the events.
    RollBack,
}

/// Decides what follows from events. Pure: it may be asked on any thread, in the middle of a transaction.
pub trait Decide: Send + Sized + 'static {
    /// Returns what follows from those events that are new, where that does not depend on which they are.
    /// Asked once, first.
    fn unconditional(&mut self) -> Option<Writes>;

    /// Returns what follows, event by event: what was found, and whether a newer version of its object had
    /// been seen.
    fn decide(&mut self, found: &[(Latched, bool)]) -> Plan;

    /// Called with messages that are about to be written: those that are to be handed over get their lease.
    fn lease(&mut self, messages: &mut [NewMessage]);
}

/// A batch after [`Store::admit`](crate::Store::admit).
#[derive(Debug)]
pub struct AdmittedBatch<D> {
    /// The decider, which is given back.
    pub decide: D,
    /// Findings, event by event; `None` where that could not be asked any more. New events are committed,
    /// whatever became of the rest. Empty: it was decided that nothing be written.
    pub latched: Vec<Option<Latched>>,
    /// Rows that were written; of messages known beforehand only those of events that were new.
    pub writes: Writes,
    /// What is known of the messages that were written.
    pub queued: Queued,
    /// Reason why the rest could not be asked.
    pub failure: Option<StoreError>,
}

impl<D> AdmittedBatch<D> {
    /// A batch of which nothing is known so far.
    fn of(decide: D) -> Self {
        let writes = Writes::default();
        Self { decide, latched: Vec::new(), writes, queued: Queued::default(), failure: None }
    }
}

/// What only the database knows of messages that were written.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Queued {
    /// The destinations that are paused, if any message has a lease: those to them were written without.
    pub paused: HashSet<String>,
    /// The messages that wait behind the head of their lane: nobody has to look for them.
    pub behind: HashSet<MessageId>,
}

impl Queued {
    fn of(paused: HashSet<String>, rows: &[MessageInsert<'_>]) -> Self {
        let behind = rows.iter().filter(|row| row.state == MessageState::Waiting);
        Self { behind: behind.map(|row| row.message.message_id).collect(), paused }
    }
}

/// Result of a database's fast path.
enum FastPath<D> {
    Done(Box<AdmittedBatch<D>>),
    /// Nothing was written: an event differs from a stored one, which takes further statements.
    Slow(D),
}

impl Writes {
    /// True when one statement can write it.
    fn is_plain(&self) -> bool {
        self.updates.is_empty()
    }
}

/// One message to insert, with its place in its lane.
struct MessageInsert<'a> {
    message: &'a NewMessage,
    state: MessageState,
    lane_seq: Option<i64>,
}

impl MessageInsert<'_> {
    /// The lease it is written with.
    fn lease(&self) -> Option<&InitialLease> {
        self.message.lease.as_ref().filter(|_| self.state == MessageState::Leased)
    }
}

/// The lanes of these messages, and how many of them each gets; in the one order in which all transactions lock them.
fn lanes_wanted(messages: &[NewMessage]) -> Vec<(&str, &str, i64)> {
    let mut lanes: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for message in messages {
        if let Some(lane) = &message.lane {
            *lanes.entry((&message.destination, lane)).or_default() += 1;
        }
    }
    lanes.into_iter().map(|((to, lane), n)| (to, lane, n)).collect()
}

/// The rows of these messages. `places` are head and new tail of each of the `lanes`.
fn message_rows<'a>(
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
