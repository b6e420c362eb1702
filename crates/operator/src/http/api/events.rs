//! `/v1/events`: received events, a page at a time; the ledger of one event, and its bytes; what handlers would make of
//! events, why a request is or is not verified, and events that operators make.

use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request};
use axum::response::IntoResponse;
use http::{HeaderName, HeaderValue, StatusCode, header};
use tracing::info;

use super::super::error::{Problem, tagged_reply, view_reply};
use super::messages::Judge;
use super::order::{LARGE_ORDER_BYTES_MAX, ORDER_BYTES_MAX, check_reason, order, read_body};
use super::query::{Query, is_text};
use super::{Answer, Caller, path_name};
use hooklatch_contract::{
    EventFilter, EventView, ExplainOrder, LedgerView, LedgerWhat, MessageView, TestEventOrder, TestEventView,
    WHAT_IF_N_DEFAULT, WHAT_IF_N_MAX, WhatIfOrder, open_calls_in_words,
};
use hooklatch_core::types::{
    DeliveryFilter, DeliveryState, EventKey, EventState, IdempotencyKey, MessageState, Name,
};
use hooklatch_receive::admit::ShownBytes;
use hooklatch_receive::{NoTestEvent, ReceiveError};
use hooklatch_store::{EventPlace, EventQuery};

/// Time after which no further event is tried.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Names and ids in the path; ids are whatever senders make of them, each byte that is none of a path's as `%XX`.
type EventPath = Result<Path<(String, String)>, PathRejection>;

/// The event that a path names.
fn event_key(path: EventPath) -> Result<EventKey, Problem> {
    let Ok(Path((provider, event_id))) = path else { return Err(Problem::NOT_FOUND) };
    Ok(EventKey { provider: path_name(&provider)?, event_id })
}

fn filter(query: &Query) -> Result<EventFilter, Problem> {
    let states = EventState::ALL.iter().map(|state| state.as_str());
    let calls = DeliveryFilter::ALL.iter().map(|filter| filter.as_str());
    Ok(EventFilter {
        state: query.word("state", states, EventState::parse)?,
        provider: query.name("provider")?.map(|name| name.to_string()),
        event_type: query.text("type")?,
        object: query.text("object")?,
        delivery: query.word("delivery", calls, DeliveryFilter::parse)?,
        received_from_ms: query.time("received_from_ms")?,
        received_to_ms: query.time("received_to_ms")?,
    })
}

/// The place at which a page begins.
fn place(query: &Query) -> Result<Option<EventPlace>, Problem> {
    let place = match (query.get("cursor"), query.get("since")) {
        (None, None) => return Ok(None),
        (Some(cursor), None) => EventPlace::parse(cursor),
        (None, Some(since)) => EventPlace::parse(since).filter(|place| matches!(place, EventPlace::After(_))),
        (Some(_), Some(_)) => None,
    };
    place.map(Some).ok_or(Problem::NO_SUCH_CURSOR)
}

pub(super) async fn list(caller: Caller, query: Query) -> Answer {
    let (filter, place) = (filter(&query)?, place(&query)?);
    if filter.delivery.is_some() && matches!(place, Some(EventPlace::After(_))) {
        return Err(Problem::NO_SINCE_OF_CALLS);
    }
    let query = EventQuery { filter, place, limit: query.limit()? };
    Ok(view_reply(StatusCode::OK, &caller.people.event_page(query, caller.now_ms()).await?))
}

pub(super) async fn show(caller: Caller, path: EventPath) -> Answer {
    let (key, state) = (event_key(path)?, &caller.state);
    let taker = |event: &EventView| state.what_if.taker(&key.provider, &event.event_type);
    let mut ledger = caller.people.event_ledger(&key, caller.now_ms(), taker).await?;
    place_secret(&caller, &key, &mut ledger);
    judge_calls(&caller, &mut ledger).await?;
    let generation = i32::try_from(ledger.event.generation).unwrap_or(i32::MAX);
    let root = state.traces.root(&key, generation);
    ledger.trace_id = root.map(|root| hex::encode(root.trace_id));
    ledger.is_trace_recorded = root.map(|root| root.is_sampled);
    Ok(tagged_reply(&ledger, &ledger.event))
}

/// Judges the calls of a ledger, and marks those open ones that are sent without an operator.
async fn judge_calls(caller: &Caller, ledger: &mut LedgerView) -> Result<(), Problem> {
    let messages = ledger.entries.iter_mut().filter_map(|entry| match &mut entry.what {
        LedgerWhat::Effect { message } => Some(message),
        _ => None,
    });
    let messages: Vec<&mut MessageView> = messages.collect();
    let judge = Judge::of(caller, messages.iter().map(|message| &**message)).await?;
    let mut open = Vec::new();
    for message in messages {
        let facts = judge.judge(message);
        if matches!(message.state, MessageState::Ready | MessageState::Waiting | MessageState::Leased) {
            open.push(facts.stands_still());
        }
    }
    let words = open_calls_in_words(&open, ledger.event.delivery.state == DeliveryState::Open);
    if !words.is_empty() {
        ledger.judgement.headline.push(' ');
        ledger.judgement.headline.push_str(&words);
    }
    Ok(())
}

/// Finds the place in the configuration of the secret that matched.
fn place_secret(caller: &Caller, key: &EventKey, ledger: &mut LedgerView) {
    let Some(facts) = caller.provider(key.provider.as_str()) else { return };
    for entry in &mut ledger.entries {
        if let LedgerWhat::Received { secret_position, secret_fingerprint: Some(matched), .. } =
            &mut entry.what
        {
            let place = facts.fingerprints.iter().position(|one| one == matched);
            *secret_position = place.and_then(|place| u32::try_from(place + 1).ok());
        }
    }
}

/// The bytes, which a browser downloads and never shows: they are the sender's, and untrusted.
pub(super) async fn body(caller: Caller, path: EventPath) -> Answer {
    let content = caller.people.event_body(&event_key(path)?, caller.now_ms()).await?;
    if content.unopened.is_some() {
        return Err(Problem::SEALED);
    }
    let headers: [(HeaderName, HeaderValue); 4] = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"body\"")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, content.body).into_response())
}

pub(super) async fn explain(caller: Caller, body: Body) -> Answer {
    let order: ExplainOrder = order(&read_body(body, LARGE_ORDER_BYTES_MAX).await?)?;
    if order.provider.as_deref().is_some_and(|name| Name::parse(name).is_err()) {
        return Err(Problem::bad_request(
            "`provider` must be a name: 1 to 64 characters of a-z, 0-9, `_` and `-`",
        ));
    }
    let reach = &caller.people.principal().providers;
    let view = caller.state.explainer.explain(order, reach, caller.now_ms()).await;
    let mut view = view.ok_or_else(|| {
        let detail = "no provider of this name is configured here, or this token does not reach it";
        Problem::NOT_FOUND.with_detail(detail)
    })?;
    if let Some(provider) = &view.provider {
        caller.people.mark_known(provider, &mut view.events).await?;
    }
    Ok(view_reply(StatusCode::OK, &view))
}

pub(super) async fn what_if_one(caller: Caller, path: EventPath) -> Answer {
    let (key, what_if) = (event_key(path)?, &caller.state.what_if);
    let place = what_if.place().await.ok_or(Problem::WHAT_IF_BUSY)?;
    let run = |event| what_if.run(&place, event, ShownBytes::ONE);
    Ok(view_reply(StatusCode::OK, &caller.people.what_if_one(&key, caller.now_ms(), run).await?))
}

pub(super) async fn what_if(caller: Caller, body: Body) -> Answer {
    let query = what_if_query(order(&read_body(body, ORDER_BYTES_MAX).await?)?)?;
    let what_if = &caller.state.what_if;
    let place = what_if.place().await.ok_or(Problem::WHAT_IF_BUSY)?;
    let run = |event| what_if.run(&place, event, ShownBytes::EACH);
    Ok(view_reply(StatusCode::OK, &caller.people.what_if(query, TIME_MAX, caller.now_ms(), run).await?))
}

/// The events of the query.
fn what_if_query(order: WhatIfOrder) -> Result<EventQuery, Problem> {
    let limit = order.limit.unwrap_or(i64::from(WHAT_IF_N_DEFAULT));
    let limit = u32::try_from(limit).ok().filter(|limit| (1..=WHAT_IF_N_MAX).contains(limit));
    let limit = limit.ok_or(Problem::bad_request("`limit` must be a number from 1 to 100"))?;
    let place = |text: &str| {
        let place = EventPlace::parse(text).filter(|place| matches!(place, EventPlace::Before(_)));
        place.ok_or(Problem::NO_SUCH_CURSOR)
    };
    // A mistake in the order itself is reported before one in what it names.
    check_filter(&order.filter)?;
    let place = order.cursor.as_deref().map(place).transpose()?;
    Ok(EventQuery { filter: order.filter, place, limit })
}

/// Refuses a filter that finds nothing for what is written in it.
fn check_filter(filter: &EventFilter) -> Result<(), Problem> {
    if filter.provider.as_deref().is_some_and(|text| Name::parse(text).is_err()) {
        return Err(Problem::bad_request(
            "`filter.provider` must be a name: 1 to 64 characters of a-z, 0-9, `_` and `-`",
        ));
    }
    if filter.event_type.iter().chain(&filter.object).all(|text| is_text(text)) {
        return Ok(());
    }
    Err(Problem::bad_request("`filter.type` and `filter.object` must be texts of 1 to 255 bytes without NUL"))
}

/// Makes an event that no sender sent.
pub(super) async fn make_test_events(caller: Caller, Path(name): Path<String>, request: Request) -> Answer {
    let (state, people) = (&caller.state, &caller.people);
    let (parts, body) = request.into_parts();
    let key = IdempotencyKey::of_headers(&parts.headers)?;
    let order: TestEventOrder = order(&read_body(body, LARGE_ORDER_BYTES_MAX).await?)?;
    check_reason(&order.reason)?;
    if order.event_type.as_ref().is_some_and(|text| !(1..=255).contains(&text.chars().count())) {
        return Err(Problem::bad_request("`type` must be a text of 1 to 255 characters"));
    }
    let name = path_name(&name)?;
    people.needs_provider(name.as_str())?;
    // Its body is invented: who reaches some destinations has none of the others called with it.
    if order.route && people.principal().destinations.names().is_some() {
        return Err(Problem::ROUTE_OUT_OF_REACH);
    }
    let actor = people.principal().name.clone();
    let now_ms = caller.now_ms();
    let made = state.test_events.make(&name, &order, &format!("{actor}\0{key}"), now_ms)?;
    let view = TestEventView {
        provider: name.to_string(),
        event_type: made.events.first().map(|event| event.event_type.clone()).unwrap_or_default(),
        event_ids: made.events.iter().map(|event| event.key.event_id.clone()).collect(),
        route: order.route,
    };
    // First, so that every test event has an author. A repeated order whose answer was lost finds its events here.
    if people.note_test_events(&view, &order.reason, now_ms).await? {
        state.test_events.admit(made).await.map_err(|error| Problem::from(&ReceiveError::from(error)))?;
        let (provider, event_ids) = (&view.provider, &view.event_ids);
        info!(%actor, provider.name = provider, ?event_ids, route = view.route, "made a test event");
    }
    Ok(view_reply(StatusCode::CREATED, &view))
}

impl From<NoTestEvent> for Problem {
    fn from(why: NoTestEvent) -> Self {
        match why {
            NoTestEvent::NoProvider => Self::NOT_FOUND,
            NoTestEvent::TooLarge => Self::TOO_LARGE,
            NoTestEvent::NoSample => Self::NO_SAMPLE,
            NoTestEvent::Unreadable => Self::TEST_EVENT_UNREADABLE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_that_cannot_be_answered_is_refused() {
        #[track_caller]
        fn check_one(text: &str, want: Result<u32, &str>) {
            let found = what_if_query(serde_json::from_str(text).unwrap());
            match (found, want) {
                (Ok(query), Ok(limit)) => assert_eq!(query.limit, limit),
                (Err(problem), Err(want)) => assert!(problem.sentence.contains(want), "{problem:?}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
        check_one("{}", Ok(20));
        check_one(r#"{"filter":{"state":"handled","type":"a b"},"limit":100,"cursor":"b7"}"#, Ok(100));
        check_one(r#"{"limit":0}"#, Err("1 to 100"));
        check_one(r#"{"limit":101}"#, Err("1 to 100"));
        check_one(r#"{"cursor":"a7"}"#, Err("no such `cursor`"));
        check_one(r#"{"filter":{"provider":"A B"}}"#, Err("must be a name"));
        check_one(r#"{"filter":{"object":""}}"#, Err("must be texts"));
        assert!(serde_json::from_str::<WhatIfOrder>(r#"{"act":"rerun"}"#).is_err());
    }
}
