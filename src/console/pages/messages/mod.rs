//! Calls to make: those that wait for a person first.
//!
//! `list.rs` is the list and its filter, with the rows of `row.rs`; `show.rs` is one message, with what the contract
//! judges of it, and `attempts.rs` what was tried and decided. `decide.rs` takes the form.

mod attempts;
mod decide;
mod list;
mod row;
mod show;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::console::state::ConsoleState;

pub(super) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new()
        .route("/messages", get(list::show))
        .route("/messages/{message_id}", get(show::show))
        .route("/messages/{message_id}/decide", post(decide::decide))
}
