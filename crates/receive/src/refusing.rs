//! Since when this node refuses what it believes: the database is away, or there is no room.

use std::sync::atomic::{AtomicI64, Ordering};

use super::counts::RequestEnd;
use hooklatch_core::types::UnixMs;

/// Since when every request that could have been admitted was answered 5xx. 0: none was, or one was admitted since.
///
/// What strangers are answered says nothing about that, nor does a handshake: neither needs the database.
#[derive(Default)]
pub struct RefusingSince {
    since_ms: AtomicI64,
    /// When the last one was refused.
    last_ms: AtomicI64,
}

/// How long a node that could admit again counts as refusing after its last refusal: a sender that is quiet by nature
/// would otherwise be asked to give up on a receiver that is well.
const OVER_AFTER_MS: i64 = 300_000;

impl RefusingSince {
    /// A request ended so at this time.
    pub fn ended(&self, end: RequestEnd, at_ms: UnixMs) {
        match end {
            // Read first: while all is well nothing is written that others share.
            RequestEnd::Admitted(_) if self.since_ms() != 0 => self.since_ms.store(0, Ordering::Relaxed),
            RequestEnd::Unavailable => self.refused(at_ms),
            RequestEnd::Admitted(_) | RequestEnd::Nothing | RequestEnd::Rejected | RequestEnd::Refused => {}
        }
    }

    fn refused(&self, at_ms: UnixMs) {
        // An error says that it was refused before.
        let _since = self.since_ms.compare_exchange(0, at_ms, Ordering::Relaxed, Ordering::Relaxed);
        self.last_ms.store(at_ms, Ordering::Relaxed);
    }

    fn since_ms(&self) -> UnixMs {
        self.since_ms.load(Ordering::Relaxed)
    }

    /// Since when at this time; 0 also when the node is ready again and refused nothing for five minutes.
    pub fn at_ms(&self, now_ms: UnixMs, is_ready: bool) -> UnixMs {
        let is_over = is_ready && now_ms - self.last_ms.load(Ordering::Relaxed) > OVER_AFTER_MS;
        if is_over { 0 } else { self.since_ms() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_core::types::Outcome;

    #[test]
    fn it_is_over_without_a_request_when_the_node_is_ready_and_refused_nothing_for_five_minutes() {
        let refusing = RefusingSince::default();
        refusing.refused(1_000);
        refusing.refused(61_000);
        let looks = [
            (361_000, true, 1_000, "not yet"),
            (361_001, true, 0, "ready"),
            (361_001, false, 1_000, "the database is away, and nobody asks"),
            (999_000, false, 1_000, "for long"),
        ];
        for (now_ms, is_ready, want, why) in looks {
            assert_eq!(refusing.at_ms(now_ms, is_ready), want, "{why}");
        }
    }

    #[test]
    fn it_begins_with_the_first_refusal_and_ends_with_the_first_admission() {
        let refusing = RefusingSince::default();
        let ends = [
            (RequestEnd::Admitted(Outcome::Accepted), 1, 0),
            (RequestEnd::Unavailable, 2, 2),
            (RequestEnd::Unavailable, 3, 2),
            (RequestEnd::Rejected, 4, 2),
            (RequestEnd::Nothing, 5, 2),
            (RequestEnd::Admitted(Outcome::Duplicate), 6, 0),
            (RequestEnd::Rejected, 7, 0),
            (RequestEnd::Unavailable, 8, 8),
        ];
        for (end, at_ms, want) in ends {
            refusing.ended(end, at_ms);
            assert_eq!(refusing.since_ms(), want, "after {end:?} at {at_ms}");
        }
    }
}
