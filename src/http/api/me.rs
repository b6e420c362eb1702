//! `/v1/me`: who asks, as we see them.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;

use super::super::reply::view_reply;
use super::asking::Asking;
use super::state::ApiState;
use crate::api::MeView;

pub(super) async fn show(State(state): State<Arc<ApiState>>, Asking(people): Asking) -> Response {
    let principal = people.principal();
    let view = MeView {
        name: principal.name.to_string(),
        role: principal.role,
        providers: principal.providers.names(),
        destinations: principal.destinations.names(),
        server_name: state.server_name.clone(),
        is_test: state.is_test,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        is_encrypting: false,
        now_ms: state.clock.now_ms(),
    };
    view_reply(StatusCode::OK, &view)
}
