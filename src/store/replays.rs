//! What is kept of signed bytes that come again under other ids. Whoever holds one signed request can go on for ever, so
//! only so many copies have a row: the first one stands, and the others are for people to look at.

use sha2::{Digest, Sha256};

use super::admission::{Admission, EventInsert};
use super::{StoreError, TxKind, limit, postgres, sqlite};
use crate::types::{BodyDigest, EventState, IncomingEvent};

/// Most copies under other ids that are recorded of the same signed bytes.
const REPLAYS_N_MAX: u8 = 16;

/// The replay keys of the rows that copies of these bytes may take up, so that the index which keeps the first one alone
/// bounds the others: digests, that no signed bytes have.
fn places(first: &BodyDigest) -> Vec<BodyDigest> {
    let place =
        |n: u8| Sha256::new_with_prefix(b"replayed").chain_update(first).chain_update([n]).finalize().into();
    (0..REPLAYS_N_MAX).map(place).collect()
}

impl Admission {
    /// Leaves a row of another copy, unless there are enough of those bytes.
    pub(super) async fn replay_record(&mut self, event: &IncomingEvent) -> Result<(), StoreError> {
        let places = event.replay_key.as_ref().map(places).unwrap_or_default();
        let taken = in_tx!(self.tx, replay_keys_taken(&event.key.provider, &places))?;
        for place in places.iter().filter(|place| !taken.iter().any(|one| one.as_slice() == place.as_slice()))
        {
            let row = EventInsert { event, state: EventState::Replayed, replay_key: Some(*place) };
            // Another node may have taken it meanwhile.
            if !in_tx!(self.tx, events_insert(&[row]))?.is_empty() {
                return Ok(());
            }
        }
        let provider = event.key.provider.to_string();
        metrics::counter!("hooklatch_replays_unrecorded_total", "provider" => provider).increment(1);
        Ok(())
    }
}
