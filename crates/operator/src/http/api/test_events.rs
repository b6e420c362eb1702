//! `/v1/providers/NAME/test-events`: an operator makes an event that no sender sent.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::StatusCode;
use tracing::info;

use super::super::error::Problem;
use super::super::reply::view_reply;
use super::decide::{body_of_at_most, check_reason, order};
use super::state::{ApiState, Asking};
use hooklatch_contract::{TestEventOrder, TestEventView};
use hooklatch_core::types::{IdempotencyKey, Name, ProblemCode, Role};
use hooklatch_receive::{NoTestEvent, ReceiveError};

/// Largest order that is read. Bytes.
const ORDER_BYTES_MAX: usize = 1 << 20;

pub(crate) async fn make(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    people.needs(Role::Operator)?;
    let (parts, body) = request.into_parts();
    let key = IdempotencyKey::of_headers(&parts.headers)?;
    let order: TestEventOrder = order(&body_of_at_most(body, ORDER_BYTES_MAX).await?)?;
    check_reason(&order.reason)?;
    if order.event_type.as_ref().is_some_and(|text| !(1..=255).contains(&text.chars().count())) {
        return Err(Problem::bad_request("`type` must be a text of 1 to 255 characters"));
    }
    let name = Name::parse(&name).map_err(|_| Problem::NOT_FOUND)?;
    people.needs_provider(name.as_str())?;
    // Its body is invented: who reaches some destinations has none of the others called with it.
    if order.route && people.principal().destinations.names().is_some() {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            ProblemCode::DestinationsOutOfReach,
            "`route` may call any destination, and this token reaches some alone",
        ));
    }
    let actor = people.principal().name.clone();
    let now_ms = state.clock.now_ms();
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
        let conflict = |code, sentence| Self::new(StatusCode::CONFLICT, code, sentence);
        match why {
            NoTestEvent::NoProvider => Self::NOT_FOUND,
            NoTestEvent::TooLarge => Self::TOO_LARGE,
            NoTestEvent::NoSample => conflict(
                ProblemCode::NoSample,
                "the kind of this provider has no sample of that type: choose one of the provider's `samples`, or give a `body`",
            ),
            NoTestEvent::Unreadable => conflict(
                ProblemCode::TestEventUnreadable,
                "no event of this provider's kind can be read in that body, so nothing was made",
            ),
        }
    }
}
