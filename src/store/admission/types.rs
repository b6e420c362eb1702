//! What admission is asked and what it answers.

use std::collections::HashSet;
use std::sync::Arc;

use crate::store::db::StoreError;
use crate::store::event::{EventUpdate, Latched};
use crate::store::message::NewMessage;
use crate::types::{EventState, IncomingEvent};

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
pub struct AdmittedBatch<D> {
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

impl<D> AdmittedBatch<D> {
    /// Nothing so far.
    pub(super) fn of(decide: D) -> Self {
        let writes = Writes::default();
        Self { decide, latched: Vec::new(), writes, paused: HashSet::new(), failure: None }
    }
}

/// What a dialect's quick way came to.
pub(super) enum Quick<D> {
    Done(Box<AdmittedBatch<D>>),
    /// Nothing was written: an event met something that takes more than one look.
    Slow(D),
}

impl Writes {
    /// Whether one statement can write it: a lane's row is locked and asked for its numbers.
    pub(super) fn is_plain(&self) -> bool {
        self.updates.is_empty() && self.messages.iter().all(|message| message.lane.is_none())
    }
}
