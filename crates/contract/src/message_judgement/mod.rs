//! The judgement of a message: what happened to it, what a person may do about it, and what each act risks.
//!
//! It follows [`UnknownWord::repeat`], the rule by which messages are sent again. What is not known never reads as
//! safe. `judgements/messages.md` of this crate has every judgement; `tests.rs` writes it.

use super::event::MessageView;
use super::judgement::{JudgedAct, Judgement, Risk};
use super::order::MessageAct;
use hooklatch_core::figures::plural;
use hooklatch_core::times;
use hooklatch_core::types::{AttemptResult, MessageState, Repeat, SentUnder, UnixMs, UnknownWord};

/// What a judgement of a message needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageFacts {
    /// State in which it stands.
    pub state: MessageState,
    /// Number of claims so far.
    pub attempts_n: u32,
    /// How the last attempt ended.
    pub last_result: Option<AttemptResult>,
    /// The strictest rule under which a call was made that may have taken effect.
    pub sent_under: Option<SentUnder>,
    /// Due time, end of the lease, or since when it is held or dead.
    pub visible_at_ms: UnixMs,
    /// Time when the first attempt was claimed.
    pub first_sent_at_ms: Option<UnixMs>,
    /// Time past which nothing is sent by itself.
    pub key_valid_until_ms: Option<UnixMs>,
    /// True when it is in a lane, in which nothing goes out before it.
    pub is_in_lane: bool,
    /// State of the message at the head of its lane, where it waits behind that one and it is known.
    pub head: Option<MessageState>,
    /// Whether there is something to send.
    pub content: MessageContent,
    /// The rule of its destination as this node has it; `None`: this node does not have the destination.
    pub policy: Option<RepeatPolicy>,
    /// True while the circuit breaker of this node lets at most one call through.
    pub is_breaker_open: bool,
    /// Whether its destination is paused.
    pub pause: PauseFact,
    /// True when its event was run again after it was written: calls of that run may have done the same.
    pub is_rerun: bool,
    /// The time of the judgement.
    pub now_ms: UnixMs,
}

/// The present rule of a destination for calls that may have taken effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepeatPolicy {
    /// `retry`, `query` or `hold`.
    pub unknown: UnknownWord,
    /// Time for which a key may be used from the first call on. Milliseconds.
    pub key_valid_for_ms: i64,
}

/// Whether the bytes of a message can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageContent {
    /// They are there.
    Kept,
    /// They were erased, redacted or deleted.
    Gone,
    /// They are sealed with a key that this node does not have, or in clear where that is refused.
    Sealed,
}

/// Whether a destination is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseFact {
    /// It is not.
    No,
    /// Until an operator resumes it.
    UntilResumed,
    /// Until then, or until an operator resumes it.
    Until(UnixMs),
}

/// Reason why Hooklatch does not send an open message until an operator acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StandsStill {
    /// The message at the head of its lane is held or was given up.
    Lane,
    /// Its destination is paused.
    Paused,
    /// This node does not have its destination.
    NotConfigured,
    /// Its content is missing, or sealed with a key that is missing.
    Unreadable,
}

/// The effect of sending a message again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resend {
    /// This node does not know the destination.
    NotConfigured,
    /// No call may have taken effect.
    NothingReached,
    /// The destination acts once per key, and remembers this one until then.
    UnderKey(UnixMs),
    /// The destination may have forgotten the key since then.
    OldKey(Option<UnixMs>),
    /// The destination does not recognise a repeated call, and can be queried.
    Query,
    /// The destination neither recognises a repeated call nor can be queried.
    Hold,
    /// A call was made under this rule, and today's does not cover it.
    Changed(Option<SentUnder>),
}

impl MessageFacts {
    /// The facts of a message, as far as its row has them.
    pub fn of(message: &MessageView, now_ms: UnixMs) -> Self {
        Self {
            state: message.state,
            attempts_n: message.attempts_n,
            last_result: message.last_result,
            sent_under: message.sent_under,
            visible_at_ms: message.visible_at_ms,
            first_sent_at_ms: message.first_sent_at_ms,
            key_valid_until_ms: message.key_valid_until_ms,
            is_in_lane: message.lane.is_some(),
            head: None,
            content: MessageContent::Kept,
            policy: None,
            is_breaker_open: false,
            pause: PauseFact::No,
            is_rerun: false,
            now_ms,
        }
    }

    /// Judges the message.
    pub fn judge(&self) -> Judgement<MessageAct> {
        let possible = [MessageAct::Done, MessageAct::Send, MessageAct::Discard];
        let mut acts: Vec<JudgedAct<MessageAct>> = possible
            .into_iter()
            .filter(|act| act.is_for(self.state) && !self.is_under_way())
            .map(|act| self.judge_act(act))
            .collect();
        // Otherwise than for events, an effect that is lost can be had again, by a further run of its event; one that
        // happened twice stays so.
        acts.sort_by_key(|one| match one.risk {
            Risk::None => 0,
            Risk::LosesEffect => 1,
            Risk::MayRepeatEffect => 2,
            Risk::CannotSay => 3,
        });
        Judgement { headline: self.headline(), acts }
    }

    /// Reason why Hooklatch does not send this open message until an operator acts; `None` when it does, or is not
    /// open.
    pub fn stands_still(&self) -> Option<StandsStill> {
        let is_open = match self.state {
            MessageState::Ready | MessageState::Waiting => true,
            MessageState::Leased => !self.is_under_way(),
            _ => false,
        };
        let is_behind = matches!(self.head, Some(MessageState::Held | MessageState::Dead));
        match () {
            () if !is_open => None,
            () if self.state == MessageState::Waiting && is_behind => Some(StandsStill::Lane),
            () if self.policy.is_none() => Some(StandsStill::NotConfigured),
            () if self.pause != PauseFact::No => Some(StandsStill::Paused),
            () if self.content != MessageContent::Kept => Some(StandsStill::Unreadable),
            () => None,
        }
    }

    /// Reason why the lane that this message is the head of does not move; `None` when it moves, or its head is due.
    pub fn lane_blocked_by(&self) -> Option<&'static str> {
        match self.state {
            MessageState::Held => Some("held"),
            MessageState::Dead => Some("dead"),
            MessageState::Leased if self.is_under_way() => None,
            _ if self.policy.is_none() => Some("not_configured"),
            _ if self.pause != PauseFact::No => Some("paused"),
            _ if self.content != MessageContent::Kept => Some("unreadable"),
            _ if self.is_breaker_open => Some("breaker_open"),
            MessageState::Leased => Some("lease_ended"),
            _ if self.attempts_n > 0 && self.visible_at_ms > self.now_ms => Some("backing_off"),
            _ => None,
        }
    }

    /// The sentence that stands where its attempts would, when none is on record.
    pub fn no_attempts(&self) -> &'static str {
        match () {
            () if self.attempts_n > 0 => "Its attempts are no longer kept.",
            () if self.may_have_acted() => {
                "No attempt of it is on record: a call may have been made in the time that a restore took away."
            }
            () if matches!(self.state, MessageState::Done | MessageState::Discarded) => "It was never sent.",
            () => "It was not sent yet.",
        }
    }

    /// True when a node may still be at it: nothing is decided about it until its lease has ended.
    fn is_under_way(&self) -> bool {
        self.state == MessageState::Leased && self.visible_at_ms > self.now_ms
    }

    /// True when it is unknown whether the last call took effect.
    fn is_uncertain(&self) -> bool {
        self.state == MessageState::Leased || self.last_result == Some(AttemptResult::Unknown)
    }

    /// True when any call of it may have taken effect.
    fn may_have_acted(&self) -> bool {
        self.sent_under.is_some() || self.is_uncertain()
    }

    /// Time until which the program itself takes the key for known.
    fn key_until_ms(&self) -> Option<UnixMs> {
        self.key_valid_until_ms.or(self.counted_until_ms())
    }

    /// Time until which a person may count on the key: where the configuration was changed since the message was sent,
    /// the shorter time counts.
    pub(crate) fn safe_until_ms(&self) -> Option<UnixMs> {
        [self.key_valid_until_ms, self.counted_until_ms()].into_iter().flatten().min()
    }

    fn counted_until_ms(&self) -> Option<UnixMs> {
        let (at_ms, policy) = self.first_sent_at_ms.zip(self.policy)?;
        Some(at_ms.saturating_add(policy.key_valid_for_ms))
    }

    fn resend(&self) -> Resend {
        let Some(policy) = self.policy else { return Resend::NotConfigured };
        if !self.may_have_acted() {
            return Resend::NothingReached;
        }
        let until_ms = self.safe_until_ms();
        let is_key_valid = until_ms.is_some_and(|until_ms| self.now_ms < until_ms);
        match (policy.unknown.repeat(true, is_key_valid), until_ms) {
            (Repeat::HoldUnknown, _) => Resend::Hold,
            (Repeat::Ask, _) => Resend::Query,
            (Repeat::Send, Some(until_ms))
                if matches!(self.sent_under, Some(SentUnder::Retry | SentUnder::Restored)) =>
            {
                Resend::UnderKey(until_ms)
            }
            (Repeat::Send, _) => Resend::Changed(self.sent_under),
            (Repeat::HoldOldKey, _) => Resend::OldKey(until_ms),
        }
    }

    fn judge_act(&self, act: MessageAct) -> JudgedAct<MessageAct> {
        let (risk, sentence) = match act {
            MessageAct::Send => self.send(),
            MessageAct::Done => (Risk::LosesEffect, self.passed(self.done())),
            MessageAct::Discard => (Risk::LosesEffect, self.passed(self.discard())),
        };
        JudgedAct { act, risk, sentence }
    }

    fn send(&self) -> (Risk, String) {
        let twice = "if an earlier call took effect, it happens a second time";
        let (risk, sentence) = match self.resend() {
            Resend::NotConfigured => (
                Risk::CannotSay,
                "This node does not have the destination in its configuration, so it cannot say whether sending again \
                 repeats an effect. Do not send before you know."
                    .to_owned(),
            ),
            Resend::NothingReached => (
                Risk::None,
                "Sends it. No call of it can have taken effect so far, so nothing happens twice.".to_owned(),
            ),
            Resend::UnderKey(until_ms) => (
                Risk::None,
                format!(
                    "Sends it again under the same key. Until {} the destination recognises the key and acts once \
                     (`unknown = \"retry\"`).",
                    times::utc(until_ms)
                ),
            ),
            Resend::OldKey(until_ms) => {
                let since = until_ms.map_or_else(String::new, |at_ms| format!(" since {}", times::utc(at_ms)));
                let sentence = format!(
                    "The destination may have forgotten the key{since}: {twice}. Do not send before you have asked them."
                );
                (Risk::MayRepeatEffect, sentence)
            }
            Resend::Query => (
                Risk::MayRepeatEffect,
                format!(
                    "Sends it at once, without asking the destination first, and the destination does not recognise a \
                     repeated call (`unknown = \"query\"`): {twice}. Do not send before you have asked them."
                ),
            ),
            Resend::Hold => (
                Risk::MayRepeatEffect,
                format!(
                    "It is not known whether it took effect, and the destination does not recognise a repeated call \
                     (`unknown = \"hold\"`): {twice}. Do not send before you have asked them."
                ),
            ),
            Resend::Changed(under) => {
                let when = match under {
                    Some(under) => format!("A call was made while the destination was set to `unknown = \"{under}\"`"),
                    None => "It is not on record under which `unknown` the last call was made".to_owned(),
                };
                let sentence = format!(
                    "{when}, so it may not recognise this key: {twice}. Do not send before you have asked them."
                );
                (Risk::MayRepeatEffect, sentence)
            }
        };
        let rerun = "Its event was run again after this call was written. The calls of that run can have done the same under \
                     other keys, which no destination can tell from a new order: look at them before you send this one.";
        let (risk, sentence) = match risk {
            Risk::None if self.is_rerun => (Risk::MayRepeatEffect, rerun.to_owned()),
            risk if self.is_rerun => (risk, format!("{rerun} {sentence}")),
            risk => (risk, sentence),
        };
        (risk, join([sentence].into_iter().chain(self.obstacles())))
    }

    /// The sentence of an act after which the lane goes on without it.
    fn passed(&self, sentence: &str) -> String {
        let is_head = self.is_in_lane && self.state != MessageState::Waiting;
        let lane = is_head.then_some("The messages behind it in its lane are sent then.");
        join([Some(sentence), lane].into_iter().flatten().map(str::to_owned))
    }

    fn done(&self) -> &'static str {
        if self.may_have_acted() {
            "Records that it took effect, and sends nothing. Only when the destination confirms it: otherwise its effect \
             is lost. This cannot be undone."
        } else {
            "Records that it took effect, and sends nothing, although no call of it can have taken effect so far: what it \
             was to do is lost unless it was done in another way. This cannot be undone."
        }
    }

    fn discard(&self) -> &'static str {
        if self.may_have_acted() {
            "Gives it up: nothing is sent again. If it has not taken effect, its effect is lost. This cannot be undone."
        } else if self.attempts_n > 0 {
            "Gives it up: it is not sent again, and what it was to do is lost. This cannot be undone."
        } else {
            "Gives it up: it is not sent, and what it was to do is lost. This cannot be undone."
        }
    }

    fn headline(&self) -> String {
        match self.state {
            MessageState::Done if self.last_result == Some(AttemptResult::Done) => {
                "Delivered: the destination confirmed it. No action is needed.".to_owned()
            }
            MessageState::Done => {
                "An operator recorded that it took effect; the destination did not confirm it to Hooklatch. No action is \
                 needed."
                    .to_owned()
            }
            MessageState::Discarded if self.may_have_acted() => {
                "An operator gave it up: it is not sent again. An earlier call may have taken effect: ask the destination \
                 before you have it done in another way."
                    .to_owned()
            }
            MessageState::Discarded if self.attempts_n > 0 => {
                "An operator gave it up: it is not sent again.".to_owned()
            }
            MessageState::Discarded => "An operator gave it up: it is not sent.".to_owned(),
            MessageState::Leased if self.is_under_way() => {
                let until = times::utc(self.visible_at_ms);
                format!("A node is sending it. Its lease ends at {until}; nothing can be decided before.")
            }
            MessageState::Leased => {
                let what = "The node that was sending it did not record an answer before its lease ended: it is not known \
                            whether the call took effect.";
                self.goes_on(what)
            }
            MessageState::Ready => self.goes_on(self.so_far()),
            MessageState::Waiting => self.waits(),
            MessageState::Held => self.stopped(self.held_because()),
            MessageState::Dead => self.stopped(&self.dead_because()),
        }
    }

    /// The result so far of a message that is due or will be.
    fn so_far(&self) -> &'static str {
        match self.last_result {
            Some(AttemptResult::Unknown) => self.unknown_outcome(),
            Some(AttemptResult::Released) => "The last attempt ended before anything was sent.",
            Some(AttemptResult::Retry | AttemptResult::Refused | AttemptResult::Done) => {
                "The last call did not work."
            }
            None if self.attempts_n == 0 => "It has not been sent yet.",
            None => "An operator ordered to send it again.",
        }
    }

    fn unknown_outcome(&self) -> &'static str {
        if self.sent_under == Some(SentUnder::Restored) {
            "It may have been sent in the time that a restore took away: it is not known whether it took effect."
        } else {
            "It was sent and no clear answer arrived: it is not known whether it took effect."
        }
    }

    /// What happens to it without a person.
    fn goes_on(&self, what: &str) -> String {
        let is_later = self.state == MessageState::Ready && self.visible_at_ms > self.now_ms;
        let when = if is_later { format!(" at {}", times::utc(self.visible_at_ms)) } else { String::new() };
        let at_ms = if is_later { self.visible_at_ms } else { self.now_ms };
        let is_key_valid = self.key_until_ms().is_none_or(|until_ms| at_ms < until_ms);
        let next = match self.policy.map(|policy| policy.unknown.repeat(self.is_uncertain(), is_key_valid)) {
            None => "This node does not have the destination in its configuration; nothing is sent until a node has it."
                .to_owned(),
            Some(Repeat::Send) if self.is_uncertain() => match self.resend() {
                Resend::Changed(Some(under)) => format!(
                    "Hooklatch sends it again{when}, as its destination is set to now; a call was made under `unknown = \
                     \"{under}\"`, so it may take effect a second time."
                ),
                Resend::UnderKey(_) => format!(
                    "Hooklatch sends it again{when}, under the same key, for which the destination acts once."
                ),
                _ => format!(
                    "Hooklatch sends it again{when}, under the same key, which the destination may have forgotten by its \
                     present `key_valid_for_ms`: it may take effect a second time."
                ),
            },
            Some(Repeat::Send) if self.attempts_n == 0 => format!("Hooklatch sends it{when}."),
            Some(Repeat::Send) => format!("Hooklatch sends it again{when}."),
            Some(Repeat::Ask) => format!(
                "Hooklatch asks the destination{when} whether it happened, and sends it again only if it did not."
            ),
            Some(Repeat::HoldUnknown) => {
                format!("Hooklatch does not send it again; it holds it for an operator{when}.")
            }
            Some(Repeat::HoldOldKey) => {
                format!("Hooklatch holds it for an operator{when}: the destination may have forgotten its key.")
            }
        };
        join([what.to_owned(), next].into_iter().chain(self.obstacles()))
    }

    fn waits(&self) -> String {
        let what = "It waits behind another message of its lane, whose messages go out one after the other.";
        let head = match self.head {
            Some(MessageState::Held) => {
                Some("The message at the head of the lane is held: decide about that one.")
            }
            Some(MessageState::Dead) => {
                Some("The message at the head of the lane was given up: decide about that one.")
            }
            _ => None,
        };
        join([Some(what), head].into_iter().flatten().map(str::to_owned).chain(self.obstacles()))
    }

    fn held_because(&self) -> &'static str {
        let is_old = self.safe_until_ms().is_none_or(|until_ms| until_ms <= self.now_ms);
        if self.is_uncertain() {
            self.unknown_outcome()
        } else if self.content != MessageContent::Kept {
            "It cannot be sent as it is."
        } else if is_old {
            "The time is over for which the destination remembers its key."
        } else {
            "Hooklatch stopped sending it; the last error says why."
        }
    }

    fn dead_because(&self) -> String {
        match self.last_result {
            Some(AttemptResult::Unknown) => format!("It was given up. {}", self.unknown_outcome()),
            Some(AttemptResult::Refused) if self.may_have_acted() => {
                "It was given up: the destination refused it. Correct the cause; the last error says why."
                    .to_owned()
            }
            Some(AttemptResult::Refused) => {
                "It was given up before anything was sent; the last error says why.".to_owned()
            }
            _ => {
                let attempts = plural(u64::from(self.attempts_n), "attempt");
                format!("It was given up after {attempts}, none of which the destination confirmed.")
            }
        }
    }

    /// The sentence for a message that waits for an operator.
    fn stopped(&self, what: &str) -> String {
        let ask = match self.resend() {
            Resend::NothingReached | Resend::UnderKey(_) => "",
            Resend::Query | Resend::Hold => {
                " Before you do, ask the destination whether the effect of this event happened: give it what the event \
                 names (its id, the amount). It does not recognise idempotency keys."
            }
            Resend::NotConfigured | Resend::OldKey(_) | Resend::Changed(_) => {
                " Before you do, ask the destination whether the effect of this event happened: by the idempotency key if \
                 it still has it, else by what the event names (its id, the amount)."
            }
        };
        format!("{what} It is not sent again until an operator decides.{ask}")
    }

    /// What keeps it from going out at once, beside its own state.
    fn obstacles(&self) -> impl Iterator<Item = String> + use<> {
        let pause = match self.pause {
            PauseFact::No => None,
            PauseFact::UntilResumed => {
                Some("The destination is paused: nothing goes out until an operator resumes it.".to_owned())
            }
            PauseFact::Until(at_ms) => {
                let until = times::utc(at_ms);
                Some(format!("The destination is paused until {until}: nothing goes out before."))
            }
        };
        let breaker = self.is_breaker_open.then(|| {
            "The circuit breaker of the destination is open on this node: its calls failed one after the other, and one \
             call at a time tries whether it is back."
                .to_owned()
        });
        let content = match self.content {
            MessageContent::Kept => None,
            MessageContent::Gone => {
                Some("Its body is no longer kept: it cannot be sent, and Hooklatch would hold it.".to_owned())
            }
            MessageContent::Sealed => {
                let why = "Its body does not open on this node: its key is not in encryption.keys, or it is in clear and \
                           encryption.clear is \"refuse\". It cannot be sent until that is put right.";
                Some(why.to_owned())
            }
        };
        [pause, breaker, content].into_iter().flatten()
    }
}

fn join(sentences: impl Iterator<Item = String>) -> String {
    sentences.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
