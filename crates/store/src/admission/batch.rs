//! The parts of a batch, decided without I/O: which copies are the first of their key, the one order in which all nodes
//! insert, which versions are raised. Also the columns of an admission that are sealed when there is a key.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Candidate;
use crate::db::DbResult;
use crate::event::Latched;
use crate::message::NewMessage;
use hooklatch_core::seal::{KeyRing, SealedPlace};
use hooklatch_core::types::{BodyDigest, EventKey, EventState, IncomingEvent};

/// One row to insert.
#[derive(Clone)]
pub struct EventInsert {
    pub event: Arc<IncomingEvent>,
    pub event_seq: i64,
    pub state: EventState,
    /// A digest that no other row of the provider may have.
    pub replay_key: Option<BodyDigest>,
}

impl EventInsert {
    fn of(candidate: &Candidate) -> Self {
        Self {
            event: Arc::clone(&candidate.event),
            event_seq: candidate.event_seq,
            state: candidate.state,
            replay_key: candidate.event.replay_key,
        }
    }

    /// Returns how often the event was dispatched by the end of its transaction.
    pub fn attempts_n(&self) -> i32 {
        i32::from(self.state == EventState::Handled)
    }

    pub fn replay_key(&self) -> Option<&[u8]> {
        self.replay_key.as_ref().map(<[u8; 32]>::as_slice)
    }
}

/// The rows that are there instead of one that was not inserted.
pub struct ExistingRows {
    /// Position in the list that was asked about.
    pub position: usize,
    /// Digest and state of the row with the same key.
    pub(crate) same_key: Option<(Vec<u8>, String)>,
    /// Id and digest of the row with the same replay key.
    pub(crate) same_text: Option<(String, Vec<u8>)>,
}

/// Events of one transaction, each key once.
pub struct Batch<'a> {
    pub candidates: &'a [Candidate],
    /// For each position, the first position with the same key.
    firsts: Vec<usize>,
    /// The first of each key, in the order of insertion.
    order: Vec<usize>,
}

/// The events of a batch that were inserted: all but those with these numbers.
pub struct Inserted {
    absent: HashSet<i64>,
}

impl Inserted {
    pub fn has(&self, event_seq: i64) -> bool {
        !self.absent.contains(&event_seq)
    }

    /// True when every event of the batch was.
    pub fn is_all(&self) -> bool {
        self.absent.is_empty()
    }
}

impl<'a> Batch<'a> {
    pub fn new(candidates: &'a [Candidate]) -> Self {
        let mut by_key: HashMap<&EventKey, usize> = HashMap::with_capacity(candidates.len());
        let firsts: Vec<usize> = candidates
            .iter()
            .enumerate()
            .map(|(position, one)| *by_key.entry(&one.event.key).or_insert(position))
            .collect();
        let is_first = |position: &usize| firsts.get(*position) == Some(position);
        let mut order: Vec<usize> = (0..candidates.len()).filter(is_first).collect();
        // The one order in which all nodes insert: transactions that share bytes under other ids, or ids, conflict at
        // the same row first. Without a replay key: last, by id.
        let place = |position: &usize| {
            candidates.get(*position).map(|one| {
                let event = &one.event;
                (&event.key.provider, event.replay_key.is_none(), &event.replay_key, &event.key.event_id)
            })
        };
        order.sort_unstable_by(|a, b| place(a).cmp(&place(b)));
        Self { candidates, firsts, order }
    }

    /// The rows to insert, sorted.
    pub fn rows(&self) -> Vec<EventInsert> {
        self.order.iter().filter_map(|position| self.candidates.get(*position)).map(EventInsert::of).collect()
    }

    /// The position of the first copy with the key of the one at `position`.
    pub(super) fn first_of(&self, position: usize) -> usize {
        self.firsts.get(position).copied().unwrap_or(position)
    }

    /// Returns what was inserted, when the rows with the numbers `lost` were not. Further copies of a key never are.
    pub(super) fn inserted(&self, lost: &[i64]) -> Inserted {
        let copies = self.candidates.iter().zip(&self.firsts).enumerate();
        let copies = copies.filter(|(position, (_, first))| position != *first);
        let absent = lost.iter().copied().chain(copies.map(|(_, (one, _))| one.event_seq)).collect();
        Inserted { absent }
    }

    /// The positions that have to be asked about: firsts that were not inserted, and other content under a key that is
    /// there twice.
    pub fn lost(&self, inserted: &Inserted) -> Vec<usize> {
        let is_lost = |(position, one): &(usize, &Candidate)| match self.first_of(*position) {
            first if first != *position => {
                self.candidates.get(first).is_none_or(|it| it.event.digest != one.event.digest)
            }
            _ => !inserted.has(one.event_seq),
        };
        self.candidates.iter().enumerate().filter(is_lost).map(|(position, _)| position).collect()
    }

    /// Returns what is known of each event without another question: `inserted` are new, and their equal
    /// copies are not.
    pub(super) fn surely(&self, inserted: &Inserted) -> Vec<Option<Latched>> {
        let one = |(position, one): (usize, &Candidate)| {
            let first =
                self.candidates.get(self.first_of(position)).filter(|it| inserted.has(it.event_seq))?;
            let is_equal = first.event.digest == one.event.digest;
            if self.first_of(position) == position {
                Some(Latched::New)
            } else {
                is_equal.then_some(Latched::Duplicate)
            }
        };
        self.candidates.iter().enumerate().map(one).collect()
    }

    /// Returns what was found, where every event that was not inserted is a plain copy of what is there
    /// under its own key; `None` when one of them takes a closer look. `holders` go with [`Batch::lost`].
    pub(super) fn plainly(
        &self,
        inserted: &Inserted,
        lost: &[usize],
        holders: &[ExistingRows],
    ) -> Option<Vec<Latched>> {
        let is_copy = |holder: &ExistingRows| {
            let one = lost.get(holder.position).and_then(|position| self.candidates.get(*position));
            let digest = holder.same_key.as_ref().map(|(digest, _)| digest.as_slice());
            one.is_some_and(|one| digest == Some(one.event.digest.as_slice()))
        };
        if holders.len() != lost.len() || !holders.iter().all(is_copy) {
            return None;
        }
        let found = self.surely(inserted).into_iter().map(|latched| latched.unwrap_or(Latched::Duplicate));
        Some(found.collect())
    }
}

/// The version of an object that an event raises.
pub(super) struct VersionRaise<'a> {
    pub provider: &'a str,
    pub object: &'a str,
    pub version: i64,
    pub event_seq: i64,
}

/// The positions of those events whose versions are to be raised: new ones whose provider cares.
pub(super) fn raised(candidates: &[Candidate], latched: &[Latched]) -> Vec<usize> {
    let is_raised = |(_, (one, latched)): &(usize, (&Candidate, &Latched))| {
        **latched == Latched::New && one.is_raising && one.event.object.is_some()
    };
    candidates.iter().zip(latched).enumerate().filter(is_raised).map(|(position, _)| position).collect()
}

/// Returns the highest version of each object, in the one order in which all transactions lock them.
pub(crate) fn highest<'a>(candidates: &'a [Candidate], raised: &[usize]) -> Vec<VersionRaise<'a>> {
    let raise = |one: &'a Candidate| {
        let object = one.event.object.as_ref()?;
        let provider = one.event.key.provider.as_str();
        Some(VersionRaise {
            provider,
            object: &object.object,
            version: object.version,
            event_seq: one.event_seq,
        })
    };
    let mut all: Vec<VersionRaise<'a>> =
        raised.iter().filter_map(|position| candidates.get(*position)).filter_map(raise).collect();
    // Stable: of equal versions the first in the given order stays first.
    all.sort_by(|a, b| (a.provider, a.object, b.version).cmp(&(b.provider, b.object, a.version)));
    all.dedup_by(|later, first| (later.provider, later.object) == (first.provider, first.object));
    all
}

/// Returns, for each event, true when a newer version of its object had been seen. `is_newest` goes with [`highest`].
pub(crate) fn stale(candidates: &[Candidate], raised: &[usize], is_newest: &[bool]) -> Vec<bool> {
    let highest = highest(candidates, raised);
    let newest: HashSet<i64> = highest
        .iter()
        .zip(is_newest)
        .filter(|(_, is_newest)| **is_newest)
        .map(|(raise, _)| raise.event_seq)
        .collect();
    let mut stale = vec![false; candidates.len()];
    for position in raised {
        let seq = candidates.get(*position).map(|one| one.event_seq);
        if let (Some(stale), Some(seq)) = (stale.get_mut(*position), seq) {
            *stale = !newest.contains(&seq);
        }
    }
    stale
}

/// Raises one version; returns a row when it is the newest that was seen.
pub(super) const VERSION_RAISE: &str =
    "/* versions_raise */ INSERT INTO object_versions (provider, object, version, event_seq)
     VALUES ($1, $2, $3, $4)
     ON CONFLICT (provider, object) DO UPDATE SET version = excluded.version, event_seq = excluded.event_seq
     WHERE object_versions.version < excluded.version
        OR (object_versions.version = excluded.version AND object_versions.event_seq = excluded.event_seq)
     RETURNING provider";

/// What is kept of a received event, sealed.
pub(super) struct SealedPayload {
    pub headers: String,
    pub body: Vec<u8>,
    pub search_ids: Option<String>,
}

impl SealedPayload {
    /// Asked for when there is a key alone: without one these would be copies.
    pub(crate) fn of(ring: &KeyRing, event_seq: i64, event: &IncomingEvent) -> DbResult<Self> {
        let headers = ring
            .seal_text(&SealedPlace::of_event("headers", event_seq, event.key.as_pair()), &event.headers)?;
        let body =
            ring.seal(&SealedPlace::of_event("body", event_seq, event.key.as_pair()), event.stored_body())?;
        let search_ids = sealed_search_ids(ring, event_seq, event)?;
        Ok(Self { headers: headers.into_owned(), body: body.into_owned(), search_ids })
    }
}

/// The search ids of an event, to be sealed with its body; `None` without a key, when their table has them as they are.
pub(super) fn sealed_search_ids(
    ring: &KeyRing,
    event_seq: i64,
    event: &IncomingEvent,
) -> DbResult<Option<String>> {
    if event.search_ids.is_empty() || !ring.is_on() {
        return Ok(None);
    }
    // No id has a control character.
    let (place, clear) =
        (SealedPlace::of_event("search_ids", event_seq, event.key.as_pair()), event.search_ids.join("\n"));
    Ok(Some(ring.seal_text(&place, &clear)?.into_owned()))
}

/// What is kept of a message's own content, sealed if there is a key for it.
pub(super) struct SealedContents<'a> {
    pub headers: String,
    pub body: Option<Cow<'a, [u8]>>,
}

impl<'a> SealedContents<'a> {
    pub(crate) fn of(ring: &KeyRing, message: &'a NewMessage) -> DbResult<Self> {
        let place =
            |column| SealedPlace::of_message(column, message.message_id.number(), message.event.as_pair());
        let clear = message.headers_json();
        let headers = match ring.seal_text(&place("headers"), &clear)? {
            Cow::Borrowed(_) => clear,
            Cow::Owned(sealed) => sealed,
        };
        let body = message.body.as_deref();
        let body = body.map(|body| ring.seal(&place("body"), body)).transpose()?;
        Ok(Self { headers, body })
    }
}
