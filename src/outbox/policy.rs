//! What happens to a message after one attempt. No clock, no database, no randomness: tables test it all.

use crate::backoff;
use crate::config::{RetryConfig, UnknownPolicy};
use crate::types::{AttemptResult, UnixMs};

/// Shortest wait that a `Retry-After` can ask for; 0 or a past date mean "soon", not "at once".
const RETRY_AFTER_MS_MIN: i64 = 1_000;

/// What the far side said, or what is known in its absence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// A status line came.
    Status {
        code: u16,
        /// From `Retry-After`, relative to now.
        retry_after_ms: Option<i64>,
    },
    /// Surely not executed: no connection, no TLS, no such host.
    NotSent { why: String },
    /// The request was written and nobody knows what became of it.
    Unknown { why: String },
}

/// What the policy needs to know of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    /// This attempt included.
    pub(super) attempt_n: u32,
    pub(super) first_sent_at_ms: UnixMs,
    pub(super) key_valid_until_ms: UnixMs,
    pub(super) now_ms: UnixMs,
    /// 0.0 to 1.0.
    pub(super) jitter: f64,
}

/// What is done with the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Done,
    RetryAt { at_ms: UnixMs },
    Dead,
    Held,
}

/// A step with the result and the reason that are recorded with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) step: Step,
    pub(super) result: AttemptResult,
    pub(super) http_status: Option<u16>,
    pub(super) error: Option<String>,
}

/// How a destination is treated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules<'a> {
    pub(super) retry: &'a RetryConfig,
    pub(super) unknown: &'a UnknownPolicy,
    pub(super) retry_after_ms_max: i64,
}

/// Decides what `answer` means for a message of these `facts`.
pub(super) fn next_step(answer: &Answer, facts: &Facts, rules: &Rules<'_>) -> Decision {
    match answer {
        Answer::Status { code: 200..=299, .. } => decided(Step::Done, AttemptResult::Done, answer, None),
        Answer::Status { code: 408 | 425 | 429 | 500..=599, retry_after_ms } => {
            again(answer, facts, rules, *retry_after_ms)
        }
        Answer::Status { code, .. } => {
            let why = match code {
                300..=399 => "redirects are not followed",
                _ => "refused for good",
            };
            decided(Step::Dead, AttemptResult::Refused, answer, Some(format!("answered {code}: {why}")))
        }
        Answer::NotSent { .. } => again(answer, facts, rules, None),
        Answer::Unknown { why } => match rules.unknown {
            UnknownPolicy::Hold => decided(Step::Held, AttemptResult::Unknown, answer, Some(why.clone())),
            UnknownPolicy::Retry | UnknownPolicy::Query(_) => again(answer, facts, rules, None),
        },
    }
}

/// Another attempt later, unless attempts, age or the far side's memory of the key are at their end.
fn again(answer: &Answer, facts: &Facts, rules: &Rules<'_>, retry_after_ms: Option<i64>) -> Decision {
    let (result, why) = match answer {
        Answer::Status { code, .. } => (AttemptResult::Retry, format!("answered {code}")),
        Answer::NotSent { why } => (AttemptResult::Retry, why.clone()),
        Answer::Unknown { why } => (AttemptResult::Unknown, why.clone()),
    };
    if backoff::is_exhausted(rules.retry, facts.attempt_n, facts.first_sent_at_ms, facts.now_ms) {
        // With `query` a person has to say what nobody could find out.
        let is_open_question =
            result == AttemptResult::Unknown && matches!(rules.unknown, UnknownPolicy::Query(_));
        let step = if is_open_question { Step::Held } else { Step::Dead };
        return decided(step, result, answer, Some(format!("{why}; attempts or age are used up")));
    }
    let own_ms = backoff::delay_ms(rules.retry, facts.attempt_n, facts.jitter);
    let delay_ms = match retry_after_ms {
        Some(asked_ms) => {
            asked_ms.clamp(RETRY_AFTER_MS_MIN, rules.retry_after_ms_max.max(RETRY_AFTER_MS_MIN))
        }
        None => own_ms,
    };
    let at_ms = facts.now_ms.saturating_add(delay_ms);
    decided(Step::RetryAt { at_ms }, result, answer, Some(why))
}

fn decided(step: Step, result: AttemptResult, answer: &Answer, error: Option<String>) -> Decision {
    let http_status = match answer {
        Answer::Status { code, .. } => Some(*code),
        _ => None,
    };
    Decision { step, result, http_status, error }
}

/// `Err(why)` when a leased message must not be sent by itself, however it got here.
pub(super) fn may_send(facts: &Facts, is_outcome_open: bool, unknown: &UnknownPolicy) -> Result<(), String> {
    if is_outcome_open && *unknown == UnknownPolicy::Hold {
        return Err(
            "an earlier attempt was never settled, and `unknown = \"hold\"` leaves it to a person".to_owned()
        );
    }
    if facts.now_ms >= facts.key_valid_until_ms {
        return Err("the far side may have forgotten the key: sending again needs a person's word".to_owned());
    }
    Ok(())
}

/// Milliseconds that a `Retry-After` asks for: seconds, or an HTTP date relative to `now_ms`. `None` for
/// anything else.
pub(super) fn retry_after_ms(value: &str, now_ms: UnixMs) -> Option<i64> {
    let value = value.trim();
    if value.bytes().all(|b| b.is_ascii_digit()) {
        // Absurd numbers are numbers all the same; the cap makes them harmless.
        return (!value.is_empty())
            .then(|| value.parse::<i64>().map_or(i64::MAX, |s| s.saturating_mul(1_000)));
    }
    let at = httpdate::parse_http_date(value).ok()?;
    let at_ms = at.duration_since(std::time::UNIX_EPOCH).ok()?.as_millis();
    Some(i64::try_from(at_ms).unwrap_or(i64::MAX).saturating_sub(now_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: RetryConfig =
        RetryConfig { first_ms: 1_000, max_ms: 60_000, attempts_n: 5, age_max_ms: 3_600_000 };
    const NOW_MS: i64 = 1_767_225_600_000;

    fn step(answer: &Answer, attempt_n: u32, unknown: &UnknownPolicy) -> (Step, AttemptResult) {
        let facts = Facts {
            attempt_n,
            first_sent_at_ms: NOW_MS - 1_000,
            key_valid_until_ms: NOW_MS + 60_000,
            now_ms: NOW_MS,
            jitter: 1.0,
        };
        let rules = Rules { retry: &RETRY, unknown, retry_after_ms_max: 30_000 };
        let decision = next_step(answer, &facts, &rules);
        (decision.step, decision.result)
    }

    fn status(code: u16) -> Answer {
        Answer::Status { code, retry_after_ms: None }
    }

    #[test]
    fn every_status_means_what_the_design_says() {
        use AttemptResult::{Done, Refused, Retry};
        #[track_caller]
        fn check(codes: impl IntoIterator<Item = u16>, step_wanted: &Step, result: AttemptResult) {
            for code in codes {
                assert_eq!(
                    step(&status(code), 1, &UnknownPolicy::Retry),
                    (step_wanted.clone(), result),
                    "{code}"
                );
            }
        }
        let later = Step::RetryAt { at_ms: NOW_MS + 1_000 };
        check(200..=299, &Step::Done, Done);
        check([408, 425, 429], &later, Retry);
        check(500..=599, &later, Retry);
        check(
            (100..=199).chain(300..=407).chain(409..=424).chain([426, 428, 430, 451, 499, 600]),
            &Step::Dead,
            Refused,
        );
    }

    #[test]
    fn an_unknown_outcome_is_treated_as_configured() {
        let unknown = Answer::Unknown { why: "timed out".to_owned() };
        let query = UnknownPolicy::Query(crate::config::QueryConfig {
            url: "http://a".to_owned(),
            pointer: "/x".to_owned(),
            equals: None,
        });
        let later = |ms| Step::RetryAt { at_ms: NOW_MS + ms };
        assert_eq!(step(&unknown, 1, &UnknownPolicy::Hold), (Step::Held, AttemptResult::Unknown));
        assert_eq!(step(&unknown, 3, &UnknownPolicy::Retry), (later(4_000), AttemptResult::Unknown));
        assert_eq!(step(&unknown, 1, &query), (later(1_000), AttemptResult::Unknown));
        assert_eq!(step(&unknown, 5, &UnknownPolicy::Retry), (Step::Dead, AttemptResult::Unknown));
        assert_eq!(step(&unknown, 5, &query), (Step::Held, AttemptResult::Unknown));
        let not_sent = Answer::NotSent { why: "refused".to_owned() };
        assert_eq!(step(&not_sent, 1, &UnknownPolicy::Hold), (later(1_000), AttemptResult::Retry));
        assert_eq!(step(&not_sent, 5, &UnknownPolicy::Hold), (Step::Dead, AttemptResult::Retry));
    }

    #[test]
    fn retry_after_is_honoured_within_bounds() {
        #[track_caller]
        fn check(value: &str, wait_ms: i64) {
            let answer = Answer::Status { code: 429, retry_after_ms: retry_after_ms(value, NOW_MS) };
            let (step, _) = step(&answer, 1, &UnknownPolicy::Retry);
            assert_eq!(step, Step::RetryAt { at_ms: NOW_MS + wait_ms }, "{value}");
        }
        check("7", 7_000);
        check("0", 1_000);
        check("999999999999999999999999", 30_000);
        check("Thu, 01 Jan 2026 00:00:05 GMT", 5_000);
        check("Thu, 01 Jan 1970 00:00:00 GMT", 1_000);
        check("Tue, 01 Jan 2036 00:00:00 GMT", 30_000);
        check("soon", 1_000);
        check("-5", 1_000);
        check("", 1_000);
    }

    #[test]
    fn nothing_is_sent_past_the_keys_validity_or_over_an_open_hold() {
        let facts = |now_ms| Facts {
            attempt_n: 2,
            first_sent_at_ms: 0,
            key_valid_until_ms: 1_000,
            now_ms,
            jitter: 0.0,
        };
        assert!(may_send(&facts(999), false, &UnknownPolicy::Hold).is_ok());
        assert!(may_send(&facts(999), true, &UnknownPolicy::Retry).is_ok());
        assert!(may_send(&facts(1_000), false, &UnknownPolicy::Retry).is_err());
        assert!(may_send(&facts(0), true, &UnknownPolicy::Hold).is_err());
    }
}
