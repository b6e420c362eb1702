//! A time limit for each check, so that one that hangs does not hold up the findings of the others.

use std::time::Duration;

use super::check::Check;
use hooklatch_contract::FindingView;

/// Longest time of one look.
pub const LOOK_LIMIT: Duration = Duration::from_secs(4);
/// Longest time of a look at every page.
pub(super) const DEEP_LIMIT: Duration = Duration::from_secs(14);

/// The findings of a look, or that there was no answer in time, or why there is none.
pub async fn bounded<T, E: std::fmt::Display>(
    check: Check,
    limit: Duration,
    look: impl Future<Output = Result<T, E>>,
    judged: impl FnOnce(T) -> Vec<FindingView>,
) -> Vec<FindingView> {
    match tokio::time::timeout(limit, look).await {
        Ok(Ok(found)) => judged(found),
        Ok(Err(why)) => vec![check.unknown(format!("could not be asked: {why}"))],
        Err(_) => vec![check.unknown(format!("no answer within {} s", limit.as_secs()))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::DISK;
    use hooklatch_contract::FindingVerdict;

    #[tokio::test(start_paused = true)]
    async fn a_look_that_hangs_or_fails_is_unknown_and_no_more() {
        let never =
            bounded(DISK, LOOK_LIMIT, std::future::pending::<Result<(), String>>(), |()| Vec::new()).await;
        let failed = bounded(DISK, LOOK_LIMIT, async { Err::<(), _>("gone") }, |()| Vec::new()).await;
        for (found, words) in [(never, "no answer within 4 s"), (failed, "could not be asked: gone")] {
            assert_eq!((found[0].verdict, found[0].found.as_str()), (FindingVerdict::Unknown, words));
        }
    }
}
