//! Orders: acts of people, typed by their subject; and the rules for the texts and numbers in them.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use hooklatch_core::types::{EventState, MessageState, Role};

/// An act on a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageAct {
    /// Send it again, under the same key, now; attempts and age count from here.
    Send,
    /// Its effect happened: settle it as done.
    Done,
    /// Do not send it.
    Discard,
}

/// An act on an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventAct {
    /// Dispatch it once more: its messages are new ones, under new keys.
    Rerun,
    /// Dispatch what was kept beside another event, under its own id.
    Dispatch,
    /// Nothing is to be done about a conflict.
    Dismiss,
    /// Delete its bytes and what was made of them; id, digest and outcome stay.
    Erase,
    /// The same, after its open messages were discarded, and whatever else it waits for.
    EraseAndDiscard,
}

/// An act on a destination or a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PauseAct {
    /// Send no message to the destination, or dispatch no event of the provider, until it is resumed; what is under way
    /// ends as it does.
    Pause,
    /// Go on, with what has waited first.
    Resume,
}

impl MessageAct {
    /// True when a message in this state may be acted on so. With `leased`: once the lease has ended.
    pub fn is_for(self, state: MessageState) -> bool {
        match self {
            Self::Send => matches!(state, MessageState::Held | MessageState::Dead),
            Self::Done => matches!(state, MessageState::Held | MessageState::Dead | MessageState::Leased),
            Self::Discard => !matches!(state, MessageState::Done | MessageState::Discarded),
        }
    }
}

impl EventAct {
    /// True when an event in this state may be acted on so.
    pub fn is_for(self, state: EventState) -> bool {
        use EventState::{
            Conflict, Dismissed, Failed, Handled, Ignored, Replayed, Retry, Superseded, Unreadable,
        };
        match self {
            Self::Rerun => matches!(state, Handled | Ignored | Failed | Superseded),
            // What was kept beside another event is one of its own.
            Self::Dispatch => matches!(state, Conflict | Dismissed | Replayed),
            Self::Dismiss => state == Conflict,
            Self::Erase => !matches!(state, Retry | Failed | Unreadable | Conflict),
            Self::EraseAndDiscard => true,
        }
    }
}

/// An order about one subject: what is to be done, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "{A}Order")]
pub struct Order<A> {
    /// The act to carry out.
    pub act: A,
    /// Reason, for the audit log: 1 to 255 characters on one line.
    #[schemars(length(min = 1, max = 255), regex(pattern = REASON_PATTERN))]
    pub reason: String,
}

/// An order about a message.
pub type MessageOrder = Order<MessageAct>;
/// An order about an event.
pub type EventOrder = Order<EventAct>;

/// An order about a destination or a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseOrder {
    /// The act to carry out.
    pub act: PauseAct,
    /// Reason, for the audit log: 1 to 255 characters on one line.
    #[schemars(length(min = 1, max = 255), regex(pattern = REASON_PATTERN))]
    pub reason: String,
    /// With `pause`: time in the future when the pause ends by itself. Without it, only an operator resumes it.
    #[serde(default, deserialize_with = "time_or_null", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 253_402_300_799_999_i64))]
    pub until_ms: Option<i64>,
}

/// An order that needs a reason alone: to cancel an operation, to revoke a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReasonOrder {
    /// Reason, for the audit log: 1 to 255 characters on one line.
    #[schemars(length(min = 1, max = 255), regex(pattern = REASON_PATTERN))]
    pub reason: String,
}

/// The order to make a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenOrder {
    /// Name of its holder; unique.
    #[schemars(regex(pattern = NAME_PATTERN))]
    pub name: String,
    /// Role of its holder.
    pub role: Role,
    /// Providers that it reaches; all when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(regex(pattern = NAME_PATTERN)))]
    pub providers: Option<Vec<String>>,
    /// Destinations that it reaches; all when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(regex(pattern = NAME_PATTERN)))]
    pub destinations: Option<Vec<String>>,
    /// Time for which it is good. Seconds, 60 to 31,622,400 (366 days).
    #[schemars(range(min = 60, max = 31_622_400))]
    #[serde(deserialize_with = "number")]
    pub valid_for_s: u64,
    /// Reason, for the audit log: 1 to 255 characters on one line.
    #[schemars(length(min = 1, max = 255), regex(pattern = REASON_PATTERN))]
    pub reason: String,
}

/// Result of an order about one subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OrderResult {
    /// Always `changed`: anything else is a problem.
    pub outcome: String,
    /// Number of messages that were changed by it.
    pub messages_n: u64,
}

impl OrderResult {
    /// It was carried out, and changed this many messages.
    pub fn changed(messages_n: u64) -> Self {
        Self { outcome: "changed".to_owned(), messages_n }
    }
}

/// An order to make a test event. At most 1 MiB of JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestEventOrder {
    /// Type of the sample, one of the provider's `samples`; the first of them unless it is said. With `body` the type
    /// for kinds that carry it in a header.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub event_type: Option<String>,
    /// Body as its sender would post it, instead of a sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// True to dispatch the event. Real destinations then get real calls, each with `Hooklatch-Synthetic: true`: what they
    /// do about it is theirs. Left out, nothing follows from the event.
    #[serde(default)]
    pub route: bool,
    /// Reason, for the audit log.
    #[schemars(length(min = 1, max = 255), regex(pattern = REASON_PATTERN))]
    pub reason: String,
}

/// Test events that were made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestEventView {
    /// Name of the provider.
    pub provider: String,
    /// Type of the first of them.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Their ids, which begin with `test:`; several where the body is a batch.
    pub event_ids: Vec<String>,
    /// True when they are dispatched.
    pub route: bool,
}

/// Most characters of a reason.
const REASON_CHARS_MAX: usize = 255;
/// The rule for a reason, as a pattern of JSON Schema.
pub(crate) const REASON_PATTERN: &str =
    r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$";
/// The rule for the name of a provider, a destination or a token's holder, as a pattern of JSON Schema.
pub(crate) const NAME_PATTERN: &str = "^[a-z0-9_-]{1,64}$";

/// The rule for a type, an object or a lane, as a pattern of JSON Schema.
pub(crate) const TEXT_PATTERN: &str = r"^[^\x00]{1,255}$";

/// True for a reason that can be kept: 1 to 255 characters on one line, of which one at least is to be seen.
pub fn is_reason(text: &str) -> bool {
    let is_short = text.chars().take(REASON_CHARS_MAX + 1).count() <= REASON_CHARS_MAX;
    is_short && !text.chars().any(char::is_control) && !text.trim().is_empty()
}

/// Latest time: the end of the year 9999. Unix milliseconds.
pub const TIME_MS_MAX: i64 = 253_402_300_799_999;
/// Largest whole number that every program reads the same: 2^53.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Whole(i64),
    Point(f64),
}

/// Reads a whole number, however it is written.
pub(crate) fn number<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64>,
{
    let odd = || serde::de::Error::custom("a whole number is wanted");
    let number = match Written::deserialize(deserializer)? {
        Written::Whole(number) => number,
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and below 2^53")]
        Written::Point(number) if number.fract() == 0.0 && number.abs() <= EXACT_MAX => number as i64,
        Written::Point(_) => return Err(odd()),
    };
    T::try_from(number).map_err(|_| odd())
}

/// Reads a list of whole numbers.
pub(crate) fn numbers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    #[derive(Deserialize)]
    struct Number(#[serde(deserialize_with = "number")] u64);
    Ok(Vec::<Number>::deserialize(deserializer)?.into_iter().map(|number| number.0).collect())
}

/// Reads a whole number or `null`.
pub(crate) fn number_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    #[derive(Deserialize)]
    struct Number(#[serde(deserialize_with = "number")] i64);
    Ok(Option::<Number>::deserialize(deserializer)?.map(|number| number.0))
}

/// Reads a time or `null`: milliseconds since 1970, to the end of the year 9999.
pub(crate) fn time_or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let time = number_or_null(deserializer)?;
    if time.is_some_and(|at_ms| !(0..=TIME_MS_MAX).contains(&at_ms)) {
        return Err(serde::de::Error::custom("a time is wanted: milliseconds since 1970, to the year 9999"));
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(act: &str) -> String {
        format!(r#"{{"act":"{act}","reason":"r"}}"#)
    }

    #[test]
    fn an_act_of_one_subject_is_none_of_another() {
        let message = |act: &str| serde_json::from_str::<MessageOrder>(&order(act)).is_ok();
        let event = |act: &str| serde_json::from_str::<EventOrder>(&order(act)).is_ok();
        let destination = |act: &str| serde_json::from_str::<PauseOrder>(&order(act)).is_ok();
        for act in ["send", "done", "discard"] {
            assert_eq!((message(act), event(act), destination(act)), (true, false, false), "{act}");
        }
        for act in ["rerun", "dispatch", "dismiss", "erase", "erase_and_discard"] {
            assert_eq!((message(act), event(act), destination(act)), (false, true, false), "{act}");
        }
        for act in ["pause", "resume"] {
            assert_eq!((message(act), event(act), destination(act)), (false, false, true), "{act}");
        }
        for act in ["", "Send", "sell", "send "] {
            assert_eq!((message(act), event(act), destination(act)), (false, false, false), "{act}");
        }
    }

    #[test]
    fn an_act_is_for_the_states_in_which_it_makes_sense() {
        let of = |act: MessageAct| {
            let states = MessageState::ALL.iter().filter(|state| act.is_for(**state));
            states.map(|state| state.as_str()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(MessageAct::Send), "dead held");
        assert_eq!(of(MessageAct::Done), "leased dead held");
        assert_eq!(of(MessageAct::Discard), "ready waiting leased dead held");
        let of = |act: EventAct| {
            let states = EventState::ALL.iter().filter(|state| act.is_for(**state));
            states.map(|state| state.as_str()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(EventAct::Rerun), "handled ignored failed superseded");
        assert_eq!(of(EventAct::Dispatch), "replayed conflict dismissed");
        assert_eq!(of(EventAct::Dismiss), "conflict");
        assert_eq!(of(EventAct::Erase), "handled ignored superseded replayed dismissed");
        assert_eq!(of(EventAct::EraseAndDiscard).split(' ').count(), EventState::ALL.len());
    }

    #[test]
    fn a_reason_is_one_printable_line() {
        for (text, want) in [
            ("asked by Ann", true),
            ("\u{e4}", true),
            (&"\u{1f980}".repeat(255), true),
            (&"x".repeat(256), false),
            ("", false),
            ("  ", false),
            ("\u{a0}", false),
            ("a\nb", false),
            ("a\u{85}b", false),
            ("a\0", false),
        ] {
            assert_eq!(is_reason(text), want, "{text:?}");
        }
    }

    #[test]
    fn a_whole_number_is_one_however_it_is_written() {
        #[derive(Debug, PartialEq, Deserialize)]
        struct Order {
            #[serde(deserialize_with = "number")]
            counted_n: u64,
            #[serde(default, deserialize_with = "time_or_null")]
            at_ms: Option<i64>,
        }
        for (text, want) in [
            (r#"{"counted_n":3}"#, Some((3, None))),
            (r#"{"counted_n":3.0,"at_ms":1e3}"#, Some((3, Some(1_000)))),
            (r#"{"counted_n":0,"at_ms":null}"#, Some((0, None))),
            (r#"{"counted_n":0,"at_ms":-1}"#, None),
            (r#"{"counted_n":0,"at_ms":253402300800000}"#, None),
            (r#"{"counted_n":3.5}"#, None),
            (r#"{"counted_n":-1}"#, None),
            (r#"{"counted_n":1e300}"#, None),
            (r#"{"counted_n":"3"}"#, None),
        ] {
            let found = serde_json::from_str::<Order>(text).ok().map(|order| (order.counted_n, order.at_ms));
            assert_eq!(found, want, "{text}");
        }
    }
}
