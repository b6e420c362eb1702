//! Looks at the database for all viewers, while there are any.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use super::found::{FoundNumbers, OVERLAP_N};
use super::hub::{HubState, TailHub};
use super::ring::{RING_N, Ring};
use crate::stop::pass;
use crate::store::StoreError;

/// Numbers that one look may find beyond those that it looks at again.
const NEW_N_MAX: usize = 20_000;
/// Events that were there before the first look, and are not told: they may have gaps that fill.
const BEGIN_N: u32 = 10_000;
/// Time for which everything is kept after the last viewer has left, so that one who comes back misses nothing.
const LINGER: Duration = Duration::from_mins(1);
/// The pause after a look is so many times as long as the look took, at least.
const PAUSE_FACTOR: u32 = 10;

impl TailHub {
    /// Looks while somebody views, until the stop.
    pub async fn run(&self) {
        let mut stop = self.0.stop.clone();
        while !stop.is_set() {
            if self.0.state().viewers_n == 0 {
                tokio::select! {
                    () = self.0.wake.notified() => {}
                    () = stop.wait() => {}
                    () = pass(LINGER) => self.0.forget(LINGER),
                }
                continue;
            }
            let began = Instant::now();
            if let Err(error) = self.poll().await {
                warn!(%error, "could not look for new events for those who view them");
            }
            let pause = self.0.poll_every.max(began.elapsed().saturating_mul(PAUSE_FACTOR));
            stop.pause(pause).await;
        }
        self.0.tell();
    }

    /// One look: what is new is put into the ring.
    pub async fn poll(&self) -> Result<(), StoreError> {
        let hub = &self.0;
        hub.polled();
        let low = hub.state().window.as_ref().map(FoundNumbers::low);
        let Some(low) = low else { return begin(hub).await };
        let limit = u32::try_from(OVERLAP_N + NEW_N_MAX).unwrap_or(u32::MAX);
        let seqs = hub.store.tail_numbers(low, limit).await?;
        let new: Vec<i64> = {
            let state = hub.state();
            let Some(window) = &state.window else { return Ok(()) };
            seqs.iter().copied().filter(|seq| !window.has(*seq)).collect()
        };
        // Read before they count as found: what could not be read is found again.
        let (left_out, told) = new.split_at(new.len().saturating_sub(RING_N));
        let counts = if left_out.is_empty() {
            BTreeMap::new()
        } else {
            hub.store.tail_providers(left_out.to_vec()).await?
        };
        let events = if told.is_empty() { Vec::new() } else { hub.store.tail_events(told.to_vec()).await? };
        let mut state = hub.state();
        if let Some(window) = &mut state.window {
            window.take(&seqs, Instant::now());
        }
        if let Some(high_seq) = left_out.last() {
            state.ring.leave_out(&counts, *high_seq);
        }
        for (event_seq, view) in events {
            state.ring.push(event_seq, view);
        }
        state.polls_n += 1;
        drop(state);
        hub.tell();
        Ok(())
    }
}

/// The first look: whatever is there is not new.
async fn begin(hub: &HubState) -> Result<(), StoreError> {
    let newest = hub.store.tail_newest(BEGIN_N).await?;
    // With fewer there is nothing below.
    let low = newest.last().filter(|_| newest.len() >= BEGIN_N as usize).copied().unwrap_or_default();
    let mut state = hub.state();
    state.ring = Ring::default();
    state.ring.begin_at(newest.first().copied().unwrap_or_default());
    state.window = Some(FoundNumbers::new(low, newest, Instant::now()));
    state.run = format!("{:08x}", fastrand::u32(..));
    state.polls_n += 1;
    drop(state);
    hub.tell();
    Ok(())
}
