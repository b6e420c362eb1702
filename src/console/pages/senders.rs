//! The configured providers: what to register, what came last, which secrets match.

use std::sync::Arc;

use axum::Router;

use crate::console::state::ConsoleState;

pub(super) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new()
}
