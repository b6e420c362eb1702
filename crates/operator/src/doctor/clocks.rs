//! Our clock against the database's, and against the times that senders sign.

use super::check::{CLOCK_DATABASE, CLOCK_SENDERS};
use hooklatch_contract::FindingView;

/// Far enough for NTP to be at fault. Milliseconds.
const APART_MS: i64 = 1_000;
/// A request that arrives so long before its signed time is a warning, and a failure. Milliseconds.
const BEFORE_MS: [i64; 2] = [2_000, 60_000];
/// When every request arrives later than this after its signed time, that is a warning, and a failure. Milliseconds.
const AFTER_MS: [i64; 2] = [30_000, 120_000];
/// Fewest requests from which delays are judged.
const REQUESTS_N: usize = 3;

const REMEDY: &str = "chronyc tracking, or timedatectl: let NTP set the clocks";

/// The database's clock minus ours, against the distance at which a start is refused.
pub(super) fn database_clock(offset_ms: i64, max_ms: i64, dialect: &str) -> FindingView {
    if dialect == "sqlite" {
        return CLOCK_DATABASE.well("SQLite has none of its own");
    }
    let apart_ms = offset_ms.saturating_abs();
    let way = if offset_ms < 0 { "behind" } else { "ahead" };
    CLOCK_DATABASE
        .graded(
            format!("the database's is {apart_ms} ms {way}"),
            (apart_ms > APART_MS, apart_ms > max_ms),
            REMEDY,
        )
        .against(format!("{APART_MS} ms; a start is refused beyond {max_ms} ms"))
}

/// Finding about the delays between signing and arrival of a provider's newest requests; `None` without delays: it
/// signs no times, or has sent nothing.
pub(crate) fn senders_clock(provider: &str, delays_ms: &[i64]) -> Option<FindingView> {
    let least_ms = delays_ms.iter().copied().min()?;
    let requests_n = delays_ms.len();
    let finding = if least_ms < 0 {
        let words = format!(
            "a request arrived {} ms before it was signed: our clock is behind, or the sender's ahead",
            -least_ms
        );
        let [warns, fails] = BEFORE_MS;
        CLOCK_SENDERS.graded(words, (least_ms < -warns, least_ms < -fails), REMEDY)
    } else {
        let words =
            format!("of {requests_n} requests none arrived sooner than {least_ms} ms after it was signed");
        let [warns, fails] = AFTER_MS;
        // A few requests that a sender repeats long after it signed them say nothing about clocks.
        let is_many = requests_n >= REQUESTS_N;
        let grade = (is_many && least_ms > warns, is_many && least_ms > fails);
        CLOCK_SENDERS.graded(
            words,
            grade,
            "our clock is ahead (chronyc tracking), or something holds requests back on the way",
        )
    };
    Some(finding.about(provider))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_contract::FindingVerdict::{self, Failure, Warning, Well};

    #[test]
    fn a_wrong_clock_is_reported_with_its_offset() {
        #[track_caller]
        fn check(offset_ms: i64, want: FindingVerdict) {
            let found = database_clock(offset_ms, 30_000, "postgres");
            assert_eq!(found.verdict, want, "{offset_ms}");
            assert!(found.found.contains(&offset_ms.abs().to_string()));
        }
        check(0, Well);
        check(-1_000, Well);
        check(1_001, Warning);
        check(-1_001, Warning);
        check(30_001, Failure);
        check(-30_001, Failure);
        assert_eq!(database_clock(0, 30_000, "sqlite").verdict, Well);
    }

    #[test]
    fn the_least_delay_of_several_requests_separates_a_wrong_clock_from_a_slow_network() {
        #[track_caller]
        fn check(delays_ms: &[i64], want: Option<FindingVerdict>) {
            assert_eq!(senders_clock("stripe", delays_ms).map(|found| found.verdict), want, "{delays_ms:?}");
        }
        check(&[], None);
        check(&[120, 900_000, 5_000], Some(Well));
        check(&[-1_999], Some(Well));
        check(&[120, -2_001], Some(Warning));
        check(&[-60_001], Some(Failure));
        check(&[40_000, 90_000], Some(Well));
        check(&[40_000, 90_000, 31_000], Some(Warning));
        check(&[121_000; 8], Some(Failure));
    }
}
