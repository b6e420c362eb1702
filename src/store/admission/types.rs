//! The questions and answers of admission.

use std::collections::HashSet;
use std::sync::Arc;

use crate::store::db::StoreError;
use crate::store::event::{EventUpdate, Latched};
use crate::store::message::NewMessage;
use crate::types::{EventState, IncomingEvent};

/// An event that asks to be admitted.
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
    fn known(&mut self) -> Option<Writes>;

    /// Returns what follows, event by event: what was found, and whether a newer version of its object had
    /// been seen.
    fn decide(&mut self, found: &[(Latched, bool)]) -> Plan;

    /// Called with messages that are about to be written: those that are to be handed over get their lease.
    fn lease(&mut self, messages: &mut [NewMessage]);
}

/// A batch after [`Store::admit`](crate::store::Store::admit).
#[derive(Debug)]
pub struct AdmittedBatch<D> {
    /// The decider, which is given back.
    pub decide: D,
    /// Findings, event by event; `None` where that could not be asked any more. New events are committed,
    /// whatever became of the rest. Empty: it was decided that nothing be written.
    pub latched: Vec<Option<Latched>>,
    /// Rows that were written; of messages known beforehand only those of events that were new.
    pub writes: Writes,
    /// The destinations that are paused: messages to those were written without their lease.
    pub paused: HashSet<String>,
    /// Reason why the rest could not be asked.
    pub failure: Option<StoreError>,
}

impl<D> AdmittedBatch<D> {
    /// A batch of which nothing is known so far.
    pub(super) fn of(decide: D) -> Self {
        let writes = Writes::default();
        Self { decide, latched: Vec::new(), writes, paused: HashSet::new(), failure: None }
    }
}

/// Result of a dialect's quick way.
pub(super) enum Quick<D> {
    Done(Box<AdmittedBatch<D>>),
    /// Nothing was written: an event met something that takes more than one look.
    Slow(D),
}

impl Writes {
    /// True when one statement can write it: a lane's row is locked and asked for its numbers.
    pub(super) fn is_plain(&self) -> bool {
        self.updates.is_empty() && self.messages.iter().all(|message| message.lane.is_none())
    }
}
