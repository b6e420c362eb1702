//! Stored events given to the handlers of this binary, and how what follows differs from what was committed. A question is
//! a form that is sent, because it runs code; it changes nothing, so a repetition by F5 is one more question.
//!
//! In reading order: `ask.rs` is the form and what is asked; `events.rs` shows what came of many, and `effects.rs` what
//! came of one, effect by effect.

mod ask;
mod effects;
mod events;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::console::state::ConsoleState;

pub(super) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new()
        .route("/what-if", get(ask::show).post(ask::many))
        .route("/events/{provider}/{event_id}/what-if", post(ask::one).get(ask::back))
}
