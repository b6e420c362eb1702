//! Received events, the newest first, by filters in the URL; and the ledger of one, from the first byte of its request
//! to its last effect.
//!
//! On top of a ledger stand what happened and what people may do about it, then other content under the same id, the
//! facts, the timeline (`timeline.rs`) and what was received.

mod timeline;

use axum::extract::FromRequestParts;
use http::request::Parts;

use super::prelude::*;
use crate::parts::body::BodyLook;
use crate::parts::diff::{DiffRow, LINES_N_MAX, side_by_side};
use crate::parts::list::Asked;
use crate::parts::{body, diff};
use crate::visit::parse_answer;
use hooklatch_contract::{
    ContentView, EventAct, EventView, JudgedAct, LedgerView, LedgerWhat, MessageView, Risk, SearchHit,
    SearchView,
};
use hooklatch_core::figures::reruns;
use hooklatch_core::plain;
use hooklatch_core::types::{DeliveryFilter, EventState, MessageState, UnixMs, readable_id};

pub(crate) async fn show_all(visit: Visit, values: Values) -> PageResult {
    let sieve = EventSieve::read(values, visit.now_ms)?;
    let found: Page<EventView> = visit.get(&list::target("/events", &sieve.asked, ("subject", None))).await?;
    let body = html! {
        (sieve.fields(&visit))
        div class="above" {
            @if sieve.is_open() { (follower(&visit, &sieve)) }
            @if let Some((path, words)) = sieve.acted_on().filter(|_| visit.may(Role::Operator)) {
                a class="button" href=(visit.link(&path)) { (words) }
            }
        }
        div id="rows" {
            @if found.items.is_empty() { (list::nothing("No event is found by this filter.")) }
            @else { (table(&visit, &found.items)) }
        }
        (list::onwards(&visit, "/events", &sieve.values, &found))
    };
    Ok(PageBody::new("Events", body))
}

/// What the script makes of a list that is followed; without it, the way to look again.
fn follower(visit: &Visit, sieve: &EventSieve) -> Markup {
    html! {
        div class="follow" data-follow {
            span class="state" role="status" {}
            button type="button" hidden { "Pause" }
            a href=(visit.link(&with_query("/events", &sieve.values.pairs()))) { "Look again" }
        }
    }
}

/// Times to choose with one click: the value in the URL, and the text of the link.
const SPANS: [(&str, &str); 3] = [("15m", "15 min"), ("1h", "1 h"), ("24h", "24 h")];

/// A filter as it stands in the address.
struct EventSieve {
    values: Values,
    asked: Asked,
}

impl EventSieve {
    /// Reads it; times are in UTC.
    fn read(values: Values, now_ms: UnixMs) -> Result<Self, PageError> {
        let asked = list::asked(&values, now_ms)?;
        Ok(Self { values, asked })
    }

    /// True when what is received now belongs on top of what it finds: it has no calls that are held or given up.
    fn is_open(&self) -> bool {
        !["received_to_ms", "cursor", "delivery"].iter().any(|name| self.asked.contains_key(*name))
    }

    /// The address that acts on all that it finds, and what the link says; where it names no state and no calls, there
    /// is none. An event has calls once it is done.
    fn acted_on(&self) -> Option<(String, &'static str)> {
        let mut asked = self.asked.clone();
        asked.remove("cursor");
        let path = |asked| list::target("/operations/new", &asked, ("subject", Some("events")));
        if asked.contains_key("state") {
            return Some((path(asked), "Act on all of these"));
        }
        asked.get("delivery")?;
        asked.insert("state".to_owned(), EventState::Handled.as_str().to_owned());
        Some((path(asked), "Act on those of these that are done"))
    }

    fn time(&self, name: &str) -> Option<UnixMs> {
        self.asked.get(name)?.parse().ok()
    }

    /// The form, with the times that one click chooses.
    fn fields(&self, visit: &Visit) -> Markup {
        let values = &self.values;
        let fields = html! {
            (list::provider_field(visit, values))
            (list::text_field("type", "Type", values))
            (list::choice("state", "State", values, EventState::ALL.iter().map(|state| state.as_str())))
            (list::labelled("delivery", "Calls", values, DeliveryFilter::ALL.iter().map(|calls| (calls.as_str(), calls.shown()))))
            (list::text_field("object", "Object", values))
            (list::time_field("from", "From (UTC)", self.time("received_from_ms")))
            (list::time_field("to", "Before (UTC)", self.time("received_to_ms")))
        };
        html! {
            (list::filter(&visit.link("/events"), &fields, !values.is_empty()))
            nav class="spans" aria-label="Times" {
                span { "The last" }
                @for (span, label) in SPANS {
                    a href=(visit.link(&self.within(span))) aria-current=[(values.get("from") == Some(span)).then_some("true")] { (label) }
                }
            }
        }
    }

    /// The address of the list with this filter, of what was received within this time.
    fn within(&self, span: &str) -> String {
        let mut asked = self.asked.clone();
        asked.retain(|name, _| !["received_from_ms", "received_to_ms", "cursor"].contains(&name.as_str()));
        list::target("/events", &asked, ("from", Some(span)))
    }
}

const HEADINGS: [&str; 8] = ["Received", "Provider", "Event", "Type", "State", "Calls", "Object", "Error"];

/// All that were found.
pub(crate) fn table(visit: &Visit, events: &[EventView]) -> Markup {
    let rows: Vec<Markup> = events.iter().map(|event| row(visit, event)).collect();
    list::table_as(list::LINES, "Events", &HEADINGS, &rows)
}

fn row(visit: &Visit, event: &EventView) -> Markup {
    html! {
        tr data-row=(link::event_path(&event.provider, &event.event_id)) {
            td { (text::moment(event.received_at_ms, visit.now_ms)) }
            td { (link::provider(visit, &event.provider)) }
            td class="what" { (link::event(visit, &event.provider, &event.event_id)) }
            td { (text::foreign(&event.event_type)) }
            td {
                (text::event_chip(event.state))
                @if event.copies_n > 0 { p class="hint" { "and " (plural(event.copies_n, "duplicate")) } }
            }
            td { (text::delivery_chip(&event.delivery)) }
            td class="named" { @match &event.object { Some(object) => (text::id(object)), None => (text::none()) } }
            td class="long" { (text::event_error(event)) }
        }
    }
}

/// A provider's name and an event's id, which may hold anything.
pub(crate) struct EventNames {
    provider: String,
    event_id: String,
}

impl<S: Send + Sync> FromRequestParts<S> for EventNames {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, PageError> {
        let names = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((provider, event_id)) = names.map_err(|_| PageError::not_found())?;
        Ok(Self { provider, event_id })
    }
}

impl EventNames {
    /// The path of the event, here and below `/v1` alike.
    fn path(&self) -> String {
        link::event_path(&self.provider, &self.event_id)
    }
}

pub(crate) async fn show(visit: Visit, names: EventNames, values: Values) -> PageResult {
    let path = names.path();
    let (view, etag) = match visit.get_tagged::<LedgerView>(&path).await {
        Err(error) if error.status == StatusCode::NOT_FOUND => {
            return Err(not_here(&visit, &names).await);
        }
        found => found?,
    };
    let beside = beside(&visit, &view).await;
    let body = html! {
        (decisions(&visit, &view, &path, etag.as_deref()))
        (notices(&view))
        @if let Some(beside) = beside { (list::section("differs", "What differs", &beside)) }
        (facts(&visit, &view))
        (list::section("timeline", "What happened", &timeline::timeline(&visit, &view, &path, &values)))
        (list::section("content", "What was sent", &content(&visit, &view, &path, &values)))
    };
    let id = &view.event.event_id;
    Ok(PageBody::new(plain::line(readable_id(id).as_deref().unwrap_or(id)), body))
}

/// The error for an event that is not here, with what is known of its id.
async fn not_here(visit: &Visit, EventNames { provider, event_id }: &EventNames) -> PageError {
    let found: Result<SearchView, PageError> =
        visit.get(&with_query("/search", &[("id", Some(event_id))])).await;
    let mut sentences = vec![format!("no event `{event_id}` of provider `{provider}` is here")];
    if let Ok(found) = found {
        sentences.extend(found.found.iter().filter_map(|hit| match hit {
            SearchHit::EventId { event } if event.event_id == *event_id => {
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

/// Gives on the bytes, which a browser keeps as a file and never shows.
pub(crate) async fn body(visit: Visit, names: EventNames) -> Result<Response, PageError> {
    let answer = visit.get_response(&format!("{}/body", names.path())).await;
    if answer.status().is_success() {
        return Ok(answer);
    }
    Err(parse_answer::<()>(answer).await.err().unwrap_or_else(PageError::incomplete))
}

pub(crate) async fn decide(visit: Visit, names: EventNames, form: SentForm) -> Result<Response, PageError> {
    form::decide::<EventAct>(&visit, &names.path(), &form).await
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
    let form = |acts: &[JudgedAct<EventAct>]| form::judged(&action, etag, acts, words);
    html! {
        section id="decide" aria-label="What happened, and what to do" {
            p class="headline" {
                (text::event_chip(view.event.state)) " " (text::delivery_chip(&view.event.delivery)) " "
                (text::coded(&view.judgement.headline))
            }
            (messages(visit, view))
            @if visit.may(Role::Operator) {
                @if !harmless.is_empty() { (form(&harmless)) }
                div id="risky" class="folds" {
                    @for one in &risky {
                        details class="fold" {
                            summary { (words(one.act).1) " …" }
                            (form(std::slice::from_ref(one)))
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
    let waiting = view.entries.iter().filter_map(|entry| match &entry.what {
        LedgerWhat::Effect { message }
            if matches!(message.state, MessageState::Held | MessageState::Dead) =>
        {
            Some(message)
        }
        _ => None,
    });
    let waiting: Vec<&MessageView> = waiting.collect();
    let may_act = visit.may(Role::Operator);
    html! {
        @if !waiting.is_empty() {
            ul class="waiting" {
                @for message in &waiting {
                    @let id = message.message_id.to_string();
                    li {
                        a class="button" href=(visit.link(&path(&["messages", &id]))) { @if may_act { "Decide about message " } @else { "Message " } (id) }
                        (text::message_chip(message.state)) " to " (link::destination(visit, &message.destination))
                        @if message.effect_name != message.destination { " (" (text::foreign(&message.effect_name)) ")" }
                        @if let Some(error) = &message.last_error { span class="hint" { (text::foreign(error)) } }
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
        (id, text::copied("event-id", &event.event_id)),
        ("State", text::event_chip(event.state)),
        ("Calls", text::delivery_chip(&event.delivery)),
        ("Provider", link::provider(visit, &event.provider)),
        ("Type", text::foreign(&event.event_type)),
    ];
    match view.beside_event_id.as_deref() {
        Some(first) => rows.push(("Kept beside", link::event(visit, &event.provider, first))),
        None => rows.extend(event.error.as_deref().map(|error| ("Why", text::foreign(error)))),
    }
    rows.extend(event.delivery.error.as_deref().map(|error| ("Error of a call", text::foreign(error))));
    rows.extend(effects(view).map(|effects| ("Effects", effects)));
    rows.extend(event.object.as_deref().map(|object| {
        let version = event.version.map(|version| html! { ", version " (version) });
        ("Object", html! { (text::id(object)) @if let Some(version) = version { (version) } })
    }));
    rows.push(("Identified by", identity(&event.identity)));
    rows.push(("Received", text::moment(event.received_at_ms, visit.now_ms)));
    let at = |at_ms: i64| text::moment(at_ms, visit.now_ms);
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
    let shown = html! { @for (state, messages_n) in &counts { (grouped(*messages_n)) " " (text::message_chip(*state)) " " } };
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
    html! { (words) " " code { (text::foreign(rule)) } }
}

/// The two contents side by side, where this event is kept beside another one.
async fn beside(visit: &Visit, view: &LedgerView) -> Option<Markup> {
    let first = view.beside_event_id.as_deref()?;
    let provider = &view.event.provider;
    let differs = if let Some(content) = &view.content {
        let stands = visit.get::<LedgerView>(&link::event_path(provider, first)).await;
        let nothing =
            "The content that arrived first is no longer kept, so there is nothing to compare with.";
        let stands = stands.ok().and_then(|stands| stands.content);
        stands.map_or_else(|| list::nothing(nothing), |stands| compared(&stands, content))
    } else {
        list::nothing(
            "The two contents are compared for those who may see contents, as long as both are kept.",
        )
    };
    Some(html! {
        p {
            "This arrived under the id of " (link::event(visit, provider, first))
            ", with other content."
        }
        (differs)
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

fn content(visit: &Visit, view: &LedgerView, path: &str, values: &Values) -> Markup {
    match (&view.content, view.content_missing.as_deref()) {
        (Some(content), _) => stored(visit, content, path, values),
        (None, Some("role")) => list::nothing(
            "Headers, bodies and answers of destinations are for the role reader and stronger ones; yours is viewer.",
        ),
        (None, _) => list::nothing(
            "Headers and body are no longer kept. Id, digest and state of the event are, so that a copy of it is still known.",
        ),
    }
}

fn stored(visit: &Visit, content: &ContentView, path: &str, values: &Values) -> Markup {
    let is_as_sent = values.get("body") == Some("sent");
    if let Some(why) = &content.unopened {
        return html! {
            p class="trouble" { "It is kept, and does not open: " (text::foreign(why)) "." }
        };
    }
    let is_cut = is_cut(content);
    html! {
        @if content.is_encrypted { p class="hint" { "It is stored encrypted." } }
        (headers(content))
        h3 { "Body, " (plural(content.body_bytes_n, "byte")) }
        @if let Some(redacted_n) = content.redacted_n {
            p class="note" {
                @if redacted_n == 0 { "All of it was left out before it was stored." }
                @else { "Left out before it was stored, as the configuration says: " (plural(redacted_n.into(), "value")) "." }
            }
        }
        @if content.is_lossy {
            p class="note" { "Not all of it is UTF-8: � stands for bytes that are not. The file below has them as they are." }
        }
        @if content.body.is_empty() { (list::nothing("The body is empty.")) }
        @else {
            div id="body" { (body::body(&content.body, "Body", BodyLook { is_cut, is_as_sent })) }
        }
        p class="links" {
            @if !content.body.is_empty() { (text::copy_button("body", "Copy the body as it is shown")) " " }
            @if is_cut { "The first 64 KiB are shown. " }
            @if is_as_sent { a href=(visit.link(&format!("{path}#content"))) { "Indent it" } }
            @else { a href=(visit.link(&format!("{}#content", with_query(path, &[("body", Some("sent"))])))) { "Show it without indentation" } }
            " · "
            a href=(visit.link(&format!("{path}/body"))) download="body" { "Download all of it" }
        }
    }
}

fn headers(content: &ContentView) -> Markup {
    let all = content.headers.iter().flat_map(|(name, values)| values.iter().map(move |value| (name, value)));
    let row = |(name, value): (&String, &String)| {
        let (value, is_cut) = shown(value, VALUE_BYTES_MAX);
        html! {
            tr {
                th scope="row" { code { (text::foreign(name)) } }
                td { code { (text::foreign(value)) @if is_cut { "…" } } }
            }
        }
    };
    let rows: Vec<Markup> = all.map(row).collect();
    html! {
        h3 { "Headers, " (grouped(rows.len() as u64)) }
        @if rows.is_empty() { (list::nothing("No headers are kept.")) }
        @else {
            div id="headers" { (list::table_as(list::STACKED, "Headers", &["Name", "Value"], &rows)) }
            p { (text::copy_button("headers", "Copy the headers")) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<EventSieve, PageError> {
        EventSieve::read(Values::parse(query), 1_795_356_311_500)
    }

    #[test]
    fn times_are_read_as_people_write_them_and_asked_for_in_milliseconds() {
        #[track_caller]
        fn check(query: &str, want: &str) {
            let found = read(query).map(|sieve| list::target("/events", &sieve.asked, ("cursor", None)));
            assert_eq!(found.ok().as_deref(), Some(want), "{query}");
        }
        check("", "/events");
        check("state=handled&type=a+b", "/events?state=handled&type=a+b");
        check("from=15m", "/events?received_from_ms=1795355411500");
        check("from=2026-11-22T14:05", "/events?received_from_ms=1795356300000");
        check("to=2026-11-22T14:05:11", "/events?received_to_ms=1795356311000");
        check("received_from_ms=5&to=1970-01-02", "/events?received_from_ms=5&received_to_ms=86400000");
        check("delivery=stuck", "/events?delivery=stuck");
        check("nonsense=1&cursor=x", "/events?cursor=x&nonsense=1");
        let acted_on = |query| {
            read(query).ok().and_then(|sieve| sieve.acted_on()).map(|(path, _)| path).unwrap_or_default()
        };
        assert_eq!(acted_on("state=handled&cursor=x"), "/operations/new?state=handled&subject=events");
        assert_eq!(acted_on("type=a"), "");
        let failed = "/operations/new?delivery=dead&state=failed&subject=events";
        assert_eq!(acted_on("state=failed&delivery=dead"), failed);
        assert_eq!(acted_on("delivery=dead"), "/operations/new?delivery=dead&state=handled&subject=events");
        assert!(read("from=soon").is_err());
    }

    #[test]
    fn a_list_is_followed_unless_it_ends_in_the_past() {
        let open = |query| read(query).map(|sieve| sieve.is_open()).ok();
        assert_eq!(open("from=15m&state=handled"), Some(true));
        assert_eq!((open("to=15m"), open("cursor=x")), (Some(false), Some(false)));
    }
}
