//! `tolerance_s` and `max_age_s` of `[providers.NAME]`: how old a signed time may be.

use super::field::{Checker, Table};
use super::load::KindFacts;

/// Longest that a request may have been under way. Seconds; no longer than the shortest retention of ids.
const TOLERANCE_S_MAX: u64 = 86_400;
/// Shortest bound of a time that its sender bounds nowhere: its first attempt has to pass. Seconds.
const AGE_S_MIN: u64 = 60;
/// Longest. Seconds; what a kind without a bound counts as.
const AGE_S_MAX: u64 = 400 * 86_400;

/// How old a signed time may be where the operator says so. Seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AgeConfig {
    /// Instead of the kind's own tolerance.
    pub tolerance_s: Option<u32>,
    /// Where the sender signs a time and bounds its age nowhere.
    pub max_age_s: Option<u32>,
}

/// The two keys, of which a kind has one at most.
pub(super) fn age(checker: &mut Checker<'_>, table: &mut Table, facts: Option<&KindFacts>) -> AgeConfig {
    let (tolerance, max_age) = (table.take(checker, "tolerance_s"), table.take(checker, "max_age_s"));
    // What is wrong with the kind is told already.
    let Some(facts) = facts else { return AgeConfig::default() };
    let mut age = AgeConfig::default();
    if let Some(field) = tolerance {
        match (facts.tolerance_s, facts.is_age_unchecked) {
            (Some(_), _) => {
                let tolerance_s = field.number(checker, &(1..=TOLERANCE_S_MAX));
                age.tolerance_s = tolerance_s.and_then(|s| u32::try_from(s).ok());
            }
            (None, true) => {
                let why = "this kind's sender says nowhere how old a signed time may be";
                checker.problem_shown(&field, why, "write max_age_s, which sets a bound of your own");
            }
            (None, false) => {
                let why = "this kind knows no signed time whose age it could check";
                checker.problem_shown(&field, why, "leave it out");
            }
        }
    }
    if let Some(field) = max_age {
        match (facts.is_age_unchecked, facts.tolerance_s) {
            (true, None) => {
                let max_age_s = field.number(checker, &(AGE_S_MIN..=AGE_S_MAX));
                age.max_age_s = max_age_s.and_then(|s| u32::try_from(s).ok());
            }
            (_, Some(tolerance_s)) => {
                let why = format!("this kind's sender has a bound of its own, {tolerance_s} s");
                checker.problem_shown(&field, why, "write tolerance_s to widen or narrow that");
            }
            (false, None) => {
                let why = "this kind knows no signed time whose age it could check";
                checker.problem_shown(&field, why, "leave it out");
            }
        }
    }
    age
}
