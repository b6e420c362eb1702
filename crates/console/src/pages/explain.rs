//! What Hooklatch would make of a request that a person pastes, and why.

use super::prelude::*;
use hooklatch_contract::{
    ExplainEvent, ExplainLines, ExplainOrder, ExplainRequest, ExplainStep, ExplainVerdict, ExplainView,
    ProviderView,
};
use hooklatch_core::times::parse_time;

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

pub(crate) async fn show(visit: Visit, values: Values) -> PageResult {
    if !visit.may(Role::Reader) {
        let why = "this token may not see contents: it needs the role `reader`";
        return Err(PageError::new(StatusCode::FORBIDDEN, "forbidden", why));
    }
    // As the pages of a sender and of what was refused lead here.
    let provider = values.get("provider").map(str::to_owned);
    let form = form(&visit, &Asked { provider, ..Asked::default() }).await?;
    let intro = "Paste a request as it was sent: see every step of judging it, with the secrets as they are configured. \
                 Nothing is stored, and nothing follows from it.";
    Ok(PageBody::new("Explain", html! { p { (intro) } (form) }))
}

pub(crate) async fn explain(visit: Visit, sent: SentForm) -> PageResult {
    let text = |name: &str| sent.optional(name).map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned);
    let asked = Asked {
        provider: text("provider"),
        // Browsers end every line of a pasted text with CRLF, whatever it had.
        request: sent.optional("request").unwrap_or_default().replace("\r\n", "\n"),
        at: text("at"),
        time: text("time"),
    };
    let at_ms = asked.time.as_deref().map(|text| parse_time(text, visit.now_ms)).transpose();
    let at_ms = at_ms.map_err(|why| PageError::bad_form(&format!("the time cannot be read: {why}")))?;
    let order = ExplainOrder {
        provider: asked.provider.clone(),
        request: ExplainRequest::Text(asked.request.clone()),
        at_ms,
        at_own_time: asked.at.as_deref() == Some("own"),
    };
    let view: ExplainView = visit.post("/explain", &OrderHeaders::default(), &order).await?;
    let body = html! {
        (shown(&visit, &view))
        h2 { "Ask again" }
        (form(&visit, &asked).await?)
    };
    Ok(PageBody::new("Explain", body))
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
    let cells = |step: &ExplainStep| [html! { (step.word) }, text::brief(&step.text, STEP_CHARS_MAX)];
    let steps = list::rows("Steps", ["Step", "What was found"], "", &view.steps, cells);
    html! {
        (list::facts(&facts(visit, view)))
        @if view.verdict == ExplainVerdict::NotRead {
            p class="note" {
                "A request begins with a line such as " code { "POST /webhooks/stripe" } "; then come its headers, an empty line and
                 its body. A curl command is not read."
            }
        }
        @if let Some(sentence) = lines(view.lines) { p class="note" { (sentence) } }
        (list::section("steps", "Steps", &steps))
        @if let Some(provider) = view.provider.as_deref().filter(|_| !view.events.is_empty()) {
            (list::section("events", "Events that it would be read as", &events(visit, provider, view)))
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
    facts.push(("Judged at", text::moment(view.judged_at_ms, visit.now_ms)));
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
    let cells = |event: &ExplainEvent| {
        let id = match event.known_state {
            Some(_) => link::event(visit, provider, &event.event_id),
            None => text::foreign(&event.event_id),
        };
        let why = event.unreadable.as_deref();
        [
            id,
            html! { (text::foreign(&event.event_type)) @if let Some(why) = why { " " span class="hint" { "unreadable: " (text::foreign(why)) } } },
            text::foreign(&event.identity),
            event.known_state.map_or_else(|| html! { "not known: it would be new" }, text::event_chip),
        ]
    };
    html! {
        (list::rows("Events", ["Event", "Type", "Identity", "Known"], "", &view.events, cells))
        @if view.more_events_n > 0 { p class="hint" { (grouped(view.more_events_n)) " more are not shown." } }
    }
}
