//! Keys that only the sender has: fetched from its own hosts when a request first names one, kept, and used for a
//! while when those hosts are away.
//!
//! A request makes us call somebody, so every bound is here: hosts that the kind pins, https, no redirects, no
//! private address (`net.rs`), sizes, times, how many keys are kept and how many may be asked for at once.
//! `cache.rs` keeps, `client.rs` calls. A sender whose keys are out of reach hears 503, never 401.

mod budget;
mod cache;
mod client;
mod confirmed;

use std::sync::{Arc, Mutex, PoisonError};

use crate::config::{FetchConfig, KindSettings};
use crate::spec::{ConfirmSpec, Spec};
use crate::types::Clock;
use crate::verify::{KeySource, KeyWanted};
use cache::Cache;
use client::Client;
use confirmed::Confirmed;

/// Most keys that one request may make us fetch.
const KEYS_OF_REQUEST_N_MAX: usize = 2;
/// Longest id or URL of a key that a request may name. Bytes; longer ones are never kept, and never asked for.
const ID_BYTES_MAX: usize = 512;
/// Why a key is none that a whole answer would have had.
const NOT_LISTED: &str = "the sender's host does not list it";

/// Why a key could not be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FetchError {
    /// The sender's host says that there is no such key, or it may not be asked: whoever named it is not believed.
    #[error("the sender has no such key: {0}")]
    NoSuchKey(String),
    /// Nobody knows: the sender tries again.
    #[error("the sender's keys are out of reach: {0}")]
    Away(String),
}

/// The keys of one provider that are not in its settings.
pub(crate) struct Fetcher {
    spec: Arc<Spec>,
    settings: KindSettings,
    client: Client,
    cache: Cache,
    confirmed: Confirmed,
    clock: Clock,
}

impl Fetcher {
    /// For a kind that fetches or confirms anything.
    pub(crate) fn new(
        spec: &Arc<Spec>,
        settings: &KindSettings,
        options: &FetchConfig,
        clock: &Clock,
    ) -> Result<Self, String> {
        Ok(Self {
            spec: Arc::clone(spec),
            settings: settings.clone(),
            client: Client::new(options)?,
            cache: Cache::default(),
            confirmed: Confirmed::default(),
            clock: clock.clone(),
        })
    }

    /// Fetches what a request asked for and did not find.
    pub(crate) async fn fetch_missing(&self, missing: &[Wanted]) -> Result<(), FetchError> {
        for wanted in missing.iter().take(KEYS_OF_REQUEST_N_MAX) {
            let Some(spec) = self.spec.fetch.iter().find(|spec| spec.setting == wanted.setting) else {
                return Err(FetchError::NoSuchKey("the kind fetches no such keys".to_owned()));
            };
            if wanted.id.len() > ID_BYTES_MAX {
                return Err(FetchError::NoSuchKey("its id is too long".to_owned()));
            }
            // What may not be asked for costs nobody a call, and is not kept.
            self.client.url_of(spec, &wanted.id, &self.settings)?;
            self.cache
                .filled(wanted, spec, self.clock.now_ms(), || {
                    self.client.keys(spec, &wanted.id, &self.settings)
                })
                .await?;
        }
        Ok(())
    }

    /// Confirms, at the sender's own host, what a believed request wants to have confirmed; once.
    pub(crate) async fn confirm(&self, spec: &ConfirmSpec, url: &str) -> Result<(), FetchError> {
        self.confirmed.once(url, self.client.confirm(spec, url)).await
    }
}

impl KeySource for Fetcher {
    fn key(&self, wanted: &KeyWanted<'_>) -> Option<String> {
        self.cache.get(wanted.setting, wanted.id, self.clock.now_ms())
    }
}

/// A key that was asked for by its setting and id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Wanted {
    /// The setting that would hold it.
    pub(crate) setting: String,
    /// Its id, or its URL.
    pub(crate) id: String,
}

/// Notes which keys a verification asks for and does not get.
pub(crate) struct Recorder {
    inner: Arc<Fetcher>,
    missing: Mutex<Vec<Wanted>>,
}

impl Recorder {
    /// Asks `inner` first.
    pub(crate) fn new(inner: Arc<Fetcher>) -> Self {
        Self { inner, missing: Mutex::default() }
    }

    /// What was asked for and was not there.
    pub(crate) fn missing(&self) -> Vec<Wanted> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl KeySource for Recorder {
    fn key(&self, wanted: &KeyWanted<'_>) -> Option<String> {
        let found = self.inner.key(wanted);
        if found.is_none() && wanted.id.len() <= ID_BYTES_MAX {
            let wanted = Wanted { setting: wanted.setting.to_owned(), id: wanted.id.to_owned() };
            self.missing.lock().unwrap_or_else(PoisonError::into_inner).push(wanted);
        }
        found
    }
}

#[cfg(test)]
mod tests;
