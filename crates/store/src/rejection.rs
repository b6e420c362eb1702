//! Records about requests for operators: why some failed verification, and which secrets still match.

use std::collections::BTreeSet;

use super::db::{DbResult, Executor, Row, StoreError};
use super::handle::Store;
use hooklatch_core::types::UnixMs;

/// Requests that are kept of each provider: the newest.
pub const REJECTIONS_N_MAX: u32 = 100;

/// A request that failed verification, redacted.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Rejection {
    /// Id of the rejection: a `UUIDv7`.
    pub rejection_id: String,
    /// Name of the provider that it was for.
    pub provider: String,
    /// Time when its last byte was received.
    pub received_at_ms: UnixMs,
    /// Step that failed: `request`, `address`, `header`, `timestamp`, `secret` or `signature`.
    pub step: String,
    /// Reason, as one word of a closed set.
    pub reason: String,
    /// Reason, for operators, with its numbers.
    pub detail: String,
    /// Its headers as a JSON object, secrets and signatures blanked.
    pub headers: String,
    /// SHA-256 of its body, in hexadecimal; empty where it was not read.
    pub body_digest: String,
    /// Length of its body. Bytes.
    pub body_bytes_n: i64,
    /// Address of the client; `None` where it is not known.
    pub client_address: Option<String>,
}

/// Count of the requests that one secret matched, with the time of the last one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretUse {
    /// Name of the provider whose secret it is.
    pub provider: String,
    /// Fingerprint that the secret goes by.
    pub fingerprint: String,
    /// Number of requests that it matched.
    pub matched_n: i64,
    /// Time when the last one was received.
    pub last_matched_at_ms: UnixMs,
}

/// A secret that a sender sent in a pairing, until an operator has read it.
#[derive(Clone, PartialEq, Eq)]
pub struct PairingSecret {
    /// Name of the provider whose secret it is.
    pub provider: String,
    /// The secret as the sender gave it.
    pub secret: String,
    /// Time at which it was received.
    pub paired_at_ms: UnixMs,
}

impl std::fmt::Debug for PairingSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PairingSecret").field("provider", &self.provider).finish_non_exhaustive()
    }
}

impl Store {
    /// Keeps these, and of each of their providers the newest [`REJECTIONS_N_MAX`].
    pub async fn rejections_insert(&self, rejections: &[Rejection]) -> Result<(), StoreError> {
        if rejections.is_empty() {
            return Ok(());
        }
        let rejections = rejections.to_vec();
        together!(self, writer, "rejections_insert", |db| {
            let sql = "/* rejections_insert */ INSERT INTO rejected_requests
                    (rejection_id, provider, received_at_ms, step, reason, detail, headers, body_digest, body_bytes_n,
                     client_address)
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING";
            let mut providers = BTreeSet::new();
            for one in rejections {
                let digest = hex::decode(&one.body_digest).unwrap_or_default();
                providers.insert(one.provider.clone());
                let values = [
                    one.rejection_id.into(),
                    one.provider.into(),
                    one.received_at_ms.into(),
                    one.step.into(),
                    one.reason.into(),
                    one.detail.into(),
                    one.headers.into(),
                    digest.into(),
                    one.body_bytes_n.into(),
                    one.client_address.into(),
                ];
                db.execute(sql, &values).await?;
            }
            let sql = "/* rejections_insert */ DELETE FROM rejected_requests WHERE provider = $1 AND rejection_id < (
                    SELECT MIN(rejection_id) FROM (
                        SELECT rejection_id FROM rejected_requests WHERE provider = $1
                        ORDER BY rejection_id DESC LIMIT $2) newest)";
            for provider in providers {
                db.execute(sql, &[provider.into(), REJECTIONS_N_MAX.into()]).await?;
            }
            Ok(())
        })
    }

    /// Adds counts of secrets that matched; the later time stays.
    pub async fn secret_uses_add(&self, uses: &[SecretUse]) -> Result<(), StoreError> {
        if uses.is_empty() {
            return Ok(());
        }
        let uses = uses.to_vec();
        together!(self, writer, "secret_uses_add", |db| {
            let sql = "/* secret_uses_add */ INSERT INTO secret_uses AS s (provider, fingerprint, matched_n, last_matched_at_ms)
                VALUES ($1, $2, $3, $4)
                ON CONFLICT (provider, fingerprint) DO UPDATE SET
                    matched_n = s.matched_n + excluded.matched_n,
                    last_matched_at_ms = GREATEST(s.last_matched_at_ms, excluded.last_matched_at_ms)";
            for one in uses {
                let (provider, fingerprint) = (one.provider.into(), one.fingerprint.into());
                let (matched_n, last) = (one.matched_n.into(), one.last_matched_at_ms.into());
                db.execute(sql, &[provider, fingerprint, matched_n, last]).await?;
            }
            Ok(())
        })
    }

    /// Stores the secret of a pairing; it replaces an earlier one of the same provider.
    pub async fn pairing_secret_keep(&self, pairing: PairingSecret) -> Result<(), StoreError> {
        alone!(self, writer, "pairing_secret_keep", |db| {
            let sql = "/* pairing_secret_keep */ INSERT INTO pairing_secrets (provider, secret, paired_at_ms) VALUES ($1, $2, $3)
                ON CONFLICT (provider) DO UPDATE SET secret = excluded.secret, paired_at_ms = excluded.paired_at_ms";
            let values = [pairing.provider.into(), pairing.secret.into(), pairing.paired_at_ms.into()];
            db.execute(sql, &values).await.map(drop)
        })
    }
}

/// Returns the uses of secrets: a row for each that ever matched.
pub(super) async fn secret_use_list(db: &mut Executor<'_>) -> DbResult<Vec<SecretUse>> {
    let sql =
        "/* secret_use_list */ SELECT provider, fingerprint, matched_n, last_matched_at_ms FROM secret_uses
        ORDER BY provider, fingerprint LIMIT 10000";
    let used = |row: &Row| {
        Ok(SecretUse {
            provider: row.text("provider")?,
            fingerprint: row.text("fingerprint")?,
            matched_n: row.int("matched_n")?,
            last_matched_at_ms: row.int("last_matched_at_ms")?,
        })
    };
    db.fetch(sql, &[]).await?.iter().map(used).collect()
}
