//! Decides what an answer means and what follows from it: pure decisions, no clock, no database, no randomness.
//!
//! [`before_send`] decides whether anything may leave at all, [`next_step`] what one attempt leads to. Both
//! keep to two rules: what is unknown is never treated as refused or as done, and past the time a destination
//! remembers a key nothing is sent by itself.

#[cfg(test)]
pub(crate) mod tests;

use hooklatch_core::backoff;
use hooklatch_core::config::{DestinationConfig, StatusMeaning, UnknownPolicy};
use hooklatch_core::figures::plural;
use hooklatch_core::types::{AttemptResult, Repeat, UnixMs};
use hooklatch_store::LeasedMessage;

/// Facts about a message that the decisions need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Claims so far, this one included, since the first or since an operator last had it sent again.
    pub(crate) attempt_n: u32,
    /// Time when the first attempt was claimed.
    pub(crate) first_sent_at_ms: UnixMs,
    /// Past this nothing is sent by itself.
    pub(crate) key_valid_until_ms: UnixMs,
    /// It is unknown whether an earlier attempt took effect.
    pub(crate) is_uncertain: bool,
    /// It was unknown when the message was claimed; a question may have settled that since.
    pub(crate) was_uncertain: bool,
    /// Time when the attempt before this one ended.
    pub(crate) previous_ended_at_ms: Option<UnixMs>,
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
    /// This message after the destination answered that the effect did not happen.
    #[must_use]
    pub(crate) fn certain(self) -> Self {
        Self { is_uncertain: false, ..self }
    }
}

/// Answer of a destination to one call, or how the call failed without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallAnswer {
    /// An HTTP status, by which the answer is judged.
    Status {
        /// The HTTP status of the answer.
        code: u16,
        /// The `Retry-After` header, as received.
        retry_after: Option<String>,
    },
    /// A good status whose body says that the effect did not happen.
    Body {
        /// The HTTP status of the answer.
        code: u16,
        /// Meaning of the body: `Retry`, `Dead` or `Unknown`.
        meaning: StatusMeaning,
        /// The reason, in words without URLs, bodies or secrets.
        why: String,
    },
    /// The destination has it, now or from an earlier attempt.
    Done,
    /// The destination answered: not now. Surely not executed.
    NotNow(String),
    /// The destination answered: never. Surely not executed.
    Refused(String),
    /// We do not send this, now or later: its address is not one that may be called, or it cannot be written as a
    /// call. The destination was not asked.
    Forbidden(String),
    /// Surely not executed: refused connection, no such host, no TLS.
    NotSent(String),
    /// Sent, and it is unknown whether it took effect.
    Unknown(String),
}

/// Returns how far in the future a `Retry-After` lies: whole seconds, or one of the three forms of an HTTP
/// date. `None` for what is past or neither.
pub(crate) fn retry_after_ms(text: &str, now_ms: UnixMs) -> Option<i64> {
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

/// Shortest `Retry-After` that is honoured as such, in milliseconds; a shorter one counts as this.
const RETRY_AFTER_MS_MIN: i64 = 1_000;

/// Plan for a message that was just leased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SendPlan {
    /// The message may be sent.
    Send,
    /// Ask the destination whether it happened, and send only if it did not.
    Ask,
    /// Too early to ask: the call before this one may still be under way at the destination.
    Wait {
        /// Time before which it is not asked.
        until_ms: UnixMs,
    },
    /// An operator has to decide.
    Hold(String),
    /// The message is given up.
    Dead(String),
}

/// The step that follows from one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// The destination confirmed it.
    Done,
    /// Send again, under the same key.
    RetryAt {
        /// Time before which it is not sent.
        at_ms: UnixMs,
    },
    /// Ask the destination whether it happened, before anything is sent again.
    AskFirst {
        /// Time before which it is not asked.
        at_ms: UnixMs,
    },
    /// The message is given up.
    Dead(String),
    /// An operator has to decide.
    Hold(String),
}

/// Decides what becomes of a leased message before anything is sent.
pub(crate) fn before_send(facts: &Facts, config: &DestinationConfig, now_ms: UnixMs) -> SendPlan {
    match config.unknown.word().repeat(facts.is_uncertain, now_ms < facts.key_valid_until_ms) {
        Repeat::HoldUnknown => {
            return SendPlan::Hold("outcome of an earlier attempt is unknown".to_owned());
        }
        Repeat::Ask => {
            let UnknownPolicy::Query(query) = &config.unknown else { return SendPlan::Ask };
            let ended_at_ms = facts.previous_ended_at_ms.unwrap_or(now_ms).min(now_ms);
            let until_ms = ended_at_ms.saturating_add(millis(query.after_ms));
            return if now_ms < until_ms { SendPlan::Wait { until_ms } } else { SendPlan::Ask };
        }
        Repeat::HoldOldKey => return SendPlan::Hold(key_is_old()),
        Repeat::Send => {}
    }
    // Only a message whose workers keep dying is here with its attempts spent: every other one was given
    // up when its last attempt was settled.
    if facts.was_uncertain && facts.attempt_n > config.retry.attempts_n {
        return SendPlan::Dead(format!(
            "given up after {}: the last one was never settled",
            plural(u64::from(facts.attempt_n - 1), "attempt")
        ));
    }
    SendPlan::Send
}

/// Returns what happens to a message after one attempt. `jitter` is 0.0 to 1.0 and shortens the delay: full
/// jitter. An answer of [`CallAnswer::Unknown`] also stands for a question the destination did not settle.
pub(crate) fn next_step(
    answer: &CallAnswer,
    facts: &Facts,
    config: &DestinationConfig,
    now_ms: UnixMs,
    jitter: f64,
) -> NextStep {
    let asked_ms = match answer {
        CallAnswer::Status { retry_after: Some(text), .. } => retry_after_ms(text, now_ms),
        _ => None,
    };
    let ended = Ended { asked_ms, facts, config, now_ms, jitter };
    match (result_of(answer, config), answer) {
        (AttemptResult::Done, _) => NextStep::Done,
        (AttemptResult::Retry, _) => ended.again(),
        (AttemptResult::Unknown, _) => ended.unknown(),
        (_, CallAnswer::Status { code: 300..=399, .. }) => {
            NextStep::Dead("redirects are not followed".to_owned())
        }
        (_, CallAnswer::Body { why, .. }) => NextStep::Dead(why.clone()),
        (_, CallAnswer::Forbidden(_)) => NextStep::Dead("not sent".to_owned()),
        _ => NextStep::Dead("refused".to_owned()),
    }
}

/// An attempt that has ended, and whose effect is not there or unknown.
struct Ended<'a> {
    /// How long the destination asks to wait. Milliseconds.
    asked_ms: Option<i64>,
    facts: &'a Facts,
    config: &'a DestinationConfig,
    now_ms: UnixMs,
    jitter: f64,
}

impl Ended<'_> {
    /// Returns what follows when it is unknown whether a call took effect.
    fn unknown(&self) -> NextStep {
        match &self.config.unknown {
            UnknownPolicy::Retry => self.again(),
            UnknownPolicy::Hold => NextStep::Hold("outcome is unknown".to_owned()),
            UnknownPolicy::Query(_) if self.is_exhausted() => {
                let attempts = plural(u64::from(self.facts.attempt_n), "attempt");
                NextStep::Hold(format!("outcome is still unknown after {attempts}"))
            }
            // By then the call is over at the destination, too. A question that is asked sooner is answered "no"
            // although the effect may still happen.
            UnknownPolicy::Query(query) => {
                let over_at_ms = self.now_ms.saturating_add(millis(query.after_ms));
                NextStep::AskFirst { at_ms: self.due_ms().max(over_at_ms) }
            }
        }
    }

    fn again(&self) -> NextStep {
        if self.is_exhausted() {
            // Without its age, which would make a cause of its own of each message.
            let attempts = plural(u64::from(self.facts.attempt_n), "attempt");
            return NextStep::Dead(format!("given up after {attempts}"));
        }
        let at_ms = self.due_ms();
        if at_ms >= self.facts.key_valid_until_ms {
            return NextStep::Hold(key_is_old());
        }
        NextStep::RetryAt { at_ms }
    }

    fn is_exhausted(&self) -> bool {
        let Facts { attempt_n, first_sent_at_ms, .. } = *self.facts;
        backoff::is_exhausted(&self.config.retry, attempt_n, first_sent_at_ms, self.now_ms)
    }

    /// The later of the back-off and of what the destination asked for.
    fn due_ms(&self) -> UnixMs {
        let most_ms = millis(self.config.retry_after_max_ms).max(RETRY_AFTER_MS_MIN);
        let asked_ms = self.asked_ms.map_or(0, |asked_ms| asked_ms.clamp(RETRY_AFTER_MS_MIN, most_ms));
        let delay_ms = backoff::delay_ms(&self.config.retry, self.facts.attempt_n, self.jitter);
        self.now_ms.saturating_add(delay_ms.max(asked_ms))
    }
}

/// The word that is stored with the attempt.
pub(crate) fn result_of(answer: &CallAnswer, config: &DestinationConfig) -> AttemptResult {
    match answer {
        CallAnswer::Status { code, .. } => result(meaning(*code, config)),
        CallAnswer::Body { meaning, .. } => result(*meaning),
        CallAnswer::Done => AttemptResult::Done,
        CallAnswer::Refused(_) | CallAnswer::Forbidden(_) => AttemptResult::Refused,
        CallAnswer::NotSent(_) | CallAnswer::NotNow(_) => AttemptResult::Retry,
        CallAnswer::Unknown(_) => AttemptResult::Unknown,
    }
}

/// True when a call that ended so may have taken effect: where a key protects from nothing, it is not repeated without
/// an operator's decision. A refusal counts, because a destination may fail in the middle of its work.
pub(crate) fn may_have_acted(answer: &CallAnswer, config: &DestinationConfig) -> bool {
    let is_open = |meaning| matches!(meaning, StatusMeaning::Unknown | StatusMeaning::Dead);
    match answer {
        CallAnswer::Status { code, .. } => is_open(meaning_of(*code, config, false)),
        CallAnswer::Body { meaning, .. } => is_open(*meaning),
        CallAnswer::Refused(_) | CallAnswer::Unknown(_) => true,
        CallAnswer::Done | CallAnswer::NotNow(_) | CallAnswer::Forbidden(_) | CallAnswer::NotSent(_) => false,
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

/// What a status means, by the destination's configuration or by the usual rule.
fn meaning(code: u16, config: &DestinationConfig) -> StatusMeaning {
    meaning_of(code, config, config.unknown == UnknownPolicy::Retry)
}

/// What a status means where a call that may have taken effect `is_repeated`, or is not.
fn meaning_of(code: u16, config: &DestinationConfig, is_repeated: bool) -> StatusMeaning {
    let usual = match code {
        200..=299 => StatusMeaning::Done,
        // "Not now": the effect did not happen, and may happen later.
        425 | 429 | 503 => StatusMeaning::Retry,
        // A gateway says so of work that was done, too, and so does a destination that fails in the middle of it. Under
        // a key that is honoured it may be repeated.
        408 | 499..=599 if is_repeated => StatusMeaning::Retry,
        408 | 499.. if !is_repeated => StatusMeaning::Unknown,
        _ => StatusMeaning::Dead,
    };
    config.statuses.get(&code).copied().unwrap_or(usual)
}

fn key_is_old() -> String {
    "destination may have forgotten the key: sending again needs a person's word".to_owned()
}

fn millis(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}
