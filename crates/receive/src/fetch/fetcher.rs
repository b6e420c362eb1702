//! The keys of one provider that are not in its settings: asked for between two verifications, and kept in the database
//! once they verified a request.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};
use tracing::{debug, info};

use super::cache::{Asker, KeyCache, ProvenKey};
use super::client::KeyClient;
use super::confirmed::Confirmed;
use super::error::{FetchError, WantedKey};
use hooklatch_core::config::{FetchConfig, KindSettings};
use hooklatch_core::types::{Clock, Name};
use hooklatch_store::{FETCHED_KEY_BYTES_MAX, FetchedKey, Store, StoreError};
use hooklatch_verify::spec::{ConfirmSpec, FetchSpec, Spec};
use hooklatch_verify::{KEY_ID_BYTES_MAX, KeySource};

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
    pub async fn confirm(&self, spec: &ConfirmSpec, url: &str) -> Result<(), FetchError> {
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
        self.client.check(spec, &url, &text).map_err(|error| error.to_string())?;
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
