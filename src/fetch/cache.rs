//! Keys by their ids: how long each is good for, one fetch at a time for each, and how many may be asked for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{FetchError, Wanted};
use crate::spec::FetchSpec;
use crate::types::UnixMs;

/// Most keys that are kept; senders have a handful.
const KEYS_N_MAX: usize = 256;
/// Most fetches in a minute. Past that, keys nobody has seen are out of reach: a flood of invented ids must not
/// become a flood of calls.
const FETCHES_PER_MINUTE: u32 = 30;
/// How long the sender's "no such key" is believed. Milliseconds.
const NO_SUCH_KEY_MS: i64 = 60_000;
/// How long an old key is used before its host is asked once more. Milliseconds.
const GRACE_STEP_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;

/// The keys of one provider.
#[derive(Default)]
pub(super) struct Cache {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: HashMap<Wanted, Entry>,
    /// One for each key that is being fetched: whoever comes later waits for it.
    fetching: HashMap<Wanted, Arc<tokio::sync::Mutex<()>>>,
    minute: (UnixMs, u32),
}

struct Entry {
    /// `None`: there is no such key.
    text: Option<String>,
    fetched_at_ms: UnixMs,
    good_until_ms: UnixMs,
}

impl Cache {
    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is one insertion: a panic elsewhere cannot leave it half-made.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A key that is good now.
    pub(super) fn get(&self, setting: &str, id: &str, now_ms: UnixMs) -> Option<String> {
        let wanted = Wanted { setting: setting.to_owned(), id: id.to_owned() };
        let state = self.state();
        state.entries.get(&wanted).filter(|entry| now_ms < entry.good_until_ms)?.text.clone()
    }

    /// Makes a key good, by `fetch` if need be: one at a time for each key, so many a minute for all.
    pub(super) async fn filled<F>(
        &self,
        wanted: &Wanted,
        spec: &FetchSpec,
        now_ms: UnixMs,
        fetch: impl FnOnce() -> F,
    ) -> Result<(), FetchError>
    where
        F: Future<Output = Result<String, FetchError>>,
    {
        let turn = Arc::clone(self.state().fetching.entry(wanted.clone()).or_default());
        let _turn = turn.lock().await;
        if let Some(known) = self.known(wanted, now_ms) {
            return known;
        }
        let fetched = if self.may_fetch(now_ms) {
            fetch().await
        } else {
            Err(FetchError::Away("too many keys were asked for in a minute".to_owned()))
        };
        let mut state = self.state();
        state.fetching.remove(wanted);
        let entry = |text, good_ms: i64| Entry {
            text,
            fetched_at_ms: now_ms,
            good_until_ms: now_ms.saturating_add(good_ms),
        };
        match fetched {
            Ok(text) => {
                state.make_room();
                state.entries.insert(wanted.clone(), entry(Some(text), i64::from(spec.cache_h) * HOUR_MS));
                Ok(())
            }
            Err(FetchError::NoSuchKey(why)) => {
                state.make_room();
                state.entries.insert(wanted.clone(), entry(None, NO_SUCH_KEY_MS));
                Err(FetchError::NoSuchKey(why))
            }
            Err(away) => state.stretched(wanted, spec, now_ms).ok_or(away),
        }
    }

    /// What somebody before us has found out; `None` when the key has to be fetched.
    fn known(&self, wanted: &Wanted, now_ms: UnixMs) -> Option<Result<(), FetchError>> {
        let state = self.state();
        let entry = state.entries.get(wanted).filter(|entry| now_ms < entry.good_until_ms)?;
        Some(match &entry.text {
            Some(_) => Ok(()),
            None => Err(FetchError::NoSuchKey("it was asked for a moment ago".to_owned())),
        })
    }

    fn may_fetch(&self, now_ms: UnixMs) -> bool {
        let mut state = self.state();
        if now_ms.saturating_sub(state.minute.0) >= 60_000 {
            state.minute = (now_ms, 0);
        }
        state.minute.1 = state.minute.1.saturating_add(1);
        state.minute.1 <= FETCHES_PER_MINUTE
    }
}

impl State {
    /// Uses an old key a little longer while its host is away, within the kind's grace.
    fn stretched(&mut self, wanted: &Wanted, spec: &FetchSpec, now_ms: UnixMs) -> Option<()> {
        let entry = self.entries.get_mut(wanted).filter(|entry| entry.text.is_some())?;
        let until_ms =
            entry.fetched_at_ms.saturating_add((i64::from(spec.cache_h) + i64::from(spec.grace_h)) * HOUR_MS);
        if now_ms >= until_ms {
            return None;
        }
        entry.good_until_ms = now_ms.saturating_add(GRACE_STEP_MS).min(until_ms);
        Some(())
    }

    /// The oldest goes first; those that are no keys before all others.
    fn make_room(&mut self) {
        if self.entries.len() < KEYS_N_MAX {
            return;
        }
        let oldest = self.entries.iter().min_by_key(|(_, entry)| (entry.text.is_some(), entry.fetched_at_ms));
        if let Some(oldest) = oldest.map(|(wanted, _)| wanted.clone()) {
            self.entries.remove(&oldest);
        }
    }
}
