//! How often senders send: as this node measured it, and as all nodes store it together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::numbers::seconds;
use hooklatch_core::config::Config;
use hooklatch_core::current::Current;
use hooklatch_core::types::{Clock, Name, UnixMs};
use hooklatch_receive::CountedRequests;
use hooklatch_store::{AHEAD_MS_MAX, Rhythm, Store, StoreError};

/// The rhythms of the configured senders, as of the last read of the tables.
pub(crate) struct Rhythms {
    config: Current<Config>,
    clock: Clock,
    known: Mutex<BTreeMap<String, Rhythm>>,
    /// Providers whose numbers were published.
    published: Mutex<BTreeSet<Name>>,
    /// The last values that this node wrote, so that a silent sender costs no write.
    written: Mutex<BTreeMap<String, UnixMs>>,
}

impl Rhythms {
    /// Starts without a rhythm of any provider.
    pub(crate) fn new(config: Current<Config>, clock: Clock) -> Self {
        let (published, known) = (Mutex::default(), Mutex::default());
        Self { config, clock, published, known, written: Mutex::default() }
    }

    /// Adds the measurements of this node to the shared table, and reads the result.
    pub(super) async fn exchange(&self, requests: &CountedRequests, store: &Store) -> Result<(), StoreError> {
        let seen: BTreeMap<String, UnixMs> = {
            let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            let config = self.config.get();
            let last =
                config.providers.keys().filter_map(|name| Some((name, requests.last_accepted_ms(name)?)));
            let is_new = |name: &Name, at_ms: UnixMs| written.get(name.as_str()) != Some(&at_ms);
            last.filter(|(name, at_ms)| is_new(name, *at_ms))
                .map(|(name, at_ms)| (name.to_string(), at_ms))
                .collect()
        };
        let known = store.rhythms_add(&seen, self.clock.now_ms()).await?;
        self.written.lock().unwrap_or_else(PoisonError::into_inner).extend(seen);
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(())
    }

    /// The current time of the app's clock.
    pub(crate) fn now_ms(&self) -> UnixMs {
        self.clock.now_ms()
    }

    /// Publishes the newest accepted event of each provider, by whichever node, and its usual gap. A time
    /// in the future, from a clock that was ahead, is left out: until it has passed, a silent sender would look well.
    pub(super) fn publish(&self, requests: &CountedRequests) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let latest_ms = self.clock.now_ms().saturating_add(AHEAD_MS_MAX);
        let config = self.config.get();
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        published.extend(config.providers.keys().cloned());
        for name in &*published {
            // One that is not configured any more is expected to be silent.
            let rhythm = known.get(name.as_str()).filter(|_| config.providers.contains_key(name));
            let (here_ms, there_ms) =
                (requests.last_accepted_ms(name), rhythm.map(|known| known.last_accepted_at_ms));
            let plausible_ms = [here_ms, there_ms].into_iter().flatten().filter(|ms| *ms <= latest_ms);
            let last_s = plausible_ms.max().map_or(f64::NAN, seconds);
            let gap_s = rhythm.and_then(Rhythm::usual_gap_s).unwrap_or(f64::NAN);
            metrics::gauge!("hooklatch_last_accepted_timestamp_seconds", "provider" => name.to_string())
                .set(last_s);
            metrics::gauge!("hooklatch_usual_gap_seconds", "provider" => name.to_string()).set(gap_s);
        }
    }
}
