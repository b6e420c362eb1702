//! A pasted request, and why it is or is not believed.
//!
//! In reading order: `ask.rs` is the form and the question, `found.rs` shows what was found.

mod ask;
mod found;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;

use crate::console::state::ConsoleState;

pub(super) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new().route("/explain", get(ask::show).post(ask::explain))
}
