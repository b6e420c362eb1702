//! The console: pages for people, served at `/` of the operator listener.
//!
//! It is a client of the contract, as the commands are: every page sends requests to `/v1` inside the process, as the
//! person who looks, and shows the responses. So roles, scopes, keys, versions and bounds are those of the API, and
//! nothing here holds the store. In reading order:
//!
//! 1. `visit.rs` is an authenticated request and the way to `/v1`; `entrance.rs` authenticates it, by the cookie of a
//!    session; `page.rs` is what a handler returns, a page or an error, and the frame around both.
//! 2. `parts/` draws what several pages have: chips, times, tables, forms. `assets.rs` has the style and the one
//!    script.
//! 3. `pages/` has a file or a folder for each page, with its routes.

mod assets;
mod entrance;
mod page;
mod pages;
mod parts;
mod visit;

pub use parts::indented;

use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::get;

use hooklatch_core::config::Secret;
use hooklatch_core::types::{Clock, Name};
use hooklatch_operator::http::token_gate::TokenGate;
use page::PageError;

/// State of the console: all that it needs of the app.
pub struct ConsoleState {
    /// The routes below `/v1`, for callers who are authenticated already.
    pub contract: Router,
    /// Configured providers, for filters.
    pub providers: Vec<Name>,
    /// Configured destinations, for filters.
    pub destinations: Vec<Name>,
    /// Checks the tokens and sessions of requests.
    pub gate: Arc<TokenGate>,
    pub clock: Clock,
    /// Path under which a proxy shows the operator side, without a slash at its end; empty for none.
    pub base: String,
    /// True when browsers reach it over TLS alone.
    pub is_secure: bool,
    /// Name of the installation, where it has one.
    pub server_name: Option<String>,
    /// True when it is a test server.
    pub is_test: bool,
    /// The token that `serve --dev` uses for every request, because its users do not sign in.
    pub dev_token: Option<Secret>,
}

/// The console, for all paths that nothing else has.
pub fn router(state: ConsoleState) -> Router {
    let state = Arc::new(state);
    pages::routes()
        .route_layer(from_fn_with_state(Arc::clone(&state), visit::authenticated))
        .merge(pages::open_routes())
        .route("/assets/{file}", get(asset))
        .fallback(async || PageError::not_found())
        .layer(from_fn_with_state(Arc::clone(&state), page::framed))
        .with_state(state)
}

async fn asset(Path(file): Path<String>) -> Result<Response, PageError> {
    assets::serve(&format!("/assets/{file}"))
}
