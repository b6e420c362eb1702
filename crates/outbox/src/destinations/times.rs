//! The time that one call to a destination may take, so that it ends well before the lease of its message does.

use hooklatch_core::types::UnixMs;

/// The times of calls to one destination. Milliseconds.
#[expect(clippy::struct_field_names, reason = "quantities end in their unit")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Longest time from connecting to the last byte of a call. Milliseconds, from 1.
    pub timeout_ms: u64,
    /// The same for a question; a question and a call fit into one lease. Milliseconds, from 1.
    pub(crate) ask_timeout_ms: u64,
    /// The time that must be left of the lease after a call. Milliseconds.
    pub(crate) margin_ms: u64,
    /// Time after which a lease is prolonged while a call is under way. Milliseconds; `None`: never, because the call
    /// fits into it.
    pub(crate) beat_ms: Option<u64>,
}

impl Times {
    /// Keeps a call, and a question before it, inside the lease, whatever was configured.
    pub fn within(lease_ms: u64, timeout_ms: u64) -> Self {
        let margin_ms = lease_ms / 20;
        let timeout_ms = timeout_ms.min(lease_ms - 2 * margin_ms).max(1);
        let rest_ms = lease_ms.saturating_sub(timeout_ms + 2 * margin_ms);
        let ask_timeout_ms = timeout_ms.min(rest_ms.max(margin_ms / 2)).max(1);
        Self { timeout_ms, ask_timeout_ms, margin_ms, beat_ms: None }
    }

    /// Times of calls that may outlast the lease, which is prolonged four times in its length.
    pub(super) fn with_heartbeat(lease_ms: u64, timeout_ms: u64) -> Self {
        let within = Self::within(lease_ms, timeout_ms);
        Self { timeout_ms: timeout_ms.max(1), beat_ms: Some((lease_ms / 4).max(1)), ..within }
    }

    /// True when a call that starts now ends, at its slowest, well before the lease does.
    pub fn fit(self, lease_until_ms: UnixMs, now_ms: UnixMs) -> bool {
        let left_ms = u64::try_from(lease_until_ms.saturating_sub(now_ms)).unwrap_or(0);
        let needed_ms = match self.beat_ms {
            // Until the first beats are written, late ones included.
            Some(beat_ms) => self.timeout_ms.min(2 * beat_ms),
            None => self.timeout_ms,
        };
        left_ms >= needed_ms + self.margin_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_and_a_call_fit_into_one_lease() {
        #[track_caller]
        fn check(lease_ms: u64, timeout_ms: u64, want: (u64, u64)) {
            let times = Times::within(lease_ms, timeout_ms);
            assert_eq!((times.timeout_ms, times.ask_timeout_ms), want);
            assert!(
                times.timeout_ms + times.ask_timeout_ms + times.margin_ms <= lease_ms.max(2),
                "{times:?}"
            );
        }
        check(30_000, 10_000, (10_000, 10_000));
        check(30_000, 20_000, (20_000, 7_000));
        check(30_000, 26_500, (26_500, 750));
        check(30_000, 29_999, (27_000, 750));
        check(30_000, u64::MAX, (27_000, 750));
        check(1_000, 100, (100, 100));
        check(1, 1, (1, 1));
    }

    #[test]
    fn a_call_that_could_outlive_its_lease_is_not_started() {
        let times = Times::within(30_000, 10_000);
        assert!(times.fit(30_000, 0));
        assert!(times.fit(30_000, 18_500));
        assert!(!times.fit(30_000, 18_501));
        assert!(!times.fit(30_000, 60_000));
        assert!(!times.fit(i64::MIN, i64::MAX));
    }
}
