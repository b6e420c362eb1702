//! The console: pages for people, served at `/` of the operator listener.
//!
//! It is a client of the contract (`api`), as the commands are: every page sends requests to `/v1` inside the process,
//! as the person who looks, and shows the responses. So roles, scopes, keys, versions and bounds are those of the API,
//! and nothing here holds the store. In reading order:
//!
//! 1. `state.rs` is what it needs of the app, `visit.rs` a person's request and the way to `/v1` (`contract.rs`);
//!    `entrance.rs` authenticates it, by the cookie of a session; `trouble.rs` is an error, as a page.
//! 2. `parts/` draws what several pages have: the frame, chips, times, tables, forms. `assets.rs` has the style and the
//!    one script.
//! 3. `pages/` has a file or a folder for each page, with its routes.

mod assets;
mod contract;
mod entrance;
mod pages;
mod parts;
mod state;
mod trouble;
mod visit;

pub use parts::indented;
pub use state::{ConsoleState, SignAgain, SignedAgain, SignedCopy};

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;

use parts::frame;
use trouble::PageError;

/// The console, for all paths that nothing else has.
pub fn router(state: ConsoleState) -> Router {
    let state = Arc::new(state);
    pages::routes().route("/assets/{file}", get(asset)).fallback(nothing).with_state(state)
}

async fn asset(State(state): State<Arc<ConsoleState>>, Path(file): Path<String>) -> Response {
    assets::serve(&format!("/assets/{file}")).unwrap_or_else(|trouble| frame::lonely(&state, &trouble))
}

async fn nothing(State(state): State<Arc<ConsoleState>>) -> Response {
    frame::lonely(&state, &PageError::not_found())
}
