//! The routes of the console, and what every one of its answers has.

use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;

use super::parts::frame;
use super::state::ConsoleState;
use super::trouble::Trouble;
use super::{assets, pages};

/// The console, for all paths that nothing else has.
pub(crate) fn router(state: ConsoleState) -> Router {
    let state = Arc::new(state);
    pages::routes().route("/assets/{file}", get(asset)).fallback(nothing).with_state(state)
}

async fn asset(State(state): State<Arc<ConsoleState>>, Path(file): Path<String>) -> Response {
    assets::serve(&format!("/assets/{file}")).unwrap_or_else(|trouble| frame::lonely(&state, &trouble))
}

async fn nothing(State(state): State<Arc<ConsoleState>>) -> Response {
    frame::lonely(&state, &Trouble::not_found())
}
