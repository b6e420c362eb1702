//! `/v1/messages` and `/v1/lanes`, and the judgement of each message.

use axum::extract::Path;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;

use super::super::error::{Problem, tagged_reply, view_reply};
use super::query::Query;
use super::{Answer, Caller};
use hooklatch_contract::{MessageFacts, MessageFilter, MessageView, PauseFact};
use hooklatch_core::types::{MessageId, MessageState, UnixMs};
use hooklatch_store::{LanePlace, Surroundings};

fn filter(query: &Query) -> Result<MessageFilter, Problem> {
    let states = MessageState::ALL.iter().map(|state| state.as_str());
    Ok(MessageFilter {
        state: query.word("state", states, MessageState::parse)?,
        destination: query.name("destination")?.map(|name| name.to_string()),
        provider: query.name("provider")?.map(|name| name.to_string()),
        lane: query.text("lane")?,
        created_before_ms: query.time("created_before_ms")?,
    })
}

pub(super) async fn list(caller: Caller, query: Query) -> Answer {
    let before = query.cursor(|text| text.parse::<MessageId>().ok())?;
    let mut page = caller.people.messages(filter(&query)?, before, query.limit()?).await?;
    Judge::add(&caller, page.items.iter_mut()).await?;
    Ok(view_reply(StatusCode::OK, &page))
}

pub(super) async fn show(caller: Caller, Path(id): Path<String>) -> Answer {
    // A text that is no number is the id of none.
    let id = id.parse().map_err(|_| Problem::NOT_FOUND)?;
    let mut detail = caller.people.message(id, caller.now_ms()).await?;
    let facts = Judge::of(&caller, [&detail.message]).await?.judge(&mut detail.message);
    let destination = caller.state.destinations.get(detail.message.destination.as_str());
    detail.policy = destination.map(|facts| facts.policy.clone());
    Ok(tagged_reply(&detail, &(&detail.message, facts.is_rerun)))
}

pub(super) async fn list_lanes(caller: Caller, query: Query) -> Answer {
    let (destination, from) = (query.name("destination")?, query.cursor(place)?);
    let (mut page, next) = caller.people.lanes(destination.as_ref(), from, query.limit()?).await?;
    let judge = Judge::of(&caller, page.items.iter().map(|lane| &lane.head)).await?;
    for lane in &mut page.items {
        lane.blocked_by = judge.judge(&mut lane.head).lane_blocked_by().map(str::to_owned);
    }
    page.next = next.as_ref().map(written);
    Ok(view_reply(StatusCode::OK, &page))
}

/// The place as a cursor: a lane's key may hold any character.
fn written(place: &LanePlace) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::json!(place).to_string())
}

fn place(text: &str) -> Option<LanePlace> {
    let place: LanePlace = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
    // No column has a NUL, and no database a comparison for it.
    Some(place).filter(|LanePlace(destination, lane)| !destination.contains('\0') && !lane.contains('\0'))
}

/// All that is needed to judge some messages.
pub(super) struct Judge<'a> {
    caller: &'a Caller,
    surroundings: Surroundings,
    now_ms: UnixMs,
}

impl<'a> Judge<'a> {
    /// Looks up what is needed to judge these messages, which the caller may see.
    pub(super) async fn of(
        caller: &'a Caller,
        messages: impl IntoIterator<Item = &MessageView>,
    ) -> Result<Self, Problem> {
        let now_ms = caller.now_ms();
        Ok(Self { caller, surroundings: caller.people.surroundings(messages, now_ms).await?, now_ms })
    }

    /// Adds their judgements to messages.
    pub(super) async fn add(
        caller: &'a Caller,
        messages: impl Iterator<Item = &mut MessageView>,
    ) -> Result<(), Problem> {
        let messages: Vec<&mut MessageView> = messages.collect();
        let judge = Self::of(caller, messages.iter().map(|message| &**message)).await?;
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
        let destination = self.caller.state.destinations.get(name);
        let pause = match self.surroundings.pause(name).map(|pause| pause.until_ms) {
            None => PauseFact::No,
            Some(None) => PauseFact::UntilResumed,
            Some(Some(at_ms)) => PauseFact::Until(at_ms),
        };
        MessageFacts {
            head: self.surroundings.head(message),
            content: self.surroundings.content(message),
            policy: destination.map(|facts| facts.policy.repeat()),
            is_breaker_open: (self.caller.state.breaker)(name).is_some_and(|word| word != "closed"),
            pause,
            is_rerun: self.surroundings.is_rerun(message),
            ..MessageFacts::of(message, self.now_ms)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written_whatever_the_lane_is_called() {
        for lane in ["", "in_1", "a/b?c=d", "\u{202e}\n\"", &"é".repeat(127)] {
            let at = LanePlace("billing".to_owned(), lane.to_owned());
            assert_eq!(place(&written(&at)), Some(at));
        }
        for wrong in ["", "x", "e30", &URL_SAFE_NO_PAD.encode("[\"a\",\"\\u0000\"]")] {
            assert_eq!(place(wrong), None, "{wrong}");
        }
    }
}
