//! The ledger of one event: from the first byte of its request to its last effect.
//!
//! `page.rs` asks for it, as `look.rs` reads of the address, and puts it together of its parts: `facts.rs` on top, `conflict.rs` where it is other content
//! under an id that is taken, `timeline.rs` with `entry.rs`, `content.rs` what was received,
//! `again.rs` the same request signed anew with `serve --dev`, `decisions.rs` what people may do about it.

mod again;
mod conflict;
mod content;
mod decisions;
mod entry;
mod facts;
mod look;
mod page;
mod timeline;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::console::state::ConsoleState;

pub(super) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new()
        .route("/events/{provider}/{event_id}", get(page::show))
        .route("/events/{provider}/{event_id}/body", get(page::body))
        .route("/events/{provider}/{event_id}/decide", post(page::decide))
}
