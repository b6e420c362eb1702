//! The results of attempts: a queue that never refuses, because whatever is in it has a slot, and the task that writes
//! them, many in one transaction, each under its fencing token.
//!
//! The token is the message's claim counter. Every statement that settles has `attempts_n = $token AND state =
//! 'leased'`: a worker whose lease ended, and whose message another one has claimed since, changes no row (P4). It gets
//! `false`, the settlement counts as fenced, and the result of the other one stands.
//!
//! A call that was made must not be made again because its result could not be written. So a write that fails because
//! the database is away is repeated until it is written or fenced; while that goes on, `Settler::is_behind` keeps the
//! worker from taking more. After a failed try it is unknown whether it was committed, so "fenced" is then no reason
//! for an alarm.
//!
//! A batch that is refused for another reason is written one by one, so that its culprit stands alone: one that another
//! transaction has locked waits for that lock with its lease extended, one that the database refuses is written
//! without its texts. A lease that ends meanwhile may be claimed again, also while a batch waits for such a lock: then
//! the unwritten result answers that claim (`Settler::unwritten_result`), and no second call is made.

use std::borrow::Cow;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{error, warn};

use crate::locked;
use crate::post::MessageSlot;
use crate::state::OutboxState;
use crate::timing::{PAUSE_MS, pause, wait};
use hooklatch_core::config::UnknownPolicy;
use hooklatch_core::stop::pass;
use hooklatch_core::types::MessageId;
use hooklatch_store::{NextWant, Settlement, Store, StoreError};

/// The result of a call, and the slot that is taken until it is written.
pub(crate) struct Waiting {
    pub(crate) settlement: Settlement,
    pub(crate) slot: MessageSlot,
    /// Once it waits for long, and when it answers a claim because an earlier one waits for long.
    pub(crate) noted: Option<NotedResult>,
}

impl Waiting {
    /// True when nobody waits for it: not the next message of a lane, nor, where this node dies before it is written, an
    /// operator.
    fn may_wait(&self) -> bool {
        self.settlement.lane.is_none() && self.slot.post.destination.config.unknown != UnknownPolicy::Hold
    }
}

/// Hands settlements to the task that writes them.
pub(crate) struct Settler {
    // Unbounded, and yet bounded: whatever is in it has a slot.
    results: mpsc::UnboundedSender<Waiting>,
    /// A clone is held for each task whose results the database does not take.
    behind: Arc<()>,
    unwritten: UnwrittenResults,
    /// Notified when no more results follow.
    pub(crate) closing: Notify,
}

/// Results that wait for long, by message. One whose lease ended meanwhile may be claimed again before they are
/// written: then the result of its call is at hand, and it is neither made again nor left to an operator.
#[derive(Clone, Default)]
pub(crate) struct UnwrittenResults(Arc<Mutex<HashMap<MessageId, Settlement>>>);

/// A result that is noted until it is written.
pub(crate) struct NotedResult {
    results: UnwrittenResults,
    message_id: MessageId,
    attempt_n: u32,
}

impl UnwrittenResults {
    pub(crate) fn note(&self, settlement: &Settlement) -> NotedResult {
        let (message_id, attempt_n) = (settlement.message_id, settlement.attempt_n);
        locked(&self.0).insert(message_id, settlement.clone());
        NotedResult { results: self.clone(), message_id, attempt_n }
    }
}

impl Drop for NotedResult {
    fn drop(&mut self) {
        let mut all = locked(&self.results.0);
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
            behind: Arc::default(),
            unwritten: UnwrittenResults::default(),
            closing: Notify::new(),
        };
        (settler, waiting)
    }

    /// Has a settlement written or fenced; its slot is free then.
    pub(crate) fn settle(&self, settlement: Settlement, slot: MessageSlot) {
        // An error means that the writing task is gone: the process is stopping.
        drop(self.results.send(Waiting { settlement, slot, noted: None }));
    }

    /// Has a settlement written that answers a claim after that of its call: it does not wait behind the earlier one.
    pub(crate) fn settle_unwritten(&self, settlement: Settlement, slot: MessageSlot) {
        let noted = Some(self.unwritten.note(&settlement));
        drop(self.results.send(Waiting { settlement, slot, noted }));
    }

    /// No more results follow: the writer ends when all is written.
    pub(crate) fn close(&self) {
        self.closing.notify_one();
    }

    /// Returns the result of an earlier call for this message, while that is not written: it counts for the claim
    /// `attempt_n`.
    pub(crate) fn unwritten_result(&self, message_id: MessageId, attempt_n: u32) -> Option<Settlement> {
        let result = locked(&self.unwritten.0).get(&message_id)?.clone();
        Some(Settlement { attempt_n, ..result })
    }

    /// True when results wait because the database does not take them.
    pub(crate) fn is_behind(&self) -> bool {
        Arc::strong_count(&self.behind) > 1
    }
}

/// Most settlements in one transaction.
const BATCH_N_MAX: usize = 256;
/// After a batch of so many, the next one is waited for a moment: together they cost less.
const MANY_N: usize = 16;
/// Time between two looks at how many there are, and most of those looks.
const GATHER_EVERY: Duration = Duration::from_millis(1);
const GATHERS_N: u32 = 4;
/// Most settlements that are written each by itself at once, besides one of those that were locked: each
/// holds a connection, perhaps while it waits for another transaction's lock.
const ALONE_N_MAX: usize = 2;
/// Time after which what a batch holds, and what is queued meanwhile, is noted: much less than any lease, and than a
/// wait for a lock.
const NOTED_AFTER: Duration = Duration::from_millis(200);

/// The task that writes results.
#[derive(Clone)]
pub(crate) struct Writer {
    shared: Arc<OutboxState>,
    turns: Arc<Semaphore>,
    turns_of_locked: Arc<Semaphore>,
}

/// A batch that is written.
#[derive(Default)]
struct Written {
    /// For each, true when the next message of its lane was taken or is looked for; empty where none is.
    is_next_known: Vec<bool>,
}

impl Written {
    fn knows_next(&self, n: usize) -> bool {
        self.is_next_known.get(n).copied().unwrap_or_default()
    }
}

/// What there is besides a batch that is being written.
#[derive(Default)]
struct Backlog {
    /// Queued while the batch was slow: the next batches.
    later: Vec<Waiting>,
    /// Each of these is written by itself.
    apart: JoinSet<()>,
}

impl Writer {
    pub(crate) fn new(shared: Arc<OutboxState>) -> Self {
        let turns = Arc::new(Semaphore::new(ALONE_N_MAX));
        Self { shared, turns, turns_of_locked: Arc::new(Semaphore::new(1)) }
    }

    /// Writes until [`Settler::close`], and then what is left.
    pub(crate) async fn run(self, mut waiting: mpsc::UnboundedReceiver<Waiting>) {
        let (mut settlements, mut rest) = (Vec::new(), Vec::new());
        let mut batch = Vec::new();
        let mut backlog = Backlog::default();
        let mut are_many = false;
        loop {
            if are_many && backlog.later.is_empty() {
                self.gather(&waiting).await;
            }
            tokio::select! {
                biased;
                () = std::future::ready(()), if !backlog.later.is_empty() => {
                    let n = backlog.later.len().min(BATCH_N_MAX);
                    batch.extend(backlog.later.drain(..n));
                }
                taken_n = waiting.recv_many(&mut batch, BATCH_N_MAX) => {
                    if taken_n == 0 {
                        break;
                    }
                    for one in batch.extract_if(.., |one| one.noted.is_some()) {
                        self.begin_apart(one, &mut backlog);
                    }
                    if batch.is_empty() {
                        continue;
                    }
                }
                () = self.shared.settler.closing.notified() => {
                    waiting.close();
                    continue;
                }
            }
            are_many = batch.len() >= MANY_N && batch.iter().all(Waiting::may_wait);
            for Waiting { settlement, slot, noted } in batch.drain(..) {
                settlements.push(settlement);
                rest.push((slot, noted));
            }
            let written = self.write_noting(&settlements, &mut rest, &mut waiting, &mut backlog).await;
            for (n, (settlement, (slot, noted))) in settlements.drain(..).zip(rest.drain(..)).enumerate() {
                if let Some(written) = &written {
                    drop(noted);
                    self.shared.settled(&settlement, slot, written.knows_next(n));
                } else {
                    // Whichever it was, it must not take the others with it, nor block the later ones.
                    self.begin_apart(Waiting { settlement, slot, noted }, &mut backlog);
                }
            }
            self.shared.freed.notify_one();
            while backlog.apart.try_join_next().is_some() {}
        }
        while backlog.apart.join_next().await.is_some() {}
    }

    /// Waits for more results, a moment, while most of the messages that were taken have none.
    async fn gather(&self, waiting: &mpsc::UnboundedReceiver<Waiting>) {
        for _ in 0..GATHERS_N {
            if waiting.len() >= BATCH_N_MAX.min(self.shared.taken_n() as usize / 2) {
                break;
            }
            pass(GATHER_EVERY).await;
        }
    }

    fn begin_apart(&self, one: Waiting, backlog: &mut Backlog) {
        let Waiting { settlement, slot, noted } = one;
        let noted = noted.unwrap_or_else(|| self.shared.settler.unwritten.note(&settlement));
        backlog.apart.spawn(self.clone().write_apart(settlement, slot, noted));
    }

    /// Writes a batch. Once that is slow, what is in it and what is queued meanwhile is noted: their leases may end
    /// before they are written.
    async fn write_noting(
        &self,
        batch: &[Settlement],
        rest: &mut [(MessageSlot, Option<NotedResult>)],
        waiting: &mut mpsc::UnboundedReceiver<Waiting>,
        backlog: &mut Backlog,
    ) -> Option<Written> {
        let unwritten = &self.shared.settler.unwritten;
        let mut together = pin!(AssertUnwindSafe(self.write_together(batch)).catch_unwind());
        let mut written = timeout(NOTED_AFTER, &mut together).await.ok();
        if written.is_none() {
            for (settlement, (_, noted)) in batch.iter().zip(rest) {
                noted.get_or_insert_with(|| unwritten.note(settlement));
            }
        }
        loop {
            if let Some(written) = written {
                return written.unwrap_or_else(|_| {
                    self.shared.panicked("settler");
                    None
                });
            }
            tokio::select! {
                ended = &mut together => written = Some(ended),
                Some(mut one) = waiting.recv() => {
                    if one.noted.is_some() {
                        self.begin_apart(one, backlog);
                    } else {
                        one.noted = Some(unwritten.note(&one.settlement));
                        backlog.later.push(one);
                    }
                }
            }
        }
    }

    /// All in one transaction, for as long as the database is away; `None` when something about one of them is in the
    /// way: then it is unknown of which.
    async fn write_together(&self, batch: &[Settlement]) -> Option<Written> {
        let (mut failures_n, mut behind) = (0, None);
        let taken = self.write_and_take(batch).await;
        let (written, left) = match taken {
            Ok(Some((written, left))) => (written, Cow::Owned(left)),
            Ok(None) => (Written::default(), Cow::Borrowed(batch)),
            Err(error @ StoreError::Locked { .. }) => {
                warn!(%error, settlements_n = batch.len(), "a lane is locked, settling one by one");
                return None;
            }
            Err(error) => {
                failures_n = u32::from(is_away(&error));
                (Written::default(), Cow::Borrowed(batch))
            }
        };
        loop {
            match write(&self.shared.store, &left, failures_n > 0).await {
                Ok(()) => return Some(written),
                Err(error) if is_away(&error) => {}
                Err(error) => {
                    warn!(%error, settlements_n = batch.len(), "could not settle together, settling one by one");
                    return None;
                }
            }
            failures_n += 1;
            behind.get_or_insert_with(|| Arc::clone(&self.shared.settler.behind));
            warn!(
                failures_n,
                settlements_n = batch.len(),
                "database does not take settlements; writing them again"
            );
            pause(failures_n).await;
        }
    }

    /// Writes them together with the claims of what is next in their lanes, and starts those calls: they wait for no
    /// look. Returns what is left to write; `None` where nothing is to be taken, and nothing was written.
    async fn write_and_take(
        &self,
        batch: &[Settlement],
    ) -> Result<Option<(Written, Vec<Settlement>)>, StoreError> {
        let wants = self.shared.next_wants(batch);
        if wants.is_empty() {
            return Ok(None);
        }
        let claims = self.shared.claims();
        let (now_ms, lease_ms) = (self.shared.clock.steady_ms(), self.shared.lease_ms());
        let want = NextWant { wants, now_ms, lease_ms, holder: claims.holder.clone() };
        let settled = self.shared.store.message_settle_next(batch, want).await?;
        // Once the node has stopped working, nothing is started: what was taken is given back like lost claims.
        if !self.shared.is_closed.load(Ordering::SeqCst) {
            claims.answered();
            for message in settled.next {
                self.shared.start_claimed(message);
            }
        }
        if settled.is_more {
            self.shared.wake.notify_one();
        }
        let all = || batch.iter().zip(&settled.written);
        report_fenced(all().filter(|(_, written)| **written == Some(false)).map(|(one, _)| one));
        let left = all().filter(|(_, written)| written.is_none()).map(|(one, _)| one.clone()).collect();
        Ok(Some((Written { is_next_known: settled.written.iter().map(Option::is_some).collect() }, left)))
    }

    async fn write_apart(self, settlement: Settlement, slot: MessageSlot, noted: NotedResult) {
        let is_refused = AtomicBool::new(false);
        let written_alone = async {
            // Operations of the store run to their end, even when no caller waits for them.
            tokio::select! {
                () = self.write_alone(settlement.clone(), &is_refused) => {}
                () = self.extend_lease(&settlement, &is_refused) => {}
            }
        };
        if AssertUnwindSafe(written_alone).catch_unwind().await.is_err() {
            self.shared.panicked("settler");
        }
        drop(noted);
        self.shared.settled(&settlement, slot, false);
        self.shared.freed.notify_one();
    }

    /// Writes one result by itself, again and again while the database is away or its row or lane is locked. A result
    /// that the database refuses is written without the destination's texts: the result of a call must not be lost
    /// because of a text. When it is refused even so, it is written again until it is taken: the call was made, and
    /// must not be made again.
    async fn write_alone(&self, mut one: Settlement, is_refused: &AtomicBool) {
        let (mut failures_n, mut behind, mut turns) = (0, None, &self.turns);
        loop {
            let turn = turns.acquire().await;
            let answer = self.shared.store.message_settle_apart(&one).await;
            drop(turn);
            match answer {
                // One that is fenced may be one that was written before: it is unknown what the first try did.
                Ok(_) => return,
                Err(error) if is_away(&error) => {
                    behind.get_or_insert_with(|| Arc::clone(&self.shared.settler.behind));
                }
                Err(StoreError::Locked { source, .. }) => {
                    if failures_n == 0 {
                        warn!(
                            message.id = %one.message_id,
                            destination = %one.destination,
                            error = %source,
                            "a message or its lane is locked; its result is written when the lock is released"
                        );
                    }
                    failures_n += 1;
                    // Those that are not locked have turns of their own from now on. And no pause: the database waited,
                    // and the waiter that is there when the lock is gone is first.
                    (behind, turns) = (None, &self.turns_of_locked);
                    continue;
                }
                Err(refused) => {
                    error!(
                        message.id = %one.message_id,
                        destination = %one.destination,
                        attempt_n = one.attempt_n,
                        error = %refused,
                        "could not settle: the database refuses it"
                    );
                    behind = None;
                    if one.error.is_some() || one.response.is_some() {
                        (one.error, one.response) = (None, None);
                        continue;
                    }
                    is_refused.store(true, Ordering::Relaxed);
                }
            }
            failures_n += 1;
            pause(failures_n).await;
        }
    }

    /// Extends the lease of what waits for its lane or is refused, until it is dropped: no worker may take the message
    /// because its lease ends first. Where its own row is locked, no worker can take it either.
    async fn extend_lease(&self, one: &Settlement, is_refused: &AtomicBool) {
        let (id, attempt_n) = (one.message_id, one.attempt_n);
        let lease_ms = self.shared.lease_ms();
        loop {
            let is_extended = one.lane.is_some() || is_refused.load(Ordering::Relaxed);
            let now_ms = self.shared.clock.steady_ms();
            if is_extended
                && let Err(error) = self.shared.store.message_extend(id, attempt_n, now_ms, lease_ms).await
            {
                warn!(%error, message.id = %id, "could not extend a lease");
            }
            wait(u64::try_from(lease_ms / 4).unwrap_or(PAUSE_MS.1)).await;
        }
    }
}

/// True when a second try may work later, and no other would work sooner.
fn is_away(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Unavailable { .. } | StoreError::CommitUnknown { .. } | StoreError::Conflict { .. }
    )
}

/// Writes once. After a failed try it is unknown whether that one was committed, so a settlement that is fenced then
/// may as well be written.
pub(crate) async fn write(store: &Store, batch: &[Settlement], was_tried: bool) -> Result<(), StoreError> {
    let written = store.message_settle(batch).await?;
    let fenced = batch.iter().zip(written).filter(|(_, is_written)| !is_written).map(|(one, _)| one);
    report_fenced(fenced.filter(|_| !was_tried));
    Ok(())
}

fn report_fenced<'a>(fenced: impl Iterator<Item = &'a Settlement>) {
    for one in fenced {
        metrics::counter!("hooklatch_fenced_total", "destination" => one.destination.to_string())
            .increment(1);
        warn!(
            message.id = %one.message_id,
            destination = %one.destination,
            attempt_n = one.attempt_n,
            "settlement was fenced: the lease had ended and another worker holds the message"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destinations::Destination;
    use crate::policy::tests::config;
    use crate::post::Post;
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
    fn no_result_waits_for_others_in_a_lane_or_where_an_operator_would_decide() {
        for (unknown, lane, may_wait) in [
            (UnknownPolicy::Retry, None, true),
            (UnknownPolicy::Retry, Some("a"), false),
            (UnknownPolicy::Hold, None, false),
        ] {
            let name = Name::parse("billing").expect("a name");
            let destination = Destination::new(name, config(unknown), 30_000).expect("a destination");
            let slot = Arc::new(Post::new(destination)).take();
            let settlement = Settlement { lane: lane.map(str::to_owned), ..done(7, 1) };
            assert_eq!(Waiting { settlement, slot, noted: None }.may_wait(), may_wait);
        }
    }

    #[test]
    fn an_unwritten_result_answers_the_next_claim() {
        let (settler, _waiting) = Settler::new();
        let id = MessageId::from_column(7);
        let noted = settler.unwritten.note(&done(7, 1));
        let result = settler.unwritten_result(id, 4).expect("its call was made");
        assert_eq!((result.attempt_n, result.to, result.http_status), (4, SettleTo::Done, Some(200)));
        assert!(settler.unwritten_result(MessageId::from_column(8), 1).is_none());
        drop(noted);
        assert!(settler.unwritten_result(id, 5).is_none(), "it is written");
    }

    #[test]
    fn an_earlier_result_that_is_written_late_does_not_hide_the_later_one() {
        let (settler, _waiting) = Settler::new();
        let earlier = settler.unwritten.note(&done(7, 1));
        let later = settler.unwritten.note(&done(7, 2));
        drop(earlier);
        assert!(settler.unwritten_result(MessageId::from_column(7), 3).is_some());
        drop(later);
        assert!(settler.unwritten_result(MessageId::from_column(7), 3).is_none());
    }

    #[test]
    fn it_is_behind_while_any_task_is() {
        let (settler, _waiting) = Settler::new();
        let (one, other) = (Arc::clone(&settler.behind), Arc::clone(&settler.behind));
        drop(one);
        assert!(settler.is_behind());
        drop(other);
        assert!(!settler.is_behind());
    }

    #[test]
    fn only_a_database_that_is_away_is_worth_the_same_write_again() {
        let [conflict, locked, refused, away] = {
            let (op, source) = ("x", || hooklatch_store::decode_error("c", "x"));
            [
                StoreError::Conflict { op, source: source() },
                StoreError::Locked { op, source: source() },
                StoreError::Query { op, source: source() },
                StoreError::Unavailable { op, source: source() },
            ]
        };
        assert_eq!([conflict, away].map(|error| is_away(&error)), [true, true]);
        assert_eq!([locked, refused].map(|error| is_away(&error)), [false, false]);
    }
}
