//! The results of calls that wait to be written: a queue that never refuses, because whatever is in it has a slot.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, mpsc};

use super::post::OccupiedSlot;
use hooklatch_core::types::MessageId;
use hooklatch_store::Settlement;

/// The result of a call, and the slot that is taken until it is written.
pub(crate) struct Waiting {
    pub settlement: Settlement,
    pub slot: OccupiedSlot,
    /// Once it waits for long, and when it answers a claim because an earlier one waits for long.
    pub noted: Option<NotedResult>,
}

/// Hands settlements to the task that writes them.
pub(super) struct Settler {
    // Unbounded, and yet bounded: whatever is in it has a slot.
    results: mpsc::UnboundedSender<Waiting>,
    pub(super) behind_n: Arc<AtomicU32>,
    pub known: UnwrittenResults,
    /// Notified when no more results follow.
    pub closing: Notify,
}

/// Results that wait for long, by message. One whose lease ended meanwhile may be claimed again before they are written:
/// then what became of its call is known, and it is neither made again nor left to a person.
#[derive(Clone, Default)]
pub(super) struct UnwrittenResults(Arc<Mutex<HashMap<MessageId, Settlement>>>);

/// A result that is known until it is written.
pub(super) struct NotedResult {
    known: UnwrittenResults,
    message_id: MessageId,
    attempt_n: u32,
}

impl UnwrittenResults {
    pub(crate) fn note(&self, settlement: &Settlement) -> NotedResult {
        let (message_id, attempt_n) = (settlement.message_id, settlement.attempt_n);
        self.all().insert(message_id, settlement.clone());
        NotedResult { known: self.clone(), message_id, attempt_n }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<MessageId, Settlement>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for NotedResult {
    fn drop(&mut self) {
        let mut all = self.known.all();
        if all.get(&self.message_id).is_some_and(|one| one.attempt_n == self.attempt_n) {
            all.remove(&self.message_id);
        }
    }
}

impl Settler {
    /// A settler, and what a [`Writer`] takes from it.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Waiting>) {
        let (results, waiting) = mpsc::unbounded_channel();
        let settler = Self {
            results,
            behind_n: Arc::default(),
            known: UnwrittenResults::default(),
            closing: Notify::new(),
        };
        (settler, waiting)
    }

    /// Has a settlement written or fenced; its slot is free then.
    pub(crate) fn settle(&self, settlement: Settlement, slot: OccupiedSlot) {
        // An error means that the writing task is gone: the process is stopping.
        drop(self.results.send(Waiting { settlement, slot, noted: None }));
    }

    /// The same for one that answers a claim after that of its call: it does not wait behind the earlier one.
    pub(super) fn settle_known(&self, settlement: Settlement, slot: OccupiedSlot) {
        let noted = Some(self.known.note(&settlement));
        drop(self.results.send(Waiting { settlement, slot, noted }));
    }

    /// No more results follow: the writer ends when all is written.
    pub(crate) fn close(&self) {
        self.closing.notify_one();
    }

    /// Returns the result of an earlier call for this message, while that is not written: it counts for the claim
    /// `attempt_n`.
    pub(crate) fn unwritten_result(&self, message_id: MessageId, attempt_n: u32) -> Option<Settlement> {
        let known = self.known.all().get(&message_id)?.clone();
        Some(Settlement { attempt_n, ..known })
    }

    /// True when results wait because the database does not take them.
    pub(super) fn is_behind(&self) -> bool {
        self.behind_n.load(Ordering::Relaxed) > 0
    }
}

/// Counts one task whose results the database does not take, until it is dropped.
pub(super) struct BehindGuard(Arc<AtomicU32>);

impl BehindGuard {
    pub(crate) fn new(behind_n: &Arc<AtomicU32>) -> Self {
        behind_n.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(behind_n))
    }
}

impl Drop for BehindGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use hooklatch_core::types::{AttemptResult, Name};
    use hooklatch_store::SettleTo;

    /// The settlement of a call to `billing` that went well.
    fn done(message_id: i64, attempt_n: u32) -> Settlement {
        Settlement {
            message_id: MessageId::from_column(message_id),
            destination: Name::parse("billing").expect("a name"),
            lane: None,
            attempt_n,
            to: SettleTo::Done,
            result: AttemptResult::Done,
            http_status: Some(200),
            error: None,
            response: None,
            is_unsent: false,
            sent_under: None,
            settled_at_ms: 1_000,
        }
    }

    #[test]
    fn an_unwritten_result_answers_the_next_claim() {
        let (settler, _waiting) = Settler::new();
        let id = MessageId::from_column(7);
        let noted = settler.known.note(&done(7, 1));
        let known = settler.unwritten_result(id, 4).expect("its call was made");
        assert_eq!((known.attempt_n, known.to, known.http_status), (4, SettleTo::Done, Some(200)));
        assert!(settler.unwritten_result(MessageId::from_column(8), 1).is_none());
        drop(noted);
        assert!(settler.unwritten_result(id, 5).is_none(), "it is written");
    }

    #[test]
    fn an_earlier_result_that_is_written_late_does_not_hide_the_later_one() {
        let (settler, _waiting) = Settler::new();
        let earlier = settler.known.note(&done(7, 1));
        let later = settler.known.note(&done(7, 2));
        drop(earlier);
        assert!(settler.unwritten_result(MessageId::from_column(7), 3).is_some());
        drop(later);
        assert!(settler.unwritten_result(MessageId::from_column(7), 3).is_none());
    }

    #[test]
    fn it_is_behind_while_any_task_is() {
        let (settler, _waiting) = Settler::new();
        let (one, other) = (BehindGuard::new(&settler.behind_n), BehindGuard::new(&settler.behind_n));
        drop(one);
        assert!(settler.is_behind());
        drop(other);
        assert!(!settler.is_behind());
    }
}
