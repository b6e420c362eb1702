//! From a request to a believed one: verification, and the keys and confirmations that it asks for on the way.
//!
//! Verification does no I/O. Where a request names a key that nobody has yet, it says so
//! ([`VerifyError::KeyWanted`]); the key is fetched here, and the same request is verified once more. What a stranger
//! can make us do this way is bounded: two keys for each request, and every call by the budgets of `fetch/`. Nothing is
//! fetched before the kind has checked what it can check without a key, because only then does it ask for one.

use std::sync::Arc;

use tracing::info;

use super::error::ReceiveError;
use super::heavy::Heavy;
use crate::admit::ProviderEntry;
use crate::fetch::{FetchError, Fetcher, WantedKey};
use crate::json::text_of;
use crate::provider::ActiveProvider;
use crate::verify::{RawRequest, Unbelieved, Verified, VerifyError};

/// Most keys that are fetched for one request.
const KEYS_OF_REQUEST_N_MAX: usize = 2;

/// Verifies a request once: here, or on a thread of its own when its body is large.
pub(super) async fn verified(
    heavy: &Heavy,
    entry: &Arc<ProviderEntry>,
    request: RawRequest,
) -> Result<Verified, ReceiveError> {
    let bytes_n = request.body.len();
    if Heavy::is_light(bytes_n) {
        return Ok(entry.provider.believe(request)?);
    }
    let entry = Arc::clone(entry);
    let verified = heavy.done(bytes_n, move || entry.provider.believe(request)).await;
    Ok(verified.ok_or_else(interrupted)??)
}

/// Verifies a request with keys that are fetched, and confirms what it wants to have confirmed.
pub(super) async fn verified_and_confirmed(
    heavy: &Heavy,
    entry: &Arc<ProviderEntry>,
    fetcher: &Arc<Fetcher>,
    request: RawRequest,
) -> Result<Verified, ReceiveError> {
    let verified = verified_with_keys(heavy, entry, fetcher, request).await?;
    confirm(&entry.provider, fetcher, &verified).await?;
    Ok(verified)
}

/// Verifies, fetches the key that is wanted, and verifies again, for so many keys as one request may have fetched.
async fn verified_with_keys(
    heavy: &Heavy,
    entry: &Arc<ProviderEntry>,
    fetcher: &Arc<Fetcher>,
    mut request: RawRequest,
) -> Result<Verified, ReceiveError> {
    for _ in 0..KEYS_OF_REQUEST_N_MAX {
        let mut unbelieved = match verified(heavy, entry, request).await {
            Err(ReceiveError::Verify(unbelieved)) => unbelieved,
            other => return other,
        };
        let Some(wanted) = wanted(&unbelieved) else { return Err(unbelieved.into()) };
        match fetcher.fetch(&wanted).await {
            Ok(()) => request = unbelieved.request,
            Err(FetchError::NoSuchKey(more)) => {
                unbelieved.why = VerifyError::NoKey(format!("{}: {more}", unbelieved.why));
                return Err(unbelieved.into());
            }
            Err(away) => return Err(away.into()),
        }
    }
    verified(heavy, entry, request).await
}

/// The key that a verification did not have.
fn wanted(unbelieved: &Unbelieved) -> Option<WantedKey> {
    match &unbelieved.why {
        VerifyError::KeyWanted { setting, id } => {
            Some(WantedKey { setting: setting.clone(), id: id.clone() })
        }
        _ => None,
    }
}

fn interrupted() -> ReceiveError {
    ReceiveError::Keys(FetchError::Away("the verification broke off".to_owned()))
}

/// Confirms, at the sender, what a believed request wants to have confirmed.
async fn confirm(
    provider: &ActiveProvider,
    fetcher: &Arc<Fetcher>,
    verified: &Verified,
) -> Result<(), ReceiveError> {
    let body = &verified.request().body;
    let says = |pointer: &str| text_of(body, pointer).ok();
    for confirm in &provider.spec().confirm {
        if confirm.when.iter().all(|(pointer, want)| says(pointer).as_ref() == Some(want)) {
            let url = says(&confirm.url).unwrap_or_default();
            fetcher.confirm(confirm, &url).await?;
            info!(provider.name = %provider.name(), "confirmed a subscription at the sender");
        }
    }
    Ok(())
}
