//! Checks now and then what no message shows: how far our clock is from the database's, and which pauses have ended.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use tokio::time::Instant;
use tracing::{info, warn};

use super::state::OutboxState;
use crate::timing::jittered;
use hooklatch_core::stop::Stop;
use hooklatch_core::types::{Clock, UnixMs};
use hooklatch_store::{Look, PausesEnded, Store, StoreError};

/// Longest time between two looks; the shortest is half of it. Milliseconds.
const WATCH_MS: u64 = 30_000;
/// However long a lease is: senders' signatures and our own are judged by the clock. Milliseconds.
const CLOCK_OFFSET_MS_MAX: i64 = 120_000;

/// Returns how far our clock may be from the database's. The database's clock alone decides leases, due times and
/// `query.after_ms`; signed times, the ages that operators see and what a lock step of old and new versions would do to
/// leases go by ours. So it is a lease, and never more than two minutes. Milliseconds.
pub fn clock_offset_ms_max(lease_ms: u64) -> i64 {
    i64::try_from(lease_ms).unwrap_or(i64::MAX).min(CLOCK_OFFSET_MS_MAX)
}

/// What one query shows of the database's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockOffset {
    /// The database's clock minus ours. Milliseconds.
    pub offset_ms: i64,
    /// How far it may be away. Milliseconds.
    pub max_ms: i64,
    /// Time from the question to its answer: the database looked somewhere in between.
    took: Duration,
}

impl ClockOffset {
    /// As a look of this node found it.
    fn of(look: &Look, lease_ms: u64) -> Self {
        let took = Duration::from_millis(look.took_ms.unsigned_abs());
        Self { offset_ms: look.clock_offset_ms, max_ms: clock_offset_ms_max(lease_ms), took }
    }

    /// Asks the database for its time; `lease_ms` bounds how far that may be away.
    pub async fn ask(store: &Store, clock: &Clock, lease_ms: u64) -> Result<Self, StoreError> {
        let (before_ms, ticks_ms) = (clock.now_ms(), clock.ticks_ms());
        let offset_ms = store.clock_offset_ms(before_ms).await?;
        let took_ms = clock.ticks_ms().saturating_sub(ticks_ms);
        let offset_ms = offset_ms.saturating_sub(took_ms / 2);
        let took = Duration::from_millis(took_ms.unsigned_abs());
        Ok(Self { offset_ms, max_ms: clock_offset_ms_max(lease_ms), took })
    }

    /// True when it is too far away, however slow the answer was.
    pub fn is_far(self) -> bool {
        let took_ms = i64::try_from(self.took.as_millis()).unwrap_or(i64::MAX);
        self.offset_ms.saturating_abs() > self.max_ms.saturating_add(took_ms)
    }
}

/// The clock's watch, with the finding of its last look: it is not logged at every look.
pub(crate) struct Watch {
    shared: Arc<OutboxState>,
    is_far: bool,
}

impl Watch {
    pub(crate) fn new(shared: Arc<OutboxState>) -> Self {
        Self { shared, is_far: false }
    }

    /// Looks until the stop. What is being asked of the database is awaited to its end.
    pub(crate) async fn run(mut self, mut stop: Stop) {
        while !stop.is_set() {
            if AssertUnwindSafe(self.look()).catch_unwind().await.is_err() {
                self.shared.panicked("watch");
            }
            stop.pause(jittered(WATCH_MS)).await;
        }
    }

    async fn look(&mut self) {
        let look = self.shared.store.node().subscribe().latest();
        let ended = match self.look_at_clock(look.as_ref()).await {
            Ok(_) if look.is_some_and(|look| look.pause_ends.is_none_or(|at| at > Instant::now())) => return,
            Ok(now_ms) => self.shared.store.pauses_end(now_ms).await,
            Err(error) => return warn!(%error, "could not compare our clock with the database's"),
        };
        match ended {
            Ok(ended) if ended == PausesEnded::default() => {}
            Ok(PausesEnded { destinations, providers }) => {
                info!(?destinations, ?providers, "pauses ended; destinations and providers resumed");
                self.shared.wake.notify_one();
            }
            Err(error) => warn!(%error, "could not look for pauses that have ended"),
        }
    }

    /// Returns the time by the database's clock, which is the same for all nodes.
    async fn look_at_clock(&mut self, look: Option<&Look>) -> Result<UnixMs, StoreError> {
        let (clock, lease_ms) = (&self.shared.clock, self.shared.config.lease_ms);
        let found = match look {
            Some(look) => ClockOffset::of(look, lease_ms),
            None => ClockOffset::ask(&self.shared.store, clock, lease_ms).await?,
        };
        let ClockOffset { offset_ms, max_ms, .. } = found;
        let offset = Duration::from_millis(offset_ms.unsigned_abs()).as_secs_f64();
        metrics::gauge!("hooklatch_clock_offset_seconds").set(if offset_ms < 0 { -offset } else { offset });
        let is_far = found.is_far();
        if is_far {
            warn!(offset_ms, max_ms, "clock of the database is far from ours: set one of them right");
        } else if self.is_far {
            info!(offset_ms, "clock of the database is near ours again");
        }
        self.is_far = is_far;
        Ok(clock.now_ms().saturating_add(offset_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_may_be_off_by_a_lease_and_never_by_more_than_two_minutes() {
        for (lease_ms, max_ms) in
            [(0, 0), (30_000, 30_000), (120_000, 120_000), (600_000, 120_000), (u64::MAX, 120_000)]
        {
            assert_eq!(clock_offset_ms_max(lease_ms), max_ms);
        }
    }

    #[test]
    fn a_slow_answer_does_not_make_a_clock_wrong() {
        let is_far = |offset_ms, took_ms| {
            ClockOffset { offset_ms, max_ms: 1_500, took: Duration::from_millis(took_ms) }.is_far()
        };
        assert_eq!([is_far(1_500, 0), is_far(-1_501, 0), is_far(3_000, 1_500)], [false, true, false]);
        assert!(is_far(3_001, 1_500) && is_far(i64::MIN, 0));
    }
}
