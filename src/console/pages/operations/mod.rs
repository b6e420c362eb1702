//! What is done to all that a filter finds: shown, confirmed, watched, approved, continued and cancelled.
//!
//! `chosen.rs` is the filter, as an address and as a form have it, and `words.rs` says it. An operation begins in two steps:
//! `new.rs` shows what the filter finds (`figures.rs`) and the acts that there are, `act.rs` is the page of one of them,
//! `begin.rs` takes its form. `list.rs` and `show.rs` are what runs and what ran, `decide.rs` approves, continues and cancels.

mod act;
mod begin;
mod chosen;
mod decide;
mod figures;
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
        .route("/operations/new/{act}", get(act::show))
        .route("/operations/{operation_id}", get(show::show))
        .route(
            "/operations/{operation_id}/approve",
            post(|visit, id, form| decide::decide("approve", visit, id, form)),
        )
        .route(
            "/operations/{operation_id}/continue",
            post(|visit, id, form| decide::decide("continue", visit, id, form)),
        )
        .route(
            "/operations/{operation_id}/cancel",
            post(|visit, id, form| decide::decide("cancel", visit, id, form)),
        )
}
