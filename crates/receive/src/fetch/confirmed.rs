//! The confirmations that were made. When a request is sent again, by its sender or a stranger, nothing is confirmed
//! again.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::budget::CallBudget;
use super::error::FetchError;
use hooklatch_verify::{Hash, digest};

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
