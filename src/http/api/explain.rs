//! `/v1/explain`: why a request that somebody has saved is or is not believed.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;

use super::super::error::Problem;
use super::super::reply::view_reply;
use super::asking::Asking;
use super::order::{body_of_at_most, order};
use super::state::ApiState;
use crate::api::ExplainOrder;
use crate::types::{Name, Role};

/// Largest question that is read. Bytes.
const BODY_BYTES_MAX: usize = 1 << 20;

pub(super) async fn ask(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    body: Body,
) -> Result<Response, Problem> {
    people.needs(Role::Reader)?;
    let body = body_of_at_most(body, BODY_BYTES_MAX).await?;
    let order: ExplainOrder = order(&body)?;
    if order.provider.as_deref().is_some_and(|name| Name::parse(name).is_err()) {
        return Err(Problem::bad_request(
            "`provider` must be a name: 1 to 64 characters of a-z, 0-9, `_` and `-`",
        ));
    }
    let reach = &people.principal().providers;
    let view = state.explainer.explain(order, reach, state.clock.now_ms()).await;
    let mut view = view.ok_or_else(|| {
        let detail = "no provider of this name is configured here, or this token does not reach it";
        Problem::NOT_FOUND.with_detail(detail)
    })?;
    if let Some(provider) = &view.provider {
        people.mark_known(provider, &mut view.events).await?;
    }
    Ok(view_reply(StatusCode::OK, &view))
}
