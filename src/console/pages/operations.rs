//! What is being done to all that a filter found.

use std::sync::Arc;

use axum::Router;

use crate::console::state::ConsoleState;

pub(super) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new()
}
