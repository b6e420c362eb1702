//! The pauses after a failure and between looks.

use std::time::Duration;

use hooklatch_core::stop::pass;

/// Upper bound of the first wait after a failure, and of any.
pub(super) const PAUSE_MS: (u64, u64) = (100, 5_000);
/// Waits after the `failures_n`th failure in a row: exponential.
pub(crate) async fn pause(failures_n: u32) {
    pass(pause_for(failures_n)).await;
}

/// Returns how long to wait after the `failures_n`th failure in a row.
pub(super) fn pause_for(failures_n: u32) -> Duration {
    let (first_ms, max_ms) = PAUSE_MS;
    jittered(first_ms.saturating_mul(1 << failures_n.saturating_sub(1).min(20)).min(max_ms))
}

/// Between half and all of `bound_ms`, at least a millisecond: nodes must not march in step.
pub(super) fn jittered(bound_ms: u64) -> Duration {
    let half_ms = bound_ms.max(2) / 2;
    Duration::from_millis(half_ms + fastrand::u64(..=half_ms))
}

/// Waits between half and all of `bound_ms`.
pub(crate) async fn wait(bound_ms: u64) {
    pass(jittered(bound_ms)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_their_bound_and_are_never_shorter_than_half() {
        let (first_ms, max_ms) = PAUSE_MS;
        for (failures_n, bound_ms) in [
            (0, first_ms),
            (1, first_ms),
            (2, 200),
            (3, 400),
            (6, 3_200),
            (7, max_ms),
            (60, max_ms),
            (u32::MAX, max_ms),
        ] {
            for _ in 0..50 {
                let ms = u64::try_from(pause_for(failures_n).as_millis()).unwrap();
                assert!((bound_ms / 2..=bound_ms).contains(&ms), "{failures_n}: {ms}");
            }
        }
    }

    #[test]
    fn a_jittered_pause_is_never_zero() {
        for bound_ms in [0, 1, 2] {
            assert!(jittered(bound_ms) >= Duration::from_millis(1), "{bound_ms}");
        }
        let spread: std::collections::BTreeSet<_> = (0..100).map(|_| jittered(10_000)).collect();
        assert!(spread.len() > 20, "nodes must not march in step");
    }
}
