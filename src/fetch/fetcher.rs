//! The keys of one provider that are not in its settings: asked for between two verifications.

use std::sync::Arc;

use super::cache::KeyCache;
use super::client::KeyClient;
use super::confirmed::Confirmed;
use super::error::{FetchError, WantedKey};
use crate::config::{FetchConfig, KindSettings};
use crate::spec::{ConfirmSpec, Spec};
use crate::types::Clock;
use crate::verify::{KEY_ID_BYTES_MAX, KeySource};

/// The keys of one provider that are not in its settings.
pub(crate) struct Fetcher {
    pub(super) spec: Arc<Spec>,
    pub(super) settings: KindSettings,
    client: KeyClient,
    pub(super) cache: KeyCache,
    confirmed: Confirmed,
    clock: Clock,
}

impl Fetcher {
    /// Makes the fetcher of a kind that fetches or confirms anything.
    pub(crate) fn new(
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
        })
    }

    /// Fetches a key that a verification wanted and did not have.
    pub(crate) async fn fetch(&self, wanted: &WantedKey) -> Result<(), FetchError> {
        let Some(spec) = self.spec.fetch.iter().find(|spec| spec.setting == wanted.setting) else {
            return Err(FetchError::NoSuchKey("the kind fetches no such keys".to_owned()));
        };
        if wanted.id.len() > KEY_ID_BYTES_MAX {
            return Err(FetchError::NoSuchKey("its id is too long".to_owned()));
        }
        // What may not be asked for costs nobody a call, and is not kept.
        self.client.url_of(spec, &wanted.id, &self.settings)?;
        let call = || self.client.keys(spec, &wanted.id, &self.settings);
        self.cache.filled(wanted, spec, self.clock.now_ms(), call).await
    }

    /// Confirms, at the sender's own host, what a believed request wants to have confirmed; once.
    pub(crate) async fn confirm(&self, spec: &ConfirmSpec, url: &str) -> Result<(), FetchError> {
        self.confirmed.once(url, self.client.confirm(spec, url)).await
    }
}

impl KeySource for Fetcher {
    fn key(&self, setting: &str, id: &str) -> Option<String> {
        self.cache.get(setting, id, self.clock.now_ms())
    }
}
