//! How long to wait after a failure, and between looks.

use std::time::Duration;

use crate::stop::pass;

/// Upper bound of the first wait after a failure, and of any.
pub(super) const PAUSE_MS: (u64, u64) = (100, 5_000);
/// Waits after the `failures_n`th failure in a row: exponential.
pub(super) async fn pause(failures_n: u32) {
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
pub(super) async fn wait(bound_ms: u64) {
    pass(jittered(bound_ms)).await;
}
