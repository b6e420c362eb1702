//! `/v1/messages` and `/v1/lanes`, and the judgement of each message.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;

use super::super::error::Problem;
use super::super::reply::{tagged_reply, view_reply};
use super::query::{cursor, limit, name, no_state, query, text, time, word};
use super::state::{ApiState, Asking};
use hooklatch_contract::{MessageFacts, MessageFilter, MessageView, PauseFact};
use hooklatch_core::types::{MessageId, MessageState, UnixMs};
use hooklatch_store::{LanePlace, OperatorQueries, Surroundings};

fn wanted(values: &BTreeMap<String, String>) -> Result<MessageFilter, Problem> {
    let states = MessageState::ALL.iter().map(|state| state.as_str());
    Ok(MessageFilter {
        state: word(values, "state", states, MessageState::parse)?,
        destination: name(values, "destination")?.map(|name| name.to_string()),
        provider: name(values, "provider")?.map(|name| name.to_string()),
        lane: text(values, "lane")?,
        created_before_ms: time(values, "created_before_ms")?,
    })
}

pub(crate) async fn list(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let known = ["state", "destination", "provider", "lane", "created_before_ms", "cursor", "limit"];
    let values = query(raw.as_deref(), known)?;
    let before = cursor(&values, |text| text.parse::<MessageId>().ok())?;
    let mut page = people.messages(wanted(&values)?, before, limit(&values)?).await?;
    let judge = Judge::of(&state, &people, &page.items).await?;
    for message in &mut page.items {
        judge.judge(message);
    }
    Ok(view_reply(StatusCode::OK, &page))
}

pub(crate) async fn count(Asking(people): Asking, RawQuery(raw): RawQuery) -> Result<Response, Problem> {
    let known = ["state", "destination", "provider", "lane", "created_before_ms"];
    let filter = wanted(&query(raw.as_deref(), known)?)?;
    if filter.state.is_none() {
        return Err(no_state(MessageState::ALL.iter().map(|state| state.as_str())));
    }
    Ok(view_reply(StatusCode::OK, &people.messages_count(filter).await?))
}

pub(crate) async fn show(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    // A text that is no number is the id of none.
    let id = id.parse().map_err(|_| Problem::NOT_FOUND)?;
    let mut detail = people.message(id, state.clock.now_ms()).await?;
    let facts = Judge::of(&state, &people, [&detail.message]).await?.judge(&mut detail.message);
    detail.policy =
        state.destinations.get(detail.message.destination.as_str()).map(|facts| facts.policy.clone());
    Ok(tagged_reply(&detail, &(&detail.message, facts.is_rerun)))
}

pub(super) async fn list_lanes(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let values = query(raw.as_deref(), ["destination", "cursor", "limit"])?;
    let destination = name(&values, "destination")?;
    let from = cursor(&values, place)?;
    let found = people.lanes(destination.as_ref(), from, limit(&values)?).await?;
    let (mut page, next) = found;
    let judge = Judge::of(&state, &people, page.items.iter().map(|lane| &lane.head)).await?;
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
pub(crate) struct Judge<'a> {
    state: &'a ApiState,
    surroundings: Surroundings,
    now_ms: UnixMs,
}

impl<'a> Judge<'a> {
    /// Looks up what is needed to judge these messages, which the caller may see.
    pub(crate) async fn of(
        state: &'a ApiState,
        people: &OperatorQueries,
        messages: impl IntoIterator<Item = &MessageView>,
    ) -> Result<Self, Problem> {
        let now_ms = state.clock.now_ms();
        Ok(Self { state, surroundings: people.surroundings(messages, now_ms).await?, now_ms })
    }

    /// Adds their judgements to messages that are a part of another answer.
    pub(crate) async fn add(
        state: &'a ApiState,
        people: &OperatorQueries,
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
    pub(crate) fn judge(&self, message: &mut MessageView) -> MessageFacts {
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
