//! Calls to make: those that wait for a person first.

use std::sync::Arc;

use axum::Router;

use crate::console::state::ConsoleState;

pub(super) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new()
}
