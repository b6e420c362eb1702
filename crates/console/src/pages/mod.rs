//! The pages, a file or a folder for each. A page gets its data from the contract and draws it.

mod destinations;
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

use prelude::*;

/// What every page needs.
mod prelude {
    pub(crate) use std::sync::Arc;

    pub(crate) use axum::Router;
    pub(crate) use axum::extract::Path;
    pub(crate) use axum::response::{IntoResponse, Response};
    pub(crate) use axum::routing::{get, post};
    pub(crate) use http::StatusCode;
    pub(crate) use maud::{Markup, html};

    pub(crate) use crate::ConsoleState;
    pub(crate) use crate::page::{PageBody, PageError, PageResult};
    pub(crate) use crate::parts::form::SentForm;
    pub(crate) use crate::parts::list::Values;
    pub(crate) use crate::parts::text::{Mood, chip};
    pub(crate) use crate::parts::{form, link, list, text};
    pub(crate) use crate::visit::{OrderHeaders, Visit, path, with_query};
    pub(crate) use hooklatch_contract::Page;
    pub(crate) use hooklatch_core::figures::{grouped, plural};
    pub(crate) use hooklatch_core::types::Role;
}

/// The routes of all pages for those who are signed in.
pub(crate) fn routes() -> Router<Arc<ConsoleState>> {
    let decide = |word| post(move |visit, id, form| operations::decide(word, visit, id, form));
    Router::new()
        .route("/", get(overview::show))
        .route("/events", get(events::show_all))
        .route("/events/{provider}/{event_id}", get(events::show))
        .route("/events/{provider}/{event_id}/body", get(events::body))
        .route("/events/{provider}/{event_id}/decide", post(events::decide))
        .route("/messages", get(messages::show_all))
        .route("/messages/{message_id}", get(messages::show_one))
        .route("/messages/{message_id}/decide", post(messages::decide))
        .route("/lanes", get(destinations::show_lanes))
        .route("/destinations", get(destinations::show_all))
        .route("/destinations/{name}", get(destinations::show_one))
        .route("/destinations/{name}/decide", post(destinations::decide))
        .route("/senders", get(senders::show_all))
        .route("/senders/{name}", get(senders::show_one))
        .route("/senders/{name}/decide", post(senders::decide))
        .route("/rejected", get(rejected::show))
        .route("/explain", get(explain::show).post(explain::explain))
        .route("/operations", get(operations::show_all).post(operations::begin))
        .route("/operations/new", get(operations::choose))
        .route("/operations/new/{act}", get(operations::confirm))
        .route("/operations/{operation_id}", get(operations::show_one))
        .route("/operations/{operation_id}/approve", decide("approve"))
        .route("/operations/{operation_id}/continue", decide("continue"))
        .route("/operations/{operation_id}/cancel", decide("cancel"))
        .route("/settings", get(settings::show))
        .route("/audit", get(settings::show_audit))
        .route("/search", get(search::show))
        .route("/sign-out", get(sign_in::ask_out).post(sign_in::sign_out))
        .route("/sign-out/everywhere", post(sign_in::sign_out_everywhere))
}

/// The page for those who are not signed in yet.
pub(crate) fn open_routes() -> Router<Arc<ConsoleState>> {
    Router::new().route("/sign-in", get(sign_in::show).post(sign_in::sign_in))
}
