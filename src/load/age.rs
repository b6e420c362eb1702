//! `tolerance_s` and `max_age_s` of `[providers.NAME]`: how old a signed time may be.

use crate::config::{AgeConfig, Checker, Table};
use crate::spec::Spec;

/// Longest that a request may have been under way, unless the kind allows for more. Seconds; no longer than the shortest
/// retention of ids.
const TOLERANCE_S_MAX: u64 = 86_400;
/// Shortest bound of a time that its sender bounds nowhere: its first attempt has to pass. Seconds.
const AGE_S_MIN: u64 = 60;
/// Longest. Seconds; what a kind without a bound counts as.
const AGE_S_MAX: u64 = 400 * 86_400;

/// The two keys, of which a kind has one at most.
pub(super) fn age(checker: &mut Checker<'_>, table: &mut Table, spec: Option<&Spec>) -> AgeConfig {
    let (tolerance, max_age) = (table.take(checker, "tolerance_s"), table.take(checker, "max_age_s"));
    // What is wrong with the kind is told already.
    let Some(spec) = spec else { return AgeConfig::default() };
    let (kinds_own_s, is_unbounded) = (spec.tolerance_s(), spec.is_age_unchecked());
    let mut age = AgeConfig::default();
    if let Some(field) = tolerance {
        match (kinds_own_s, is_unbounded) {
            (Some(own_s), _) => {
                let tolerance_s = field.number(checker, &(1..=TOLERANCE_S_MAX.max(own_s.into())));
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
        match (is_unbounded, kinds_own_s) {
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
