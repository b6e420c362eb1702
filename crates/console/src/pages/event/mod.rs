//! The ledger of one event: from the first byte of its request to its last effect.
//!
//! On top stand what happened and what people may do about it, then other content under the same id, the facts, the timeline
//! (`timeline.rs`), what was received, and with `serve --dev` the same request signed anew.

mod timeline;

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery};
use axum::response::Response;
use axum::routing::{get, post};
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Limited};
use maud::{Markup, html};

use crate::contract::{ContractAnswer, parse_answer, path, with_query};
use crate::parts::body::BodyLook;
use crate::parts::chip::{Mood, chip};
use crate::parts::diff::{DiffRow, LINES_N_MAX, side_by_side};
use crate::parts::form::JudgedForm;
use crate::parts::form::SentForm;
use crate::parts::frame::Place;
use crate::parts::list::Narrow;
use crate::parts::{body, chip, diff, field, form, link, list, moment};
use crate::state::{ConsoleState, SignedAgain, SignedCopy};
use crate::trouble::PageError;
use crate::visit::Visit;
use hooklatch_contract::{
    ContentView, EventAct, EventOrder, JudgedAct, LedgerView, LedgerWhat, MessageView, OrderResult, Risk,
    SearchHit, SearchView,
};
use hooklatch_core::figures::{grouped, plural, reruns};
use hooklatch_core::plain;
use hooklatch_core::types::{MessageState, Role, readable_id};

pub(crate) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new()
        .route("/events/{provider}/{event_id}", get(show))
        .route("/events/{provider}/{event_id}/body", get(body))
        .route("/events/{provider}/{event_id}/decide", post(decide))
}

/// A provider's name and an event's id, which may hold anything.
type EventNames = Result<Path<(String, String)>, PathRejection>;

async fn show(visit: Visit, names: EventNames, raw: RawQuery) -> Response {
    visit.answer(Place::Events, draw(&visit, names, &raw).await)
}

async fn draw(visit: &Visit, names: EventNames, raw: &RawQuery) -> Result<(String, Markup), PageError> {
    let Path((provider, event_id)) = names.map_err(|_| PageError::not_found())?;
    let path = link::event_path(&provider, &event_id);
    let look = LedgerLook::of(raw);
    let ContractAnswer { view, etag } = match visit.get_tagged::<LedgerView>(&path).await {
        Err(trouble) if trouble.status == StatusCode::NOT_FOUND => {
            return Err(not_here(visit, &provider, &event_id).await);
        }
        found => found?,
    };
    let beside = beside(visit, &view).await;
    let again = again(visit, &view, &path).await;
    let body = html! {
        (decisions(visit, &view, &path, etag.as_deref()))
        (notices(&view))
        @if let Some(beside) = beside { (beside) }
        (facts(visit, &view))
        section aria-labelledby="timeline" {
            h2 id="timeline" { "What happened" }
            (timeline::timeline(visit, &view, &path, look))
        }
        section aria-labelledby="content" {
            h2 id="content" { "What was sent" }
            (content(visit, &view, &path, look))
        }
        @if let Some(again) = again { (again) }
    };
    let id = &view.event.event_id;
    Ok((plain::line(readable_id(id).as_deref().unwrap_or(id)).into_owned(), body))
}

/// The error for an event that is not here, with what is known of its id.
async fn not_here(visit: &Visit, provider: &str, event_id: &str) -> PageError {
    let found: Result<SearchView, PageError> =
        visit.get(&with_query("/search", &[("id", Some(event_id))])).await;
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
    PageError::new(StatusCode::NOT_FOUND, "not_found", &sentences.join(". "))
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
                "Other content arrived under this id " (view.conflicts_unkept_n)
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
async fn body(visit: Visit, names: EventNames) -> Response {
    let Some(path) = path_of(names) else { return visit.trouble(Place::Events, &PageError::not_found()) };
    let answer = visit.get_response(&format!("{path}/body")).await;
    if answer.status().is_success() {
        return answer;
    }
    let trouble = parse_answer::<()>(answer).await.err().unwrap_or(PageError::INCOMPLETE);
    visit.trouble(Place::Events, &trouble)
}

/// Carries out the act of a form of the page.
async fn decide(visit: Visit, names: EventNames, form: SentForm) -> Response {
    match decided(&visit, names, &form).await {
        Ok(path) => form::go(&visit.link(&path)),
        Err(trouble) => visit.trouble(Place::Events, &trouble),
    }
}

async fn decided(visit: &Visit, names: EventNames, form: &SentForm) -> Result<String, PageError> {
    let path = path_of(names).ok_or_else(PageError::not_found)?;
    let act: EventAct = serde_json::from_value(form.needed("act")?.into()).map_err(|_| {
        PageError::bad_form("the form asks for an act that events do not know: open the page again")
    })?;
    let order = EventOrder { act, reason: form.needed("reason")?.to_owned() };
    let _: OrderResult = visit.post(&format!("{path}/decide"), &form.headers()?, &order).await?;
    Ok(path)
}

/// How the page is to be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LedgerLook {
    /// True when the body is to be shown as it was sent, not indented.
    is_as_sent: bool,
    /// True when all entries are to be shown, however many.
    has_all_entries: bool,
}

impl LedgerLook {
    /// Reads `body=sent` and `entries=all`.
    fn of(raw: &RawQuery) -> Self {
        let values = field::values(raw);
        Self {
            is_as_sent: field::value(&values, "body") == Some("sent"),
            has_all_entries: field::value(&values, "entries") == Some("all"),
        }
    }
}

/// The word of the contract for an act, and the label of its button.
fn words(act: EventAct) -> (&'static str, &'static str) {
    match act {
        EventAct::Dispatch => ("dispatch", "Dispatch it"),
        EventAct::Dismiss => ("dismiss", "Dismiss it"),
        EventAct::Rerun => ("rerun", "Run it again"),
        EventAct::Erase => ("erase", "Erase its content"),
        EventAct::EraseAndDiscard => ("erase_and_discard", "Erase its content and discard what is open"),
    }
}

/// True when an act repeats nothing, loses nothing and can be followed by any other.
fn is_harmless(one: &JudgedAct<EventAct>) -> bool {
    one.risk == Risk::None && !matches!(one.act, EventAct::Erase | EventAct::EraseAndDiscard)
}

/// What happened and what it means; then the acts that are harmless, and folded apart from them the others, in red.
fn decisions(visit: &Visit, view: &LedgerView, path: &str, etag: Option<&str>) -> Markup {
    let (harmless, risky): (Vec<_>, Vec<_>) = view.judgement.acts.iter().cloned().partition(is_harmless);
    let action = visit.link(&format!("{path}/decide"));
    let form = |acts: &[JudgedAct<EventAct>]| {
        form::judged(&JudgedForm { action: &action, etag, acts, button: words })
    };
    html! {
        section id="decide" aria-label="What happened, and what to do" {
            p class="headline" {
                (chip::event(view.event.state)) " " (chip::delivery(&view.event.delivery)) " "
                (moment::coded(&view.judgement.headline))
            }
            (messages(visit, view))
            @if visit.may(Role::Operator) {
                @if !harmless.is_empty() { (form(&harmless)) }
                div id="risky" class="folds" {
                    @for one in risky.chunks(1) {
                        details class="fold" {
                            summary { @for act in one { (words(act.act).1) " …" } }
                            (form(one))
                        }
                    }
                }
            } @else {
                @let role = visit.principal.role.as_str();
                (list::nothing(&format!("Decisions are for the role operator and stronger ones; yours is {role}.")))
            }
        }
    }
}

/// The messages of the event that wait for a decision, which is made on their own pages.
fn messages(visit: &Visit, view: &LedgerView) -> Markup {
    let of = |what: &LedgerWhat| -> Option<MessageView> {
        let LedgerWhat::Effect { message } = what else { return None };
        matches!(message.state, MessageState::Held | MessageState::Dead).then(|| message.clone())
    };
    let may_act = visit.may(Role::Operator);
    let waiting: Vec<MessageView> = view.entries.iter().filter_map(|entry| of(&entry.what)).collect();
    html! {
        @if !waiting.is_empty() {
            ul class="waiting" {
                @for message in &waiting {
                    @let id = message.message_id.to_string();
                    li {
                        a class="button" href=(visit.link(&path(&["messages", &id]))) { @if may_act { "Decide about message " } @else { "Message " } (id) }
                        (chip::message(message.state)) " to " (link::destination(visit, &message.destination))
                        @if message.effect_name != message.destination { " (" (moment::foreign(&message.effect_name)) ")" }
                        @if let Some(error) = &message.last_error { span class="hint" { (moment::foreign(error)) } }
                    }
                }
            }
        }
    }
}

fn facts(visit: &Visit, view: &LedgerView) -> Markup {
    let event = &view.event;
    let id = if event.parts.is_empty() { "Event id" } else { "Raw id" };
    let mut rows = vec![
        (id, moment::copied("event-id", &event.event_id)),
        ("State", html! { (chip::event(event.state)) }),
        ("Calls", html! { (chip::delivery(&event.delivery)) }),
        ("Provider", link::provider(visit, &event.provider)),
        ("Type", moment::foreign(&event.event_type)),
    ];
    match view.beside_event_id.as_deref() {
        Some(first) => rows.push(("Kept beside", link::event(visit, &event.provider, first))),
        None => rows.extend(event.error.as_deref().map(|error| ("Why", moment::foreign(error)))),
    }
    rows.extend(event.delivery.error.as_deref().map(|error| ("Error of a call", moment::foreign(error))));
    rows.extend(effects(view).map(|effects| ("Effects", effects)));
    rows.extend(event.object.as_deref().map(|object| {
        let version = event.version.map(|version| html! { ", version " (version) });
        ("Object", html! { (moment::id(object)) @if let Some(version) = version { (version) } })
    }));
    rows.push(("Identified by", identity(&event.identity)));
    rows.push(("Received", moment::moment(event.received_at_ms, visit.now_ms)));
    let at = |at_ms: i64| moment::moment(at_ms, visit.now_ms);
    rows.extend(event.created_at_ms.map(|at_ms| ("Happened at the sender", at(at_ms))));
    let due = if event.attempts_n == 0 { "To be dispatched" } else { "Dispatched again" };
    rows.extend(event.due_at_ms.map(|at_ms| (due, at(at_ms))));
    let dispatched = if event.generation == 0 { "Dispatched" } else { "Dispatched in this run" };
    rows.push((dispatched, html! { (plural(event.attempts_n.into(), "time")) }));
    if event.generation > 0 {
        rows.push(("Runs ordered by people", html! { (reruns(event.generation)) }));
    }
    rows.extend(view.trace_id.as_deref().map(|trace_id| {
        let is_recorded = view.is_trace_recorded != Some(false);
        ("Trace", html! { code { (trace_id) } @if !is_recorded { ", not recorded" } })
    }));
    html! { section aria-label="The event" { (list::facts(&rows)) } }
}

/// How many effects are in which state, since a handler may be done while its effects are not.
fn effects(view: &LedgerView) -> Option<Markup> {
    let mut counts: Vec<(MessageState, u64)> = Vec::new();
    for entry in &view.entries {
        let LedgerWhat::Effect { message } = &entry.what else { continue };
        match counts.iter_mut().find(|(state, _)| *state == message.state) {
            Some((_, messages_n)) => *messages_n += 1,
            None => counts.push((message.state, 1)),
        }
    }
    let shown = html! { @for (state, messages_n) in &counts { (grouped(*messages_n)) " " (chip::message(*state)) " " } };
    (!counts.is_empty()).then_some(shown)
}

/// The rule that identified the event, in words.
fn identity(rule: &str) -> Markup {
    let words = match rule.split('/').next() {
        Some("sender") => "the id that its sender gave it",
        Some("content") => "its content: other content is another event",
        Some("signal") => "when it arrived: a signal repeats by nature",
        Some("unreadable") => "its bytes: nothing else of it could be read",
        _ => "a rule of its kind",
    };
    html! { (words) " " code { (moment::foreign(rule)) } }
}

/// The two contents side by side, where this event is kept beside another one.
async fn beside(visit: &Visit, view: &LedgerView) -> Option<Markup> {
    let first = view.beside_event_id.as_deref()?;
    let provider = &view.event.provider;
    let differs = match &view.content {
        Some(content) => {
            let stands = visit.get::<LedgerView>(&link::event_path(provider, first)).await;
            match stands.ok().and_then(|stands| stands.content) {
                Some(stands) => compared(&stands, content),
                None => list::nothing(
                    "The content that arrived first is no longer kept, so there is nothing to compare with.",
                ),
            }
        }
        None => list::nothing(
            "The two contents are compared for those who may see contents, as long as both are kept.",
        ),
    };
    Some(html! {
        section aria-labelledby="differs" {
            h2 id="differs" { "What differs" }
            p {
                "This arrived under the id of " (link::event(visit, provider, first))
                ", with other content."
            }
            (differs)
        }
    })
}

fn compared(first: &ContentView, other: &ContentView) -> Markup {
    if first.unopened.is_some() || other.unopened.is_some() {
        return list::nothing("One of the two is kept and does not open.");
    }
    let is_part = is_cut(first) || is_cut(other);
    let texts = (body::lines(&first.body, is_cut(first)), body::lines(&other.body, is_cut(other)));
    let Some(rows) = side_by_side(&texts.0, &texts.1) else {
        let lines_n = grouped(LINES_N_MAX as u64);
        return list::nothing(&format!("They are too large to compare: one has more than {lines_n} lines."));
    };
    let is_equal = rows.iter().all(|row| !matches!(row, DiffRow::Other(..)));
    html! {
        @if is_part { p class="hint" { "The first 64 KiB of each are compared." } }
        @if is_equal {
            p class="note" { "What is shown of them is equal, line by line: they differ in space between tokens, in what was left out before they were stored, or in what is not shown." }
        }
        p class="hint" { "− is only in the first one, + only in the later one." }
        (diff::table("What differs", ["First", "Later, with the same id"], &rows))
    }
}

/// Most bytes of a body that the contract returns within a ledger.
const BODY_BYTES_MAX: u64 = 64 << 10;
/// Longest value of a header that is shown. Bytes.
const VALUE_BYTES_MAX: usize = 2 << 10;

/// The beginning of a text, of at most so many bytes, and whether there is more of it.
fn shown(text: &str, bytes_max: usize) -> (&str, bool) {
    let shown = text.get(..text.floor_char_boundary(bytes_max)).unwrap_or(text);
    (shown, shown.len() < text.len())
}

/// True when a content is shown in part only.
fn is_cut(content: &ContentView) -> bool {
    content.body_bytes_n > BODY_BYTES_MAX
}

fn content(visit: &Visit, view: &LedgerView, path: &str, look: LedgerLook) -> Markup {
    match (&view.content, view.content_missing.as_deref()) {
        (Some(content), _) => kept(visit, content, path, look),
        (None, Some("role")) => list::nothing(
            "Headers, bodies and answers of destinations are for the role reader and stronger ones; yours is viewer.",
        ),
        (None, _) => list::nothing(
            "Headers and body are no longer kept. Id, digest and state of the event are, so that a copy of it is still known.",
        ),
    }
}

fn kept(visit: &Visit, content: &ContentView, path: &str, look: LedgerLook) -> Markup {
    if let Some(why) = &content.unopened {
        return html! {
            p class="trouble" { "It is kept, and does not open: " (moment::foreign(why)) "." }
        };
    }
    let is_cut = is_cut(content);
    html! {
        @if content.is_encrypted { p class="hint" { "It is stored encrypted." } }
        (headers(content))
        h3 { "Body, " (plural(content.body_bytes_n, "byte")) }
        @if let Some(redacted_n) = content.redacted_n { (redacted(redacted_n)) }
        @if content.is_lossy {
            p class="note" { "Not all of it is UTF-8: � stands for bytes that are not. The file below has them as they are." }
        }
        @if content.body.is_empty() { (list::nothing("The body is empty.")) }
        @else {
            div id="body" { (body::body(&content.body, "Body", BodyLook { is_cut, is_as_sent: look.is_as_sent })) }
        }
        p class="links" {
            @if !content.body.is_empty() { (moment::copy_button("body", "Copy the body as it is shown")) " " }
            @if is_cut { "The first 64 KiB are shown. " }
            @if look.is_as_sent { a href=(visit.link(&format!("{path}#content"))) { "Indent it" } }
            @else { a href=(visit.link(&format!("{}#content", with_query(path, &[("body", Some("sent"))])))) { "Show it without indentation" } }
            " · "
            a href=(visit.link(&format!("{path}/body"))) download="body" { "Download all of it" }
        }
    }
}

fn redacted(redacted_n: u32) -> Markup {
    html! {
        p class="note" {
            @if redacted_n == 0 { "All of it was left out before it was stored." }
            @else { "Left out before it was stored, as the configuration says: " (plural(redacted_n.into(), "value")) "." }
        }
    }
}

fn headers(content: &ContentView) -> Markup {
    let values_n: usize = content.headers.values().map(Vec::len).sum();
    let rows: Vec<Markup> = content
        .headers
        .iter()
        .flat_map(|(name, values)| values.iter().map(move |value| (name, value)))
        .map(|(name, value)| header_row(name, value))
        .collect();
    html! {
        h3 { "Headers, " (grouped(values_n as u64)) }
        @if rows.is_empty() { (list::nothing("No headers are kept.")) }
        @else {
            div id="headers" { (list::table_as(Narrow::Stacked, "Headers", &["Name", "Value"], &rows)) }
            p { (moment::copy_button("headers", "Copy the headers")) }
        }
    }
}

fn header_row(name: &str, value: &str) -> Markup {
    let (value, is_cut) = shown(value, VALUE_BYTES_MAX);
    html! {
        tr {
            th scope="row" { code { (moment::foreign(name)) } }
            td { code { (moment::foreign(value)) @if is_cut { "…" } } }
        }
    }
}

/// Largest body that is put into a command: a shell takes 128 KiB as one word, in which each byte may need five.
const COMMAND_BYTES_MAX: usize = 24 << 10;

/// The command, or why there is none; nothing where secrets are secret.
async fn again(visit: &Visit, view: &LedgerView, path: &str) -> Option<Markup> {
    let signed_again = visit.state.signed_again.as_ref()?;
    let made = match body_of(visit, view, path).await {
        Ok(body) => signed_again(&SignedAgain {
            provider: &view.event.provider,
            event_id: view.beside_event_id.as_deref().unwrap_or(&view.event.event_id),
            event_type: &view.event.event_type,
            body: &body,
            now_s: visit.now_ms / 1_000,
        }),
        Err(why) => Err(why.to_owned()),
    };
    let is_redacted = view.content.as_ref().is_some_and(|content| content.redacted_n.is_some());
    Some(html! {
        section aria-labelledby="again" {
            h2 id="again" { "Send it once more" }
            @match made {
                Ok(SignedCopy { command, is_duplicate }) => {
                    p {
                        "The stored body, signed now with the published development secret. "
                        @if is_duplicate { "Hooklatch identifies it as this event and answers " code { "duplicate" } ": no call follows. " }
                        @else { strong { "Hooklatch can store it as a new event, and its calls follow again" } ": what is signed does not contain this event’s id. " }
                        "A signature with a time in it is valid for a few minutes; each load of this page makes a new one."
                    }
                    @if is_redacted {
                        p class="note" { "Values were left out of the body before it was stored, so this is other content: a conflict." }
                    }
                    pre id="curl" tabindex="0" role="region" aria-label="Command" { (command) }
                    p { (moment::copy_button("curl", "Copy the command")) }
                },
                Err(why) => (list::nothing(&why)),
            }
        }
    })
}

/// The bytes that were stored, where they can be sent by a command.
async fn body_of(visit: &Visit, view: &LedgerView, path: &str) -> Result<Bytes, &'static str> {
    let content = match (&view.content, view.content_missing.as_deref()) {
        (Some(content), _) => content,
        (None, Some("role")) => return Err("Your role may not see the body, so no command is made of it."),
        (None, _) => return Err("The body is no longer kept, so it cannot be sent once more."),
    };
    if content.unopened.is_some() {
        return Err("The body is kept and does not open, so it cannot be sent once more.");
    }
    if content.body_bytes_n > COMMAND_BYTES_MAX as u64 {
        return Err(
            "The body is too large for a command: download it, and sign it with `hooklatch sign KIND --body FILE`.",
        );
    }
    if is_whole_text(content) {
        return Ok(Bytes::from(content.body.clone()));
    }
    let answer = visit.get_response(&format!("{path}/body")).await;
    let is_good = answer.status().is_success();
    let read = Limited::new(answer.into_body(), COMMAND_BYTES_MAX).collect().await.ok();
    read.filter(|_| is_good)
        .map(http_body_util::Collected::to_bytes)
        .ok_or("The body could not be read: load the page again.")
}

fn is_whole_text(content: &ContentView) -> bool {
    !content.is_lossy && !is_cut(content)
}
