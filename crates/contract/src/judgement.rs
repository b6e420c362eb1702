//! The judgement of a message or an event and the risk of each act on it; and what an operation would act on, with what
//! each act would do to all of it and risk. One set of sentences for the API, the console and the commands.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::event::{EventView, MessageView};
use super::operation::{EventFilter, MessageFilter, OperationSteps, OperationSubject, act_word};
use super::order::{EventAct, MessageAct};
use hooklatch_core::figures::{grouped, plural};
use hooklatch_core::types::EventState;

/// What an act on a message or an event risks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// No effect is repeated and none is lost.
    None,
    /// An effect that may have happened may happen a second time.
    MayRepeatEffect,
    /// An effect that was wanted will not happen.
    LosesEffect,
    /// What is needed to judge it is not known here; treat it as unsafe.
    CannotSay,
}

impl Risk {
    /// The risk, for people.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::None => "No risk",
            Self::MayRepeatEffect => "May repeat an effect",
            Self::LosesEffect => "May lose an effect",
            Self::CannotSay => "Risk not known here",
        }
    }
}

/// An act that is possible now, with its risk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Judged{A}")]
pub struct JudgedAct<A> {
    /// The act, as an order names it.
    pub act: A,
    /// What it risks.
    pub risk: Risk,
    /// One sentence: what the act does and what that risks.
    pub sentence: String,
}

/// One judgement: what happened and what it means, and what a person may do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JudgementBy{A}")]
pub struct Judgement<A> {
    /// What happened and what it means, in one or two sentences.
    pub headline: String,
    /// The acts that are possible, the safest first.
    pub acts: Vec<JudgedAct<A>>,
}

const MESSAGE_ACTS: [MessageAct; 3] = [MessageAct::Send, MessageAct::Done, MessageAct::Discard];
const EVENT_ACTS: [EventAct; 5] =
    [EventAct::Rerun, EventAct::Dispatch, EventAct::Dismiss, EventAct::Erase, EventAct::EraseAndDiscard];
/// Most rows whose calls are made all at once where the order names no steps.
const UNSTEPPED_N_MAX: u64 = 10;

/// A choice of rows for an operation, before its act is chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OperationChoice {
    /// Messages; `state` is required.
    Messages(MessageFilter),
    /// Events; `state` is required.
    Events(EventFilter),
}

/// What an operation on a choice would act on, and the acts that there are for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OperationPreview {
    /// Figures of the set.
    #[serde(flatten)]
    pub figures: BulkFigures,
    /// Identifies the rows that were found, as they stood: an order of an operation on them names it.
    pub set: String,
    /// At most five of the messages, the newest first.
    pub messages: Vec<MessageView>,
    /// At most five of the events, the newest first.
    pub events: Vec<EventView>,
    /// The acts that are possible; none when there are no rows, or more than one operation acts on.
    pub acts: Vec<PreviewedAct>,
    /// Persons that have to agree to an operation here, the orderer included: 1 or 2.
    pub approvals_n: u32,
    /// What operators did to these rows in the last 10 minutes; left out when that is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recent: Option<RecentDecisions>,
}

/// Some of the rows of an operation, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedRows {
    /// At most ten: ids of messages, or provider and id of events, such as `stripe/evt_1`.
    pub rows: Vec<String>,
    /// Number of all of them.
    pub rows_n: u64,
}

impl ChangedRows {
    /// `4096, 8192 and 3 more`; empty for none.
    pub fn in_words(&self) -> String {
        let left_n = self.rows_n.saturating_sub(u64::try_from(self.rows.len()).unwrap_or(u64::MAX));
        match (self.rows.is_empty(), left_n) {
            (true, 0) => String::new(),
            (true, n) => plural(n, "row"),
            (false, 0) => self.rows.join(", "),
            (false, n) => format!("{} and {} more", self.rows.join(", "), grouped(n)),
        }
    }
}

/// Decisions of operators about rows of a preview.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecentDecisions {
    /// The rows that they were about.
    #[serde(flatten)]
    pub changed: ChangedRows,
    /// Time of the last of them.
    pub last_at_ms: i64,
    /// At most three of those who decided.
    pub actors: Vec<String>,
}

impl RecentDecisions {
    /// What was done, in a sentence.
    pub fn in_words(&self) -> String {
        format!(
            "{} acted on {} of these rows in the last 10 minutes: {}. Look at them before you act on them again.",
            self.actors.join(", "),
            grouped(self.changed.rows_n),
            self.changed.in_words()
        )
    }
}

/// Figures of the set of an operation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BulkFigures {
    /// Rows that the filter finds.
    pub counted_n: u64,
    /// True when it finds more than one operation acts on (100,000); the figures are then of the first of them.
    pub is_more: bool,
    /// Rows by provider.
    pub providers: Vec<NamedCount>,
    /// Messages by destination; empty for events.
    pub destinations: Vec<NamedCount>,
    /// Time of the first of them: when Hooklatch received the event, or wrote the message.
    pub first_at_ms: Option<i64>,
    /// Time of the last of them.
    pub last_at_ms: Option<i64>,
    /// Calls that these events led to so far; for messages, the messages themselves.
    pub calls_n: u64,
    /// Those of the calls that are neither done nor discarded.
    pub open_n: u64,
    /// Those of the open calls that were never tried.
    pub untried_n: u64,
    /// Number of open calls that may have taken effect, although their outcome is unknown.
    pub uncertain_n: u64,
    /// Those of the open calls whose idempotency key the destination may have forgotten.
    pub expired_n: u64,
}

/// A name, and the number of rows that have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamedCount {
    /// Name of the provider or the destination.
    pub name: String,
    /// Number of rows.
    pub counted_n: u64,
}

/// An act that is possible on a set, what it does and what it risks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PreviewedAct {
    /// The act, as an order names it.
    pub act: String,
    /// The act in a few words, such as `Re-run them`.
    pub label: String,
    /// What it risks.
    pub risk: Risk,
    /// What it does and what that risks.
    pub sentence: String,
    /// True when it deletes something or gives it up permanently.
    pub is_destructive: bool,
    /// The steps it is worked off in unless the order names others; `null`: all at once.
    pub steps: Option<OperationSteps>,
    /// Id of an operation that is unfinished or ended in the last 10 minutes, and has this act and filter or acts on some
    /// of these rows to the same effect, if the token may see it.
    pub same_operation_id: Option<String>,
}

impl PreviewedAct {
    /// True when a person should stop and think before it.
    pub fn is_dangerous(&self) -> bool {
        self.is_destructive || self.risk != Risk::None
    }
}

impl OperationChoice {
    /// This choice with an act, which is the contract's word; `None` when it is none of theirs.
    pub fn with_act(self, act: &str) -> Option<OperationSubject> {
        let word = serde_json::Value::from(act);
        Some(match self {
            Self::Messages(filter) => {
                OperationSubject::Messages { act: serde_json::from_value(word).ok()?, filter }
            }
            Self::Events(filter) => {
                OperationSubject::Events { act: serde_json::from_value(word).ok()?, filter }
            }
        })
    }
}

impl OperationSteps {
    /// The steps of an act on so many rows where the order names none.
    pub fn by_default(makes_calls: bool, rows_n: u64) -> Option<Self> {
        (makes_calls && rows_n > UNSTEPPED_N_MAX).then(Self::default)
    }
}

/// The acts that are possible on a choice, with what each does to all of it.
pub fn bulk_acts(choice: &OperationChoice, figures: &BulkFigures) -> Vec<PreviewedAct> {
    if figures.counted_n == 0 || figures.is_more {
        return Vec::new();
    }
    match choice {
        OperationChoice::Messages(filter) => {
            let possible = |act: &&MessageAct| filter.state.is_some_and(|state| act.is_for(state));
            MESSAGE_ACTS.iter().filter(possible).map(|act| on_messages(*act, figures)).collect()
        }
        OperationChoice::Events(filter) => {
            let Some(state) = filter.state else { return Vec::new() };
            let possible = EVENT_ACTS.iter().filter(|act| act.is_for(state));
            possible.map(|act| on_events(*act, state, figures)).collect()
        }
    }
}

/// An act on a set: how it is named, what it risks, what it does, and whether it gives something up.
struct Words(&'static str, Risk, String, bool);

fn previewed(act: &impl Serialize, makes_calls: bool, figures: &BulkFigures, words: Words) -> PreviewedAct {
    let Words(label, risk, sentence, is_destructive) = words;
    PreviewedAct {
        act: act_word(act),
        label: label.to_owned(),
        risk,
        sentence,
        is_destructive,
        steps: OperationSteps::by_default(makes_calls, figures.counted_n),
        same_operation_id: None,
    }
}

/// The verb for so many.
fn were(n: u64) -> &'static str {
    if n == 1 { "was" } else { "were" }
}

fn on_messages(act: MessageAct, figures: &BulkFigures) -> PreviewedAct {
    let BulkFigures { counted_n, untried_n, uncertain_n, expired_n, .. } = figures;
    let words = match act {
        MessageAct::Send => {
            let first =
                format!("Makes {} again, each under its own idempotency key.", plural(*counted_n, "call"));
            let uncertain = (*uncertain_n > 0).then(|| {
                format!(
                    "It is not known whether {} of them took effect: a destination that does not honour the key does those a \
                     second time.",
                    grouped(*uncertain_n)
                )
            });
            let expired = (*expired_n > 0).then(|| {
                format!(
                    "The keys of {} are older than the destination has to remember: it may take those calls for new ones.",
                    grouped(*expired_n)
                )
            });
            let tried_n = counted_n.saturating_sub(*untried_n);
            let (risk, rest) = match tried_n {
                0 => (Risk::None, "None of them was ever sent, so no effect is repeated.".to_owned()),
                n => (
                    Risk::MayRepeatEffect,
                    format!(
                        "{} of them {} sent before, and an effect can be repeated: where the destination ignores keys or has \
                         forgotten them, or the event was run again since. Read first what one of them says about sending.",
                        grouped(n),
                        were(n)
                    ),
                ),
            };
            let sentence = [Some(first), uncertain, expired, Some(rest)];
            let sentence = sentence.into_iter().flatten().collect::<Vec<_>>().join(" ");
            Words("Send them again", risk, sentence, false)
        }
        MessageAct::Done => {
            let sentence = format!(
                "Settles {} as done, permanently, and sends nothing. An effect that did not happen will never happen.{}",
                plural(*counted_n, "call"),
                never_tried(*untried_n)
            );
            Words("Settle them as done", Risk::LosesEffect, sentence, false)
        }
        MessageAct::Discard => {
            let tried = match counted_n.saturating_sub(*untried_n) {
                0 => String::new(),
                n => format!(
                    " {} of them {} sent before and may have taken effect: ask their destinations before anybody does \
                     them in another way.",
                    grouped(n),
                    were(n)
                ),
            };
            let sentence = format!(
                "Gives up {} permanently: Hooklatch sends them no more.{tried}{}",
                plural(*counted_n, "call"),
                never_tried(*untried_n)
            );
            Words("Discard them", Risk::LosesEffect, sentence, true)
        }
    };
    previewed(&act, act == MessageAct::Send, figures, words)
}

fn never_tried(untried_n: u64) -> String {
    if untried_n == 0 {
        return String::new();
    }
    format!(" {} of them were never tried, so their effects have certainly not happened.", grouped(untried_n))
}

fn on_events(act: EventAct, state: EventState, figures: &BulkFigures) -> PreviewedAct {
    let BulkFigures { counted_n, calls_n, open_n, untried_n, .. } = figures;
    let events = plural(*counted_n, "event");
    let words = match act {
        EventAct::Rerun if state == EventState::Handled || *calls_n > 0 => {
            let sentence = format!(
                "Runs the handlers of {events} again. They made {} before; the new calls carry new keys, so destinations cannot \
                 tell them from a new order: what was paid once is paid a second time.",
                plural(*calls_n, "call")
            );
            Words("Re-run them", Risk::MayRepeatEffect, sentence, false)
        }
        EventAct::Rerun => {
            let sentence = format!(
                "Runs the handlers of {events} again. They have made no calls so far, so none is repeated."
            );
            Words("Re-run them", Risk::None, sentence, false)
        }
        EventAct::Dispatch => {
            let sentence = format!(
                "Handles {events} as events of their own, although others with the same id or the same signed bytes were \
                 handled. Their calls carry new keys, so destinations cannot tell them from a new order."
            );
            Words("Dispatch them", Risk::MayRepeatEffect, sentence, false)
        }
        EventAct::Dismiss => {
            let sentence =
                format!("Settles {events} without handling them: what they ask for will not be done.");
            Words("Dismiss them", Risk::LosesEffect, sentence, true)
        }
        EventAct::Erase => {
            let kept = "Deletes the contents of them permanently; id, digest and outcome stay. They can never be run again.";
            let open = match open_n {
                0 => String::new(),
                n => format!(" Events with open calls are passed over: {} are open.", plural(*n, "call")),
            };
            let risk = if state == EventState::Handled { Risk::None } else { Risk::LosesEffect };
            Words("Erase them", risk, format!("{events}. {kept}{open}"), true)
        }
        EventAct::EraseAndDiscard => {
            let unhandled = match state {
                EventState::Retry | EventState::Failed | EventState::Unreadable | EventState::Conflict => {
                    " The events themselves wait for a handler or a decision: what they ask for will never be done."
                }
                _ => "",
            };
            let tried = match open_n.saturating_sub(*untried_n) {
                0 => String::new(),
                n => {
                    format!(" {} of the calls {} sent before and may have taken effect.", grouped(n), were(n))
                }
            };
            let sentence = format!(
                "Discards {} of {events}, {} of them never tried: these will never be made.{tried}{unhandled} Then deletes the \
                 contents of the events permanently; they can never be run again.",
                plural(*open_n, "open call"),
                grouped(*untried_n)
            );
            let is_harmless = state == EventState::Handled && *open_n == 0;
            let risk = if is_harmless { Risk::None } else { Risk::LosesEffect };
            Words("Erase them and discard open calls", risk, sentence, true)
        }
    };
    previewed(&act, act.makes_calls(), figures, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_core::types::MessageState;

    fn figures(counts: [u64; 6]) -> BulkFigures {
        let [counted_n, calls_n, open_n, untried_n, uncertain_n, expired_n] = counts;
        BulkFigures {
            counted_n,
            calls_n,
            open_n,
            untried_n,
            uncertain_n,
            expired_n,
            ..BulkFigures::default()
        }
    }

    fn messages(state: MessageState) -> OperationChoice {
        OperationChoice::Messages(MessageFilter { state: Some(state), ..MessageFilter::default() })
    }

    fn events(state: EventState) -> OperationChoice {
        OperationChoice::Events(EventFilter { state: Some(state), ..EventFilter::default() })
    }

    #[track_caller]
    fn check(choice: &OperationChoice, counts: [u64; 6], act: &str, risk: Risk, wants: &[&str]) {
        let acts = bulk_acts(choice, &figures(counts));
        let found = acts.iter().find(|one| one.act == act).unwrap_or_else(|| panic!("{act}: {acts:?}"));
        assert_eq!(found.risk, risk, "{found:?}");
        for want in wants {
            assert!(found.sentence.contains(want), "`{want}` is not in {found:?}");
        }
    }

    #[test]
    fn each_act_on_messages_says_what_it_does_to_all_and_what_that_risks() {
        use MessageState as M;
        use Risk::{LosesEffect, MayRepeatEffect, None};
        check(
            &messages(M::Dead),
            [12, 12, 12, 12, 0, 0],
            "send",
            None,
            &["12 calls", "no effect is repeated"],
        );
        check(
            &messages(M::Dead),
            [12, 12, 12, 5, 0, 0],
            "send",
            MayRepeatEffect,
            &["7 of them were sent before", "was run again"],
        );
        check(
            &messages(M::Held),
            [12, 12, 12, 0, 3, 0],
            "send",
            MayRepeatEffect,
            &["whether 3 of them", "second time"],
        );
        check(&messages(M::Held), [12, 12, 12, 0, 0, 4], "send", MayRepeatEffect, &["keys of 4"]);
        check(
            &messages(M::Dead),
            [12, 12, 12, 5, 0, 0],
            "discard",
            LosesEffect,
            &["7 of them were sent before and may have taken effect", "5 of them were never tried"],
        );
        check(
            &messages(M::Held),
            [1, 1, 1, 0, 0, 0],
            "done",
            LosesEffect,
            &["1 call as done", "never happen"],
        );
    }

    #[test]
    fn each_act_on_events_says_what_it_does_to_all_and_what_that_risks() {
        use EventState as E;
        use Risk::{LosesEffect, MayRepeatEffect, None};
        let second = "cannot tell them from a new order";
        check(
            &events(E::Retry),
            [8, 0, 0, 0, 0, 0],
            "erase_and_discard",
            LosesEffect,
            &["will never be done"],
        );
        check(
            &events(E::Handled),
            [3, 9, 5, 2, 0, 0],
            "erase_and_discard",
            LosesEffect,
            &["3 of the calls were sent before and may have taken effect"],
        );
        check(
            &events(E::Handled),
            [505, 505, 30, 29, 0, 0],
            "rerun",
            MayRepeatEffect,
            &["505 events", second],
        );
        check(&events(E::Handled), [5, 0, 0, 0, 0, 0], "rerun", MayRepeatEffect, &[second]);
        check(&events(E::Failed), [5, 0, 0, 0, 0, 0], "rerun", None, &["no calls so far"]);
        check(&events(E::Failed), [5, 2, 0, 0, 0, 0], "rerun", MayRepeatEffect, &["made 2 calls", second]);
        check(&events(E::Conflict), [5, 0, 0, 0, 0, 0], "dispatch", MayRepeatEffect, &[second]);
        check(&events(E::Conflict), [5, 0, 0, 0, 0, 0], "dismiss", LosesEffect, &["will not be done"]);
        check(&events(E::Handled), [32, 32, 30, 29, 0, 0], "erase", None, &["passed over: 30 calls"]);
        check(&events(E::Ignored), [32, 0, 0, 0, 0, 0], "erase", LosesEffect, &["never be run again"]);
        check(
            &events(E::Handled),
            [32, 32, 30, 29, 0, 0],
            "erase_and_discard",
            LosesEffect,
            &["30 open calls of 32 events", "29 of them never tried"],
        );
        check(&events(E::Handled), [32, 32, 0, 0, 0, 0], "erase_and_discard", None, &["0 open calls"]);
    }

    #[test]
    fn acts_are_those_that_the_state_allows_and_there_are_none_on_nothing_or_on_too_much() {
        let of = |choice: &OperationChoice, figures: &BulkFigures| {
            bulk_acts(choice, figures).into_iter().map(|one| one.act).collect::<Vec<_>>().join(" ")
        };
        let some = figures([5, 0, 0, 0, 0, 0]);
        assert_eq!(of(&messages(MessageState::Dead), &some), "send done discard");
        assert_eq!(of(&messages(MessageState::Ready), &some), "discard");
        assert_eq!(of(&messages(MessageState::Done), &some), "");
        assert_eq!(of(&events(EventState::Failed), &some), "rerun erase_and_discard");
        assert_eq!(of(&events(EventState::Conflict), &some), "dispatch dismiss erase_and_discard");
        assert_eq!(of(&events(EventState::Handled), &some), "rerun erase erase_and_discard");
        assert_eq!(of(&messages(MessageState::Dead), &figures([0; 6])), "");
        let more = BulkFigures { is_more: true, ..some };
        assert_eq!(of(&messages(MessageState::Dead), &more), "");
    }

    #[test]
    fn what_makes_many_calls_has_steps_unless_the_order_says_otherwise() {
        let steps = |choice: &OperationChoice, counted_n: u64, act: &str| {
            let figures = BulkFigures { counted_n, ..BulkFigures::default() };
            let found = bulk_acts(choice, &figures).into_iter().find(|one| one.act == act).unwrap();
            found.steps.map(|steps| (steps.sizes, steps.per_s, steps.stop_percent))
        };
        let default = Some((vec![1, 10, 100], 50, 10));
        assert_eq!(steps(&messages(MessageState::Dead), 11, "send"), default);
        assert_eq!(steps(&messages(MessageState::Dead), 10, "send"), None);
        assert_eq!(steps(&messages(MessageState::Dead), 500, "discard"), None);
        assert_eq!(steps(&events(EventState::Handled), 500, "rerun"), default);
        assert_eq!(steps(&events(EventState::Conflict), 500, "dispatch"), default);
        assert_eq!(steps(&events(EventState::Handled), 500, "erase"), None);
        assert!(messages(MessageState::Dead).with_act("rerun").is_none());
        assert!(messages(MessageState::Dead).with_act("send").is_some_and(|subject| subject.makes_calls()));
        assert!(events(EventState::Handled).with_act("erase").is_some_and(|subject| !subject.makes_calls()));
    }

    #[test]
    fn what_gives_up_or_repeats_is_dangerous() {
        let acts = bulk_acts(&events(EventState::Failed), &figures([5, 0, 0, 0, 0, 0]));
        let dangers: Vec<(&str, bool)> =
            acts.iter().map(|one| (one.act.as_str(), one.is_dangerous())).collect();
        assert_eq!(dangers, [("rerun", false), ("erase_and_discard", true)]);
    }
}
