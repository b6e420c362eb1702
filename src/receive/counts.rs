//! Counts how requests of a provider ended: `hooklatch_requests_total`, by handles that are made once, because looking
//! one up by its labels costs more than all else that is counted of a request.

use std::sync::OnceLock;

use metrics::Counter;

use crate::types::{Name, Outcome};

/// Number of ways in which a request ends.
const ENDS_N: usize = Outcome::ALL.len() + 3;

/// The end of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestEnd {
    /// Its events were admitted, the strongest of them with this outcome.
    Admitted(Outcome),
    /// Answered, and nothing was there to admit.
    Nothing,
    /// The request was not believed.
    Rejected,
    /// Nobody can say yet; its sender may send it again.
    Unavailable,
}

impl RequestEnd {
    /// The end of a request whose answer has this outcome.
    pub(super) fn of(outcome: Option<Outcome>) -> Self {
        outcome.map_or(Self::Nothing, Self::Admitted)
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Admitted(outcome) => outcome.as_str(),
            Self::Nothing => "none",
            Self::Rejected => "rejected",
            Self::Unavailable => "unavailable",
        }
    }

    fn place(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Rejected => 1,
            Self::Unavailable => 2,
            Self::Admitted(outcome) => 3 + outcome as usize,
        }
    }
}

/// The counters of one provider. One that never counted is not shown.
#[derive(Default)]
pub(super) struct RequestCounts([OnceLock<Counter>; ENDS_N]);

impl RequestCounts {
    /// Counts one more request of `provider` that ended so.
    pub(super) fn count(&self, provider: &Name, end: RequestEnd) {
        let Some(counter) = self.0.get(end.place()) else { return };
        let made = || metrics::counter!("hooklatch_requests_total", "provider" => provider.to_string(), "outcome" => end.as_str());
        counter.get_or_init(made).increment(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_a_place_of_its_own() {
        let others = [RequestEnd::Nothing, RequestEnd::Rejected, RequestEnd::Unavailable];
        let ends =
            others.into_iter().chain(Outcome::ALL.iter().map(|outcome| RequestEnd::Admitted(*outcome)));
        let mut places: Vec<usize> = ends.map(RequestEnd::place).collect();
        places.sort_unstable();
        assert_eq!(places, (0..ENDS_N).collect::<Vec<_>>());
    }
}
