//! What came in, the newest first, by filters that stand in the address; drawn again while somebody looks at it.
//!
//! `filter.rs` is what is asked for, `rows.rs` draws what was found, `page.rs` is the page around both.

mod filter;
mod page;
mod rows;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;

use crate::console::state::ConsoleState;

pub(super) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new().route("/events", get(page::show))
}
