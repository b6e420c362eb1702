//! Deletes the bytes as received of redacted events once nothing is to be made of them any more.

use std::time::Duration;

use tracing::warn;

use hooklatch_core::stop::Stop;
use hooklatch_store::{Store, StoreError};

/// Time between two looks. So long, and as long as one look takes, such bytes are there at most when they are no longer
/// needed.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Rows of one transaction.
const BATCH_N: u32 = 500;

/// Looks again and again until `stop`; any number of nodes may.
pub async fn delete_wholes(store: &Store, mut stop: Stop) {
    while !stop.pause(LOOK_EVERY).await {
        if let Err(error) = look(store).await {
            warn!(%error, "could not delete what redacted events are no longer needed with");
        }
    }
}

async fn look(store: &Store) -> Result<(), StoreError> {
    let mut after = Some(0);
    while let Some(place) = after {
        after = store.wholes_delete(place, BATCH_N).await?;
    }
    Ok(())
}
