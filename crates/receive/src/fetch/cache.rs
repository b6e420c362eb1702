//! Keys by their ids: how long each is good for, one fetch at a time for each, and how much is kept.
//!
//! What is kept for strangers is bounded by itself and never costs a key its place: ids that name no key are in a list
//! of their own, and a caller that stops waiting leaves nothing behind. A key that verified a request goes before those
//! that did not, here and when it is fetched again, and is given to the database.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::budget::CallBudget;
use super::{FetchError, NOT_LISTED, WantedKey};
use hooklatch_core::types::UnixMs;
use hooklatch_verify::spec::{FetchForm, FetchSpec};

/// Most keys that are kept; senders have a handful.
const KEYS_N_MAX: usize = 256;
/// Most bytes of keys that are kept, ids included.
const KEYS_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Most ids that are known to be none, each of 512 bytes at most.
const UNKNOWN_N_MAX: usize = 1_024;
/// Most calls for keys that are new here before the next one has to wait; see `budget.rs`.
const FETCHES_N_MAX: u32 = 30;
/// Time between two such calls after that: 120 peers that each invent an id are served within 30 s.
const FETCH_EVERY: Duration = Duration::from_millis(250);
/// Time for which the sender's "no such key" is believed. Milliseconds.
const NO_SUCH_KEY_MS: i64 = 60_000;
/// Time for which a whole set of keys is taken for the newest. Milliseconds: an id that is not in it waits for the next
/// one.
const SET_MS: i64 = 5_000;
/// Time for which a key is not asked for again, after the hosts did not answer. Milliseconds: those that waited
/// meanwhile get the answer of the first one, instead of asking one after the other.
const AWAY_MS: i64 = 1_000;
/// Longest wait while another request asks for the same key: longer than a call takes.
const LINE_WAIT: Duration = Duration::from_secs(4);
/// Time between two looks at the database for keys that other nodes have kept, and the longest time of one.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOK_TIME_MAX: Duration = Duration::from_secs(1);
/// Time for which an old key is used before its host is asked once more. Milliseconds.
const GRACE_STEP_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;

/// The keys of one provider.
pub(crate) struct KeyCache {
    state: Mutex<CacheState>,
    /// When the database was last looked at for keys that other nodes have kept; one look at a time.
    looked: tokio::sync::Mutex<Option<Instant>>,
    budget: CallBudget,
}

/// Contents of a cache, behind one lock.
#[derive(Default)]
struct CacheState {
    keys: HashMap<WantedKey, KeptKey>,
    keys_bytes_n: usize,
    /// Ids that name no key, and the time until which that is believed.
    unknown: HashMap<WantedKey, UnixMs>,
    /// Keys that were asked for a moment ago, and until when they are not asked for again: a whole set, or a key about
    /// which the hosts did not answer.
    pauses: HashMap<WantedKey, UnixMs>,
    /// One for each key that is being fetched: later requests wait for it.
    turns: HashMap<WantedKey, Arc<tokio::sync::Mutex<()>>>,
}

/// A key that is kept.
struct KeptKey {
    text: String,
    fetched_at_ms: UnixMs,
    good_until_ms: UnixMs,
    proof: KeyProof,
}

/// What is known of a key besides that the sender has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum KeyProof {
    /// No request was verified with it.
    None,
    /// A request was, and the database does not have it yet.
    Verified,
    /// The database has it.
    Stored,
}

/// A key that verified a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenKey {
    pub wanted: WantedKey,
    pub text: String,
    pub(super) fetched_at_ms: UnixMs,
}

/// Who asks for a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker {
    /// The peer of its request, as far as it is known.
    pub peer: Option<IpAddr>,
    /// True when the operator named the key: it is fetched whatever strangers ask for.
    pub(crate) is_named: bool,
}

/// Knowledge about a key before a call.
enum KeyKnown {
    Good,
    /// It is fetched whatever strangers ask for: it was good, or the operator named it.
    First,
    NoSuchKey,
    /// Its set was fetched a moment ago, without it; or the hosts did not answer about it.
    NotYet,
    Nothing,
}

/// A place in the line for one key. The last one to leave, in whatever way, removes the line.
struct FetchTurn<'a> {
    cache: &'a KeyCache,
    wanted: WantedKey,
    line: Arc<tokio::sync::Mutex<()>>,
}

impl Drop for FetchTurn<'_> {
    fn drop(&mut self) {
        let mut state = self.cache.state();
        // One is the map's, one is ours.
        if Arc::strong_count(&self.line) <= 2 {
            state.turns.remove(&self.wanted);
        }
    }
}

impl Default for KeyCache {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            looked: tokio::sync::Mutex::default(),
            budget: CallBudget::new(FETCHES_N_MAX, FETCH_EVERY),
        }
    }
}

impl KeyCache {
    fn state(&self) -> MutexGuard<'_, CacheState> {
        // Each change is one insertion: a panic elsewhere cannot leave it half-made.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A key that is good now, and whether a request was verified with it before.
    pub(crate) fn get(&self, wanted: &WantedKey, now_ms: UnixMs) -> Option<(String, bool)> {
        let state = self.state();
        let key = state.keys.get(wanted).filter(|key| now_ms < key.good_until_ms)?;
        Some((key.text.clone(), key.proof > KeyProof::None))
    }

    /// A request was verified with this key.
    pub(super) fn proved(&self, wanted: &WantedKey) {
        if let Some(key) = self.state().keys.get_mut(wanted) {
            key.proof = key.proof.max(KeyProof::Verified);
        }
    }

    /// The keys that verified a request and that the database does not have.
    pub(super) fn unstored(&self) -> Vec<ProvenKey> {
        let state = self.state();
        let unstored = state.keys.iter().filter(|(_, key)| key.proof == KeyProof::Verified);
        let proven = |(wanted, key): (&WantedKey, &KeptKey)| ProvenKey {
            wanted: wanted.clone(),
            text: key.text.clone(),
            fetched_at_ms: key.fetched_at_ms,
        };
        unstored.map(proven).collect()
    }

    /// The database has these keys now.
    pub(crate) fn stored(&self, stored: &[ProvenKey]) {
        let mut state = self.state();
        for one in stored {
            if let Some(key) = state.keys.get_mut(&one.wanted)
                && key.fetched_at_ms == one.fetched_at_ms
            {
                key.proof = KeyProof::Stored;
            }
        }
    }

    /// Takes a key from the database: good for as long as it would have been without a restart. One that is here and
    /// not older stays.
    pub(crate) fn restore(&self, key: ProvenKey, spec: &FetchSpec, now_ms: UnixMs) {
        // A time in the future is one of a clock that was wrong.
        let fetched_at_ms = key.fetched_at_ms.min(now_ms);
        let mut state = self.state();
        if state.keys.get(&key.wanted).is_some_and(|kept| kept.fetched_at_ms >= fetched_at_ms) {
            return;
        }
        let good_until_ms = fetched_at_ms.saturating_add(i64::from(spec.cache_h) * HOUR_MS);
        let kept = KeptKey { text: key.text, fetched_at_ms, good_until_ms, proof: KeyProof::Stored };
        state.keep(key.wanted, kept);
    }

    /// Looks in the database for keys that other nodes have kept, at most once in [`LOOK_EVERY`]: requests that are not
    /// verified cause the looks.
    async fn look_again<L: Future<Output = ()>>(&self, look: impl FnOnce() -> L) {
        let mut looked = self.looked.lock().await;
        if looked.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            return;
        }
        // Set first: a caller that gives up leaves no look to be repeated at once.
        *looked = Some(Instant::now());
        drop(tokio::time::timeout(LOOK_TIME_MAX, look()).await);
    }

    fn turn(&self, wanted: WantedKey) -> FetchTurn<'_> {
        let line = Arc::clone(self.state().turns.entry(wanted.clone()).or_default());
        FetchTurn { cache: self, wanted, line }
    }

    /// Makes a key good, by `fetch` if need be: one at a time for each key, or for each set of them; so many for keys
    /// that are new here. `stored` takes what other nodes have kept meanwhile, before a call is spent; `fetch` gives
    /// back all the keys that the answer had, with their ids.
    pub(crate) async fn filled<F, L>(
        &self,
        (wanted, asker): (&WantedKey, Asker),
        spec: &FetchSpec,
        now_ms: UnixMs,
        (stored, fetch): (impl FnOnce() -> L, impl FnOnce() -> F),
    ) -> Result<(), FetchError>
    where
        L: Future<Output = ()>,
        F: Future<Output = Result<Vec<(String, String)>, FetchError>>,
    {
        let is_set = spec.form == FetchForm::Jwks;
        let id = if is_set { String::new() } else { wanted.id.clone() };
        let asked = WantedKey { setting: wanted.setting.clone(), id };
        let began = Instant::now();
        let crowded = || FetchError::Away("too many keys were asked for at once".to_owned());
        let look = || self.state().lookup((wanted, asker), &asked, spec, now_ms);
        let known = look();
        let mut place = match known.answer() {
            Some(answer) => return answer,
            // It has a way of its own: strangers cannot take up its place.
            None if matches!(known, KeyKnown::First) => None,
            None => Some(self.budget.place(asker.peer, &wanted.id).ok_or_else(crowded)?),
        };
        let turn = self.turn(asked.clone());
        let line = tokio::time::timeout(LINE_WAIT, turn.line.lock());
        let line = match &mut place {
            None => line.await,
            Some(place) => tokio::select! {
                line = line => line,
                () = place.evicted() => return Err(crowded()),
            },
        };
        let _line = line.map_err(|_| crowded())?;
        if look().answer().is_none() {
            self.look_again(stored).await;
        }
        let known = look();
        if let Some(answer) = known.answer() {
            return answer;
        }
        if let Some(place) = place.filter(|_| !matches!(known, KeyKnown::First))
            && !place.call().await
        {
            return Err(crowded());
        }
        let fetched = fetch().await;
        let mut state = self.state();
        if is_set {
            state.pause(&asked, now_ms, now_ms.saturating_add(SET_MS));
        }
        match fetched {
            Ok(found) => {
                let is_found = found.iter().any(|(id, _)| *id == wanted.id);
                if !is_found {
                    state.drop_key(wanted);
                }
                for (id, text) in found {
                    let wanted = WantedKey { setting: wanted.setting.clone(), id };
                    let good_until_ms = now_ms.saturating_add(i64::from(spec.cache_h) * HOUR_MS);
                    // The same key again has verified what it has verified: it is stored with its new age.
                    let before = state.keys.get(&wanted).filter(|before| before.text == text);
                    let proof = before.map_or(KeyProof::None, |before| before.proof.min(KeyProof::Verified));
                    state.keep(wanted, KeptKey { text, fetched_at_ms: now_ms, good_until_ms, proof });
                }
                if is_found { Ok(()) } else { Err(FetchError::NoSuchKey(NOT_LISTED.to_owned())) }
            }
            Err(FetchError::NoSuchKey(why)) => {
                state.forget(wanted, now_ms);
                Err(FetchError::NoSuchKey(why))
            }
            Err(away) => {
                let stretched = state.stretched(wanted, spec, now_ms);
                if stretched.is_none() && !is_set {
                    let took_ms = i64::try_from(began.elapsed().as_millis()).unwrap_or_default();
                    state.pause(&asked, now_ms, now_ms.saturating_add(took_ms).saturating_add(AWAY_MS));
                }
                stretched.ok_or(away)
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn kept(&self) -> (usize, usize, usize, usize) {
        let state = self.state();
        (state.keys.len(), state.keys_bytes_n, state.unknown.len(), state.turns.len())
    }
}

fn grace_ends_ms(key: &KeptKey, spec: &FetchSpec) -> UnixMs {
    key.fetched_at_ms.saturating_add((i64::from(spec.cache_h) + i64::from(spec.grace_h)) * HOUR_MS)
}

impl KeyKnown {
    /// The answer that needs no call.
    fn answer(&self) -> Option<Result<(), FetchError>> {
        match self {
            Self::Good => Some(Ok(())),
            Self::NoSuchKey => Some(Err(FetchError::NoSuchKey("it was asked for a moment ago".to_owned()))),
            Self::NotYet => {
                let why = "the sender's hosts were asked a moment ago, in vain";
                Some(Err(FetchError::Away(why.to_owned())))
            }
            Self::First | Self::Nothing => None,
        }
    }
}

impl CacheState {
    /// `asked` is what would be asked for: the key, or its set.
    fn lookup(
        &self,
        (wanted, asker): (&WantedKey, Asker),
        asked: &WantedKey,
        spec: &FetchSpec,
        now_ms: UnixMs,
    ) -> KeyKnown {
        let key = self.keys.get(wanted);
        match key {
            Some(key) if now_ms < key.good_until_ms => return KeyKnown::Good,
            Some(key) if now_ms < grace_ends_ms(key, spec) => return KeyKnown::First,
            _ => {}
        }
        if self.unknown.get(wanted).is_some_and(|until_ms| now_ms < *until_ms) {
            KeyKnown::NoSuchKey
        } else if self.pauses.get(asked).is_some_and(|until_ms| now_ms < *until_ms) {
            KeyKnown::NotYet
        } else if asker.is_named || key.is_some_and(|key| key.proof > KeyProof::None) {
            KeyKnown::First
        } else {
            KeyKnown::Nothing
        }
    }

    /// Calls bound how many of these there are: one a second, and some at once.
    fn pause(&mut self, asked: &WantedKey, now_ms: UnixMs, until_ms: UnixMs) {
        self.pauses.retain(|_, until_ms| now_ms < *until_ms);
        self.pauses.insert(asked.clone(), until_ms);
    }

    /// Uses an old key a little longer while its host is away, within the kind's grace.
    fn stretched(&mut self, wanted: &WantedKey, spec: &FetchSpec, now_ms: UnixMs) -> Option<()> {
        let key = self.keys.get_mut(wanted)?;
        let until_ms = grace_ends_ms(key, spec);
        if now_ms >= until_ms {
            return None;
        }
        key.good_until_ms = now_ms.saturating_add(GRACE_STEP_MS).min(until_ms);
        Some(())
    }

    fn keep(&mut self, wanted: WantedKey, key: KeptKey) {
        let bytes_n = weight(&wanted, &key);
        self.drop_key(&wanted);
        self.unknown.remove(&wanted);
        while self.keys.len() >= KEYS_N_MAX || self.keys_bytes_n + bytes_n > KEYS_BYTES_MAX {
            let oldest = self.keys.iter().min_by_key(|(_, key)| (key.proof, key.fetched_at_ms));
            let Some(oldest) = oldest.map(|(wanted, _)| wanted.clone()) else { break };
            self.drop_key(&oldest);
        }
        self.keys_bytes_n += bytes_n;
        self.keys.insert(wanted, key);
    }

    fn drop_key(&mut self, wanted: &WantedKey) {
        if let Some(key) = self.keys.remove(wanted) {
            self.keys_bytes_n = self.keys_bytes_n.saturating_sub(weight(wanted, &key));
        }
    }

    /// There is no such key, whatever was known before.
    fn forget(&mut self, wanted: &WantedKey, now_ms: UnixMs) {
        self.drop_key(wanted);
        if self.unknown.len() >= UNKNOWN_N_MAX {
            self.unknown.retain(|_, until_ms| now_ms < *until_ms);
        }
        if self.unknown.len() >= UNKNOWN_N_MAX {
            let oldest = self.unknown.iter().min_by_key(|(_, until_ms)| **until_ms);
            if let Some(oldest) = oldest.map(|(wanted, _)| wanted.clone()) {
                self.unknown.remove(&oldest);
            }
        }
        self.unknown.insert(wanted.clone(), now_ms.saturating_add(NO_SUCH_KEY_MS));
    }
}

fn weight(wanted: &WantedKey, key: &KeptKey) -> usize {
    wanted.setting.len() + wanted.id.len() + key.text.len()
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;

    use super::*;
    use crate::fetch::budget::WAITING_N_MAX;
    use hooklatch_verify::spec::Spec;

    fn wanted(id: String) -> WantedKey {
        WantedKey { setting: "public_keys_spki_b64".to_owned(), id }
    }

    /// Its host takes all requests and answers none.
    async fn asked(
        cache: &KeyCache,
        calls_n: &AtomicUsize,
        id: String,
        now_ms: UnixMs,
    ) -> Result<(), FetchError> {
        let spec = Spec::parse(include_str!("../../../../providers/circle/provider.toml")).unwrap();
        let silent = || async {
            calls_n.fetch_add(1, Ordering::Relaxed);
            drop(tokio::time::timeout(Duration::from_secs(3), pending::<()>()).await);
            Err(FetchError::Away("timed out".to_owned()))
        };
        let stranger = Asker { peer: None, is_named: false };
        cache.filled((&wanted(id), stranger), &spec.fetch[0], now_ms, (async || {}, silent)).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_does_not_answer_holds_few_requests_and_none_of_them_for_long() {
        let (cache, calls_n) = (KeyCache::default(), AtomicUsize::new(0));
        let is_away = |result: &Result<(), FetchError>| matches!(result, Err(FetchError::Away(_)));
        let began = Instant::now();
        let same = (0..1_000).map(|_| asked(&cache, &calls_n, "same".to_owned(), 0));
        assert!(join_all(same).await.iter().all(is_away));
        assert_eq!(calls_n.swap(0, Ordering::Relaxed), 1, "requests that waited get the first one's answer");
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());

        let began = Instant::now();
        let held_n = AtomicUsize::new(0);
        let (held, calls) = (&held_n, &calls_n);
        let one = async |n: usize| {
            let began = Instant::now();
            let result = asked(&cache, calls, format!("other{n}"), 0).await;
            held.fetch_add(usize::from(!began.elapsed().is_zero()), Ordering::Relaxed);
            result
        };
        let others = (0..1_000).map(one);
        let key = KeptKey { text: "k".to_owned(), fetched_at_ms: 0, good_until_ms: 0, proof: KeyProof::None };
        cache.state().keep(wanted("old".to_owned()), key);
        let (others, old) = tokio::join!(join_all(others), asked(&cache, &calls_n, "old".to_owned(), 1));
        assert!(others.iter().all(is_away) && old.is_ok(), "what was good is used meanwhile: {old:?}");
        assert!(held_n.into_inner() <= WAITING_N_MAX + FETCHES_N_MAX as usize);
        assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
        let (keys_n, _, _, turns_n) = cache.kept();
        assert_eq!((keys_n, turns_n), (1, 0));
        // A second later it is asked again.
        calls_n.store(0, Ordering::Relaxed);
        drop(asked(&cache, &calls_n, "same".to_owned(), 60_000).await);
        assert_eq!(calls_n.into_inner(), 1);
    }

    #[test]
    fn what_is_kept_is_bounded_in_entries_and_bytes_and_no_stranger_takes_the_place_of_a_key() {
        let mut state = CacheState::default();
        let key = |bytes_n: usize, at_ms| KeptKey {
            text: "k".repeat(bytes_n),
            fetched_at_ms: at_ms,
            good_until_ms: i64::MAX,
            proof: KeyProof::None,
        };
        for n in 0..2_000 {
            state.keep(wanted(format!("k{n}")), key(60_000, n));
            assert!(state.keys_bytes_n <= KEYS_BYTES_MAX && state.keys.len() <= KEYS_N_MAX);
        }
        for n in 0..2_000 {
            state.keep(wanted(format!("s{n}")), key(10, n));
        }
        assert_eq!(state.keys.len(), KEYS_N_MAX);
        let summed: usize = state.keys.iter().map(|(wanted, key)| weight(wanted, key)).sum();
        assert_eq!(state.keys_bytes_n, summed);
        for n in 0..3_000 {
            state.forget(&wanted(format!("invented{n}")), n);
            assert!(state.unknown.len() <= UNKNOWN_N_MAX);
        }
        assert_eq!(state.keys.len(), KEYS_N_MAX, "a list of their own");
    }
}
