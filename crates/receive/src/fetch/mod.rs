//! Keys that only the sender has: fetched from its own hosts when a request first names one, kept, and used for a
//! while when those hosts are away.
//!
//! A request makes us call a host, so every bound is here: hosts that the kind pins, https, no redirects, no private
//! address (`crates/core/src/net.rs`), sizes, times, how many keys are kept and how many may be asked for at once.
//! Calls are shared among peers, so a stranger's share does not grow with the number of their requests. A key that
//! verified a request is kept in the database, so that a restart does not make its sender a stranger.
//!
//! `budget.rs` bounds calls, `cache.rs` keeps keys, `client.rs` calls; [`Fetcher`] puts them together for one provider.
//! Nothing is verified here: `verify` reports which key it lacks, and `verification.rs` has it fetched. A sender whose
//! keys are out of reach gets 503, never 401.

mod budget;
mod cache;
mod client;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tracing::{debug, info};

use budget::CallBudget;
use cache::{Asker, KeyCache, ProvenKey};
use client::KeyClient;
use hooklatch_core::config::{FetchConfig, KindSettings};
use hooklatch_core::types::{Clock, Name};
use hooklatch_store::{FETCHED_KEY_BYTES_MAX, FetchedKey, Store, StoreError};
use hooklatch_verify::spec::{ConfirmSpec, FetchSpec, Spec};
use hooklatch_verify::{Hash, KEY_ID_BYTES_MAX, KeySource, digest};

/// Error of a key that the sender's host would list if it existed.
pub(super) const NOT_LISTED: &str = "the sender's host does not list it";

/// The reason why a key could not be fetched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The sender's host says that there is no such key, or it may not be asked: the request that named it is not
    /// believed.
    #[error("the sender has no such key: {0}")]
    NoSuchKey(String),
    /// It is unknown: the sender tries again.
    #[error("the sender's keys are out of reach: {0}")]
    Away(String),
}

/// A key that was asked for by its setting and id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WantedKey {
    /// Name of the setting that would hold it.
    pub setting: String,
    /// Id of the key, or its URL.
    pub id: String,
}

/// Most confirmations that are made at once; see `budget.rs`. Topics are confirmed once in their lives.
const CONFIRMS_N_MAX: u32 = 10;
/// Time between two after that.
const CONFIRM_EVERY: Duration = Duration::from_secs(1);
/// Most confirmations that are remembered, by the digests of their addresses.
const KNOWN_N_MAX: usize = 1_024;

/// The confirmations of one provider since the program started.
pub(crate) struct Confirmed {
    known: Mutex<VecDeque<Vec<u8>>>,
    budget: CallBudget,
}

impl Default for Confirmed {
    fn default() -> Self {
        Self { known: Mutex::default(), budget: CallBudget::new(CONFIRMS_N_MAX, CONFIRM_EVERY) }
    }
}

impl Confirmed {
    /// Confirms at `url` by `call`, unless that was done before.
    pub(crate) async fn once(
        &self,
        url: &str,
        call: impl Future<Output = Result<(), FetchError>>,
    ) -> Result<(), FetchError> {
        let address = digest(Hash::Sha256, &[url.as_bytes()]);
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known().contains(&address) {
            return Ok(());
        }
        let place = self.budget.place(None, url);
        let may_call = match place {
            Some(place) => place.call().await,
            None => false,
        };
        if !may_call {
            return Err(FetchError::Away("too many subscriptions wanted to be confirmed at once".to_owned()));
        }
        call.await?;
        let mut known = known();
        known.truncate(KNOWN_N_MAX - 1);
        known.push_front(address);
        Ok(())
    }
}

/// The setting of a kind that names keys which are fetched whatever strangers ask for.
const KEY_IDS: &str = "key_ids";
/// Most fetched keys that are recorded as used by one verification.
const USED_N_MAX: usize = 8;

/// The keys of one provider that are not in its settings.
pub struct Fetcher {
    pub spec: Arc<Spec>,
    pub settings: KindSettings,
    client: KeyClient,
    pub(super) cache: KeyCache,
    confirmed: Confirmed,
    clock: Clock,
    /// Where nodes keep keys that verified a request, and the provider that these are of.
    shared: OnceLock<(Name, Store)>,
}

/// A key as the database has it.
#[derive(Serialize, Deserialize)]
struct StoredKey {
    setting: String,
    id: String,
    key: String,
    fetched_at_ms: i64,
}

impl Fetcher {
    /// Makes the fetcher of a kind that fetches or confirms anything.
    pub fn new(
        spec: &Arc<Spec>,
        settings: &KindSettings,
        options: &FetchConfig,
        clock: &Clock,
    ) -> Result<Self, String> {
        Ok(Self {
            spec: Arc::clone(spec),
            settings: settings.clone(),
            client: KeyClient::new(options)?,
            cache: KeyCache::default(),
            confirmed: Confirmed::default(),
            clock: clock.clone(),
            shared: OnceLock::new(),
        })
    }

    /// Fetches a key that a verification wanted and did not have, for a request from `peer`.
    pub async fn fetch(&self, wanted: &WantedKey, peer: Option<IpAddr>) -> Result<(), FetchError> {
        let Some(spec) = self.spec_of(&wanted.setting) else {
            return Err(FetchError::NoSuchKey("the kind fetches no such keys".to_owned()));
        };
        if wanted.id.len() > KEY_ID_BYTES_MAX {
            return Err(FetchError::NoSuchKey("its id is too long".to_owned()));
        }
        // What may not be asked for costs no call, and is not kept.
        self.client.url_of(spec, &wanted.id, &self.settings)?;
        let call = || self.client.keys(spec, &wanted.id, &self.settings);
        let is_named = self.settings.all(KEY_IDS).any(|one| one.value.is(&wanted.id));
        let stored = || self.take_shared();
        self.cache.filled((wanted, Asker { peer, is_named }), spec, self.clock.now_ms(), (stored, call)).await
    }

    /// Looks at this store, before it calls the sender, for keys that other nodes have kept.
    pub fn share(&self, provider: &Name, store: &Store) {
        self.shared.get_or_init(|| (provider.clone(), store.clone()));
    }

    /// Takes what other nodes have kept since; what cannot be read is fetched.
    async fn take_shared(&self) {
        let Some((provider, store)) = self.shared.get() else { return };
        match store.fetched_keys_of(provider).await {
            Ok(stored) => self.restore(provider, &stored),
            Err(error) => debug!(%error, "could not look for keys of the sender that other nodes have kept"),
        }
    }

    /// Confirms, at the sender's own host, what a believed request wants to have confirmed; once.
    pub(crate) async fn confirm(&self, spec: &ConfirmSpec, url: &str) -> Result<(), FetchError> {
        self.confirmed.once(url, self.client.confirm(spec, url)).await
    }

    /// Takes the keys that the database has for this provider, each checked as when it was fetched.
    pub fn restore(&self, provider: &Name, stored: &[FetchedKey]) {
        for one in stored.iter().filter(|one| one.provider == provider.as_str()) {
            match self.checked(provider, one) {
                Ok((spec, key)) => self.cache.restore(key, spec, self.clock.now_ms()),
                Err(why) => {
                    info!(provider.name = %provider, why, "did not use a stored key of the sender; it is fetched again");
                }
            }
        }
    }

    fn checked(&self, provider: &Name, stored: &FetchedKey) -> Result<(&FetchSpec, ProvenKey), String> {
        let content: StoredKey = serde_json::from_str(&stored.content).map_err(|error| error.to_string())?;
        let StoredKey { setting, id, key: text, fetched_at_ms } = content;
        let spec = self.spec_of(&setting).ok_or("its kind does not fetch such keys")?;
        if self.client.digest((provider.as_str(), &id), spec, &self.settings) != Some(stored.digest) {
            return Err("it was fetched with other settings".to_owned());
        }
        let url = self.client.url_of(spec, &id, &self.settings).map_err(|error| error.to_string())?;
        self.client
            .check(spec, url.host_str().unwrap_or_default(), &text)
            .map_err(|error| error.to_string())?;
        Ok((spec, ProvenKey { wanted: WantedKey { setting, id }, text, fetched_at_ms }))
    }

    /// Writes the keys that verified a request since the last time.
    pub(crate) async fn store_keys(&self, provider: &Name, store: &Store) -> Result<(), StoreError> {
        self.share(provider, store);
        let unstored = self.cache.unstored();
        let rows: Vec<FetchedKey> = unstored.iter().filter_map(|key| self.row(provider, key)).collect();
        store.fetched_keys_keep(&rows).await?;
        self.cache.stored(&unstored);
        Ok(())
    }

    /// A key as the database has it; `None`: it is too long, or could not be fetched again.
    pub fn row(&self, provider: &Name, key: &ProvenKey) -> Option<FetchedKey> {
        let ProvenKey { wanted: WantedKey { setting, id }, text, fetched_at_ms } = key.clone();
        let spec = self.spec_of(&setting)?;
        let digest = self.client.digest((provider.as_str(), &id), spec, &self.settings)?;
        let content = serde_json::to_string(&StoredKey { setting, id, key: text, fetched_at_ms }).ok()?;
        let row = FetchedKey { provider: provider.to_string(), digest, fetched_at_ms, content };
        (row.content.len() <= FETCHED_KEY_BYTES_MAX).then_some(row)
    }

    fn spec_of(&self, setting: &str) -> Option<&FetchSpec> {
        self.spec.fetch.iter().find(|spec| spec.setting == setting)
    }
}

impl KeySource for Fetcher {
    fn key(&self, setting: &str, id: &str) -> Option<String> {
        let wanted = WantedKey { setting: setting.to_owned(), id: id.to_owned() };
        self.cache.get(&wanted, self.clock.now_ms()).map(|(text, _)| text)
    }
}

/// The keys of a fetcher for one verification. It remembers those that verified nothing yet.
pub struct UsedKeys {
    fetcher: Arc<Fetcher>,
    used: Mutex<Vec<WantedKey>>,
}

impl UsedKeys {
    pub fn new(fetcher: &Arc<Fetcher>) -> Self {
        Self { fetcher: Arc::clone(fetcher), used: Mutex::default() }
    }

    /// The verification found the request to be genuine.
    pub(crate) fn proved(&self) {
        for wanted in &*self.used.lock().unwrap_or_else(PoisonError::into_inner) {
            self.fetcher.cache.proved(wanted);
        }
    }
}

impl KeySource for UsedKeys {
    fn key(&self, setting: &str, id: &str) -> Option<String> {
        let wanted = WantedKey { setting: setting.to_owned(), id: id.to_owned() };
        let (text, is_proven) = self.fetcher.cache.get(&wanted, self.fetcher.clock.now_ms())?;
        if !is_proven {
            let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            if used.len() < USED_N_MAX {
                used.push(wanted);
            }
        }
        Some(text)
    }
}
