//! The judgement of an event: from what its row, its calls and this node's configuration say, a headline and the acts
//! that are possible, each with its risk. `/v1`, the console, the command line and `judgements/events.md` show these
//! sentences and have none of their own.

use super::event::{CallCounts, DeliveryView};
use super::judgement::{JudgedAct, Judgement, Risk};
use super::message_judgement::{PauseFact, StandsStill};
use super::order::EventAct;
use hooklatch_core::figures::{RERUNS_N_MAX, grouped, plural};
use hooklatch_core::times;
use hooklatch_core::types::{DeliveryState, EventState};

/// What the configuration of a node has for events of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventTaker {
    /// A route or a plain handler.
    Taken,
    /// A transactional handler, which may write to the tables of its owner besides.
    Transaction,
    /// The provider is configured, and nothing of it takes this type.
    Untaken,
    /// No provider of this name is configured.
    NoProvider,
}

/// What is kept of the body of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptBody {
    /// All of it: handlers can be run on it.
    Whole,
    /// It was stored without some values.
    Redacted,
    /// Nothing: it was erased, or pruned by its age.
    Gone,
}

/// All that an event is judged by.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct EventFacts<'a> {
    /// Name of its provider.
    pub provider: &'a str,
    pub state: EventState,
    /// Number of dispatches of its newest run.
    pub attempts_n: u32,
    /// Number of runs that people ordered.
    pub generation: u32,
    /// True when a person ordered its first run: it had been put aside.
    pub is_first_ordered: bool,
    pub delivery: &'a DeliveryView,
    pub body: KeptBody,
    pub taker: EventTaker,
    /// True when the database was restored from a backup after the event was received.
    pub is_restored: bool,
    /// True when its next dispatch has been due for some time.
    pub is_late: bool,
    /// True for a test event.
    pub is_synthetic: bool,
    /// Whether its provider is paused.
    pub pause: PauseFact,
    /// Other bodies that were received under its id and wait for a decision.
    pub conflicts_n: u32,
    /// Id of the event beside which it was kept.
    pub beside: Option<&'a str>,
    /// True when something that was kept beside it waits, or has calls that are not finished.
    pub has_open_beside: bool,
}

/// Every act, in the order in which acts of equal risk are offered.
const ACTS: [EventAct; 5] =
    [EventAct::Dismiss, EventAct::Rerun, EventAct::Dispatch, EventAct::Erase, EventAct::EraseAndDiscard];

/// Judges an event.
pub fn judge_event(facts: &EventFacts<'_>) -> Judgement<EventAct> {
    let judged = |act: EventAct| {
        let (risk, sentence) = match act {
            EventAct::Dismiss => dismiss(),
            EventAct::Rerun => facts.rerun(),
            EventAct::Dispatch => facts.dispatch(),
            EventAct::Erase => facts.erase(),
            EventAct::EraseAndDiscard => facts.erase_and_discard(),
        };
        JudgedAct { act, risk, sentence }
    };
    let mut acts: Vec<_> = ACTS.into_iter().filter(|act| facts.may(*act)).map(judged).collect();
    // Otherwise than for messages, what is lost here (an erased content) cannot be had again.
    acts.sort_by_key(|one| one.risk);
    Judgement { headline: facts.headline(), acts }
}

/// Why nothing was sent for an event in this state; `None` where something may have been, or will be.
pub fn why_not_sent(state: EventState) -> Option<&'static str> {
    Some(match state {
        EventState::Handled | EventState::Retry => return None,
        EventState::Failed => "Its handler refused it or ran out of retries, and this run sent nothing.",
        EventState::Ignored => "No route and no handler took it, so nothing was sent.",
        EventState::Superseded => {
            "A newer version of its object had been seen before it arrived, so it was kept and not dispatched."
        }
        EventState::Replayed => {
            "Its signed bytes had come before under another id, so it was recorded and not dispatched."
        }
        EventState::Unreadable => {
            "Its signature is valid, but no event could be read from it, so nothing was sent."
        }
        EventState::Conflict => {
            "It arrived with other content under the id of another event. Nothing was sent for it."
        }
        EventState::Dismissed => "Someone decided that it needs no action.",
    })
}

/// What the headline of an event adds about its open calls: which of them Hooklatch sends by itself (`None`), and why
/// it does not send the others; `is_worst` where no call of it is worse than open. Empty when there is nothing to say.
pub fn open_calls_in_words(calls: &[Option<StandsStill>], is_worst: bool) -> String {
    let sentences = [
        Some(StandsStill::Lane),
        Some(StandsStill::Paused),
        Some(StandsStill::NotConfigured),
        Some(StandsStill::Unreadable),
        None,
    ]
    .into_iter()
    .filter_map(|reason| {
        let calls_n = calls.iter().filter(|one| **one == reason).count() as u64;
        let (subject, are_many) = (plural(calls_n, "open call"), calls_n != 1);
        let waits = if are_many { "wait" } else { "waits" };
        (calls_n > 0 && (reason.is_some() || is_worst)).then(|| match reason {
            Some(StandsStill::Lane) => format!(
                "{subject} {waits} in a lane behind a message that is on hold or was given up: nothing is sent there before \
                 someone decides about that message."
            ),
            Some(StandsStill::Paused) => {
                format!("{subject} {waits} because the destination is paused: nothing is sent there before it is resumed.")
            }
            Some(StandsStill::NotConfigured) => {
                format!("{subject} {waits} for a destination that this node does not have in its configuration.")
            }
            Some(StandsStill::Unreadable) => {
                format!("{subject} cannot be sent: the content is no longer kept, or does not open on this node.")
            }
            None => format!("Hooklatch sends {subject} by itself."),
        })
    });
    sentences.collect::<Vec<_>>().join(" ")
}

fn dismiss() -> (Risk, String) {
    let sentence = "Closes it. Nothing is sent, and it can still be dispatched later.";
    (Risk::None, sentence.to_owned())
}

/// Some of the calls, as the subject of a sentence, and whether they are several.
fn calls(part_n: u32, all_n: u32) -> (String, bool) {
    if part_n < all_n {
        (format!("{} of {} calls", grouped(part_n.into()), grouped(all_n.into())), part_n != 1)
    } else if all_n == 1 {
        ("its only call".to_owned(), false)
    } else {
        (format!("all {} calls", grouped(all_n.into())), true)
    }
}

impl EventFacts<'_> {
    fn may(&self, act: EventAct) -> bool {
        let is_erasable =
            EventAct::Erase.is_for(self.state) && self.delivery.unfinished_n() == 0 && !self.has_open_beside;
        act.is_for(self.state)
            && match act {
                EventAct::Rerun | EventAct::Dispatch => {
                    self.body == KeptBody::Whole && !self.is_uncalled_test()
                }
                EventAct::Dismiss => true,
                EventAct::Erase => is_erasable,
                EventAct::EraseAndDiscard => !is_erasable,
            }
    }

    /// True for a test event that was made without calls: it stays without.
    fn is_uncalled_test(&self) -> bool {
        self.is_synthetic && self.state == EventState::Ignored
    }

    /// True when a call of it was made, or may yet be made besides those of a further run.
    fn has_calls(&self) -> bool {
        self.delivery.sent_n > 0 || self.delivery.unfinished_n() > 0 || self.delivery.delivered_n > 0
    }

    /// True when it is known that no call was made for it and none will be without another run.
    fn is_first_call(&self) -> bool {
        !self.has_calls() && self.delivery.state != DeliveryState::NoLongerKnown && !self.is_restored
    }

    fn rerun(&self) -> (Risk, String) {
        let new_keys = "under new keys, which destinations cannot tell from a new order";
        if self.has_calls() {
            let sentence = format!(
                "Runs its handler again and sends new calls {new_keys}: what its calls have done, or will do, is done a second time."
            );
            return (Risk::MayRepeatEffect, sentence);
        }
        if self.delivery.state == DeliveryState::NoLongerKnown {
            let sentence = format!(
                "Runs its handler again and sends new calls {new_keys}. Its earlier calls are no longer kept: if they were \
                 delivered, their effects happen a second time."
            );
            return (Risk::CannotSay, sentence);
        }
        if self.is_restored {
            let sentence = format!(
                "Runs its handler again and sends new calls {new_keys}. It may have been run between the backup and the \
                 restore: then its effects happen a second time."
            );
            return (Risk::CannotSay, sentence);
        }
        let may_have_written = matches!(self.taker, EventTaker::Transaction | EventTaker::NoProvider);
        if self.state == EventState::Handled && may_have_written {
            let sentence = "Runs its handler again. Nothing was sent for it, but a transactional handler may have written to \
                            your tables: it writes a second time.";
            return (Risk::CannotSay, sentence.to_owned());
        }
        let sentence = match self.taker {
            EventTaker::Taken | EventTaker::Transaction => {
                "Runs its handler and sends what follows. Nothing was sent for it before."
            }
            EventTaker::Untaken => {
                "Dispatches it again. This server has no route and no handler for its type: add one first, or it is \
                 ignored."
            }
            EventTaker::NoProvider => {
                "Dispatches it again. This server has no provider of its name: it waits until one is configured."
            }
        };
        (Risk::None, sentence.to_owned())
    }

    fn dispatch(&self) -> (Risk, String) {
        let first = match self.beside {
            Some(first) => format!("`{first}`"),
            None => "the event that arrived first".to_owned(),
        };
        let sentence = format!(
            "Runs its handler and sends what follows under keys of its own. If it is the same order as {first}, that order \
             is carried out twice."
        );
        (Risk::MayRepeatEffect, sentence)
    }

    fn erase(&self) -> (Risk, String) {
        let what = if self.body == KeptBody::Gone {
            "Its headers and body are no longer kept. Deletes the kept answers to its calls for good, and what was kept \
             beside it"
        } else {
            "Deletes its headers, body and kept answers for good, and those of what was kept beside it"
        };
        match self.delivery.state {
            DeliveryState::Delivered | DeliveryState::Settled | DeliveryState::None => {
                (Risk::None, format!("{what}. It cannot be run again afterwards."))
            }
            DeliveryState::NoLongerKnown => {
                let sentence = format!(
                    "{what}. Whether its calls were delivered is not known here, and it cannot be run again afterwards."
                );
                (Risk::CannotSay, sentence)
            }
            DeliveryState::NotSent => (
                Risk::LosesEffect,
                format!("{what}. Nothing was sent for it, and afterwards nothing can be."),
            ),
            _ => {
                let sentence =
                    format!("{what}. Not all that it asks for was done, and afterwards it can never be.");
                (Risk::LosesEffect, sentence)
            }
        }
    }

    fn erase_and_discard(&self) -> (Risk, String) {
        let erased = if self.body == KeptBody::Gone {
            "Then the kept answers to its calls, and what was kept beside it, are deleted for good."
        } else {
            "Then its content is deleted for good."
        };
        let unfinished_n = self.delivery.unfinished_n();
        if unfinished_n > 0 {
            let calls = plural(unfinished_n.into(), "unfinished call");
            let unsent = match self.delivery.unsent_n {
                0 if unfinished_n == 1 => ", which may have been sent and is not confirmed".to_owned(),
                0 => ", which may have been sent and are not confirmed".to_owned(),
                n if n == unfinished_n && n == 1 => " that was never sent".to_owned(),
                n if n == unfinished_n => " that were never sent".to_owned(),
                1 => ", of which 1 was never sent".to_owned(),
                n => format!(", of which {} were never sent", grouped(n.into())),
            };
            let waits =
                if EventAct::Erase.is_for(self.state) { "" } else { " Gives up what it waits for as well." };
            let sentence = format!("Discards {calls}{unsent}.{waits} {erased}");
            return (Risk::LosesEffect, sentence);
        }
        let sentence = if EventAct::Erase.is_for(self.state) {
            format!(
                "Discards the unfinished calls of what was kept beside it, and gives up what waits there. {erased}"
            )
        } else {
            format!("Gives it up: nothing is sent for it any more. {erased}")
        };
        (Risk::LosesEffect, sentence)
    }

    fn headline(&self) -> String {
        let mut parts = vec![self.what_happened()];
        parts.extend(self.fate_of_calls().filter(|_| self.state != EventState::Handled));
        let is_runnable = EventAct::Rerun.is_for(self.state) || EventAct::Dispatch.is_for(self.state);
        if is_runnable && self.state != EventState::Handled {
            match self.body {
                KeptBody::Whole => {}
                KeptBody::Redacted => parts.push(
                    "Its body was stored without some values, so no handler can run on it: ask the sender to send it again."
                        .to_owned(),
                ),
                KeptBody::Gone => parts.push(
                    "Its body is no longer kept, so no handler can run on it: ask the sender to send it again."
                        .to_owned(),
                ),
            }
        }
        parts.extend(self.conflicts());
        if self.is_restored {
            parts.push(
                "The database was restored from a backup after it arrived: what was done in between is not known here."
                    .to_owned(),
            );
        }
        parts.join(" ")
    }

    /// What an operator has to decide about bodies that were received under its id later.
    fn conflicts(&self) -> Option<String> {
        let (subject, are, them) = match self.conflicts_n {
            0 => return None,
            1 => ("Another body arrived".to_owned(), "is", "it"),
            n => (format!("{} other bodies arrived", grouped(n.into())), "are", "each"),
        };
        Some(format!(
            "{subject} under the same id and {are} not dispatched until someone decides: compare {them} with this one, then \
             dispatch or dismiss {them}."
        ))
    }

    /// ` No action needed`, where nothing waits beside it, and `unless`.
    fn no_action(&self, unless: &str) -> String {
        if self.conflicts_n == 0 { format!(" No action needed{unless}.") } else { String::new() }
    }

    fn what_happened(&self) -> String {
        let why = why_not_sent(self.state).unwrap_or_default();
        match self.state {
            EventState::Handled => self.handled(),
            EventState::Retry => self.waits(),
            EventState::Failed if self.is_first_call() => format!("{why} Correct the cause, then run it again."),
            EventState::Failed => {
                format!("{why} Correct the cause, and read what another run risks before you run it again.")
            }
            EventState::Ignored if self.is_synthetic => {
                "A test event that was made without calls, so nothing was sent. To have its calls made, make a new test event \
                 with `route`."
                    .to_owned()
            }
            EventState::Ignored => match self.taker {
                EventTaker::Untaken | EventTaker::NoProvider => {
                    format!("{why} If it should have an effect, add a route for its type before you run it again.")
                }
                EventTaker::Taken | EventTaker::Transaction => {
                    "No route took it when it arrived, or its handler chose to ignore it, so nothing was sent. This server \
                     has a route or a handler for its type now, though a route's `when` may still leave it out. It can be run \
                     again, if it should have an effect."
                        .to_owned()
                }
            },
            EventState::Replayed => format!("{why}{}", self.no_action(" unless it is an order of its own")),
            EventState::Unreadable => format!("{why} Read its body, and ask the sender what it was."),
            EventState::Conflict => {
                format!(
                    "{why} Decide: dispatch it if it is an order of its own, dismiss it if it is the same order."
                )
            }
            EventState::Superseded => format!("{why}{}", self.no_action("")),
            EventState::Dismissed => why.to_owned(),
        }
    }

    fn handled(&self) -> String {
        let Some(fate) = self.fate_of_calls() else {
            return format!("Handled. It asked for no calls, so nothing was sent.{}", self.no_action(""));
        };
        let link = match self.delivery.state {
            // A sentence of its own.
            _ if self.has_runs() => ".",
            DeliveryState::Delivered | DeliveryState::Settled | DeliveryState::Open => ", and",
            _ => ", but",
        };
        let end = match self.delivery.state {
            DeliveryState::Delivered | DeliveryState::Settled => self.no_action(""),
            _ => String::new(),
        };
        format!("Handled{link} {fate}{end}")
    }

    /// What an event waits for that is dispatched by itself.
    fn waits(&self) -> String {
        let so_far = match (self.attempts_n, self.has_runs()) {
            (0, false) => "Its handler has not run yet.".to_owned(),
            (0, true) => match self.runs() {
                Some((_, runs_n)) => format!("A re-run is queued: run {runs_n} of {runs_n}."),
                None => "A re-run is queued.".to_owned(),
            },
            _ => "Its handler has not succeeded yet.".to_owned(),
        };
        let paused = format!("It waits because `{}` is paused until", self.provider);
        let next = match self.pause {
            _ if self.taker == EventTaker::NoProvider => {
                "This server has no provider of its name: it is run only where that is configured.".to_owned()
            }
            PauseFact::UntilResumed => format!("{paused} an operator resumes it."),
            PauseFact::Until(until_ms) => format!("{paused} {}.", times::utc(until_ms)),
            PauseFact::No if self.is_late => {
                "The next run is overdue: check that a server with this provider is running.".to_owned()
            }
            PauseFact::No => "Hooklatch runs it by itself when it is due.".to_owned(),
        };
        format!("{so_far} {next}")
    }

    /// True when it was run again after a first run.
    fn has_runs(&self) -> bool {
        self.generation > self.first_generation()
    }

    /// The generation of its first run.
    fn first_generation(&self) -> u32 {
        u32::from(self.is_first_ordered)
    }

    /// The number of the newest run that left calls, 1 for the first, and of all runs. A restore of the database counts
    /// on from a number that says nothing to people.
    fn runs(&self) -> Option<(u32, u32)> {
        let run = |generation: u32| generation.saturating_sub(self.first_generation()).saturating_add(1);
        (self.has_runs() && self.generation < RERUNS_N_MAX)
            .then(|| (run(self.delivery.generation.unwrap_or_default()), run(self.generation)))
    }

    /// What became of its calls, in words; `None` when there are none. Where it was run again, one sentence about the
    /// newest run that left calls, and one about those before.
    fn fate_of_calls(&self) -> Option<String> {
        match self.delivery.state {
            DeliveryState::None | DeliveryState::NotSent => return None,
            DeliveryState::NoLongerKnown if self.has_runs() => {
                return Some(
                    "Calls of its runs are no longer kept, so whether they were delivered is not known here. Ask their \
                     destinations."
                        .to_owned(),
                );
            }
            DeliveryState::NoLongerKnown => {
                return Some(
                    "its calls are no longer kept, so whether they were delivered is not known here. Ask their \
                     destinations."
                        .to_owned(),
                );
            }
            _ => {}
        }
        let newest = self.delivery.newest();
        let mut fate = newest.fate()?;
        if self.has_runs() {
            let run = self.runs().map(|(run, runs_n)| format!("In run {run} of {runs_n}, "));
            fate = format!("{}{fate}", run.unwrap_or_else(|| "In its newest run with calls, ".to_owned()));
        }
        if let Some(earlier) = &self.delivery.earlier {
            let is_decided = earlier.held_n + earlier.dead_n > 0 && newest.held_n + newest.dead_n == 0;
            let decide = if is_decided { " Decide about each of these messages." } else { "" };
            fate = format!("{fate} Calls of earlier runs: {}.{decide}", earlier.in_words());
        }
        Some(fate)
    }
}

impl CallCounts {
    /// `1 on hold, 2 delivered`.
    fn in_words(&self) -> String {
        let words = [
            (self.held_n, "on hold"),
            (self.dead_n, "given up"),
            (self.open_n, "still to be delivered"),
            (self.discarded_n, "discarded"),
            (self.settled_n, "settled as done by an operator"),
            (self.delivered_n, "delivered"),
        ];
        let parts = words.iter().filter(|(calls_n, _)| *calls_n > 0);
        parts
            .map(|(calls_n, word)| format!("{} {word}", grouped((*calls_n).into())))
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// What became of the calls of one run, by the worst of them, as the rest of a sentence.
    fn fate(&self) -> Option<String> {
        let all_n = self.messages_n;
        Some(match self.worst()? {
            DeliveryState::Settled => {
                let (subject, are_many) = calls(self.settled_n, all_n);
                let (were, their) =
                    if are_many { ("were", "their destinations") } else { ("was", "its destination") };
                format!("{subject} {were} settled as done by an operator; {their} did not confirm it.")
            }
            DeliveryState::Open => {
                let (subject, are_many) = calls(self.open_n, all_n);
                format!("{subject} {} still to be delivered.", if are_many { "are" } else { "is" })
            }
            DeliveryState::Held => {
                let (subject, are_many) = calls(self.held_n, all_n);
                let dead = match self.dead_n {
                    0 => String::new(),
                    1 => " Besides, 1 was given up.".to_owned(),
                    n => format!(" Besides, {} were given up.", grouped(n.into())),
                };
                format!(
                    "{subject} {} on hold, and not sent until someone decides. Decide about each of these messages.{dead}",
                    if are_many { "are" } else { "is" }
                )
            }
            DeliveryState::Dead => {
                let (subject, are_many) = calls(self.dead_n, all_n);
                format!(
                    "{subject} {} to do did not happen, or it is not known that it did. Correct the cause, then decide about \
                     each of these messages.",
                    if are_many { "were given up: what they were" } else { "was given up: what it was" }
                )
            }
            DeliveryState::Discarded => {
                let (subject, are_many) = calls(self.discarded_n, all_n);
                format!(
                    "someone discarded {subject}: {} not sent any more.",
                    if are_many { "they are" } else { "it is" }
                )
            }
            _ => {
                let (subject, are_many) = calls(self.delivered_n, all_n);
                format!("{subject} {} delivered.", if are_many { "were" } else { "was" })
            }
        })
    }
}

#[cfg(test)]
mod tests;
