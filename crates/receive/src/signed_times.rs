//! How long after it was signed a request was received, by our clock: the newest few of each provider, in memory.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use hooklatch_core::types::UnixMs;
use hooklatch_verify::happened_ms;

/// Number of requests that are remembered.
const KEPT_N: usize = 8;
/// Stands for no request. Milliseconds.
const NONE: i64 = i64::MIN;

/// The delays of one provider's newest requests.
pub struct SignedTimes {
    next: AtomicUsize,
    delays_ms: [AtomicI64; KEPT_N],
}

impl SignedTimes {
    pub fn new() -> Self {
        Self { next: AtomicUsize::new(0), delays_ms: [const { AtomicI64::new(NONE) }; KEPT_N] }
    }

    /// Notes a believed request. A time that cannot be read is left out.
    pub fn note(&self, signed: &str, received_at_ms: UnixMs) {
        let Some(signed_at_ms) = happened_ms(signed) else { return };
        let place = self.next.fetch_add(1, Ordering::Relaxed) % KEPT_N;
        if let Some(kept) = self.delays_ms.get(place) {
            kept.store(received_at_ms.saturating_sub(signed_at_ms), Ordering::Relaxed);
        }
    }

    /// The delays in no order. Milliseconds; negative when our clock says that it was received before it was signed.
    pub fn delays_ms(&self) -> Vec<i64> {
        let all = self.delays_ms.iter().map(|kept| kept.load(Ordering::Relaxed));
        all.filter(|delay_ms| *delay_ms != NONE).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_delays_are_kept_whatever_form_the_times_have() {
        let times = SignedTimes::new();
        assert!(times.delays_ms().is_empty());
        for (signed, delay_ms) in
            [("1795356311", 500), ("1795356311500", 0), ("2026-11-22T14:05:12Z", -500), ("no time", 0)]
        {
            times.note(signed, 1_795_356_311_500);
            assert!(times.delays_ms().contains(&delay_ms), "{signed}");
        }
        assert_eq!(times.delays_ms().len(), 3);
        for _ in 0..KEPT_N {
            times.note("1795356311", 1_795_356_313_000);
        }
        assert_eq!(times.delays_ms(), [2_000; KEPT_N]);
    }
}
