//! Acts on everything that a filter finds: listed, shown, confirmed; `show.rs` is one operation, with its progress and
//! decisions.
//!
//! An operation begins with a preview: the URL has the filter, the page shows what it finds and which acts there are.
//! The same page with an act in its path has the form that confirms it. The form is about the rows of the preview and no
//! others: it sends their number and their `set`, and the contract refuses it when other rows are found.

mod show;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery};
use axum::response::Response;
use axum::routing::{get, post};
use http::StatusCode;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::{events, messages};
use crate::contract::{OrderHeaders, path, with_query};
use crate::parts::form::{self, SentForm};
use crate::parts::frame::Place;
use crate::parts::{field, link, list, moment};
use crate::state::ConsoleState;
use crate::trouble::PageError;
use crate::visit::Visit;
use hooklatch_contract::{
    BulkFigures, EventFilter, MessageFilter, NamedCount, OperationChoice, OperationOrder, OperationPreview,
    OperationSubject, OperationView, Page, PreviewedAct, Risk, bulk_acts,
};
use hooklatch_core::figures::{grouped, plural};
use hooklatch_core::plain;
use hooklatch_core::times;
use hooklatch_core::types::{EventState, MessageState, Role, UnixMs};

/// Characters of what an operation does and of its reason that a row shows.
const WORDS_CHARS_MAX: usize = 160;
/// Most names that are shown with their numbers.
const NAMES_N_MAX: usize = 12;
const HEADINGS: [&str; 7] = ["Operation", "What", "State", "Progress", "Ordered", "By", "Reason"];

pub(crate) fn routes() -> Router<Arc<ConsoleState>> {
    let decide = |word| post(move |visit, id, form| show::decide(word, visit, id, form));
    Router::new()
        .route("/operations", get(list_all).post(begin))
        .route("/operations/new", get(|visit, raw| new(visit, None, raw)))
        .route("/operations/new/{act}", get(|visit, Path(act): Path<String>, raw| new(visit, Some(act), raw)))
        .route("/operations/{operation_id}", get(show::show))
        .route("/operations/{operation_id}/approve", decide("approve"))
        .route("/operations/{operation_id}/continue", decide("continue"))
        .route("/operations/{operation_id}/cancel", decide("cancel"))
}

async fn list_all(visit: Visit, raw: RawQuery) -> Response {
    let made = draw_list(&visit, &field::values(&raw)).await.map(|body| ("Operations".to_owned(), body));
    visit.answer(Place::Operations, made)
}

async fn draw_list(visit: &Visit, values: &[(String, String)]) -> Result<Markup, PageError> {
    let cursor = field::value(values, "cursor");
    let page: Page<OperationView> = visit.get(&with_query("/operations", &[("cursor", cursor)])).await?;
    let row = |operation: &OperationView| {
        html! {
            tr {
                td { (link::operation(visit, &operation.operation_id)) }
                td { (moment::brief(&subject_words(&operation.subject, operation.total_n), WORDS_CHARS_MAX)) }
                td { (show::state(operation.state)) }
                td { (show::progress(operation)) }
                td { (moment::moment(operation.created_at_ms, visit.now_ms)) }
                td { (moment::foreign(&operation.actor)) }
                td { (moment::brief(&operation.reason, WORDS_CHARS_MAX)) }
            }
        }
    };
    let rows: Vec<Markup> = page.items.iter().map(row).collect();
    Ok(html! {
        @if visit.may(Role::Operator) {
            p class="hint" {
                "An operation acts on all that a filter finds. Begin one from the list of "
                a href=(visit.link("/messages")) { "messages" } " or "
                a href=(visit.link("/events")) { "events" } ", filtered by a state."
            }
        }
        @if rows.is_empty() { (list::nothing("There are no operations yet.")) }
        @else { (list::table("Operations", &HEADINGS, &rows)) }
        (list::onwards(visit, "/operations", values, &page))
    })
}

async fn new(visit: Visit, act: Option<String>, raw: RawQuery) -> Response {
    let made = match choice(&field::values(&raw), visit.now_ms) {
        Ok(choice) => draw_new(&visit, &choice, act.as_deref(), &html! {}).await,
        Err(trouble) => Err(trouble),
    };
    visit.answer(Place::Operations, made)
}

/// Reads the choice of an address. A name that its filter does not have is refused: left out, it would choose more rows
/// than were meant.
fn choice(values: &[(String, String)], now_ms: UnixMs) -> Result<OperationChoice, PageError> {
    let mut filter = field::asked(values, now_ms)?;
    let subject = filter.remove("subject").unwrap_or_default();
    if !filter.contains_key("state") {
        let why = "an operation acts on what stands in one state: choose one on the list first";
        return Err(PageError::bad_form(why));
    }
    if !["messages", "events"].contains(&subject.as_str()) {
        return Err(PageError::bad_form("say as `subject` whether it is about `messages` or `events`"));
    }
    let value = |(name, text): (String, String)| {
        let number = text.parse::<i64>().ok().filter(|_| name.ends_with("_ms"));
        (name, number.map_or_else(|| Value::from(text), Value::from))
    };
    let filter: Map<String, Value> = filter.into_iter().map(value).collect();
    let odd =
        |_| PageError::bad_form("this filter cannot be read: filter the list anew, and go on from there");
    serde_json::from_value(json!({ subject: filter })).map_err(odd)
}

/// A path with a filter as its query; `subject` is a value more.
fn target(path: &str, choice: &OperationChoice, subject: Option<&str>) -> String {
    let filter = match choice {
        OperationChoice::Messages(filter) => serde_json::to_value(filter),
        OperationChoice::Events(filter) => serde_json::to_value(filter),
    };
    let filter = filter.unwrap_or_default();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let texts: Vec<(&String, String)> =
        filter.as_object().into_iter().flatten().map(|(name, value)| (name, text(value))).collect();
    let mut values: Vec<_> = texts.iter().map(|(name, text)| (name.as_str(), Some(text.as_str()))).collect();
    values.push(("subject", subject));
    with_query(path, &values)
}

/// The list of a choice, in the contract and among the pages alike.
fn list_of(choice: &OperationChoice) -> &'static str {
    match choice {
        OperationChoice::Messages(_) => "messages",
        OperationChoice::Events(_) => "events",
    }
}

/// The title and the page of a preview: with an act, the form that confirms it; else the acts that there are. `notice`
/// stands first.
async fn draw_new(
    visit: &Visit,
    choice: &OperationChoice,
    act: Option<&str>,
    notice: &Markup,
) -> Result<(String, Markup), PageError> {
    if act.is_some_and(|act| choice.clone().with_act(act).is_none()) {
        return Err(PageError::bad_form("there is no such act"));
    }
    let title = "New operation".to_owned();
    if bulk_acts(choice, &BulkFigures { counted_n: 1, ..BulkFigures::default() }).is_empty() {
        return Ok((title, list::nothing("Nothing can be done to what stands in this state.")));
    }
    let preview: OperationPreview =
        visit.post("/operations/preview", &OrderHeaders::default(), choice).await?;
    let (title, decision) = match (nothing_to_choose(visit, &preview), act) {
        (Some(why), _) => (title, why),
        (None, None) => (title, acts(visit, choice, &preview.acts)),
        (None, Some(act)) => {
            let act = preview
                .acts
                .iter()
                .find(|one| one.act == act)
                .ok_or_else(|| PageError::bad_form("this cannot be done to what stands in this state"))?;
            // The head of a page has no other guard against text that turns it around.
            let words = choice_words(choice, preview.figures.counted_n);
            (format!("{}: {}", act.label, plain::line(&words)), confirm(visit, choice, act, &preview))
        }
    };
    let body = html! {
        (notice)
        (found(visit, choice, &preview))
        (decision)
        (samples(visit, &preview))
    };
    Ok((title, body))
}

/// Why no act can be chosen.
fn nothing_to_choose(visit: &Visit, preview: &OperationPreview) -> Option<Markup> {
    if preview.figures.is_more {
        let why = "That is more than one operation acts on. Say more, such as a provider or a time, and do it in parts.";
        return Some(html! { p class="note" { (why) } });
    }
    if preview.figures.counted_n == 0 {
        return Some(list::nothing("There is nothing to do."));
    }
    let may = visit.may(Role::Operator);
    (!may).then(|| html! { p class="note" { "To act on them takes the role " code { "operator" } "." } })
}

/// The acts that there are; each leads to the form that confirms it.
fn acts(visit: &Visit, choice: &OperationChoice, acts: &[PreviewedAct]) -> Markup {
    let href = |act: &PreviewedAct| {
        visit.link(&target(&path(&["operations", "new", &act.act]), choice, Some(list_of(choice))))
    };
    let drawn = |act: &PreviewedAct| {
        html! {
            section class="choice" {
                p { a class=(if act.is_dangerous() { "button danger" } else { "button" }) href=(href(act)) { (act.label) "…" } }
                p { (act.sentence) }
            }
        }
    };
    let is_erasure = |act: &&PreviewedAct| act.act.starts_with("erase");
    html! {
        h2 { "What is to be done?" }
        p class="hint" { "Each leads to a page of its own, where it is confirmed. Nothing is done yet." }
        @for act in acts.iter().filter(|act| !is_erasure(act)) { (drawn(act)) }
        @if acts.iter().any(|act| is_erasure(&act)) {
            details class="fold" {
                summary { "Delete what is stored …" }
                @for act in acts.iter().filter(is_erasure) { (drawn(act)) }
            }
        }
    }
}

/// What an act does to all of them, and what that risks.
fn what_follows(visit: &Visit, act: &PreviewedAct) -> Markup {
    html! {
        p class=(if act.is_dangerous() { "trouble" } else { "note" }) {
            @if act.risk != Risk::None { strong { (act.risk.in_words()) ". " } }
            (act.sentence)
        }
        @if let Some(steps) = &act.steps { p { (steps.in_words()) } }
        @if let Some(id) = &act.same_operation_id {
            p class="trouble" role="alert" {
                "The same was ordered before: operation " (link::operation(visit, id))
                " does the same, or does it to some of the same rows, and is unfinished or ended less than 10 minutes ago."
            }
        }
    }
}

/// The form that begins it, about these rows and no others.
fn confirm(
    visit: &Visit,
    choice: &OperationChoice,
    act: &PreviewedAct,
    preview: &OperationPreview,
) -> Markup {
    let counted_n = preview.figures.counted_n;
    let label = act.label.replace(" them", &format!(" {}", grouped(counted_n)));
    let fields = html! {
        input type="hidden" name="choice" value=(serde_json::to_string(choice).unwrap_or_default());
        input type="hidden" name="counted_n" value=(counted_n);
        input type="hidden" name="set" value=(preview.set);
        (typed_field(counted_n))
    };
    let buttons = html! {
        @if act.same_operation_id.is_some() {
            label class="check" {
                input type="checkbox" name="again" value="true" required;
                span { "Do it once more, although the same was ordered before" }
            }
        }
        div class="buttons" {
            button type="submit" name="act" value=(act.act) class=(if act.is_dangerous() { "main danger" } else { "main" }) {
                (label)
            }
        }
        p class="hint" {
            "It begins only if these are still the same rows, goes on when you leave, and can be cancelled while it runs."
        }
    };
    let class = if act.is_dangerous() { "act dangerous" } else { "act" };
    let back = target("/operations/new", choice, Some(list_of(choice)));
    html! {
        (what_follows(visit, act))
        @if preview.approvals_n > 1 { p { "Another person has to approve it before it begins." } }
        (form::frame(class, (&visit.link("/operations"), None), &fields, &buttons))
        p { a href=(visit.link(&back)) { "Back: do something else, or nothing" } }
    }
}

/// The field in which the number is typed.
fn typed_field(counted_n: u64) -> Markup {
    html! {
        label { span { "To confirm, type the number " strong { (counted_n) } }
            input type="text" name="typed_n" inputmode="numeric" required maxlength="12" autocomplete="off";
        }
    }
}

/// Refuses a form in which another number was typed than it is about.
fn check_typed(form: &SentForm, counted_n: u64) -> Result<(), PageError> {
    let typed = form.optional("typed_n").unwrap_or_default();
    let digits: String = typed.chars().filter(|one| !matches!(one, ',' | '.' | ' ' | '_')).collect();
    if digits.parse() == Ok(counted_n) {
        return Ok(());
    }
    let title = format!("the number {counted_n} has to be typed to confirm it");
    Err(PageError::new(StatusCode::BAD_REQUEST, "other_number_typed", &title))
}

/// What was found, in words and in figures, with the way to look at it; and what operators did to it a moment ago.
fn found(visit: &Visit, choice: &OperationChoice, preview: &OperationPreview) -> Markup {
    let figures = &preview.figures;
    let list = target(&format!("/{}", list_of(choice)), choice, None);
    let calls = format!(
        "{}; {} open, {} of these never tried",
        plural(figures.calls_n, "call"),
        grouped(figures.open_n),
        grouped(figures.untried_n)
    );
    let mut facts = vec![("Providers", named(&figures.providers))];
    if !figures.destinations.is_empty() {
        facts.push(("Destinations", named(&figures.destinations)));
    }
    facts.extend([
        ("First", moment::moment_or_none(figures.first_at_ms, visit.now_ms)),
        ("Last", moment::moment_or_none(figures.last_at_ms, visit.now_ms)),
        ("Calls", html! { (calls) }),
    ]);
    html! {
        p class="found" {
            @if figures.is_more { "More than " }
            strong { (moment::foreign(&choice_words(choice, figures.counted_n))) } ". "
            a href=(visit.link(&list)) { "Look at all of them" }
        }
        @if figures.counted_n > 0 { (list::facts(&facts)) }
        @if let Some(recent) = &preview.recent {
            p class="trouble" role="alert" { (moment::foreign(&recent.in_words())) }
        }
    }
}

fn named(counts: &[NamedCount]) -> Markup {
    html! {
        @for (n, count) in counts.iter().take(NAMES_N_MAX).enumerate() {
            @if n > 0 { ", " }
            (moment::foreign(&count.name)) " " (grouped(count.counted_n))
        }
        @if counts.len() > NAMES_N_MAX { ", and " (counts.len() - NAMES_N_MAX) " more" }
    }
}

/// The newest rows of it.
fn samples(visit: &Visit, preview: &OperationPreview) -> Markup {
    html! {
        @if !preview.events.is_empty() || !preview.messages.is_empty() { h2 { "Some of them" } }
        @if !preview.events.is_empty() { (events::table(visit, &preview.events)) }
        @if !preview.messages.is_empty() { (messages::table(visit, "The newest of them", &preview.messages)) }
    }
}

/// Takes the form that begins an operation. Where the contract refuses it, the person decides anew.
async fn begin(visit: Visit, form: SentForm) -> Response {
    let trouble = match order(&visit, &form).await {
        Ok(begun) => return form::go(&visit.link(&path(&["operations", &begun.operation_id]))),
        Err(trouble) => trouble,
    };
    let is_to_confirm_anew = matches!(
        trouble.code.as_deref(),
        Some("other_number_typed" | "other_count" | "other_set" | "same_operation")
    );
    let Some(choice) = sent_choice(&form).ok().filter(|_| is_to_confirm_anew) else {
        return visit.trouble(Place::Operations, &trouble);
    };
    let drawn = draw_new(&visit, &choice, form.optional("act"), &notice(&visit, &trouble)).await;
    let is_drawn = drawn.is_ok();
    let mut page = visit.answer(Place::Operations, drawn);
    if is_drawn {
        *page.status_mut() = trouble.status;
    }
    page
}

fn sent_choice(form: &SentForm) -> Result<OperationChoice, PageError> {
    let odd = |_| PageError::bad_form("the form has another `choice` than it was drawn with");
    serde_json::from_str(form.needed("choice")?).map_err(odd)
}

async fn order(visit: &Visit, form: &SentForm) -> Result<OperationView, PageError> {
    let odd = |what: &str| PageError::bad_form(&format!("the form has another `{what}` than there is"));
    let counted_n = form.needed("counted_n")?.parse().map_err(|_| odd("counted_n"))?;
    let subject = sent_choice(form)?.with_act(form.needed("act")?).ok_or_else(|| odd("act"))?;
    if visit.may(Role::Operator) {
        check_typed(form, counted_n)?;
    }
    let order = OperationOrder {
        subject,
        counted_n,
        set: form.needed("set")?.to_owned(),
        reason: form.needed("reason")?.to_owned(),
        steps: None,
        again: form.optional("again") == Some("true"),
    };
    visit.post("/operations", &form.headers()?, &order).await
}

/// Why an order was refused, with the rows and the operation because of which it was.
fn notice(visit: &Visit, trouble: &PageError) -> Markup {
    let involved = trouble.involved.as_deref();
    html! {
        p class="trouble" role="alert" {
            "Nothing was done: " (trouble.title) "."
            @if let Some(counted_n) = trouble.counted_n { " The number is now " (grouped(counted_n)) "." }
            @if let Some(id) = involved.and_then(|one| one.operation_id.as_deref()) { " Operation: " (link::operation(visit, id)) "." }
            @if let Some(one) = involved.filter(|one| !one.rows.is_empty()) { " Rows: " (moment::foreign(&one.rows)) "." }
        }
    }
}

/// What an operation does: `send 12 dead messages to billing`.
fn subject_words(subject: &OperationSubject, total_n: u64) -> String {
    format!("{} {}", subject.act().replace('_', " "), choice_words(&subject.choice(), total_n))
}

/// A choice with its number: `12 dead messages to billing`.
fn choice_words(choice: &OperationChoice, counted_n: u64) -> String {
    let time = |at_ms: i64| times::rfc3339(at_ms).unwrap_or_else(|| at_ms.to_string());
    let (state, noun, parts) = match choice {
        OperationChoice::Messages(MessageFilter {
            state,
            destination,
            provider,
            lane,
            created_before_ms,
        }) => {
            let parts = vec![
                ("to", destination.clone()),
                ("of events from", provider.clone()),
                ("in the lane", lane.clone()),
                ("written before", created_before_ms.map(time)),
            ];
            (state.map(MessageState::as_str), "message", parts)
        }
        OperationChoice::Events(EventFilter {
            state,
            provider,
            event_type,
            object,
            delivery,
            received_from_ms,
            received_to_ms,
        }) => {
            let parts = vec![
                ("from", provider.clone()),
                ("of the type", event_type.clone()),
                ("about the object", object.clone()),
                ("", delivery.map(|calls| calls.shown().to_owned())),
                ("received at or after", received_from_ms.map(time)),
                ("received before", received_to_ms.map(time)),
            ];
            (state.map(EventState::as_str), "event", parts)
        }
    };
    let mut words = vec![plural(counted_n, format!("{} {noun}", state.unwrap_or_default()).trim_start())];
    for (before, value) in parts {
        words.extend(value.map(|value| format!("{before} {value}").trim_start().to_owned()));
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_contract::{EventAct, MessageAct};
    use hooklatch_core::types::DeliveryFilter;

    fn read(query: &str) -> Result<OperationChoice, PageError> {
        let values: Vec<_> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        choice(&values, 7_200_000)
    }

    #[test]
    fn a_choice_is_read_from_an_address_and_written_as_it_was() {
        #[track_caller]
        fn check(query: &str, want: &str) {
            let choice = read(query).expect("a choice");
            assert_eq!(target(&format!("/{}", list_of(&choice)), &choice, None), want);
            let again = target("", &choice, Some(list_of(&choice)));
            assert_eq!(read(again.trim_start_matches('?')), Ok(choice));
        }
        check("subject=messages&state=dead", "/messages?state=dead");
        check(
            "subject=messages&state=held&destination=billing&provider=stripe&lane=a%26b%3D%E2%80%AE%3C&created_before_ms=5",
            "/messages?created_before_ms=5&destination=billing&lane=a%26b%3D%E2%80%AE%3C&provider=stripe&state=held",
        );
        check(
            "subject=messages&state=dead&created_before=1h",
            "/messages?created_before_ms=3600000&state=dead",
        );
        check(
            "subject=events&state=failed&type=paid&object=in_1&received_from_ms=0&received_to_ms=9",
            "/events?object=in_1&received_from_ms=0&received_to_ms=9&state=failed&type=paid",
        );
        check("subject=events&state=handled&delivery=stuck", "/events?delivery=stuck&state=handled");
    }

    #[test]
    fn an_address_that_is_not_understood_chooses_nothing() {
        for odd in ["&destinaton=mail", "&type=invoice.paid", "&from=1h", "&cursor=x", "&=x"] {
            assert!(read(&format!("subject=messages&state=held{odd}")).is_err(), "{odd}");
        }
        for odd in [
            "state=dead",
            "subject=lanes&state=dead",
            "subject=messages",
            "subject=messages&state=failed",
            "subject=events&state=dead",
            "subject=events&state=handled&delivery=lost",
            "subject=messages&state=dead&created_before_ms=soon",
            "subject=messages&state=dead&created_before=soon",
        ] {
            assert!(read(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn an_operation_is_said_as_a_person_would() {
        let messages =
            |filter: &MessageFilter, n| choice_words(&OperationChoice::Messages(filter.clone()), n);
        let filter = MessageFilter {
            state: Some(MessageState::Dead),
            destination: Some("billing".to_owned()),
            ..MessageFilter::default()
        };
        assert_eq!(messages(&filter, 12), "12 dead messages to billing");
        let whole = MessageFilter {
            provider: Some("stripe".to_owned()),
            lane: Some("in_1".to_owned()),
            created_before_ms: Some(0),
            ..filter.clone()
        };
        let want = "1 dead message to billing of events from stripe in the lane in_1 written before 1970-01-01T00:00:00.000Z";
        assert_eq!(messages(&whole, 1), want);
        let sent = OperationSubject::Messages { act: MessageAct::Send, filter };
        assert_eq!(subject_words(&sent, 1_000), "send 1,000 dead messages to billing");
        let filter = EventFilter {
            state: Some(EventState::Failed),
            provider: Some("stripe".to_owned()),
            event_type: Some("paid".to_owned()),
            object: Some("in_1".to_owned()),
            delivery: Some(DeliveryFilter::Stuck),
            received_from_ms: Some(0),
            received_to_ms: Some(i64::MAX),
        };
        let want = "erase and discard 2 failed events from stripe of the type paid about the object in_1 with held or dead \
                    calls received at or after 1970-01-01T00:00:00.000Z received before 9223372036854775807";
        assert_eq!(
            subject_words(&OperationSubject::Events { act: EventAct::EraseAndDiscard, filter }, 2),
            want
        );
    }
}
