//! The page of one event, the bytes of its body as a file, and decisions about it.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery};
use axum::response::Response;
use http::StatusCode;
use maud::{Markup, html};

use super::look::LedgerLook;
use super::{again, conflict, content, decisions, facts, timeline};
use crate::api::{EventAct, EventOrder, LedgerView, OrderResult, SearchHit, SearchView};
use crate::console::contract::{ContractAnswer, told, with_query};
use crate::console::parts::chip::{Mood, chip};
use crate::console::parts::form::{self, SentForm};
use crate::console::parts::frame::Place;
use crate::console::parts::{link, list};
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;
use crate::plain;
use crate::types::{Role, readable_id};

/// A provider's name and an event's id, which may hold anything.
pub(super) type EventNames = Result<Path<(String, String)>, PathRejection>;

pub(super) async fn show(visit: Visit, names: EventNames, raw: RawQuery) -> Response {
    visit.answer(Place::Events, draw(&visit, names, &raw).await)
}

async fn draw(visit: &Visit, names: EventNames, raw: &RawQuery) -> Result<(String, Markup), Trouble> {
    let Path((provider, event_id)) = names.map_err(|_| Trouble::not_found())?;
    let path = link::event_path(&provider, &event_id);
    let look = LedgerLook::of(raw);
    let ContractAnswer { view, etag } = match visit.ask_tagged::<LedgerView>(&path).await {
        Err(trouble) if trouble.status == StatusCode::NOT_FOUND => {
            return Err(not_here(visit, &provider, &event_id).await);
        }
        found => found?,
    };
    let beside = conflict::beside(visit, &view).await;
    let again = again::again(visit, &view, &path).await;
    let body = html! {
        (decisions::decisions(visit, &view, &path, etag.as_deref(), &what_if(visit, &view, &path)))
        (notices(&view))
        @if let Some(beside) = beside { (beside) }
        (facts::facts(visit, &view))
        section aria-labelledby="timeline" {
            h2 id="timeline" { "What happened" }
            (timeline::timeline(visit, &view, &path, look))
        }
        section aria-labelledby="content" {
            h2 id="content" { "What was sent" }
            (content::content(visit, &view, &path, look))
        }
        @if let Some(again) = again { (again) }
    };
    let id = &view.event.event_id;
    Ok((plain::line(readable_id(id).as_deref().unwrap_or(id)).into_owned(), body))
}

/// Says which event is not here, and what is known of its id.
async fn not_here(visit: &Visit, provider: &str, event_id: &str) -> Trouble {
    let found: Result<SearchView, Trouble> =
        visit.ask(&with_query("/search", &[("id", Some(event_id))])).await;
    let mut sentences = vec![format!("no event `{event_id}` of provider `{provider}` is here")];
    if let Ok(found) = found {
        sentences.extend(found.found.iter().filter_map(|hit| match hit {
            SearchHit::EventId { event } if event.event_id == event_id => {
                Some(format!("Provider `{}` has an event of this id", event.provider))
            }
            _ => None,
        }));
        sentences.extend(found.notes.iter().map(|note| note.trim_end_matches('.').to_owned()));
    }
    Trouble::new(StatusCode::NOT_FOUND, "not_found", &sentences.join(". "))
}

/// The way to what the handlers of this server would make of the event today; for those who may, and while its bytes are
/// kept.
fn what_if(visit: &Visit, view: &LedgerView, path: &str) -> Markup {
    html! {
        @if visit.may(Role::Operator) && view.content.is_some() {
            form method="post" action=(visit.link(&format!("{path}/what-if"))) {
                button type="submit" title="Its handlers are run and nothing is written: see what would differ." { "What if it came today?" }
            }
        }
    }
}

/// Sentences about what the ledger does not tell.
fn notices(view: &LedgerView) -> Markup {
    html! {
        @if view.event.synthetic {
            p class="note" { (chip(Mood::Needed, "test event")) " An operator made this event. Its sender never sent it." }
        }
        @if view.is_cut { p class="note" { "So much happened that the oldest entries are left out." } }
        (list::damaged(&view.damaged))
        @if view.conflicts_unkept_n > 0 {
            p class="note" {
                "Other content came under this id " (view.conflicts_unkept_n)
                " more times and was not kept: there is room for 16 of each event."
            }
        }
        @if view.hidden_messages_n > 0 {
            p class="note" {
                "Messages to destinations that your token does not reach are not shown: "
                (view.hidden_messages_n) "."
            }
        }
    }
}

/// The path of an event, here and below `/v1` alike.
fn path_of(names: EventNames) -> Option<String> {
    let Path((provider, event_id)) = names.ok()?;
    Some(link::event_path(&provider, &event_id))
}

/// Gives on the bytes, which a browser keeps as a file and never shows.
pub(super) async fn body(visit: Visit, names: EventNames) -> Response {
    let Some(path) = path_of(names) else { return visit.trouble(Place::Events, &Trouble::not_found()) };
    let answer = visit.ask_raw(&format!("{path}/body")).await;
    if answer.status().is_success() {
        return answer;
    }
    let trouble = told::<()>(answer).await.err().unwrap_or(Trouble::INCOMPLETE);
    visit.trouble(Place::Events, &trouble)
}

/// Carries out what a form of the page asks for.
pub(super) async fn decide(visit: Visit, names: EventNames, form: SentForm) -> Response {
    match decided(&visit, names, &form).await {
        Ok(path) => form::go(&visit.link(&path)),
        Err(trouble) => visit.trouble(Place::Events, &trouble),
    }
}

async fn decided(visit: &Visit, names: EventNames, form: &SentForm) -> Result<String, Trouble> {
    let path = path_of(names).ok_or_else(Trouble::not_found)?;
    let act: EventAct = serde_json::from_value(form.needed("act")?.into()).map_err(|_| {
        Trouble::bad_form("the form asks for an act that events do not know: open the page again")
    })?;
    let order = EventOrder { act, reason: form.needed("reason")?.to_owned() };
    let _: OrderResult = visit.order(&format!("{path}/decide"), &form.headers()?, &order).await?;
    Ok(path)
}
