//! The wait before another try: exponential with full jitter, one rule for events and messages.
//!
//! Pure: no clock, no randomness of its own.

use crate::config::RetryConfig;
use crate::types::UnixMs;

/// Delay before attempt `attempts_n + 1`, in milliseconds: `jitter` (0.0 to 1.0) of `first_ms · 2^(attempts_n - 1)`,
/// the whole never above `max_ms`.
pub fn delay_ms(retry: &RetryConfig, attempts_n: u32, jitter: f64) -> i64 {
    let doublings = attempts_n.saturating_sub(1).min(40);
    let ceiling = retry.first_ms.saturating_mul(1 << doublings).min(retry.max_ms);
    let ceiling = u32::try_from(ceiling).unwrap_or(u32::MAX);
    // Exact: the product of a u32 and a factor up to 1 fits an f64's 53 bits.
    #[expect(clippy::cast_possible_truncation, reason = "at most u32::MAX")]
    let delay = (f64::from(ceiling) * jitter.clamp(0.0, 1.0)) as i64;
    delay.max(1)
}

/// True when `attempts_n` attempts since `first_at_ms` are all there will be.
pub fn is_exhausted(retry: &RetryConfig, attempts_n: u32, first_at_ms: UnixMs, now_ms: UnixMs) -> bool {
    let age_ms = u64::try_from(now_ms.saturating_sub(first_at_ms)).unwrap_or(0);
    attempts_n >= retry.attempts_n || age_ms >= retry.age_max_ms
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: RetryConfig =
        RetryConfig { first_ms: 1_000, max_ms: 3_600_000, attempts_n: 20, age_max_ms: 79_200_000 };

    #[test]
    fn delay_doubles_up_to_its_bound_and_never_overflows() {
        #[track_caller]
        fn check(attempts_n: u32, jitter: f64, want: i64) {
            assert_eq!(delay_ms(&RETRY, attempts_n, jitter), want);
        }
        check(1, 1.0, 1_000);
        check(2, 1.0, 2_000);
        check(2, 0.5, 1_000);
        check(12, 1.0, 2_048_000);
        check(13, 1.0, 3_600_000);
        check(u32::MAX, 1.0, 3_600_000);
        check(5, 0.0, 1);
        let absurd = RetryConfig { first_ms: u64::MAX, max_ms: u64::MAX, ..RETRY };
        assert_eq!(delay_ms(&absurd, 9, 1.0), i64::from(u32::MAX));
    }

    #[test]
    fn attempts_and_age_end_it() {
        assert!(!is_exhausted(&RETRY, 19, 0, 79_199_999));
        assert!(is_exhausted(&RETRY, 20, 0, 0));
        assert!(is_exhausted(&RETRY, 1, 0, 79_200_000));
        assert!(!is_exhausted(&RETRY, 1, 5_000, 0), "a clock that went back is no age");
    }

    #[test]
    fn delay_never_shrinks_from_one_attempt_to_the_next_and_always_is_some() {
        for (first_ms, max_ms) in [(1, 1), (1, u64::MAX), (250, 60_000), (3_600_000, 1_000)] {
            let retry = RetryConfig { first_ms, max_ms, ..RETRY };
            let delays: Vec<i64> = (0..70).map(|attempts_n| delay_ms(&retry, attempts_n, 1.0)).collect();
            assert!(delays.is_sorted(), "{first_ms} {max_ms}: {delays:?}");
            assert!(delays.iter().all(|ms| u64::try_from(*ms).expect("positive") <= max_ms.max(1)));
            assert_eq!(delays[0], delays[1], "before the first attempt it is as after it");
        }
        for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.5, 7.0] {
            assert!((1..=1_000).contains(&delay_ms(&RETRY, 1, odd)), "{odd}");
        }
        let none = RetryConfig { first_ms: 0, max_ms: 0, ..RETRY };
        assert_eq!(delay_ms(&none, 5, 1.0), 1, "never at once, or no other has a turn");
    }
}
