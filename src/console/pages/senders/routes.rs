//! What the two pages ask for, and the form of one of them.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery};
use axum::response::Response;
use axum::routing::{get, post};
use maud::Markup;

use super::{list, one};
use crate::api::{ActivityView, Page, ProviderView};
use crate::console::contract::{ContractAnswer, path, with_query};
use crate::console::parts::form::{self, SentForm};
use crate::console::parts::frame::Place;
use crate::console::parts::{field, pause};
use crate::console::state::ConsoleState;
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;

pub(in crate::console) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new()
        .route("/senders", get(show_all))
        .route("/senders/{name}", get(show_one))
        .route("/senders/{name}/decide", post(decide))
}

async fn show_all(visit: Visit, raw: RawQuery) -> Response {
    let values = field::values(&raw);
    let found = visit.ask::<Page<ProviderView>>("/providers").await;
    let made = found.map(|page| ("Senders".to_owned(), list::draw(&visit, &page.items, &values)));
    visit.answer(Place::Senders, made)
}

async fn show_one(visit: Visit, Path(name): Path<String>) -> Response {
    let made = asked(&visit, &name).await;
    visit.answer(Place::Senders, made)
}

/// Takes the form that pauses or resumes a provider.
async fn decide(visit: Visit, Path(name): Path<String>, form: SentForm) -> Response {
    let page = path(&["senders", &name]);
    match pause::order(&visit, &path(&["providers", &name]), &form).await {
        Ok(()) => form::go(&visit.link(&page)),
        Err(trouble) => visit.trouble(Place::Senders, &trouble.about(&page)),
    }
}

async fn asked(visit: &Visit, name: &str) -> Result<(String, Markup), Trouble> {
    let told: ContractAnswer<ProviderView> = visit.ask_tagged(&path(&["providers", name])).await?;
    let view = &told.view;
    let target = with_query("/activity", &[("provider", Some(&view.name))]);
    let activity: ActivityView = visit.ask(&target).await?;
    Ok((view.name.clone(), one::draw(visit, (view, told.etag.as_deref()), &activity)))
}
