//! Stored events given to the handlers of this binary, and how what follows differs from what was done.

use std::sync::Arc;

use axum::Router;

use crate::console::state::ConsoleState;

pub(super) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new()
}
