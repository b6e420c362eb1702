//! Conversion of numbers to what Prometheus expects.

/// A number of things, or of bytes.
#[expect(clippy::cast_precision_loss, reason = "a gauge")]
pub(super) fn number(n: usize) -> f64 {
    n as f64
}

/// A time or a span of milliseconds in seconds.
#[expect(clippy::cast_precision_loss, reason = "a gauge")]
pub(super) fn seconds(ms: i64) -> f64 {
    ms as f64 / 1_000.0
}
