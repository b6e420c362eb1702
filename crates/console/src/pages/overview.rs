//! The first page: what needs an operator, then failures by their cause, what is due, and the counts of the last day;
//! before the first event, the addresses to register.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};

use crate::contract::{path, with_query};
use crate::parts::activity::{ATTEMPTS, REQUESTS, Series, chart, series, spark};
use crate::parts::chip::{Mood, chip};
use crate::parts::frame::Place;
use crate::parts::{chip, link, list, moment};
use crate::state::ConsoleState;
use crate::trouble::PageError;
use crate::visit::Visit;
use hooklatch_contract::{
    ActivityCount, ActivityView, BacklogEvents, BacklogMessages, BacklogView, CauseView, DestinationView,
    EventView, OperationState, OperationView, Page, PauseView, ProviderView, StuckSubject, UnknownPathView,
};
use hooklatch_core::types::{EventState, MessageState, Outcome};

/// Time between two refreshes of a page that stays open. Seconds.
const REFRESH_S: u32 = 10;

pub(crate) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new().route("/", get(show))
}

async fn show(visit: Visit) -> Response {
    let made = draw(&visit).await.map(|body| ("Overview".to_owned(), body));
    visit.answer(Place::Overview, made)
}

async fn draw(visit: &Visit) -> Result<Markup, PageError> {
    let backlog: BacklogView = visit.get("/backlog").await?;
    let destinations: Page<DestinationView> = visit.get("/destinations").await?;
    let activity: ActivityView = visit.get("/activity").await?;
    let providers: Page<ProviderView> = visit.get("/providers").await?;
    let newest: Page<EventView> = visit.get("/events?limit=1").await?;
    let first = if newest.items.is_empty() && newest.next.is_none() {
        Some(first_steps(visit, &providers.items))
    } else {
        None
    };
    let is_first = first.is_some();
    // What is refused is no event, and counts all the same.
    let is_any = !activity.requests.is_empty();
    let answers = OverviewAnswers {
        backlog: &backlog,
        destinations: &destinations.items,
        providers: &providers.items,
        activity: &activity,
    };
    Ok(html! {
        div id="overview" data-refresh=(REFRESH_S) {
            @if let Some(first) = first {
                section aria-labelledby="first" { h2 id="first" { "Nothing has come yet" } (first) }
            }
            section aria-labelledby="needs" { h2 id="needs" { "Needs a person" } (needed(visit, &answers)) }
            @if let Some(causes) = causes(visit, &backlog.causes) { (causes) }
            @if !is_first || is_any {
                section aria-labelledby="due" { h2 id="due" { "Oldest due" } (due(visit, &destinations.items)) }
                (over_time(visit, &activity))
            }
        }
    })
}

const HOUR_MS: i64 = 3_600_000;
/// Most rows that are shown.
const NEEDS_N_MAX: usize = 40;

/// The answers in which something may need a person.
struct OverviewAnswers<'a> {
    backlog: &'a BacklogView,
    destinations: &'a [DestinationView],
    providers: &'a [ProviderView],
    activity: &'a ActivityView,
}

/// A row of the table, cell by cell.
struct Need {
    what: Markup,
    state: Markup,
    place: Markup,
    number: Markup,
    since: Markup,
}

/// The table of what needs a person; a sentence where nothing does.
fn needed(visit: &Visit, answers: &OverviewAnswers<'_>) -> Markup {
    let needs = needs(visit, answers);
    if needs.is_empty() {
        return list::nothing("Nothing does. Events come in and go out by themselves.");
    }
    let left_out_n = needs.len().saturating_sub(NEEDS_N_MAX);
    let row = |need: Need| {
        let Need { what, state, place, number, since } = need;
        html! { tr { td { (what) } td { (state) } td { (place) } td { (number) } td { (since) } } }
    };
    let rows: Vec<Markup> = needs.into_iter().take(NEEDS_N_MAX).map(row).collect();
    html! {
        (list::table("What needs a person", &["What", "State", "Where", "Number", "Since"], &rows))
        @if left_out_n > 0 { p class="hint" { "And " (left_out_n) " more of these." } }
    }
}

fn needs(visit: &Visit, answers: &OverviewAnswers<'_>) -> Vec<Need> {
    let OverviewAnswers { backlog, destinations, providers, activity } = answers;
    let messages = backlog.messages.iter();
    let is_decided =
        |one: &&BacklogMessages| matches!(one.count.state, MessageState::Held | MessageState::Dead);
    let is_event_decided = |one: &&BacklogEvents| {
        matches!(one.count.state, EventState::Conflict | EventState::Unreadable | EventState::Failed)
    };
    let is_astray = |one: &&BacklogMessages| !one.is_configured && !is_decided(one);
    let is_event_astray = |one: &&BacklogEvents| !one.is_configured && one.count.state == EventState::Retry;
    let mut needs: Vec<Need> =
        messages.clone().filter(is_decided).map(|one| of_messages(visit, one, None)).collect();
    needs.extend(backlog.events.iter().filter(is_event_decided).map(|one| of_events(visit, one, None)));
    needs.extend(backlog.operations.iter().map(|one| of_operation(visit, one)));
    let counted: Vec<Recent<'_>> = providers.iter().map(|one| Recent::of(&one.name, activity)).collect();
    needs.extend(counted.iter().filter_map(|one| disbelieved(visit, one)));
    needs.extend(counted.iter().filter_map(|one| refused(visit, one)));
    needs.extend(backlog.unknown_paths.iter().filter_map(|one| misdirected(visit, one)));
    needs.extend(counted.iter().filter_map(|one| untaken(visit, one)));
    let unconfigured = "Nothing of that name is configured: add it again, or discard them.";
    needs.extend(messages.filter(is_astray).map(|one| of_messages(visit, one, Some(unconfigured))));
    let unconfigured = "Nothing of that name is configured: add it again.";
    needs.extend(
        backlog.events.iter().filter(is_event_astray).map(|one| of_events(visit, one, Some(unconfigured))),
    );
    needs.extend(providers.iter().filter_map(|one| paused_provider(visit, one)));
    needs.extend(destinations.iter().filter_map(|one| paused(visit, one)));
    needs
}

fn of_events(visit: &Visit, one: &BacklogEvents, hint: Option<&str>) -> Need {
    let values = [("state", Some(one.count.state.as_str())), ("provider", Some(one.provider.as_str()))];
    Need {
        what: what(&visit.link(&with_query("/events", &values)), "Events", hint),
        state: chip::event(one.count.state),
        place: link::provider(visit, &one.provider),
        number: moment::figure(one.count.events_n, one.count.is_more),
        since: moment::moment(one.count.oldest_received_at_ms, visit.now_ms),
    }
}

fn of_messages(visit: &Visit, one: &BacklogMessages, hint: Option<&str>) -> Need {
    let values = [("state", Some(one.count.state.as_str())), ("destination", Some(one.destination.as_str()))];
    Need {
        what: what(&visit.link(&with_query("/messages", &values)), "Messages", hint),
        state: chip::message(one.count.state),
        place: link::destination(visit, &one.destination),
        number: moment::figure(one.count.messages_n, one.count.is_more),
        // Messages without a destination may be due later.
        since: moment::moment(one.count.oldest_visible_at_ms.min(visit.now_ms), visit.now_ms),
    }
}

/// An operation that continues only after a person's decision.
fn of_operation(visit: &Visit, one: &OperationView) -> Need {
    let target = visit.link(&path(&["operations", &one.operation_id]));
    let (mood, hint) = match one.state {
        OperationState::Waiting => {
            (Mood::Needed, "Another person than the one who ordered it has to approve it.")
        }
        _ => (
            Mood::Bad,
            "It stopped because too many of its calls failed. Look at them, then continue or cancel it.",
        ),
    };
    Need {
        what: what(&target, "Operation", Some(hint)),
        state: chip(mood, one.state.as_str()),
        place: moment::foreign(&one.actor),
        number: moment::figure(one.total_n, false),
        since: moment::moment(one.created_at_ms, visit.now_ms),
    }
}

/// Requests of one provider in the hour under way and the one before, by outcome.
struct Recent<'a> {
    provider: &'a str,
    counts: Vec<&'a ActivityCount>,
}

impl<'a> Recent<'a> {
    fn of(provider: &'a str, activity: &'a ActivityView) -> Self {
        let from_ms = activity.now_ms - activity.now_ms.rem_euclid(HOUR_MS) - HOUR_MS;
        let is_recent = |one: &&ActivityCount| one.name == provider && one.at_ms >= from_ms;
        Self { provider, counts: activity.requests.iter().filter(is_recent).collect() }
    }

    fn number(&self, outcome: &str) -> u64 {
        self.counts.iter().filter(|one| one.outcome == outcome).map(|one| one.counted_n).sum()
    }

    /// What needs a person about the requests with this outcome, with the list of them; `None` where there are none.
    fn need(&self, visit: &Visit, outcome: &str, (list, hint): (&str, &str), state: Markup) -> Option<Need> {
        let since_ms = self.counts.iter().find(|one| one.outcome == outcome)?.at_ms;
        Some(Need {
            what: what(&visit.link(list), "Requests", Some(hint)),
            state,
            place: link::provider(visit, self.provider),
            number: moment::figure(self.number(outcome), false),
            since: moment::moment(since_ms, visit.now_ms),
        })
    }
}

/// A provider without a verified request, though requests were received.
fn disbelieved(visit: &Visit, one: &Recent<'_>) -> Option<Need> {
    let is_any_believed = Outcome::ALL.iter().any(|outcome| one.number(outcome.as_str()) > 0);
    let list = with_query("/rejected", &[("provider", Some(one.provider))]);
    let hint = "None of its requests was believed in this hour and the last: is its secret the right one?";
    let need = one.need(visit, "rejected", (&list, hint), chip(Mood::Bad, "rejected"));
    need.filter(|_| !is_any_believed)
}

/// A provider whose requests were refused before they were verified.
fn refused(visit: &Visit, one: &Recent<'_>) -> Option<Need> {
    let list = with_query("/rejected", &[("provider", Some(one.provider))]);
    let hint = "Too large, too slow or not a POST. What a sender does not send again is lost.";
    one.need(visit, "refused", (&list, hint), chip(Mood::Bad, "refused"))
}

/// A provider of which nothing was taken, though there were new events. Some that are not taken are usual: senders send
/// more types than a team needs.
fn untaken(visit: &Visit, one: &Recent<'_>) -> Option<Need> {
    let state = EventState::Ignored.as_str();
    let list = with_query("/events", &[("state", Some(state)), ("provider", Some(one.provider))]);
    let hint = "No route and no handler takes any of its new events of this hour and the last, and its sender was answered 200. \
                Compare their types with `on` of its routes: `hooklatch check` shows what follows from each.";
    let need = one.need(visit, "untaken", (&list, hint), chip(Mood::Needed, state));
    need.filter(|_| one.number("untaken") >= one.number("accepted"))
}

/// A path without a provider to which a sender of ours seems to post.
fn misdirected(visit: &Visit, one: &UnknownPathView) -> Option<Need> {
    let hint = match (&one.nearest_provider, &one.signature_of_kind) {
        (Some(name), _) => {
            format!("No provider has this path. Probably meant for {name}: correct the URL at the sender.")
        }
        (None, Some(kind)) => format!("No provider has this path. The requests are signed like {kind}."),
        (None, None) => return None,
    };
    Some(Need {
        what: what(&visit.link("/rejected"), "Requests", Some(&hint)),
        state: chip(Mood::Bad, "404"),
        place: moment::foreign(&one.path),
        number: moment::figure(one.requests_n, false),
        since: moment::moment(one.first_at_ms, visit.now_ms),
    })
}

/// A provider whose events wait because an operator has paused it.
fn paused_provider(visit: &Visit, one: &ProviderView) -> Option<Need> {
    let pause = one.pause.as_ref()?;
    let waiting = one.waiting.iter().find(|count| count.state == EventState::Retry);
    Some(Need {
        what: what_paused(visit, &path(&["senders", &one.name]), "Provider: its new events wait", pause),
        state: chip(Mood::Needed, "paused"),
        place: link::provider(visit, &one.name),
        number: waiting
            .map_or_else(|| moment::figure(0, false), |count| moment::figure(count.events_n, count.is_more)),
        since: moment::moment(pause.paused_at_ms, visit.now_ms),
    })
}

fn what_paused(visit: &Visit, target: &str, noun: &str, pause: &PauseView) -> Markup {
    html! {
        a href=(visit.link(target)) { (noun) }
        p class="hint" {
            (moment::foreign(&pause.actor)) " paused it until "
            @match pause.until_ms {
                Some(until_ms) => (moment::moment(until_ms, visit.now_ms)),
                None => "someone resumes it",
            }
            ": " (moment::foreign(&pause.reason))
        }
    }
}

fn paused(visit: &Visit, one: &DestinationView) -> Option<Need> {
    let pause = one.pause.as_ref()?;
    Some(Need {
        what: what_paused(visit, &path(&["destinations", &one.name]), "Destination: its calls wait", pause),
        state: chip(Mood::Needed, "paused"),
        place: link::destination(visit, &one.name),
        number: open_messages(one),
        since: moment::moment(pause.paused_at_ms, visit.now_ms),
    })
}

/// The messages that wait for a destination.
fn open_messages(one: &DestinationView) -> Markup {
    let waiting = one.backlog.iter().filter(|count| is_waiting(count.state));
    moment::figure(
        waiting.clone().map(|count| count.messages_n).sum(),
        waiting.clone().any(|count| count.is_more),
    )
}

/// True for a message that is sent without an operator.
fn is_waiting(state: MessageState) -> bool {
    matches!(state, MessageState::Ready | MessageState::Waiting | MessageState::Leased)
}

fn what(target: &str, noun: &str, hint: Option<&str>) -> Markup {
    html! { a href=(target) { (noun) } @if let Some(hint) = hint { p class="hint" { (hint) } } }
}

/// The table of causes, each with the way to the list of what it concerns; nothing where there is none.
fn causes(visit: &Visit, causes: &[CauseView]) -> Option<Markup> {
    let rows: Vec<Markup> = causes.iter().map(|one| cause_row(visit, one)).collect();
    let headings = ["What", "State", "Where", "Cause", "Number", "Newest"];
    (!rows.is_empty()).then(|| {
        html! {
            section aria-labelledby="causes" {
                h2 id="causes" { "Failures by cause" }
                (list::table("Failures by cause", &headings, &rows))
                p class="hint" { "Counted among the newest 2,000 failed events and the newest 2,000 held and dead messages." }
            }
        }
    })
}

fn cause_row(visit: &Visit, one: &CauseView) -> Markup {
    let (path, what, key, place) = match one.subject {
        StuckSubject::Events => ("/events", "Events", "provider", link::provider(visit, &one.name)),
        StuckSubject::Messages => {
            ("/messages", "Messages", "destination", link::destination(visit, &one.name))
        }
    };
    let values = [("state", Some(one.state.as_str())), (key, Some(one.name.as_str()))];
    html! {
        tr {
            td { a href=(visit.link(&with_query(path, &values))) { (what) } }
            td { (chip(if one.state == "held" { Mood::Needed } else { Mood::Bad }, &one.state)) }
            td { (place) }
            td { @match &one.error { Some(error) => (moment::foreign(error)), None => (moment::none()) } }
            td { (moment::figure(one.counted_n, false)) }
            td { (moment::moment(one.newest_at_ms, visit.now_ms)) }
        }
    }
}

/// Most destinations that are shown.
const DUE_N_MAX: usize = 20;

/// The table of destinations that have something to do; a sentence where none has.
fn due(visit: &Visit, destinations: &[DestinationView]) -> Markup {
    let mut busy: Vec<&DestinationView> =
        destinations.iter().filter(|one| one.backlog.iter().any(|count| is_waiting(count.state))).collect();
    busy.sort_by_key(|one| (one.oldest_due_at_ms.is_none(), one.oldest_due_at_ms, one.name.as_str()));
    if busy.is_empty() {
        return list::nothing("Nothing is due.");
    }
    let rows: Vec<Markup> = busy.iter().take(DUE_N_MAX).map(|one| due_row(visit, one)).collect();
    html! {
        (list::table("What is due", &["Destination", "Ready", "Waiting", "Under way", "Oldest due"], &rows))
        @if busy.len() > DUE_N_MAX {
            p { a href=(visit.link("/destinations")) { "All destinations" } }
        }
    }
}

fn due_row(visit: &Visit, one: &DestinationView) -> Markup {
    let number = |state: MessageState| {
        let Some(count) = one.backlog.iter().find(|count| count.state == state) else {
            return moment::none();
        };
        let values = [("state", Some(state.as_str())), ("destination", Some(one.name.as_str()))];
        html! {
            a href=(visit.link(&with_query("/messages", &values))) {
                (moment::figure(count.messages_n, count.is_more))
            }
        }
    };
    html! {
        tr {
            td {
                (link::destination(visit, &one.name))
                @if one.pause.is_some() { " " (chip(Mood::Needed, "paused")) }
                // It is tried again without a person.
                @match one.breaker.as_deref() {
                    Some("open") => { " " (chip(Mood::Bad, "breaker open")) },
                    Some("half_open") => { " " (chip(Mood::Busy, "breaker half open")) },
                    _ => {},
                }
            }
            td { (number(MessageState::Ready)) }
            td { (number(MessageState::Waiting)) }
            td { (number(MessageState::Leased)) }
            td { (moment::moment_or_none(one.oldest_due_at_ms, visit.now_ms)) }
        }
    }
}

/// Most providers whose address is shown.
const ADDRESSES_N_MAX: usize = 6;
/// The provider whose sample is sent first, where it is configured.
const FIRST_SENT: &str = "stripe";

/// The addresses to register with senders; with `serve --dev` the command that sends an event.
fn first_steps(visit: &Visit, providers: &[ProviderView]) -> Markup {
    if providers.is_empty() {
        return html! {
            p {
                "No provider is configured, so every request is answered 404. Write a table "
                code { "[providers.NAME]" } " into the configuration, for each sender one."
            }
        };
    }
    let is_dev = visit.state.everybodys.is_some();
    let first = providers.iter().find(|one| one.name == FIRST_SENT).or(providers.first());
    let mut shown: Vec<&ProviderView> = first.into_iter().collect();
    let others = providers.iter().filter(|one| first.is_some_and(|first| first.name != one.name));
    shown.extend(others.take(ADDRESSES_N_MAX - 1));
    let row = |(n, one): (usize, &&ProviderView)| {
        html! {
            tr {
                th scope="row" { (link::provider(visit, &one.name)) }
                td { (moment::foreign(&one.sender.title)) }
                td { (moment::copied(&format!("url-{n}"), &one.url)) }
            }
        }
    };
    let rows: Vec<Markup> = shown.iter().enumerate().map(row).collect();
    html! {
        @if let Some(first) = first.filter(|_| is_dev) {
            p { "Send a first signed event, from another terminal:" }
            p { (moment::copied("first-event", &format!("hooklatch send {} --url {}", first.kind, first.url))) }
            p { "Senders out there would be given these addresses:" }
        } @else {
            p { "Register these addresses with their senders; their first events will be on this page." }
        }
        (list::table("Addresses to register", &["Provider", "Sender", "Address"], &rows))
        @if providers.len() > shown.len() {
            p { a href=(visit.link("/senders")) { "All providers" } }
        }
    }
}

/// Most providers or destinations that are shown, the busiest ones.
const BUSIEST_N_MAX: usize = 10;

/// Draws both charts, each with its table.
fn over_time(visit: &Visit, view: &ActivityView) -> Markup {
    let requests = series(view, &REQUESTS, view.requests.iter());
    let attempts = series(view, &ATTEMPTS, view.attempts.iter());
    html! {
        section aria-labelledby="requests" {
            h2 id="requests" { "Requests in the last day" }
            (chart(view, "requests", &requests))
            (busiest("Provider", by_name(&view.requests, |some| series(view, &REQUESTS, some)), |name, word| {
                let list = if word == "rejected" { "/rejected" } else { "/events" };
                (link::provider(visit, name), visit.link(&with_query(list, &[("provider", Some(name))])))
            }))
        }
        section aria-labelledby="attempts" {
            h2 id="attempts" { "Calls in the last day" }
            (chart(view, "calls", &attempts))
            (busiest("Destination", by_name(&view.attempts, |some| series(view, &ATTEMPTS, some)), |name, word| {
                let state = (word == "done").then_some(word);
                let values = [("state", state), ("destination", Some(name))];
                (link::destination(visit, name), visit.link(&with_query("/messages", &values)))
            }))
        }
        p class="hint" { "Counted by all nodes; what another node counted is here within a minute." }
    }
}

/// The counts of each name, as they are drawn.
fn by_name<'a>(
    counts: &'a [ActivityCount],
    series: impl Fn(std::vec::IntoIter<&'a ActivityCount>) -> Vec<Series>,
) -> Vec<(&'a str, Vec<Series>)> {
    let mut names: BTreeMap<&str, Vec<&ActivityCount>> = BTreeMap::new();
    for count in counts {
        names.entry(&count.name).or_default().push(count);
    }
    names.into_iter().map(|(name, counts)| (name, series(counts.into_iter()))).collect()
}

/// A row for each name, the busiest first; a column for each thing that was counted. `linked` gives the link of a name and
/// the address of the list of what was counted under a word.
fn busiest(
    heading: &str,
    mut rows: Vec<(&str, Vec<Series>)>,
    linked: impl Fn(&str, &str) -> (Markup, String),
) -> Markup {
    let total = |series: &[Series]| series.iter().map(Series::total).sum::<u64>();
    rows.sort_by_key(|(name, series)| (Reverse(total(series)), *name));
    let left_out_n = rows.len().saturating_sub(BUSIEST_N_MAX);
    rows.truncate(BUSIEST_N_MAX);
    let all = rows.iter().flat_map(|(_, series)| series);
    let counted: Vec<&str> = all.filter(|one| one.total() > 0).map(|one| one.word).collect();
    let is_column = |one: &&Series| counted.contains(&one.word);
    let words = rows.first().into_iter().flat_map(|(_, series)| series).filter(is_column).map(|one| one.word);
    let headings: Vec<&str> = [heading, "Last day"].into_iter().chain(words).collect();
    let row = |(name, series): &(&str, Vec<Series>)| {
        html! {
            tr {
                th scope="row" { (linked(name, "").0) }
                td { (spark(name, series)) }
                @for one in series.iter().filter(is_column) {
                    td {
                        @if one.total() == 0 { (moment::figure(0, false)) }
                        @else { a href=(linked(name, one.word).1) { (moment::figure(one.total(), false)) } }
                    }
                }
            }
        }
    };
    let drawn: Vec<Markup> = rows.iter().map(row).collect();
    html! {
        @if !drawn.is_empty() { (list::table(&format!("{heading}s in the last day"), &headings, &drawn)) }
        @if left_out_n > 0 { p class="hint" { "And " (left_out_n) " more with fewer." } }
    }
}
