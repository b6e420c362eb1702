//! A bound on calls that strangers can cause: some at once, then one in so many milliseconds. A request that finds none
//! left waits, and the next call goes to the peer that had the fewest, not to the one that asks most.
//!
//! Among equals, the key goes first that was first asked for, and that is remembered while its sender is away: an id
//! that is asked for again overtakes ids that are new each time. When all places are taken, the peer with the largest
//! share loses one. All of it is bounded: a place for each waiting request, and two tables of bounded size.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

/// Longest wait for a call: longer than a call takes, so that a waiter without competition gets one.
const WAIT_MAX: Duration = Duration::from_millis(1_500);
/// Most requests that wait for another's answer, or for a call: each of them holds a connection, which others may need
/// more.
pub(crate) const WAITING_N_MAX: usize = 256;
/// Most entries of each table of what is remembered.
const REMEMBERED_N_MAX: usize = 4_096;
/// Time for which it is remembered what a peer asked for, and how many calls it had.
const REMEMBERED: Duration = Duration::from_mins(10);

/// A budget of calls: a number at once, and one more every so often.
pub(super) struct CallBudget {
    calls_n_max: u32,
    every: Duration,
    hashes: RandomState,
    state: Mutex<BudgetState>,
}

/// Calls that are left, and who waits for one.
struct BudgetState {
    calls_n: u32,
    counted_at: Instant,
    waiting: Vec<Waiter>,
    waiters_n: u64,
    /// When a peer first asked for an id, by the hash of both.
    asked: HashMap<u64, Remembered>,
    /// How many calls a peer had, by its hash.
    had: HashMap<u64, Remembered>,
}

/// What is remembered of a peer, or of a peer and an id.
struct Remembered {
    at: Instant,
    calls_n: u32,
}

/// A request that waits.
struct Waiter {
    number: u64,
    peer: u64,
    asked_at: Instant,
    /// True when it waits for a call, false while it waits for the answer to another's.
    wants_call: bool,
    sender: oneshot::Sender<PlaceOutcome>,
}

/// What a waiter gets.
#[derive(PartialEq, Eq)]
enum PlaceOutcome {
    /// It may call.
    Call,
    /// Its place was given to a peer with a smaller share.
    Evicted,
}

/// A place among those who wait; dropped, it is free again.
pub(crate) struct Place<'a> {
    budget: &'a CallBudget,
    number: u64,
    receiver: oneshot::Receiver<PlaceOutcome>,
}

impl CallBudget {
    pub(crate) fn new(calls_n_max: u32, every: Duration) -> Self {
        let state = BudgetState {
            calls_n: calls_n_max,
            counted_at: Instant::now(),
            waiting: Vec::new(),
            waiters_n: 0,
            asked: HashMap::new(),
            had: HashMap::new(),
        };
        Self { calls_n_max, every, hashes: RandomState::new(), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, BudgetState> {
        // Each change is whole: a panic elsewhere cannot leave it half-made.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place among those who wait, for `peer` that asks for `id`. `None`: all are taken by peers with a smaller
    /// share.
    pub(crate) fn place(&self, peer: Option<IpAddr>, id: &str) -> Option<Place<'_>> {
        let now = Instant::now();
        let (peer, id) = (self.hashes.hash_one(peer), self.hashes.hash_one((peer, id)));
        let mut state = self.state();
        let asked_at = remembered(&mut state.asked, id, now).at;
        if state.waiting.len() >= WAITING_N_MAX {
            let mut places: HashMap<u64, u32> = HashMap::from([(peer, 1)]);
            for waiter in &state.waiting {
                *places.entry(waiter.peer).or_default() += 1;
            }
            let share = |peer: u64, asked_at: Instant| {
                let places_n = places.get(&peer).copied().unwrap_or_default();
                (state.had_n(peer, now).saturating_add(places_n), asked_at)
            };
            let all = state.waiting.iter().enumerate();
            let (n, largest) =
                all.map(|(n, one)| (n, share(one.peer, one.asked_at))).max_by_key(|(_, share)| *share)?;
            if share(peer, asked_at) >= largest {
                return None;
            }
            // It may have gone away just now.
            drop(state.waiting.swap_remove(n).sender.send(PlaceOutcome::Evicted));
        }
        let (sender, receiver) = oneshot::channel();
        state.waiters_n += 1;
        let number = state.waiters_n;
        state.waiting.push(Waiter { number, peer, asked_at, wants_call: false, sender });
        Some(Place { budget: self, number, receiver })
    }

    /// Gives calls to those who wait for one, and returns when there will be one more.
    fn grant(&self) -> Instant {
        let now = Instant::now();
        let mut state = self.state();
        let more = state.counted_at.elapsed().as_millis() / self.every.as_millis().max(1);
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        if more > 0 {
            state.calls_n = state.calls_n.saturating_add(more).min(self.calls_n_max);
            state.counted_at += self.every.saturating_mul(more);
        }
        while state.calls_n > 0 {
            let waiting = state.waiting.iter().enumerate().filter(|(_, one)| one.wants_call);
            let first = waiting.min_by_key(|(_, one)| (state.had_n(one.peer, now), one.asked_at, one.number));
            let Some(n) = first.map(|(n, _)| n) else { break };
            let waiter = state.waiting.swap_remove(n);
            let had = remembered(&mut state.had, waiter.peer, now);
            had.calls_n = had.calls_n.saturating_add(1);
            had.at = now;
            if waiter.sender.send(PlaceOutcome::Call).is_ok() {
                state.calls_n -= 1;
            }
        }
        state.counted_at + self.every
    }

    #[cfg(test)]
    fn waiting_n(&self) -> usize {
        self.state().waiting.len()
    }
}

impl BudgetState {
    /// The number of calls that a peer had lately.
    fn had_n(&self, peer: u64, now: Instant) -> u32 {
        let had = self.had.get(&peer);
        had.filter(|had| now.duration_since(had.at) < REMEMBERED).map_or(0, |had| had.calls_n)
    }
}

/// What is remembered of `hash`; new where that is nothing, or old. In a full table it takes the place of another.
fn remembered(table: &mut HashMap<u64, Remembered>, hash: u64, now: Instant) -> &mut Remembered {
    if table.len() >= REMEMBERED_N_MAX && !table.contains_key(&hash) {
        // Any: the order of a map is arbitrary.
        let any = table.keys().next().copied();
        any.and_then(|any| table.remove(&any));
    }
    let one = table.entry(hash).or_insert(Remembered { at: now, calls_n: 0 });
    if now.duration_since(one.at) >= REMEMBERED {
        *one = Remembered { at: now, calls_n: 0 };
    }
    one
}

impl Place<'_> {
    /// Waits until this place is given to another peer.
    pub(super) async fn evicted(&mut self) {
        // It gets nothing else before it wants a call.
        drop((&mut self.receiver).await);
    }

    /// Takes a call, waiting for one if need be. False: none was left in time.
    pub(crate) async fn call(mut self) -> bool {
        if let Some(own) = self.budget.state().waiting.iter_mut().find(|one| one.number == self.number) {
            own.wants_call = true;
        }
        let until = Instant::now() + WAIT_MAX;
        loop {
            let next = self.budget.grant().min(until);
            match timeout_at(next, &mut self.receiver).await {
                Ok(outcome) => return outcome == Ok(PlaceOutcome::Call),
                Err(_) if Instant::now() >= until => return false,
                Err(_) => {}
            }
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.budget.state();
        state.waiting.retain(|one| one.number != self.number);
        // It got a call just now, and will not make it any more.
        if self.receiver.try_recv() == Ok(PlaceOutcome::Call) {
            state.calls_n = state.calls_n.saturating_add(1).min(self.budget.calls_n_max);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures_util::future::{join_all, poll_immediate};

    use super::*;
    use hooklatch_core::stop;

    const EVERY: Duration = Duration::from_millis(250);

    fn address(n: usize) -> IpAddr {
        Ipv4Addr::from_bits(u32::try_from(n).unwrap()).into()
    }

    async fn is_called(budget: &CallBudget, peer: Option<IpAddr>, id: &str) -> bool {
        match budget.place(peer, id) {
            Some(place) => place.call().await,
            None => false,
        }
    }

    /// Time until `id` of `peer` has a call, where it asks again a tenth of a second after each refusal.
    async fn called_after(budget: &CallBudget, peer: Option<IpAddr>, id: &str) -> Duration {
        let began = Instant::now();
        while !is_called(budget, peer, id).await {
            stop::pass(Duration::from_millis(100)).await;
        }
        began.elapsed()
    }

    /// Strangers of these peers who ask without end, for another id each time or for the same until they had a call.
    async fn strangers(budget: &CallBudget, peers: Vec<Option<IpAddr>>, is_patient: bool) {
        let one = |(n, peer): (usize, Option<IpAddr>)| async move {
            let mut asked_n = 0;
            loop {
                let had = is_called(budget, peer, &format!("{n}-{asked_n}")).await;
                asked_n += usize::from(had || !is_patient);
                stop::pass(Duration::from_millis(250)).await;
            }
        };
        join_all(peers.into_iter().enumerate().map(one)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_calls_are_made_at_once_and_then_one_every_so_often() {
        let budget = CallBudget::new(3, EVERY);
        let called_n = async |n: usize| {
            let now = (0..n).map(|n| poll_immediate(Box::pin(is_called(&budget, Some(address(n)), "id"))));
            join_all(now).await.into_iter().filter(|called| *called == Some(true)).count()
        };
        assert_eq!(called_n(10).await, 3);
        tokio::time::advance(Duration::from_millis(249)).await;
        assert_eq!(called_n(10).await, 0);
        tokio::time::advance(Duration::from_millis(376)).await;
        assert_eq!(called_n(10).await, 2, "and half a step is not lost");
        tokio::time::advance(Duration::from_millis(125)).await;
        assert_eq!(called_n(10).await, 1);
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(called_n(10).await, 3, "they are not saved up");
        assert!(is_called(&budget, Some(address(1)), "id").await, "who waits gets the next one");
        assert_eq!(budget.waiting_n(), 0, "no place is left taken");
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_peer_has_a_call_in_time_however_many_strangers_ask() {
        for (strangers_n, peers_n, is_patient, within_ms) in [
            (40, 1, false, 3_000),
            (120, 1, true, 3_000),
            (300, 1, false, 3_000),
            (120, 120, false, 30_000),
            (120, 120, true, 30_000),
            (300, 120, true, 30_000),
        ] {
            let budget = CallBudget::new(30, EVERY);
            let peers = (0..strangers_n).map(|n| Some(address(1 + n % peers_n))).collect();
            let flood = strangers(&budget, peers, is_patient);
            let genuine = async {
                stop::pass(Duration::from_secs(1)).await;
                called_after(&budget, Some(address(0)), "genuine").await
            };
            tokio::select! {
                () = flood => {}
                took = genuine => {
                    let what = format!("{strangers_n} of {peers_n} peers, patient {is_patient}: {took:?}");
                    assert!(took <= Duration::from_millis(within_ms), "{what}");
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn behind_one_address_an_id_that_is_asked_for_again_overtakes_new_ones() {
        let budget = CallBudget::new(30, EVERY);
        let flood = strangers(&budget, vec![None; 40], false);
        let genuine = async {
            stop::pass(Duration::from_secs(1)).await;
            called_after(&budget, None, "genuine").await
        };
        tokio::select! {
            () = flood => {}
            took = genuine => assert!(took <= Duration::from_secs(3), "{took:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn places_are_bounded_given_back_and_taken_from_the_peer_with_most() {
        let budget = CallBudget::new(1, EVERY);
        let mut places: Vec<_> =
            (0..WAITING_N_MAX).filter_map(|n| budget.place(Some(address(1)), &n.to_string())).collect();
        assert_eq!(places.len(), WAITING_N_MAX);
        assert!(budget.place(Some(address(1)), "one more").is_none(), "its share is the largest");
        let other = budget.place(Some(address(2)), "id").expect("a place of the first peer");
        assert_eq!(budget.waiting_n(), WAITING_N_MAX);
        let newest = places.last_mut().unwrap();
        assert!(poll_immediate(newest.evicted()).await.is_some(), "it asked last");
        drop((other, places));
        assert_eq!(budget.waiting_n(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_remembered_of_peers_is_bounded() {
        let budget = CallBudget::new(1_000_000, EVERY);
        for n in 0..20_000 {
            assert!(is_called(&budget, Some(address(n)), &n.to_string()).await);
        }
        let state = budget.state();
        assert_eq!((state.asked.len(), state.had.len()), (REMEMBERED_N_MAX, REMEMBERED_N_MAX));
    }
}
