//! The pages, a file or a folder for each. A page has its routes, gets its data from the contract and draws it.

mod destinations;
mod event;
mod events;
mod explain;
mod messages;
mod operations;
mod overview;
mod rejected;
mod search;
mod senders;
mod settings;
mod sign_in;

use std::sync::Arc;

use axum::Router;

use super::state::ConsoleState;

/// The routes of all pages.
pub(crate) fn routes() -> Router<Arc<ConsoleState>> {
    overview::routes()
        .merge(events::routes())
        .merge(event::routes())
        .merge(messages::routes())
        .merge(destinations::routes())
        .merge(senders::routes())
        .merge(rejected::routes())
        .merge(explain::routes())
        .merge(operations::routes())
        .merge(settings::routes())
        .merge(search::routes())
        .merge(sign_in::routes())
}
