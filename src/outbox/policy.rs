//! What an answer means and what follows from it: pure decisions, no clock, no database, no randomness.
//!
//! [`before_send`] decides whether anything may leave at all, [`next_step`] what one attempt leads to. Both
//! keep to two rules: what is unknown is never treated as refused or as done, and past the time a destination
//! remembers a key nothing is sent by itself.

use crate::backoff;
use crate::config::{DestinationConfig, StatusMeaning, UnknownPolicy};
use crate::store::LeasedMessage;
use crate::types::{AttemptResult, UnixMs};

/// Shortest `Retry-After` that is honoured as such, in milliseconds; a shorter one counts as this.
const RETRY_AFTER_MS_MIN: i64 = 1_000;

/// What came back from one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// An HTTP status, by which the answer is judged.
    Status {
        /// The status.
        code: u16,
        /// The `Retry-After` header, as it came.
        retry_after: Option<String>,
    },
    /// A good status whose body says that the effect did not happen.
    Body {
        /// The status.
        code: u16,
        /// What that means here: `Retry`, `Dead` or `Unknown`.
        meaning: StatusMeaning,
        /// In words without URLs, bodies or secrets.
        why: String,
    },
    /// The destination has it, now or from an earlier attempt.
    Done,
    /// The destination answered: not now. Surely not executed.
    NotNow {
        /// In words without URLs, bodies or secrets.
        why: String,
    },
    /// The destination answered: never. Surely not executed.
    Refused {
        /// In words without URLs, bodies or secrets.
        why: String,
    },
    /// We do not send this, now or later: its address is not one that may be called, or it cannot be written as a
    /// call. The destination was not asked.
    Forbidden {
        /// In words without URLs, bodies or secrets.
        why: String,
    },
    /// Surely not executed: refused connection, no such host, no TLS.
    NotSent {
        /// In words without URLs, bodies or secrets.
        why: String,
    },
    /// Sent, and nobody knows whether it took effect.
    Unknown {
        /// In words without URLs, bodies or secrets.
        why: String,
    },
}

/// What the decisions need to know of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Facts {
    /// Claims so far, this one included, since the first or since a person's last word to send it again.
    pub(super) attempt_n: u32,
    /// When the first attempt was claimed.
    pub(super) first_sent_at_ms: UnixMs,
    /// Past this nothing is sent by itself.
    pub(super) key_valid_until_ms: UnixMs,
    /// Nobody knows whether an earlier attempt took effect.
    pub(super) is_uncertain: bool,
    /// Nobody knew when it was claimed; a question may have settled that since.
    pub(super) was_uncertain: bool,
    /// When the attempt before this one ended.
    pub(super) previous_ended_at_ms: Option<UnixMs>,
}

impl From<&LeasedMessage> for Facts {
    fn from(message: &LeasedMessage) -> Self {
        Self {
            attempt_n: message.attempt_n.saturating_sub(message.attempts_before_n),
            first_sent_at_ms: message.first_sent_at_ms,
            key_valid_until_ms: message.key_valid_until_ms,
            is_uncertain: message.is_previous_unsettled || message.is_previous_unknown,
            was_uncertain: message.is_previous_unsettled || message.is_previous_unknown,
            previous_ended_at_ms: message.previous_ended_at_ms,
        }
    }
}

impl Facts {
    /// The same message after the destination said that the effect did not happen.
    #[must_use]
    pub(super) fn certain(self) -> Self {
        Self { is_uncertain: false, ..self }
    }
}

/// What may be done with a message that was just leased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    /// Send it.
    Send,
    /// Ask the destination whether it happened, and send only if it did not.
    Ask,
    /// Too early to ask: the call before this one may still be under way over there.
    Wait {
        /// Not before this.
        until_ms: UnixMs,
    },
    /// A person decides.
    Hold {
        /// For that person.
        why: String,
    },
    /// Given up.
    Dead {
        /// For whoever looks.
        why: String,
    },
}

/// What follows from one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// The destination confirmed it.
    Done,
    /// Send again, under the same key.
    RetryAt {
        /// Not before this.
        at_ms: UnixMs,
    },
    /// Ask the destination whether it happened, before anything is sent again.
    AskFirst {
        /// Not before this.
        at_ms: UnixMs,
    },
    /// Given up.
    Dead {
        /// For whoever looks.
        why: String,
    },
    /// A person decides.
    Hold {
        /// For that person.
        why: String,
    },
}

/// Whether a leased message may be sent.
pub(super) fn before_send(facts: &Facts, config: &DestinationConfig, now_ms: UnixMs) -> Plan {
    if facts.is_uncertain {
        match &config.unknown {
            UnknownPolicy::Hold => {
                return Plan::Hold { why: "outcome of an earlier attempt is unknown".to_owned() };
            }
            // Asking changes nothing over there, so it is allowed whatever the age of the key.
            UnknownPolicy::Query(query) => {
                let after_ms = millis(query.after_ms);
                let ended_at_ms = facts.previous_ended_at_ms.unwrap_or(now_ms).min(now_ms);
                let until_ms = ended_at_ms.saturating_add(after_ms);
                return if now_ms < until_ms { Plan::Wait { until_ms } } else { Plan::Ask };
            }
            UnknownPolicy::Retry => {}
        }
    }
    if now_ms >= facts.key_valid_until_ms {
        return Plan::Hold { why: key_is_old() };
    }
    // Only a message whose workers keep dying comes here with its attempts spent: every other one was given
    // up when its last attempt was settled.
    if facts.was_uncertain && facts.attempt_n > config.retry.attempts_n {
        return Plan::Dead {
            why: format!("{} attempts were made, the last one unsettled", facts.attempt_n - 1),
        };
    }
    Plan::Send
}

/// What happens to a message after one attempt. `jitter` is 0.0 to 1.0 and shortens the delay: full jitter.
/// An answer of [`Answer::Unknown`] also stands for a question the destination did not settle.
pub(super) fn next_step(
    answer: &Answer,
    facts: &Facts,
    config: &DestinationConfig,
    now_ms: UnixMs,
    jitter: f64,
) -> Step {
    match answer {
        Answer::Status { code, retry_after } => match meaning(*code, config) {
            StatusMeaning::Done => Step::Done,
            StatusMeaning::Retry => {
                let asked_ms = retry_after.as_deref().and_then(|text| retry_after_ms(text, now_ms));
                again(asked_ms, facts, config, now_ms, jitter)
            }
            StatusMeaning::Unknown => {
                let asked_ms = retry_after.as_deref().and_then(|text| retry_after_ms(text, now_ms));
                unknown(asked_ms, facts, config, now_ms, jitter)
            }
            StatusMeaning::Dead if (300..=399).contains(code) => {
                Step::Dead { why: format!("redirected with {code}; redirects are not followed") }
            }
            StatusMeaning::Dead => Step::Dead { why: format!("refused with {code}") },
        },
        Answer::Done | Answer::Body { meaning: StatusMeaning::Done, .. } => Step::Done,
        Answer::Body { meaning: StatusMeaning::Dead, why, .. } => Step::Dead { why: why.clone() },
        Answer::Refused { .. } => Step::Dead { why: "refused".to_owned() },
        Answer::Forbidden { .. } => Step::Dead { why: "not sent".to_owned() },
        Answer::NotSent { .. }
        | Answer::NotNow { .. }
        | Answer::Body { meaning: StatusMeaning::Retry, .. } => again(None, facts, config, now_ms, jitter),
        Answer::Unknown { .. } | Answer::Body { meaning: StatusMeaning::Unknown, .. } => {
            unknown(None, facts, config, now_ms, jitter)
        }
    }
}

/// What follows when nobody knows whether a call took effect.
fn unknown(
    asked_ms: Option<i64>,
    facts: &Facts,
    config: &DestinationConfig,
    now_ms: UnixMs,
    jitter: f64,
) -> Step {
    match &config.unknown {
        UnknownPolicy::Retry => again(asked_ms, facts, config, now_ms, jitter),
        UnknownPolicy::Hold => Step::Hold { why: "outcome is unknown".to_owned() },
        UnknownPolicy::Query(_) if is_exhausted(facts, config, now_ms) => {
            Step::Hold { why: format!("outcome is still unknown after {} attempts", facts.attempt_n) }
        }
        // By then the call is over, over there as well; whoever asks sooner is told "no" of what is yet to happen.
        UnknownPolicy::Query(query) => {
            let over_at_ms = now_ms.saturating_add(millis(query.after_ms));
            Step::AskFirst { at_ms: due_ms(asked_ms, facts, config, now_ms, jitter).max(over_at_ms) }
        }
    }
}

/// The word that is stored with the attempt.
pub(super) fn result_of(answer: &Answer, config: &DestinationConfig) -> AttemptResult {
    match answer {
        Answer::Status { code, .. } => result(meaning(*code, config)),
        Answer::Body { meaning, .. } => result(*meaning),
        Answer::Done => AttemptResult::Done,
        Answer::Refused { .. } | Answer::Forbidden { .. } => AttemptResult::Refused,
        Answer::NotSent { .. } | Answer::NotNow { .. } => AttemptResult::Retry,
        Answer::Unknown { .. } => AttemptResult::Unknown,
    }
}

fn result(meaning: StatusMeaning) -> AttemptResult {
    match meaning {
        StatusMeaning::Done => AttemptResult::Done,
        StatusMeaning::Retry => AttemptResult::Retry,
        StatusMeaning::Dead => AttemptResult::Refused,
        StatusMeaning::Unknown => AttemptResult::Unknown,
    }
}

/// What a status says, by the destination's own word or by the usual one.
fn meaning(code: u16, config: &DestinationConfig) -> StatusMeaning {
    let is_repeated = config.unknown == UnknownPolicy::Retry;
    let usual = match code {
        200..=299 => StatusMeaning::Done,
        // "Not now": the effect did not happen, and may happen later.
        425 | 429 | 503 => StatusMeaning::Retry,
        // Whoever stands between says so of work that was done, too, and so does a destination that fails in the
        // middle of it. Under a key that is honoured it may be repeated.
        408 | 499..=599 if is_repeated => StatusMeaning::Retry,
        408 | 499.. if !is_repeated => StatusMeaning::Unknown,
        _ => StatusMeaning::Dead,
    };
    config.statuses.get(&code).copied().unwrap_or(usual)
}

fn millis(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// How far in the future a `Retry-After` lies: whole seconds, or one of the three forms of an HTTP date.
/// `None` for what is past or neither.
pub(super) fn retry_after_ms(text: &str, now_ms: UnixMs) -> Option<i64> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        let seconds = text.parse::<i64>().unwrap_or(i64::MAX);
        return Some(seconds.saturating_mul(1_000));
    }
    let at_ms = http_date_ms(text)?;
    (at_ms > now_ms).then(|| at_ms.saturating_sub(now_ms))
}

fn http_date_ms(text: &str) -> Option<UnixMs> {
    // RFC 9110, 5.6.7: the form in use, and the two that a recipient still has to read.
    let forms = ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
    let read = |form: &&str| jiff::civil::DateTime::strptime(form, text).ok();
    let utc = forms.iter().find_map(read)?.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(utc.timestamp().as_millisecond())
}

fn is_exhausted(facts: &Facts, config: &DestinationConfig, now_ms: UnixMs) -> bool {
    backoff::is_exhausted(&config.retry, facts.attempt_n, facts.first_sent_at_ms, now_ms)
}

fn again(
    asked_ms: Option<i64>,
    facts: &Facts,
    config: &DestinationConfig,
    now_ms: UnixMs,
    jitter: f64,
) -> Step {
    if is_exhausted(facts, config, now_ms) {
        let age_s = now_ms.saturating_sub(facts.first_sent_at_ms) / 1_000;
        return Step::Dead { why: format!("given up after {} attempts and {age_s} s", facts.attempt_n) };
    }
    let at_ms = due_ms(asked_ms, facts, config, now_ms, jitter);
    if at_ms >= facts.key_valid_until_ms {
        return Step::Hold { why: key_is_old() };
    }
    Step::RetryAt { at_ms }
}

/// The later of the back-off and of what the destination asked for.
fn due_ms(
    asked_ms: Option<i64>,
    facts: &Facts,
    config: &DestinationConfig,
    now_ms: UnixMs,
    jitter: f64,
) -> UnixMs {
    let most_ms = millis(config.retry_after_max_ms).max(RETRY_AFTER_MS_MIN);
    let asked_ms = asked_ms.map_or(0, |asked_ms| asked_ms.clamp(RETRY_AFTER_MS_MIN, most_ms));
    let delay_ms = backoff::delay_ms(&config.retry, facts.attempt_n, jitter);
    now_ms.saturating_add(delay_ms.max(asked_ms))
}

fn key_is_old() -> String {
    "destination may have forgotten the key: sending again needs a person's word".to_owned()
}

#[cfg(test)]
pub(super) mod tests;
