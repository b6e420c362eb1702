//! The judgement of an event: from what its row, its calls and this node's configuration say, a headline and the acts that
//! are possible, each with its risk. `/v1`, the console, the command line and docs/judgements-events.md show these
//! sentences and have none of their own.

use super::event::DeliveryView;
use super::judgement::{JudgedAct, Judgement, Risk};
use super::order::EventAct;
use crate::figures::{grouped, plural};
use crate::types::{DeliveryState, EventState};

/// What the configuration of a node has for events of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventTaker {
    /// A route or a plain handler.
    Somebody,
    /// A transactional handler, which may write to the tables of its owner besides.
    Transaction,
    /// The provider is configured, and nothing of it takes this type.
    Nobody,
    /// No provider of this name is configured.
    NoProvider,
}

/// What is kept of the body of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeptBody {
    /// All of it: handlers can be run on it.
    Whole,
    /// It was stored without some values.
    Redacted,
    /// Nothing: it was erased, or pruned by its age.
    Gone,
}

/// All that an event is judged by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventFacts<'a> {
    pub(crate) state: EventState,
    pub(crate) delivery: &'a DeliveryView,
    pub(crate) body: KeptBody,
    pub(crate) taker: EventTaker,
    /// True when the database was restored from a backup after the event came.
    pub(crate) is_restored: bool,
    /// True when its next dispatch has been due for some time.
    pub(crate) is_late: bool,
    /// True for a test event.
    pub(crate) is_synthetic: bool,
    /// Id of the event beside which it was kept.
    pub(crate) beside: Option<&'a str>,
    /// True when something that was kept beside it waits, or has calls that are not finished.
    pub(crate) has_open_beside: bool,
}

/// Every act, in the order in which acts of equal risk are offered.
const ACTS: [EventAct; 5] =
    [EventAct::Dismiss, EventAct::Rerun, EventAct::Dispatch, EventAct::Erase, EventAct::EraseAndDiscard];

/// Judges an event.
pub(crate) fn judge_event(facts: &EventFacts<'_>) -> Judgement<EventAct> {
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
    acts.sort_by_key(|one| one.risk);
    Judgement { headline: facts.headline(), acts }
}

/// Why nothing was sent for an event in this state; `None` where something may have been, or will be.
pub(crate) fn why_not_sent(state: EventState) -> Option<&'static str> {
    Some(match state {
        EventState::Done | EventState::Retry => return None,
        EventState::Failed => "Its handler refused it or ran out of retries, and this run sent nothing.",
        EventState::Ignored => "No route and no handler took it, so nothing was sent.",
        EventState::Superseded => {
            "A newer version of its object had been seen before it came, so it was kept and not dispatched."
        }
        EventState::Replayed => {
            "Its signed bytes had come before under another id, so it was recorded and not dispatched."
        }
        EventState::Unreadable => {
            "Its signature is valid, but no event could be read from it, so nothing was sent."
        }
        EventState::Conflict => {
            "It came with other content under the id of another event. Nothing was sent for it."
        }
        EventState::Dismissed => "Someone decided that nothing is to be done about it.",
    })
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
        if self.state == EventState::Done && may_have_written {
            let sentence = "Runs its handler again. Nothing was sent for it, but a transactional handler may have written to \
                            your tables: it writes a second time.";
            return (Risk::CannotSay, sentence.to_owned());
        }
        let sentence = match self.taker {
            EventTaker::Somebody | EventTaker::Transaction => {
                "Runs its handler and sends what follows. Nothing was sent for it before."
            }
            EventTaker::Nobody => {
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
            None => "the event that came first".to_owned(),
        };
        let sentence = format!(
            "Runs its handler and sends what follows under keys of its own. If it is the same order as {first}, that order \
             is carried out twice."
        );
        (Risk::MayRepeatEffect, sentence)
    }

    fn erase(&self) -> (Risk, String) {
        let what =
            "Deletes its headers, body and kept answers for good, and those of what was kept beside it";
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
        let erased = "Then its content is deleted for good.";
        let unfinished_n = self.delivery.unfinished_n();
        if unfinished_n > 0 {
            let calls = plural(unfinished_n.into(), "unfinished call");
            let unsent = match self.delivery.unsent_n {
                0 => ", each sent at least once and not confirmed".to_owned(),
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
        if self.state != EventState::Done {
            parts.extend(self.fate_of_calls().map(|fate| format!("Of an earlier run, {fate}")));
        }
        let is_runnable = EventAct::Rerun.is_for(self.state) || EventAct::Dispatch.is_for(self.state);
        if is_runnable && self.state != EventState::Done {
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
        if self.is_restored {
            parts.push(
                "The database was restored from a backup after it came: what was done in between is not known here."
                    .to_owned(),
            );
        }
        parts.join(" ")
    }

    fn what_happened(&self) -> String {
        let why = why_not_sent(self.state).unwrap_or_default();
        match self.state {
            EventState::Done => match (self.delivery.state, self.fate_of_calls()) {
                (DeliveryState::Delivered | DeliveryState::Settled, Some(fate)) => {
                    format!("Handled, and {fate} No action needed.")
                }
                (DeliveryState::Open, Some(fate)) => format!("Handled, and {fate}"),
                (_, Some(fate)) => format!("Handled, but {fate}"),
                (_, None) => "Handled. It asked for no calls, so nothing was sent. No action needed.".to_owned(),
            },
            EventState::Retry if self.taker == EventTaker::NoProvider => {
                "Its handler has not succeeded yet. This server has no provider of its name: it is run only where that is \
                 configured."
                    .to_owned()
            }
            EventState::Retry if self.is_late => {
                "Its handler has not succeeded yet, and the next run is overdue: check that a server with this provider is \
                 running."
                    .to_owned()
            }
            EventState::Retry => {
                "Its handler has not succeeded yet. Hooklatch runs it by itself when it is due.".to_owned()
            }
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
                EventTaker::Nobody | EventTaker::NoProvider => {
                    format!("{why} If it should have an effect, add a route for its type before you run it again.")
                }
                EventTaker::Somebody | EventTaker::Transaction => {
                    "No route took it when it came, or its handler chose to ignore it, so nothing was sent. This server \
                     has a route or a handler for its type now: it can be run again, if it should have an effect."
                        .to_owned()
                }
            },
            EventState::Replayed => format!("{why} No action needed unless it is an order of its own."),
            EventState::Unreadable => format!("{why} Read its body, and ask the sender what it was."),
            EventState::Conflict => {
                format!(
                    "{why} Decide: dispatch it if it is an order of its own, dismiss it if it is the same order."
                )
            }
            EventState::Superseded => format!("{why} No action needed."),
            EventState::Dismissed => why.to_owned(),
        }
    }

    /// What became of its calls, as the rest of a sentence; `None` when there are none.
    fn fate_of_calls(&self) -> Option<String> {
        let calls_n = self.delivery;
        let all_n = calls_n.messages_n;
        Some(match calls_n.state {
            DeliveryState::None | DeliveryState::NotSent => return None,
            DeliveryState::Delivered => {
                let (subject, are_many) = calls(calls_n.delivered_n, all_n);
                format!("{subject} {} delivered.", if are_many { "were" } else { "was" })
            }
            DeliveryState::Settled => {
                let (subject, are_many) = calls(calls_n.settled_n, all_n);
                let (were, their) = if are_many { ("were", "their destinations") } else { ("was", "its destination") };
                format!("{subject} {were} settled as done by an operator; {their} did not confirm it.")
            }
            DeliveryState::Open => {
                let (subject, are_many) = calls(calls_n.open_n, all_n);
                let (are, them) = if are_many { ("are", "them") } else { ("is", "it") };
                format!("{subject} {are} still to be delivered. Hooklatch sends {them} by itself.")
            }
            DeliveryState::Held => {
                let (subject, are_many) = calls(calls_n.held_n, all_n);
                let dead = match calls_n.dead_n {
                    0 => String::new(),
                    n => format!(" Besides, {} given up.", if n == 1 { "1 was".to_owned() } else { format!("{n} were") }),
                };
                format!(
                    "{subject} {} on hold, and not sent until someone decides. Decide about each on the page of its \
                     message.{dead}",
                    if are_many { "are" } else { "is" }
                )
            }
            DeliveryState::Dead => {
                let (subject, are_many) = calls(calls_n.dead_n, all_n);
                format!(
                    "{subject} {} to do did not happen, or nobody knows that it did. Correct the cause, then decide about \
                     each on the page of its message.",
                    if are_many { "were given up: what they were" } else { "was given up: what it was" }
                )
            }
            DeliveryState::Discarded => {
                let (subject, are_many) = calls(calls_n.discarded_n, all_n);
                format!(
                    "someone discarded {subject}: {} not sent any more.",
                    if are_many { "they are" } else { "it is" }
                )
            }
            DeliveryState::NoLongerKnown => {
                "its calls are no longer kept, so whether they were delivered is not known here. Ask their destinations."
                    .to_owned()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an event has of calls, by the state that this makes: three calls, of which one is the worst.
    fn deliveries() -> Vec<DeliveryView> {
        let one = |state: DeliveryState| {
            let is = |wanted: DeliveryState| u32::from(state == wanted);
            let (held_n, dead_n, open_n) =
                (is(DeliveryState::Held), is(DeliveryState::Dead), is(DeliveryState::Open));
            let has_calls =
                !matches!(state, DeliveryState::None | DeliveryState::NotSent | DeliveryState::NoLongerKnown);
            let delivered_n = if state == DeliveryState::Delivered { 3 } else { 2 * u32::from(has_calls) };
            DeliveryView {
                state,
                messages_n: 3 * u32::from(has_calls),
                delivered_n,
                open_n,
                held_n,
                dead_n,
                discarded_n: is(DeliveryState::Discarded),
                settled_n: is(DeliveryState::Settled),
                unsent_n: open_n,
                sent_n: delivered_n + held_n + dead_n,
                error: None,
            }
        };
        let mut all: Vec<DeliveryView> = DeliveryState::ALL.iter().map(|state| one(*state)).collect();
        // Discarded before anything was sent, and of a kind that has all its calls in one state.
        let discarded = one(DeliveryState::Discarded);
        all.push(DeliveryView { messages_n: 1, delivered_n: 0, sent_n: 0, ..discarded });
        let dead = one(DeliveryState::Dead);
        all.push(DeliveryView {
            messages_n: 54,
            delivered_n: 0,
            dead_n: 54,
            sent_n: 54,
            unsent_n: 0,
            ..dead
        });
        let held = one(DeliveryState::Held);
        all.push(DeliveryView { messages_n: 2, delivered_n: 0, dead_n: 1, sent_n: 2, unsent_n: 0, ..held });
        let open = one(DeliveryState::Open);
        all.push(DeliveryView { messages_n: 1, delivered_n: 0, open_n: 1, sent_n: 0, unsent_n: 1, ..open });
        all
    }

    /// True when an event can stand so: what is handled has a word for its calls, what is not has another one.
    fn can_be(state: EventState, delivery: &DeliveryView) -> bool {
        match delivery.state {
            DeliveryState::None => state == EventState::Done,
            DeliveryState::NotSent => state != EventState::Done,
            _ => true,
        }
    }

    /// Every combination of facts.
    fn each(mut check: impl FnMut(&EventFacts<'_>)) {
        const FLAGS: [bool; 2] = [false, true];
        for delivery in &deliveries() {
            for state in EventState::ALL.iter().copied().filter(|state| can_be(*state, delivery)) {
                for body in [KeptBody::Whole, KeptBody::Redacted, KeptBody::Gone] {
                    for taker in [
                        EventTaker::Somebody,
                        EventTaker::Transaction,
                        EventTaker::Nobody,
                        EventTaker::NoProvider,
                    ] {
                        for (is_restored, is_late) in
                            FLAGS.into_iter().flat_map(|one| FLAGS.map(|two| (one, two)))
                        {
                            for (has_open_beside, is_synthetic) in
                                FLAGS.into_iter().flat_map(|one| FLAGS.map(|two| (one, two)))
                            {
                                check(&EventFacts {
                                    state,
                                    delivery,
                                    body,
                                    taker,
                                    is_restored,
                                    is_late,
                                    is_synthetic,
                                    beside: (state == EventState::Conflict).then_some("evt_1"),
                                    has_open_beside,
                                });
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn no_combination_calls_harmless_what_may_repeat_or_lose_an_effect() {
        let mut combinations_n = 0;
        each(|facts| {
            combinations_n += 1;
            let judgement = judge_event(facts);
            let of = |act: EventAct| judgement.acts.iter().find(|one| one.act == act);
            let delivery = facts.delivery;
            for one in &judgement.acts {
                assert!(one.act.is_for(facts.state), "{facts:?}: {one:?}");
                assert!(one.sentence.ends_with('.') && !one.sentence.contains("  "), "{one:?}");
                assert!(!one.sentence.contains("safe"), "{one:?}");
            }
            assert!(judgement.acts.is_sorted_by_key(|one| one.risk), "the safest first: {judgement:?}");
            let is_run = |one: &JudgedAct<EventAct>| matches!(one.act, EventAct::Rerun | EventAct::Dispatch);
            let may_run =
                facts.body == KeptBody::Whole && !(facts.is_synthetic && facts.state == EventState::Ignored);
            assert!(may_run || !judgement.acts.iter().any(is_run), "{facts:?}");
            if let Some(rerun) = of(EventAct::Rerun) {
                let is_harmless = delivery.sent_n == 0
                    && delivery.unfinished_n() == 0
                    && delivery.state != DeliveryState::NoLongerKnown
                    && !facts.is_restored;
                assert!(rerun.risk != Risk::None || is_harmless, "{facts:?}: {rerun:?}");
                let has_called = delivery.sent_n > 0 || delivery.unfinished_n() > 0;
                assert_eq!(rerun.risk == Risk::MayRepeatEffect, has_called, "{facts:?}: {rerun:?}");
                let says_so = rerun.sentence.contains("cannot tell from a new order");
                assert!(!has_called || says_so, "{rerun:?}");
            }
            if let Some(dispatch) = of(EventAct::Dispatch) {
                assert_eq!(dispatch.risk, Risk::MayRepeatEffect, "{facts:?}");
            }
            if let Some(erase) = of(EventAct::Erase) {
                let is_done = matches!(
                    delivery.state,
                    DeliveryState::Delivered | DeliveryState::Settled | DeliveryState::None
                );
                assert_eq!(erase.risk == Risk::None, is_done, "{facts:?}: {erase:?}");
                assert_eq!((delivery.unfinished_n(), facts.has_open_beside), (0, false), "{facts:?}");
            }
            if let Some(discard) = of(EventAct::EraseAndDiscard) {
                assert_eq!(discard.risk, Risk::LosesEffect, "{facts:?}");
                let numbered = format!("Discards {} unfinished call", delivery.unfinished_n());
                assert!(
                    delivery.unfinished_n() == 0 || discard.sentence.starts_with(&numbered),
                    "{discard:?}"
                );
            }
            let erases = [EventAct::Erase, EventAct::EraseAndDiscard].map(|act| u32::from(of(act).is_some()));
            assert_eq!(erases[0] + erases[1], 1, "one of them, never both: {facts:?}");
            let headline = &judgement.headline;
            let is_urged = headline.contains("then run it again");
            let has_called = delivery.sent_n > 0 || delivery.unfinished_n() > 0;
            assert!(!is_urged || !has_called, "{facts:?}: {headline}");
            assert!(headline.ends_with('.') && !headline.contains("  "), "{headline}");
            let needs_nobody = !matches!(
                delivery.state,
                DeliveryState::Held
                    | DeliveryState::Dead
                    | DeliveryState::Discarded
                    | DeliveryState::NoLongerKnown
            );
            let is_said = facts.state == EventState::Done && headline.contains("No action needed");
            assert!(!is_said || needs_nobody, "{facts:?}: {headline}");
            let is_delivered =
                headline.starts_with("Handled, and all") && headline.contains("were delivered");
            assert!(!is_delivered || delivery.state == DeliveryState::Delivered, "{facts:?}: {headline}");
        });
        assert!(combinations_n > 5_000, "{combinations_n}");
    }

    const HEAD: &str = "# Judgements of events\n\nWhat the console, `hooklatch events show` and `/v1` say of an event, and \
        what each act on it risks. Read it to know in advance what a button does. The page is made of the program; \
        `UPDATE_JUDGEMENTS=1 cargo nextest run -E 'test(the_page_of_judgements_of_events)'` writes it.\n\nRisks: `none`, \
        `may_repeat_effect` (an effect that may have happened may happen again), `loses_effect` (an effect that was \
        wanted will not happen), `cannot_say` (what is needed to judge it is not known: treat it as unsafe).\n";

    /// An event of which nothing is out of the ordinary but these two.
    fn usual(state: EventState, delivery: &DeliveryView) -> EventFacts<'_> {
        EventFacts {
            state,
            delivery,
            body: KeptBody::Whole,
            taker: EventTaker::Somebody,
            is_restored: false,
            is_late: false,
            is_synthetic: false,
            beside: (state == EventState::Conflict).then_some("evt_1"),
            has_open_beside: false,
        }
    }

    /// A row of the page.
    fn row(facts: &EventFacts<'_>, what: &str) -> String {
        let judgement = judge_event(facts);
        let acts = judgement.acts.iter().map(|one| {
            let word = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            let (act, risk) = (serde_json::to_value(one.act), serde_json::to_value(one.risk));
            format!("`{}` (`{}`): {}", word(act.unwrap()), word(risk.unwrap()), one.sentence)
        });
        let acts = acts.collect::<Vec<_>>().join("<br>");
        format!("| {what} | {} | {acts} |\n", judgement.headline)
    }

    fn head(what: &str) -> String {
        format!("\n| {what} | headline | acts |\n|---|---|---|\n")
    }

    /// How facts besides state and calls change a judgement.
    fn other_facts(all: &[DeliveryView]) -> String {
        let of = |wanted: DeliveryState| all.iter().find(|one| one.state == wanted).unwrap();
        let (none, delivered, not_sent) =
            (of(DeliveryState::None), of(DeliveryState::Delivered), of(DeliveryState::NotSent));
        let (failed, handled) = (usual(EventState::Failed, not_sent), usual(EventState::Done, delivered));
        let (retry, ignored) = (usual(EventState::Retry, not_sent), usual(EventState::Ignored, not_sent));
        let no_calls = usual(EventState::Done, none);
        let rows = [
            ("`failed`, its body is gone", EventFacts { body: KeptBody::Gone, ..failed }),
            ("`failed`, its body was redacted", EventFacts { body: KeptBody::Redacted, ..failed }),
            ("`failed`, no route takes its type here", EventFacts { taker: EventTaker::Nobody, ..failed }),
            ("`failed`, no such provider here", EventFacts { taker: EventTaker::NoProvider, ..failed }),
            ("`failed`, restored from a backup since", EventFacts { is_restored: true, ..failed }),
            ("`done`, delivered, restored since", EventFacts { is_restored: true, ..handled }),
            ("`done`, delivered, its body is gone", EventFacts { body: KeptBody::Gone, ..handled }),
            (
                "`done`, delivered, a conflict is kept beside it",
                EventFacts { has_open_beside: true, ..handled },
            ),
            (
                "`done`, no calls, by a transactional handler",
                EventFacts { taker: EventTaker::Transaction, ..no_calls },
            ),
            ("`ignored`, still no route for its type", EventFacts { taker: EventTaker::Nobody, ..ignored }),
            ("`retry`, overdue", EventFacts { is_late: true, ..retry }),
            ("`retry`, no such provider here", EventFacts { taker: EventTaker::NoProvider, ..retry }),
        ];
        rows.iter().map(|(what, facts)| row(facts, what)).collect()
    }

    /// The page of all judgements: what an operator reads for each state and delivery, then how other facts change it.
    fn page() -> String {
        let (mut page, all) = (HEAD.to_owned(), deliveries());
        for state in EventState::ALL {
            page += "\n## `";
            page += state.as_str();
            page += "`";
            page += if *state == EventState::Done { ", shown as `handled`\n" } else { "\n" };
            page += &head("calls");
            let shown_n = if *state == EventState::Done { all.len() } else { DeliveryState::ALL.len() };
            for delivery in all.iter().take(shown_n).filter(|delivery| can_be(*state, delivery)) {
                let words = match delivery.state {
                    DeliveryState::None | DeliveryState::NotSent | DeliveryState::NoLongerKnown => {
                        String::new()
                    }
                    _ => format!(", {} of {} delivered", delivery.delivered_n, delivery.messages_n),
                };
                page += &row(&usual(*state, delivery), &format!("`{}`{words}", delivery.state.as_str()));
            }
        }
        page += "\n## What else changes a judgement\n";
        page += &head("fact");
        page + &other_facts(&all)
    }

    #[test]
    fn the_page_of_judgements_of_events_is_what_the_program_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/judgements-events.md");
        let page = page();
        if std::env::var_os("UPDATE_JUDGEMENTS").is_some() {
            std::fs::write(path, &page).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            written == page,
            "docs/judgements-events.md is out of date: run this test with UPDATE_JUDGEMENTS=1"
        );
    }
}
