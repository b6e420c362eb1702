//! What is done to all that a filter finds: counted, confirmed, watched and cancelled.
//!
//! `chosen.rs` is the filter, as an address and as a form have it, and `words.rs` says it. `new.rs` counts and asks for
//! confirmation, `begin.rs` takes that form; `list.rs` and `show.rs` are what runs and what ran, `cancel.rs` ends one.

mod begin;
mod cancel;
mod chosen;
mod list;
mod new;
mod progress;
mod show;
mod words;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::console::state::ConsoleState;

pub(super) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new()
        .route("/operations", get(list::show).post(begin::begin))
        .route("/operations/new", get(new::show))
        .route("/operations/{operation_id}", get(show::show))
        .route("/operations/{operation_id}/cancel", post(cancel::cancel))
}
