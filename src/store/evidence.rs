//! What operators want to know about requests: why some were not believed, and which secrets still match.

use super::tx::TxKind;
use super::{Backend, Store, StoreError, Tx, limit, postgres, sqlite, warnings};
use crate::types::{Name, UnixMs};

/// Requests that are kept of each provider: the newest.
pub const REJECTIONS_N_MAX: u32 = 100;

/// A request that was not believed, redacted.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Rejection {
    /// `UUIDv7`.
    pub rejection_id: String,
    /// Who it was for.
    pub provider: String,
    /// When its last byte came.
    pub received_at_ms: UnixMs,
    /// Which step failed: `header`, `timestamp`, `secret` or `signature`.
    pub step: String,
    /// Why, as one word of a closed set.
    pub reason: String,
    /// Why, for people, with its numbers.
    pub detail: String,
    /// Its headers as a JSON object, secrets and signatures blanked.
    pub headers: String,
    /// SHA-256 of its body, in hexadecimal.
    pub body_digest: String,
    /// How long its body was.
    pub body_bytes_n: i64,
}

/// How often one secret matched, and when last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretUse {
    /// Whose it is.
    pub provider: String,
    /// What it goes by.
    pub fingerprint: String,
    /// Requests it matched.
    pub matched_n: i64,
    /// When the last one came.
    pub last_matched_at_ms: UnixMs,
}

/// A secret that a sender taught us, until a person has looked at it.
#[derive(Clone, PartialEq, Eq)]
pub struct Taught {
    /// Whose it is.
    pub provider: String,
    /// The secret.
    pub secret: String,
    /// When it came.
    pub taught_at_ms: UnixMs,
}

impl std::fmt::Debug for Taught {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Taught").field("provider", &self.provider).finish_non_exhaustive()
    }
}

async fn rejections_keep(tx: &mut Tx, rejections: &[Rejection]) -> Result<(), StoreError> {
    in_tx!(tx, rejections_insert(rejections))?;
    let mut providers: Vec<&str> = rejections.iter().map(|one| one.provider.as_str()).collect();
    providers.sort_unstable();
    providers.dedup();
    for provider in providers {
        in_tx!(tx, rejections_prune(provider, i64::from(REJECTIONS_N_MAX)))?;
    }
    Ok(())
}

impl Store {
    /// Keeps these, and of each of their providers the newest [`REJECTIONS_N_MAX`].
    pub async fn rejections_insert(&self, rejections: &[Rejection]) -> Result<(), StoreError> {
        if rejections.is_empty() {
            return Ok(());
        }
        let (store, rejections) = (self.clone(), rejections.to_vec());
        limit::whole("rejections_insert", limit::OPERATION_LIMIT, async move {
            let mut tx = store.begin("rejections_insert").await?;
            let answer = rejections_keep(&mut tx, &rejections).await;
            tx.end(answer).await
        })
        .await
    }

    /// The newest requests that were not believed.
    pub async fn rejection_list(
        &self,
        provider: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Rejection>, StoreError> {
        let provider = provider.cloned();
        alone!(self.people.rejection_list(provider.as_ref().map(Name::as_str), i64::from(limit)))
    }

    /// Adds to what is known about secrets: counts are added, the later time stays.
    pub async fn secret_uses_add(&self, uses: &[SecretUse]) -> Result<(), StoreError> {
        if uses.is_empty() {
            return Ok(());
        }
        let (store, uses) = (self.clone(), uses.to_vec());
        limit::whole("secret_uses_add", limit::OPERATION_LIMIT, async move {
            let mut tx = store.begin("secret_uses_add").await?;
            let mut answer = Ok(());
            for one in &uses {
                answer = in_tx!(tx, secret_use_add(one));
                if answer.is_err() {
                    break;
                }
            }
            tx.end(answer).await
        })
        .await
    }

    /// What is known about secrets.
    pub async fn secret_use_list(&self) -> Result<Vec<SecretUse>, StoreError> {
        alone!(self.people.secret_use_list())
    }

    /// Keeps what a sender taught us in the place of what it taught us before.
    pub async fn taught_keep(&self, taught: Taught) -> Result<(), StoreError> {
        alone!(self.writer.taught_keep(&taught))
    }

    /// What a sender taught us, which is forgotten with this.
    pub async fn taught_take(&self, provider: &Name) -> Result<Option<Taught>, StoreError> {
        let provider = provider.clone();
        alone!(self.writer.taught_take(provider.as_str()))
    }
}
