//! Whatever an id leads to, and why it leads nowhere.
//!
//! `page.rs` asks and leads on, `ladder.rs` says how far an id got, `found.rs` has the finds by what the text is an id
//! of.

mod found;
mod ladder;
mod page;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;

use crate::console::state::ConsoleState;

pub(super) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new().route("/search", get(page::show))
}
