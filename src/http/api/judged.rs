//! Judges messages by what their rows, the tables and this node know: the store has no configuration, and the contract
//! asks nobody.

use super::super::error::Problem;
use super::state::ApiState;
use crate::api::{MessageFacts, MessageView, PauseFact};
use crate::store::{People, Surroundings};
use crate::types::UnixMs;

/// All that is needed to judge some messages.
pub(super) struct Judge<'a> {
    state: &'a ApiState,
    surroundings: Surroundings,
    now_ms: UnixMs,
}

impl<'a> Judge<'a> {
    /// Looks up what is needed to judge these messages, which the caller may see.
    pub(super) async fn of(
        state: &'a ApiState,
        people: &People,
        messages: impl IntoIterator<Item = &MessageView>,
    ) -> Result<Self, Problem> {
        let now_ms = state.clock.now_ms();
        Ok(Self { state, surroundings: people.surroundings(messages, now_ms).await?, now_ms })
    }

    /// Adds their judgements to messages that are a part of another answer.
    pub(super) async fn add(
        state: &'a ApiState,
        people: &People,
        messages: impl Iterator<Item = &mut MessageView>,
    ) -> Result<(), Problem> {
        let messages: Vec<&mut MessageView> = messages.collect();
        let judge = Self::of(state, people, messages.iter().map(|message| &**message)).await?;
        for message in messages {
            judge.judge(message);
        }
        Ok(())
    }

    /// Adds its judgement to a message; gives back what it follows from.
    pub(super) fn judge(&self, message: &mut MessageView) -> MessageFacts {
        let facts = self.facts(message);
        message.judgement = Some(facts.judge());
        facts
    }

    fn facts(&self, message: &MessageView) -> MessageFacts {
        let name = message.destination.as_str();
        let destination = self.state.destinations.get(name);
        let pause = match self.surroundings.pause(name).map(|pause| pause.until_ms) {
            None => PauseFact::No,
            Some(None) => PauseFact::UntilResumed,
            Some(Some(at_ms)) => PauseFact::Until(at_ms),
        };
        MessageFacts {
            head: self.surroundings.head(message),
            content: self.surroundings.content(message),
            policy: destination.map(|facts| facts.policy.repeat()),
            is_breaker_open: (self.state.breaker)(name).is_some_and(|word| word != "closed"),
            pause,
            is_rerun: self.surroundings.is_rerun(message),
            ..MessageFacts::of(message, self.now_ms)
        }
    }
}
