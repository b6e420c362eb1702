//! Where messages go: breaker, backlog, pauses.
//!
//! `list.rs` has all of them, `show.rs` one, `decide.rs` takes the form that pauses and resumes; `standing.rs` draws what
//! the two pages have in common.

mod decide;
mod list;
mod show;
mod standing;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::console::state::ConsoleState;

pub(super) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new()
        .route("/destinations", get(list::show))
        .route("/destinations/{name}", get(show::show))
        .route("/destinations/{name}/decide", post(decide::decide))
}
