//! Acts on everything that a filter finds: listed, shown with their progress, confirmed and decided about.
//!
//! An operation begins with a preview: the URL has the filter, the page shows what it finds and which acts there are.
//! The same page with an act in its path has the form that confirms it. The form is about the rows of the preview and
//! no others: it sends their number and their `set`, and the contract refuses it when other rows are found.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::prelude::*;
use super::{events, messages};
use hooklatch_contract::{
    BulkFigures, ChangedRows, NamedCount, OperationChoice, OperationOrder, OperationPreview, OperationState,
    OperationSubject, OperationView, PreviewedAct, ReasonOrder, Risk, SkippedRow, StepView, StepsView,
    bulk_acts,
};
use hooklatch_core::types::{DeliveryFilter, UnixMs};
use hooklatch_core::{plain, times};

/// Characters of what an operation does and of its reason that a row shows.
const WORDS_CHARS_MAX: usize = 160;
/// Most names that are shown with their numbers.
const NAMES_N_MAX: usize = 12;

pub(crate) async fn show_all(visit: Visit, values: Values) -> PageResult {
    let target = with_query("/operations", &[("cursor", values.get("cursor"))]);
    let found: Page<OperationView> = visit.get(&target).await?;
    let headings = ["Operation", "What", "State", "Progress", "Ordered", "By", "Reason"];
    let cells = |one: &OperationView| {
        [
            link::operation(&visit, &one.operation_id),
            text::brief(&subject_words(&one.subject, one.total_n), WORDS_CHARS_MAX),
            state(one.state),
            html! { (progress(one)) },
            text::moment(one.created_at_ms, visit.now_ms),
            text::foreign(&one.actor),
            text::brief(&one.reason, WORDS_CHARS_MAX),
        ]
    };
    let body = html! {
        @if visit.may(Role::Operator) {
            p class="hint" {
                "An operation acts on all that a filter finds. Begin one from the list of "
                a href=(visit.link("/messages")) { "messages" } " or "
                a href=(visit.link("/events")) { "events" } ", filtered by a state."
            }
        }
        (list::rows("Operations", headings, "There are no operations yet.", &found.items, cells))
        (list::onwards(&visit, "/operations", &values, &found))
    };
    Ok(PageBody::new("Operations", body))
}

/// The acts that there are for a choice.
pub(crate) async fn choose(visit: Visit, values: Values) -> PageResult {
    draw_new(&visit, &choice(&values, visit.now_ms)?, None, &html! {}).await
}

/// The form that confirms an act on a choice.
pub(crate) async fn confirm(visit: Visit, Path(act): Path<String>, values: Values) -> PageResult {
    draw_new(&visit, &choice(&values, visit.now_ms)?, Some(&act), &html! {}).await
}

/// Reads the choice of an address. A name that its filter does not have is refused: left out, it would choose more rows
/// than were meant.
fn choice(values: &Values, now_ms: UnixMs) -> Result<OperationChoice, PageError> {
    let mut filter = list::asked(values, now_ms)?;
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

/// The filter of a choice, as texts by the names of the contract.
fn filter_of(choice: &OperationChoice) -> BTreeMap<String, String> {
    let filter = match choice {
        OperationChoice::Messages(filter) => serde_json::to_value(filter),
        OperationChoice::Events(filter) => serde_json::to_value(filter),
    };
    let Ok(Value::Object(filter)) = filter else { return BTreeMap::new() };
    let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    filter.into_iter().map(|(name, value)| (name, text(value))).collect()
}

/// A path with a filter as its query; `subject` is a value more.
fn target(path: &str, choice: &OperationChoice, subject: Option<&str>) -> String {
    list::target(path, &filter_of(choice), ("subject", subject))
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
async fn draw_new(visit: &Visit, choice: &OperationChoice, act: Option<&str>, notice: &Markup) -> PageResult {
    if act.is_some_and(|act| choice.clone().with_act(act).is_none()) {
        return Err(PageError::bad_form("there is no such act"));
    }
    let title = "New operation".to_owned();
    if bulk_acts(choice, &BulkFigures { counted_n: 1, ..BulkFigures::default() }).is_empty() {
        return Ok(PageBody::new(title, list::nothing("Nothing can be done to what stands in this state.")));
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
            (format!("{}: {}", act.label, plain::line(&words)), confirm_form(visit, choice, act, &preview))
        }
    };
    let body = html! {
        (notice)
        (found(visit, choice, &preview))
        (decision)
        (samples(visit, &preview))
    };
    Ok(PageBody::new(title, body))
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
fn confirm_form(
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
        ("First", text::moment_or_none(figures.first_at_ms, visit.now_ms)),
        ("Last", text::moment_or_none(figures.last_at_ms, visit.now_ms)),
        ("Calls", html! { (calls) }),
    ]);
    html! {
        p class="found" {
            @if figures.is_more { "More than " }
            strong { (text::foreign(&choice_words(choice, figures.counted_n))) } ". "
            a href=(visit.link(&list)) { "Look at all of them" }
        }
        @if figures.counted_n > 0 { (list::facts(&facts)) }
        @if let Some(recent) = &preview.recent {
            p class="trouble" role="alert" { (text::foreign(&recent.in_words())) }
        }
    }
}

fn named(counts: &[NamedCount]) -> Markup {
    html! {
        @for (n, count) in counts.iter().take(NAMES_N_MAX).enumerate() {
            @if n > 0 { ", " }
            (text::foreign(&count.name)) " " (grouped(count.counted_n))
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
pub(crate) async fn begin(visit: Visit, form: SentForm) -> Result<Response, PageError> {
    let error = match order(&visit, &form).await {
        Ok(begun) => return Ok(form::go(&visit.link(&path(&["operations", &begun.operation_id])))),
        Err(error) => error,
    };
    let is_to_confirm_anew = matches!(
        error.problem.code.as_str(),
        "other_number_typed" | "other_count" | "other_set" | "same_operation"
    );
    let Some(choice) = sent_choice(&form).ok().filter(|_| is_to_confirm_anew) else {
        return Err(error);
    };
    let drawn = draw_new(&visit, &choice, form.optional("act"), &notice(&visit, &error)).await?;
    Ok(PageBody { status: error.status, ..drawn }.into_response())
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
fn notice(visit: &Visit, error: &PageError) -> Markup {
    let problem = &error.problem;
    let (rows, rows_n) = (problem.rows.clone(), problem.rows_n.unwrap_or_default());
    let rows = ChangedRows { rows, rows_n }.in_words();
    html! {
        p class="trouble" role="alert" {
            "Nothing was done: " (problem.sentence()) "."
            @if let Some(counted_n) = problem.counted_n { " The number is now " (grouped(counted_n)) "." }
            @if let Some(id) = &problem.operation_id { " Operation: " (link::operation(visit, id)) "." }
            @if !rows.is_empty() { " Rows: " (text::foreign(&rows)) "." }
        }
    }
}

/// What an operation does: `send 12 dead messages to billing`.
fn subject_words(subject: &OperationSubject, total_n: u64) -> String {
    format!("{} {}", subject.act().replace('_', " "), choice_words(&subject.choice(), total_n))
}

/// The words before each value of a filter, in their order.
const FILTER_WORDS: [(&str, &str); 9] = [
    ("destination", "to"),
    ("provider", "from"),
    ("lane", "in the lane"),
    ("created_before_ms", "written before"),
    ("type", "of the type"),
    ("object", "about the object"),
    ("delivery", ""),
    ("received_from_ms", "received at or after"),
    ("received_to_ms", "received before"),
];

/// A choice with its number: `12 dead messages to billing`.
fn choice_words(choice: &OperationChoice, counted_n: u64) -> String {
    let (filter, noun) = (filter_of(choice), list_of(choice).trim_end_matches('s'));
    let state = filter.get("state").map_or("", String::as_str);
    let mut words = vec![plural(counted_n, format!("{state} {noun}").trim_start())];
    for (name, before) in FILTER_WORDS {
        let Some(value) = filter.get(name) else { continue };
        let value = match name {
            "delivery" => DeliveryFilter::parse(value).map_or("", DeliveryFilter::shown).to_owned(),
            _ if name.ends_with("_ms") => {
                value.parse().ok().and_then(times::rfc3339).unwrap_or_else(|| value.clone())
            }
            _ => value.clone(),
        };
        let of = if (name, noun) == ("provider", "message") { "of events " } else { "" };
        words.push(format!("{of}{before} {value}").trim_start().to_owned());
    }
    words.join(" ")
}

/// Seconds after which the progress is drawn again.
const AGAIN_S: u32 = 2;
/// Characters of a row's name that are shown.
const SUBJECT_CHARS_MAX: usize = 255;

pub(crate) async fn show_one(visit: Visit, Path(operation_id): Path<String>) -> PageResult {
    let own_page = path(&["operations", &operation_id]);
    let operation: OperationView = visit.get(&own_page).await?;
    let is_running = operation.state == OperationState::Running;
    let acts_on = match operation.state {
        OperationState::Waiting => Some(acts_on(&visit, &operation, &own_page).await?),
        _ => None,
    };
    let body = html! {
        p { strong { (text::foreign(&subject_words(&operation.subject, operation.total_n))) } }
        div id="progress" data-refresh=[is_running.then_some(AGAIN_S)] {
            section aria-label="Progress" aria-live="polite" {
                (bar(&operation))
                @if let Some(note) = &operation.note { p class="trouble" { "Why: " (text::foreign(note)) "." } }
                (facts(&visit, &operation))
                @if let Some(steps) = &operation.steps { (steps_table(steps)) }
            }
            @if is_running {
                noscript { p { a class="button" href=(visit.link(&own_page)) { "Look again" } } }
            }
            @if !operation.skipped.is_empty() {
                (list::section("skipped", "Passed over", &passed_over(&visit, &operation)))
            }
        }
        @if let Some(acts_on) = acts_on { (list::section("acts-on", "What it acts on", &acts_on)) }
        div id="decide" data-ends-with="progress" {
            @if visit.may(Role::Operator) { (decisions(&visit, &operation, &own_page)) }
        }
    };
    Ok(PageBody::new("Operation", body))
}

/// What is to be approved: the same figures, sentence and rows as the person saw who ordered it, as they are now.
async fn acts_on(visit: &Visit, operation: &OperationView, page: &str) -> Result<Markup, PageError> {
    let preview: OperationPreview = visit.get(&format!("{page}/preview")).await?;
    let moved_n = operation.total_n.saturating_sub(preview.figures.counted_n);
    Ok(html! {
        @if moved_n > 0 { p class="note" { (grouped(moved_n)) " of its rows have changed since the order; they may be passed over." } }
        (found(visit, &operation.subject.choice(), &preview))
        @for act in &preview.acts { (what_follows(visit, act)) }
        (samples(visit, &preview))
    })
}

fn facts(visit: &Visit, operation: &OperationView) -> Markup {
    let mut facts = vec![
        ("State", state(operation.state)),
        ("Ordered by", text::foreign(&operation.actor)),
        ("Reason", text::foreign(&operation.reason)),
        ("Ordered", text::moment(operation.created_at_ms, visit.now_ms)),
        ("Ended", text::moment_or_none(operation.finished_at_ms, visit.now_ms)),
        ("Cancelled by", text::foreign_or_none(operation.cancelled_by.as_deref())),
    ];
    facts.extend(operation.approved_by.as_deref().map(|actor| ("Approved by", text::foreign(actor))));
    let until = operation.approve_until_ms.map(|ms| text::moment(ms, visit.now_ms));
    facts.extend(until.map(|until| ("To be approved until", until)));
    list::facts(&facts)
}

fn passed_over(visit: &Visit, operation: &OperationView) -> Markup {
    let is_message = matches!(operation.subject, OperationSubject::Messages { .. });
    let cells = |row: &SkippedRow| {
        let subject = match row.subject.split_once('/') {
            _ if is_message => link::message(visit, &row.subject),
            Some((provider, event_id)) => link::event(visit, provider, event_id),
            None => text::brief(&row.subject, SUBJECT_CHARS_MAX),
        };
        let why = html! { (why_passed_over(&row.outcome)) };
        [subject, why, text::foreign_or_none(row.state.as_deref())]
    };
    let headings = ["Which", "Why", "State"];
    html! {
        (list::rows("Rows that were passed over", headings, "", &operation.skipped, cells))
        p class="hint" { "The newest of them, ten at most." }
    }
}

/// What a person can decide about it, each apart.
fn decisions(visit: &Visit, operation: &OperationView, page: &str) -> Markup {
    let is_own = operation.actor == visit.principal.name.as_str();
    html! {
        @match operation.state {
            OperationState::Waiting if is_own => p class="note" { "Another person has to approve it. You ordered it." },
            OperationState::Waiting => {
                @let hint = "It begins at once. Read above what it acts on, and what that risks.";
                @let more = html! {
                    p { (text::foreign(&operation.actor)) " ordered it, and needs your agreement." }
                    (typed_field(operation.total_n))
                };
                (decision(visit, page, ("approve", "Approve: let it begin"), hint, &more))
            },
            OperationState::Stopped => {
                @let hint = "Look at the calls that failed first. It goes on with the rest, and stops again when too many fail.";
                (decision(visit, page, ("continue", "Continue the operation"), hint, &html! {}))
            },
            _ => {}
        }
        @if !matches!(operation.state, OperationState::Done | OperationState::Cancelled) {
            @let hint = "What was done stays done; the rest is left as it is.";
            (decision(visit, page, ("cancel", "Cancel the operation"), hint, &html! {}))
        }
    }
}

/// The form of one decision; `more` stands first in it.
fn decision(visit: &Visit, page: &str, act: (&str, &str), hint: &str, more: &Markup) -> Markup {
    let action = visit.link(&format!("{page}/{}", act.0));
    html! { section aria-label=(act.1) { (form::act(&action, None, &[act], hint, more)) } }
}

pub(crate) async fn decide(
    word: &'static str,
    visit: Visit,
    Path(operation_id): Path<String>,
    form: SentForm,
) -> Result<Response, PageError> {
    let own_page = path(&["operations", &operation_id]);
    let order = async {
        let order = ReasonOrder { reason: form.needed("reason")?.to_owned() };
        if word == "approve" && visit.may(Role::Operator) {
            form.headers()?;
            check_typed(&form, visit.get::<OperationView>(&own_page).await?.total_n)?;
        }
        Ok(order)
    };
    form::post(&visit, &own_page, &format!("{own_page}/{word}"), &form, order.await).await
}

/// State of an operation.
fn state(state: OperationState) -> Markup {
    let mood = match state {
        OperationState::Running => Mood::Busy,
        OperationState::Waiting => Mood::Needed,
        OperationState::Stopped => Mood::Bad,
        OperationState::Done => Mood::Good,
        OperationState::Cancelled => Mood::Quiet,
    };
    chip(mood, state.as_str())
}

/// The reason why a row was passed over.
fn why_passed_over(outcome: &str) -> &str {
    match outcome {
        "not_found" => "it was not there any more",
        "not_allowed" => "it had moved on by itself",
        "body_gone" => "its bytes are no longer kept",
        "still_open" => "messages of it are open",
        "moved" => "it was sent or handled after the order",
        "test_event" => "it is a test event",
        "failed" => "it failed; the log says why",
        other => other,
    }
}

/// Number of rows that are behind it.
fn passed_n(operation: &OperationView) -> u64 {
    operation.changed_n.saturating_add(operation.skipped_n)
}

/// How far it is, in a few words: `40 of 1,000`.
fn progress(operation: &OperationView) -> String {
    format!("{} of {}", grouped(passed_n(operation)), grouped(operation.total_n))
}

/// How far it is, as a bar with the same in words.
fn bar(operation: &OperationView) -> Markup {
    let OperationView { total_n, changed_n, skipped_n, .. } = operation;
    let left_n = total_n.saturating_sub(passed_n(operation));
    html! {
        // A bar of nothing has no end: one that is over is full.
        progress max=(total_n.max(&1)) value=(if *total_n == 0 { 1 } else { passed_n(operation) }) aria-label="Progress" {
            (progress(operation))
        }
        p {
            strong { (progress(operation)) } ": "
            (grouped(*changed_n)) " changed, " (grouped(*skipped_n)) " passed over"
            @if left_n > 0 {
                ", " (grouped(left_n))
                @if operation.state == OperationState::Cancelled { " left as they were" } @else { " to go" }
            }
            "."
        }
    }
}

/// The steps, with the results of their calls.
fn steps_table(steps: &StepsView) -> Markup {
    let headings = ["Step", "Rows", "Acted on", "Calls not tried yet", "Good", "Failed"];
    let row = |(n, step): (u32, &StepView)| {
        let numbers = [step.rows_n, step.changed_n, step.open_n(), step.good_n, step.failed_n];
        let current = (n == steps.current).then_some("step");
        html! { tr aria-current=[current] { td { (n) } @for number in numbers { td { (grouped(number)) } } } }
    };
    let rows: Vec<Markup> = (1..).zip(&steps.list).map(row).collect();
    html! {
        h2 { "Steps" }
        (list::table("Steps", &headings, &rows))
        p class="hint" {
            "At most " (steps.per_s) " rows a second. It stops by itself when a call of the first of several steps fails, or more than "
            (steps.stop_percent) " % of the others. A call that is tried again, or whose outcome is unknown, counts as failed."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_contract::{EventAct, EventFilter, MessageAct, MessageFilter};
    use hooklatch_core::types::{EventState, MessageState};

    fn read(query: &str) -> Result<OperationChoice, PageError> {
        choice(&Values::parse(query), 7_200_000)
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
    fn every_field_of_a_filter_is_named_in_what_an_operator_confirms() {
        let text = || Some("x".to_owned());
        let messages = MessageFilter {
            state: Some(MessageState::Dead),
            destination: text(),
            provider: text(),
            lane: text(),
            created_before_ms: Some(1),
        };
        let events = EventFilter {
            state: Some(EventState::Failed),
            provider: text(),
            event_type: text(),
            object: text(),
            delivery: DeliveryFilter::ALL.first().copied(),
            received_from_ms: Some(1),
            received_to_ms: Some(2),
        };
        for choice in [OperationChoice::Messages(messages), OperationChoice::Events(events)] {
            for name in filter_of(&choice).keys().filter(|name| *name != "state") {
                assert!(FILTER_WORDS.iter().any(|(known, _)| known == name), "{name} has no words");
            }
        }
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

    #[test]
    fn progress_is_a_bar_and_the_same_in_words() {
        #[track_caller]
        fn check(state: &str, counts: (u64, u64, u64), wants: &[&str]) {
            let (total_n, changed_n, skipped_n) = counts;
            let view = serde_json::json!({
                "operation_id": "o", "state": state, "actor": "ann", "reason": "r", "created_at_ms": 0, "total_n": total_n,
                "changed_n": changed_n, "skipped_n": skipped_n, "skipped": [],
                "subject": { "messages": { "act": "send", "filter": { "state": "dead" } } },
            });
            let drawn = bar(&serde_json::from_value(view).unwrap()).0;
            for want in wants {
                assert!(drawn.contains(want), "{want}: {drawn}");
            }
        }
        check("running", (1_000, 40, 2), &["max=\"1000\" value=\"42\"", "<strong>42 of 1,000", "958 to go"]);
        check("cancelled", (9, 4, 0), &["value=\"4\"", "5 left as they were"]);
        check("done", (9, 9, 0), &["9 changed, 0 passed over."]);
        check("done", (0, 0, 0), &["max=\"1\" value=\"1\"", "0 of 0"]);
    }

    #[test]
    fn every_reason_for_passing_over_has_a_sentence() {
        for word in ["not_found", "not_allowed", "body_gone", "still_open", "moved", "test_event", "failed"] {
            assert_ne!(why_passed_over(word), word);
        }
        assert_eq!(why_passed_over("of_a_newer_version"), "of_a_newer_version");
    }
}
