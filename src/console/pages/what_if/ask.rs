//! The form, and the two questions: about the events that a filter finds, and about one.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use maud::{Markup, html};

use super::{effects, events};
use crate::api::{EventFilter, WHAT_IF_N_DEFAULT, WHAT_IF_N_MAX, WhatIfOrder, WhatIfView};
use crate::console::contract::{OrderHeaders, path};
use crate::console::parts::form::SentForm;
use crate::console::parts::frame::Place;
use crate::console::parts::{field, link};
use crate::console::state::ConsoleState;
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;
use crate::types::{EventState, Role};

/// Fields of the form, by their names.
const FIELDS: [&str; 5] = ["provider", "type", "state", "object", "limit"];

pub(super) async fn show(visit: Visit) -> Response {
    let body = html! {
        p {
            "The handlers of this server are run on bodies that are stored, and what would follow is compared with what "
            "was committed. Nothing is written. For handlers that are not deployed yet, run "
            code { "hooklatch what-if" } " with the new program."
        }
        (form(&visit, &[]))
    };
    if !visit.may(Role::Operator) {
        let title = "this token may look, but not act: it needs the role `operator`";
        return visit.trouble(Place::WhatIf, &Trouble::new(StatusCode::FORBIDDEN, "forbidden", title));
    }
    visit.page(Place::WhatIf, "What-if", &body)
}

/// The form, with what was asked before.
pub(super) fn form(visit: &Visit, values: &[(String, String)]) -> Markup {
    let limits = ["20", "50", "100"];
    html! {
        form class="filter" method="post" action=(visit.link("/what-if")) {
            (field::provider(visit, values))
            (field::text("type", "Type", values))
            (field::choice("state", "State", values, EventState::ALL.iter().map(|state| state.as_str())))
            (field::text("object", "Object", values))
            label { span { "Newest events" }
                select name="limit" {
                    @for limit in limits {
                        option value=(limit) selected[field::value(values, "limit") == Some(limit)] { (limit) }
                    }
                }
            }
            button class="main" type="submit" { "Run the handlers" }
        }
    }
}

pub(super) async fn many(visit: Visit, sent: SentForm) -> Response {
    let values: Vec<(String, String)> = FIELDS
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), sent.optional(name)?.to_owned())))
        .collect();
    let made = asked(&visit, &values, sent.optional("cursor")).await;
    visit.answer(Place::WhatIf, made.map(|body| ("What-if".to_owned(), body)))
}

async fn asked(visit: &Visit, values: &[(String, String)], cursor: Option<&str>) -> Result<Markup, Trouble> {
    let text = |name: &str| field::value(values, name).map(|value| value.trim().to_owned());
    let state = text("state").map(|word| EventState::parse(&word));
    if state == Some(None) {
        let words = EventState::ALL.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(", ");
        return Err(Trouble::bad_form(&format!("the state is not one of {words}")));
    }
    let limit = text("limit").and_then(|limit| limit.parse().ok()).unwrap_or(WHAT_IF_N_DEFAULT);
    let order = WhatIfOrder {
        filter: EventFilter {
            state: state.flatten(),
            provider: text("provider"),
            event_type: text("type"),
            object: text("object"),
            ..EventFilter::default()
        },
        limit: Some(limit.clamp(1, WHAT_IF_N_MAX).into()),
        cursor: cursor.map(str::to_owned),
    };
    let view: WhatIfView = visit.order("/what-if", &OrderHeaders::default(), &order).await?;
    Ok(html! {
        (form(visit, values))
        (events::shown(visit, &view))
        @if let Some(next) = &view.next {
            form method="post" action=(visit.link("/what-if")) {
                @for (name, value) in values { input type="hidden" name=(name) value=(value); }
                input type="hidden" name="cursor" value=(next);
                button type="submit" { "Go on with older events" }
            }
        }
    })
}

pub(super) async fn one(
    visit: Visit,
    Path((provider, event_id)): Path<(String, String)>,
    _sent: SentForm,
) -> Response {
    let target = path(&["events", &provider, &event_id, "what-if"]);
    let made: Result<WhatIfView, Trouble> =
        visit.order(&target, &OrderHeaders::default(), &serde_json::Value::Null).await;
    let made = made.map(|view| ("What-if".to_owned(), effects::shown(&visit, &view)));
    visit.answer(Place::WhatIf, made)
}

/// Whoever comes by the address alone is shown the event.
pub(super) async fn back(
    State(state): State<Arc<ConsoleState>>,
    Path((provider, event_id)): Path<(String, String)>,
) -> Response {
    Redirect::to(&format!("{}{}", state.base, link::event_path(&provider, &event_id))).into_response()
}
