//! What Hooklatch would make of a request that a person pastes, and why.

use std::sync::Arc;

use axum::Router;
use axum::extract::RawQuery;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use maud::{Markup, html};

use crate::contract::OrderHeaders;
use crate::parts::chip::{Mood, chip};
use crate::parts::form::SentForm;
use crate::parts::frame::Place;
use crate::parts::{chip as states, field, link, list, moment};
use crate::state::ConsoleState;
use crate::trouble::PageError;
use crate::visit::Visit;
use hooklatch_contract::{
    ExplainEvent, ExplainLines, ExplainOrder, ExplainRequest, ExplainVerdict, ExplainView, Page, ProviderView,
};
use hooklatch_core::figures::grouped;
use hooklatch_core::times::parse_time;
use hooklatch_core::types::Role;

pub(crate) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new().route("/explain", get(show).post(explain))
}

/// Largest request that is written into the form again. Bytes.
const AGAIN_BYTES_MAX: usize = 24 * 1024;
const EXAMPLE: &str = "POST /webhooks/NAME\nheader-of-the-signature: …\n\n{\"the body\":\"as it was sent\"}";

/// The question as the form was sent.
#[derive(Default)]
struct Asked {
    provider: Option<String>,
    request: String,
    /// `own` for the time that it is signed with.
    at: Option<String>,
    time: Option<String>,
}

async fn show(visit: Visit, raw: RawQuery) -> Response {
    if !visit.may(Role::Reader) {
        let title = "this token may not see contents: it needs the role `reader`";
        return visit.trouble(Place::Explain, &PageError::new(StatusCode::FORBIDDEN, "forbidden", title));
    }
    let values = field::values(&raw);
    // As the pages of a sender and of what was refused lead here.
    let provider = field::value(&values, "provider").map(str::to_owned);
    let made = form(&visit, &Asked { provider, ..Asked::default() }).await;
    let intro = "Paste a request as it was sent: see every step of judging it, with the secrets as they are configured. \
                 Nothing is stored, and nothing follows from it.";
    let made = made.map(|form| ("Explain".to_owned(), html! { p { (intro) } (form) }));
    visit.answer(Place::Explain, made)
}

async fn explain(visit: Visit, sent: SentForm) -> Response {
    let text = |name: &str| sent.optional(name).map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned);
    let asked = Asked {
        provider: text("provider"),
        // Browsers end every line of a pasted text with CRLF, whatever it had.
        request: sent.optional("request").unwrap_or_default().replace("\r\n", "\n"),
        at: text("at"),
        time: text("time"),
    };
    let made = answered(&visit, &asked).await.map(|body| ("Explain".to_owned(), body));
    visit.answer(Place::Explain, made)
}

async fn answered(visit: &Visit, asked: &Asked) -> Result<Markup, PageError> {
    let at_ms = asked.time.as_deref().map(|text| parse_time(text, visit.now_ms)).transpose();
    let at_ms = at_ms.map_err(|why| PageError::bad_form(&format!("the time cannot be read: {why}")))?;
    let order = ExplainOrder {
        provider: asked.provider.clone(),
        request: ExplainRequest::Text(asked.request.clone()),
        at_ms,
        at_own_time: asked.at.as_deref() == Some("own"),
    };
    let view: ExplainView = visit.post("/explain", &OrderHeaders::default(), &order).await?;
    Ok(html! {
        (shown(visit, &view))
        h2 { "Ask again" }
        (form(visit, asked).await?)
    })
}

async fn form(visit: &Visit, asked: &Asked) -> Result<Markup, PageError> {
    let providers: Page<ProviderView> = visit.get("/providers").await?;
    let again = Some(asked.request.as_str()).filter(|text| text.len() <= AGAIN_BYTES_MAX);
    Ok(html! {
        form class="explain" method="post" action=(visit.link("/explain")) {
            label { span { "Request: method and path, headers, an empty line, the body" }
                textarea name="request" required rows="14" spellcheck="false" autocomplete="off" placeholder=(EXAMPLE) { (again.unwrap_or_default()) }
            }
            @if again.is_none() { p class="hint" { "The request was too large to be written here again." } }
            div class="filter" {
                label { span { "Provider" }
                    select name="provider" {
                        option value="" { "as the path says" }
                        @for provider in &providers.items {
                            option value=(provider.name) selected[asked.provider.as_deref() == Some(&provider.name)] { (provider.name) }
                        }
                    }
                }
                label { span { "Judge it" }
                    select name="at" {
                        option value="" { "at the time below" }
                        option value="own" selected[asked.at.as_deref() == Some("own")] { "at the time of its timestamp" }
                    }
                }
                label { span { "Time; empty for now" }
                    input type="text" name="time" value=(asked.time.as_deref().unwrap_or_default()) placeholder="2026-11-22T14:02:11Z" maxlength="64" autocomplete="off";
                }
                button class="main" type="submit" { "Explain" }
            }
            p class="hint" {
                "Browsers end each pasted line with CRLF. The body is tried with LF first, then with CRLF, and the answer says "
                "which one was believed. For bytes that no form can carry: " code { "hooklatch explain FILE" } "."
            }
        }
    })
}

/// Most characters of one step.
const STEP_CHARS_MAX: usize = 1_000;

fn shown(visit: &Visit, view: &ExplainView) -> Markup {
    let steps: Vec<Markup> = view
        .steps
        .iter()
        .map(|step| html! { tr { th scope="row" { (step.word) } td { (moment::brief(&step.text, STEP_CHARS_MAX)) } } })
        .collect();
    html! {
        (list::facts(&facts(visit, view)))
        @if view.verdict == ExplainVerdict::NotRead {
            p class="note" {
                "A request begins with a line such as " code { "POST /webhooks/stripe" } "; then come its headers, an empty line and
                 its body. A curl command is not read."
            }
        }
        @if let Some(sentence) = lines(view.lines) { p class="note" { (sentence) } }
        section aria-labelledby="steps" {
            h2 id="steps" { "Steps" }
            (list::table("Steps", &["Step", "What was found"], &steps))
        }
        @if let Some(provider) = view.provider.as_deref().filter(|_| !view.events.is_empty()) {
            (events(visit, provider, view))
        }
    }
}

fn facts(visit: &Visit, view: &ExplainView) -> Vec<(&'static str, Markup)> {
    let (mood, word) = match view.verdict {
        ExplainVerdict::Believed => (Mood::Good, "believed"),
        ExplainVerdict::Handshake => (Mood::Good, "a handshake"),
        ExplainVerdict::NotBelieved => (Mood::Bad, "not believed"),
        ExplainVerdict::NotRead => (Mood::Needed, "not a request"),
    };
    let mut facts = vec![("Verdict", chip(mood, word))];
    if let Some(provider) = &view.provider {
        facts.push(("Provider", link::provider(visit, provider)));
    }
    if let Some(step) = &view.failed_at {
        let reason = view.reason.as_deref().unwrap_or_default();
        facts.push(("Failed at", html! { (step) @if !reason.is_empty() { " (" (reason) ")" } }));
    }
    facts.push(("Judged at", moment::moment(view.judged_at_ms, visit.now_ms)));
    if let Some(age_s) = view.age_s {
        let way = if age_s < 0 { "ahead of" } else { "behind" };
        facts.push(("Its own time", html! { (grouped(age_s.unsigned_abs())) " s " (way) " that" }));
    }
    facts
}

/// What was done about line ends, where it matters.
fn lines(lines: ExplainLines) -> Option<&'static str> {
    match lines {
        ExplainLines::AsGiven => None,
        ExplainLines::Lf => Some("The body was believed with LF at the ends of its lines, not with CRLF."),
        ExplainLines::Crlf => Some("The body was believed with CRLF at the ends of its lines, not with LF."),
    }
}

fn events(visit: &Visit, provider: &str, view: &ExplainView) -> Markup {
    let rows: Vec<Markup> = view.events.iter().map(|event| row(visit, provider, event)).collect();
    html! {
        section aria-labelledby="events" {
            h2 id="events" { "Events that it would be read as" }
            (list::table("Events", &["Event", "Type", "Identity", "Known"], &rows))
            @if view.more_events_n > 0 { p class="hint" { (grouped(view.more_events_n)) " more are not shown." } }
        }
    }
}

fn row(visit: &Visit, provider: &str, event: &ExplainEvent) -> Markup {
    html! {
        tr {
            td {
                @if event.known_state.is_some() { (link::event(visit, provider, &event.event_id)) }
                @else { (moment::foreign(&event.event_id)) }
            }
            td { (moment::foreign(&event.event_type)) @if let Some(why) = &event.unreadable { " " span class="hint" { "unreadable: " (moment::foreign(why)) } } }
            td { (moment::foreign(&event.identity)) }
            td { @match event.known_state { Some(state) => (states::event(state)), None => "not known: it would be new" } }
        }
    }
}
