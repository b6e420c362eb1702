//! The ledger of one event: from the first byte of its request to its last effect.

use std::sync::Arc;

use axum::Router;

use crate::console::state::ConsoleState;

pub(super) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new()
}
